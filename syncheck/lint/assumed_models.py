"""Models and optimizers that a class or a function with streams of its own gets.

A class that uses only the parameters averages, copies or reduces them. A function may also run the model. The
parameters are assumed to be on a GPU, like the streams.
"""

import ast
from collections import defaultdict

from syncheck.lint.interp.functions import own_nodes
from syncheck.lint.interp.machine import Machine
from syncheck.lint.interp.values import Function, Module, Optimizer, Tensor, Value
from syncheck.lint.model_parameters import SOURCES
from syncheck.lint.nodes import Method, classes_of_methods, own_attribute, parameters, walk, without_none
from syncheck.lint.parameters import assumed_tensor, on_gpu
from syncheck.lint.prefilter import STREAM_BLOCK, words_in
from syncheck.source.expressions import last_name

_OF_MODELS = frozenset("parameters named_parameters buffers named_buffers training eval train".split())
_OF_OPTIMIZERS = frozenset(
    """param_groups step zero_grad state_dict load_state_dict defaults register_step_pre_hook
    register_step_post_hook""".split()
)
"""What a class may use of them."""
_OPTIMIZERS = frozenset({"opt", "optim", "optimizer"})
"""Names of parameters that are optimizers."""


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
            made[argument.arg] = _optimizer(machine, Module(_parameter(machine, argument)), argument)
    return made


def trained_models(machine: Machine, function: Function) -> dict[str, Value]:
    """Return the models of which a function on several streams uses the parameters, and the optimizer of one of them.

    It is that of the only model that the function runs. Findings about them are warnings, except for those about
    clocks, which are dropped: the function waits for the loss, if for anything.

    Args:
        machine: the machine.
        function: a function that creates a stream and does work on it.
    """
    node = function.node
    words = words_in(node)
    if not {"Stream", STREAM_BLOCK} <= words or words.isdisjoint(SOURCES) or not isinstance(node, Method):
        return {}
    uses = _uses(node)
    given = parameters(node)
    models = [each for each in given if _is_model(uses[each.arg])]
    made: dict[str, Value] = {each.arg: Module(_parameter(machine, each)) for each in models}
    machine.sites.premises.about_models.update(on_gpu(each) for each in models)
    run = [each for each in models if any(isinstance(use, ast.Call) for use in uses[each.arg])]
    for argument in given if len(run) == 1 else ():
        members = {use.attr for use in uses[argument.arg] if isinstance(use, ast.Attribute)}
        is_optimizer = argument.arg in _OPTIMIZERS or last_name(without_none(argument.annotation)) == "Optimizer"
        if is_optimizer and "step" in members <= _OF_OPTIMIZERS:
            made[argument.arg] = _optimizer(machine, made[run[0].arg], run[0])
    return made


def _uses(function: Method) -> dict[str, list[ast.AST | None]]:
    """Return how a function uses each variable: as the owner of an attribute, by calling it, or otherwise (None)."""
    nodes = own_nodes(function)
    owners = {node.value: node for node in nodes if isinstance(node, ast.Attribute)}
    calls = {node.func: node for node in nodes if isinstance(node, ast.Call)}
    found: dict[str, list[ast.AST | None]] = defaultdict(list)
    for node in nodes:
        if isinstance(node, ast.Name):
            found[node.id].append(owners.get(node) or calls.get(node))
    return found


def _is_model(uses: list[ast.AST | None]) -> bool:
    """Return whether a function uses a variable as a model, among others for its parameters, and never passes it on."""
    members = {use.attr for use in uses if isinstance(use, ast.Attribute)}
    return None not in uses and bool(members & SOURCES) and members <= _OF_MODELS


def _optimizer(machine: Machine, model: Value, argument: ast.arg) -> Optimizer:
    """Return the optimizer of a model, whose parameters get gradients; `argument`: the one that stands for them."""
    weights = [model.weight] if isinstance(model, Module) and model.weight is not None else []
    for weight in weights:
        weight.grad = _parameter(machine, argument)
    return Optimizer(weights)


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
