"""Models and optimizers that a class with streams of its own gets, and of which it uses only the parameters.

Such a class averages, copies or reduces parameters. They are assumed to be on a GPU, like the streams.
"""

import ast

from syncheck.lint.interp.functions import own_nodes
from syncheck.lint.interp.machine import Machine
from syncheck.lint.interp.values import Function, Module, Optimizer, Tensor, Value
from syncheck.lint.nodes import classes_of_methods, own_attribute, parameters, walk, without_none
from syncheck.lint.parameters import assumed_tensor
from syncheck.lint.prefilter import words_in
from syncheck.source.expressions import last_name

_OF_MODELS = frozenset("parameters named_parameters buffers named_buffers training eval train".split())
_OF_OPTIMIZERS = frozenset(
    """param_groups step zero_grad state_dict load_state_dict defaults register_step_pre_hook
    register_step_post_hook""".split()
)
"""What a class may use of them."""


def assumed_models(machine: Machine, function: Function) -> dict[str, Value]:
    """Return a model or an optimizer for each argument of a constructor of which only the parameters are used."""
    node = function.node
    kind = classes_of_methods(machine.sites.tree).get(node)
    if kind is None or getattr(node, "name", "") != "__init__" or "Stream" not in words_in(kind):
        return {}
    made: dict[str, Value] = {}
    for argument in parameters(node):
        annotation = last_name(without_none(argument.annotation))
        if annotation == "Module" and _is_limited(kind, node, argument.arg, _OF_MODELS):
            made[argument.arg] = Module(_parameter(machine, argument))
        elif annotation == "Optimizer" and _is_limited(kind, node, argument.arg, _OF_OPTIMIZERS):
            weight = _parameter(machine, argument)
            weight.grad = _parameter(machine, argument)
            made[argument.arg] = Optimizer([weight])
    return made


def _parameter(machine: Machine, argument: ast.arg) -> Tensor:
    tensor = assumed_tensor(machine, argument)
    tensor.is_argument = True
    return tensor


def _is_limited(kind: ast.ClassDef, constructor: ast.AST, name: str, members: frozenset[str]) -> bool:
    """Return whether a class uses only some members of an argument of its constructor, and passes it on to nothing."""
    nodes = list(own_nodes(constructor))
    kept = {
        own_attribute(node.targets[0])
        for node in nodes
        if isinstance(node, ast.Assign) and isinstance(node.value, ast.Name) and node.value.id == name
    }
    allowed = {node.value for node in nodes if isinstance(node, ast.Assign) and own_attribute(node.targets[0])}
    for node in walk(kind):
        if isinstance(node, ast.Attribute) and node.attr in members:
            allowed.add(node.value)
        elif isinstance(node, ast.Assign):
            allowed.update(node.targets)
    uses: list[ast.AST] = [node for node in nodes if isinstance(node, ast.Name) and node.id == name]
    uses += [node for node in walk(kind) if own_attribute(node) and own_attribute(node) in kept]
    return all(node in allowed for node in uses)
