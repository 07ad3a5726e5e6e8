"""Work on a stream of an object with what the callers' stream, which it never waits for, has computed."""

import ast
import re
from collections.abc import Iterator

from syncheck.lint.host_waits import may_come_before, method_around
from syncheck.lint.interp.functions import block_nodes, own_nodes
from syncheck.lint.interp.host_copies import host_copy_source
from syncheck.lint.model_parameters import kept_parameters, parameters_in
from syncheck.lint.nodes import (
    Method,
    bound_names,
    is_non_blocking,
    is_on_stream,
    methods_of,
    names,
    own_attribute,
    own_container,
    parameters,
    pinned_attributes,
    text,
    viewed,
    walk,
)
from syncheck.lint.parameters import tensors_given
from syncheck.semantics.collectives import FUNCTIONS
from syncheck.semantics.python_api import CASTS
from syncheck.source.expressions import last_name

SENDS = "{stream} never waits for the stream that computes what it sends here"
USES = "{stream} never waits for the stream that computes what it uses here"
COPIES = "{stream} never waits for the stream that computes what it copies here"
KNOWN_BASES = frozenset(
    {"object", "nn.Module", "torch.nn.Module", "Module", "ABC", "abc.ABC", "torch.autograd.Function"}
)
"""Base classes that do not order streams."""
LAYERS = frozenset({"nn.Module", "torch.nn.Module", "Module"})
"""Base classes of the layers of networks."""
_COLLECTIVES = FUNCTIONS.keys() - {"barrier"}
_SPOKEN = frozenset("all_reduce allreduce all_gather allgather reduce_scatter all_to_all alltoall".split())
"""Names of collectives that are rarely used for anything else."""
_MOVES = frozenset({"to", "cuda", "pin_memory"})
_VIEWS = frozenset("view reshape flatten detach squeeze unsqueeze transpose permute narrow".split())
"""Methods of a tensor whose result shares its memory."""
_CONVERTED = _VIEWS | CASTS | {"contiguous", "type"}
"""Methods of a tensor whose result has its values."""
_OPERATORS = re.compile(r"^(?:torch|F|torch\.nn\.functional)\.(?!tensor|empty|zeros|ones|full|from_|as_|is_)[a-z_]\w*$")
_COMPUTING = frozenset("clone float half bfloat16 double contiguous add mul sub div exp sum mean matmul".split())
"""Methods of a tensor that compute a new one."""
_UPDATING = frozenset("add_ sub_ mul_ div_ lerp_ addcmul_ addcdiv_".split())
"""Methods that change a tensor by what they read."""
_PARAMETERS = frozenset({"data", "grad"})
"""Members of a parameter of a model, which an optimizer computes on the current stream."""


def missing_fork(
    kind: ast.ClassDef, block: ast.With, stream: str, blocks: list[ast.With]
) -> tuple[str, ast.AST] | None:
    """Return a message about the wait that a block lacks at its start, and the work that needs it; None if unknown.

    Args:
        kind: the class.
        block: a block in it, on a stream that never waits for another one.
        stream: the attribute of `self` with the stream.
        blocks: all blocks on the same stream.
    """
    method = method_around(kind, block)
    if method is None or may_come_before(kind, block, stream) or _is_called_inside(method, blocks):
        return None
    made = {name for other in blocks for name in created_in(other)}
    if sent := _sent_from_outside(block, made):
        return SENDS, sent
    if copy := _fetch(kind, block, blocks) or _copy_in_method(kind, block):
        return COPIES, copy
    used = _used_layer(kind, method, block, made) or _Inputs(kind, method, block, blocks).first_use()
    return (USES, used) if used else None


def created_in(block: ast.With) -> set[str]:
    """Return the variables that a block binds to the results of calls."""
    made = (node for node in block_nodes(block) if isinstance(node, ast.Assign) and isinstance(node.value, ast.Call))
    return {name for node in made for name in bound_names(node)}


def _is_called_inside(method: Method, blocks: list[ast.With]) -> bool:
    """Return whether a block on the same stream calls a method."""
    inside = (node for block in blocks for node in block_nodes(block))
    return any(isinstance(node, ast.Call) and own_attribute(node.func) == method.name for node in inside)


# -- collectives, copies and layers


def _sent_from_outside(block: ast.With, made: set[str]) -> ast.AST | None:
    """Return a collective that a block starts on variables, none of which was created on its stream."""
    calls = [node for node in block_nodes(block) if isinstance(node, ast.Call)]
    given = ((call, _variables(call.args)) for call in calls if _is_collective(ast.unparse(call.func)))
    return next((call for call, names in given if names and not names & made), None)


def _is_collective(called: str) -> bool:
    """Return whether a call is a collective of torch, or wraps one judging by its name: `concat_all_gather`."""
    name = called.rpartition(".")[2]
    if called.startswith(("dist.", "torch.dist")):
        return name in _COLLECTIVES
    return (
        called in {name, f"self.{name}"}
        and "object" not in name
        and any(f"_{collective}" in f"_{name}_" for collective in _SPOKEN)
    )


def _fetch(kind: ast.ClassDef, block: ast.With, blocks: list[ast.With]) -> ast.AST | None:
    """Return a copy to the host, or from a parameter, of something that nothing else on the block's stream mentions."""
    hosts = _host_devices(kind) | {f"self.{name}" for name in pinned_attributes(walk(kind))}
    nodes = [node for other in blocks for node in block_nodes(other)]
    gradients = {name for node in nodes for name in _bound_to_gradient(node)}
    for node in block_nodes(block):
        source = host_copy_source(node, hosts) or _pending_source(node)
        if _copies_from(node, gradients):
            return node
        if source is None:
            continue
        within = set(walk(node))
        bound = {
            name
            for other in nodes
            if isinstance(other, ast.Assign) and other.value is not node
            for name in bound_names(other)
        }
        mentioned = {own_attribute(other) for other in nodes if other not in within}
        owned = {own_attribute(part) for part in walk(source)} - {""}
        variables = names(source) - {"self"}
        if (variables or owned) and not variables & bound and not owned & mentioned:
            return node
    return None


def _bound_to_gradient(node: ast.AST) -> Iterator[str]:
    """Yield the variables that an assignment binds to gradients: `grad, p.grad = p.grad, None`."""
    match node:
        case ast.Assign(targets=[ast.Tuple(elts=targets)], value=ast.Tuple(elts=values)):
            pairs = list(zip(targets, values, strict=False))
        case ast.Assign(targets=[target], value=value):
            pairs = [(target, value)]
        case _:
            return
    for target, value in pairs:
        if isinstance(target, ast.Name) and isinstance(value, ast.Attribute) and value.attr == "grad":
            yield target.id


def _copies_from(node: ast.AST, variables: set[str]) -> bool:
    """Return whether a call copies one of some variables to other memory."""
    match node:
        case ast.Call(func=ast.Attribute(attr="copy_"), args=[ast.Name(id=name), *_]):
            return name in variables
        case _:
            return False


def _pending_source(node: ast.AST) -> ast.expr | None:
    """Return `x` of `x.cpu()`, `x.grad` of `y.copy_(x.grad)`, and `x.data` of `y.copy_(x.data)`; otherwise None.

    A blocking copy from `x.data` is a cast on the same GPU.
    """
    match node:
        case ast.Call(func=ast.Attribute(value=ast.Name() as source, attr="cpu"), args=[]):
            return source
        case ast.Call(func=ast.Attribute(attr="copy_"), args=[ast.Attribute(attr="grad") as source, *_]):
            return source
        case ast.Call(func=ast.Attribute(attr="copy_"), args=[ast.Attribute(attr="data") as source], keywords=[]):
            return source
        case _:
            return None


def _copy_in_method(kind: ast.ClassDef, block: ast.With) -> ast.AST | None:
    """Return a call of a method that copies from what the constructor was given to pinned memory of the object."""
    methods, given, pinned = methods_of(kind), _given_tensors(kind), pinned_attributes(walk(kind))
    for call in (node for node in block_nodes(block) if isinstance(node, ast.Call)):
        method = methods.get(own_attribute(call.func))
        names_of = [argument.arg for argument in parameters(method)] if method is not None else []
        passed = dict(zip((name for name in names_of if name != "self"), map(own_attribute, call.args), strict=False))
        for source, target in _copies(method) if method is not None else ():
            if passed.get(source) in given and passed.get(target) in pinned:
                return call
    return None


def _copies(method: Method) -> Iterator[tuple[str, str]]:
    """Yield the parameters, or those whose items loops iterate over, between which a method copies without waiting."""
    owners: dict[str, str] = {}
    for node in own_nodes(method):
        match node:
            case ast.For(target=ast.Tuple(elts=targets), iter=ast.Call(func=ast.Name(id="zip"), args=iterated)):
                owners |= {text(one): text(other) for one, other in zip(targets, iterated, strict=False)}
            case ast.For(target=ast.Name(id=name), iter=iterated):
                owners[name] = text(iterated)
            case _:
                pass
    for node in own_nodes(method):
        match node:
            case ast.Call(func=ast.Attribute(value=target, attr="copy_"), args=[source, *_]) if is_non_blocking(node):
                ends = [text(end.value if isinstance(end, ast.Subscript) else end) for end in (source, target)]
                yield owners.get(ends[0], ends[0]), owners.get(ends[1], ends[1])
            case _:
                pass


def _given_tensors(kind: ast.ClassDef) -> set[str]:
    """Return the attributes that a constructor sets to a parameter, or to a list of what is in one."""
    begin = methods_of(kind).get("__init__")
    given = {argument.arg for argument in parameters(begin)} if begin is not None else set()
    found: set[str] = set()
    for node in own_nodes(begin) if begin is not None else ():
        match node:
            case ast.Assign(
                targets=[target],
                value=ast.Name(id=name) | ast.Call(func=ast.Name(id="list" | "tuple"), args=[ast.Name(id=name)]),
            ):
                found |= {own_attribute(target)} if name in given else set()
            case _:
                pass
    return found - {""}


def _host_devices(kind: ast.ClassDef) -> set[str]:
    """Return the attributes of `self` to which a class assigns the device of the host, as they are written."""
    assigned = [node for node in walk(kind) if isinstance(node, ast.Assign | ast.AnnAssign)]
    return {
        text(target)
        for node in assigned
        if isinstance(node.value, ast.Constant) and node.value.value == "cpu"
        for target in (node.targets if isinstance(node, ast.Assign) else [node.target])
    }


def _used_layer(kind: ast.ClassDef, method: Method, block: ast.With, made: set[str]) -> ast.AST | None:
    """Return the call of a layer in a block of a layer's `forward`, on variables not created on its stream."""
    bases = {ast.unparse(base) for base in kind.bases}
    if method.name != "forward" or not bases & LAYERS or not bases <= KNOWN_BASES:
        return None
    own = methods_of(kind)
    nodes = block_nodes(block)
    assigned = [node for node in nodes if isinstance(node, ast.Assign)]
    layers = (node for node in assigned if own_container(node.value) and own_container(node.value) not in own)
    local = {name for node in layers for name in bound_names(node)}
    for call in nodes:
        if not isinstance(call, ast.Call):
            continue
        called = call.func.value if isinstance(call.func, ast.Subscript) else call.func  # `self.layers[0](x)`
        layer, given = own_attribute(called), _variables(call.args)
        is_layer = (layer and layer not in own) or (isinstance(called, ast.Name) and called.id in local)
        if is_layer and given and not given & made:
            return call
    return None


def _variables(given: list[ast.expr]) -> set[str]:
    """Return the variables among the arguments of a call, directly, indexed, unpacked, as views or as casts."""
    parts = [viewed(value.value if isinstance(value, ast.Starred) else value, _CONVERTED) for value in given]
    return {part.id for part in parts if isinstance(part, ast.Name)}


# -- operators


class _Inputs:
    """The tensors from outside a block that may still be computed on the current stream.

    Args:
        kind: the class.
        method: the method with the block.
        block: the block.
        blocks: all blocks on the same stream.
    """

    def __init__(self, kind: ast.ClassDef, method: Method, block: ast.With, blocks: list[ast.With]) -> None:
        self._block = block
        inside = {node for other in blocks for node in walk(other)}
        self._outside = [node for node in own_nodes(method) if node not in inside]
        # What another block returns or copies to the GPU may be given to this one.
        is_alone = not any(_hands_out(other) for other in blocks if other is not block)
        is_layer = method.name == "forward"
        given = {argument.arg for argument in tensors_given(method, has_device=True)}
        self._given = self._with_views(given if is_alone or is_layer else set())
        self._given |= parameters_in(method, kept_parameters(kind))
        self._left = _left_behind(kind, method)

    def first_use(self) -> ast.AST | None:
        """Return an operator in the block that reads one of them."""
        return next(filter(self._is_read, block_nodes(self._block)), None)

    def _is_read(self, node: ast.AST) -> bool:
        match node:
            case ast.Call(func=ast.Attribute(value=owner, attr=name)) if name in _COMPUTING and self._is_input(owner):
                return True
            case ast.Call(func=func, args=args) if _OPERATORS.match(text(func)) or last_name(func) in _UPDATING:
                return any(map(self._is_input, args))
            case ast.Assign(targets=[ast.Subscript()], value=ast.Subscript() | ast.Name() | ast.Call() as value):
                return self._is_input(value)
            case ast.BinOp(left=left, right=right):
                return self._is_input(left) or self._is_input(right)
            case _:
                return False

    def _is_input(self, node: ast.expr) -> bool:
        source = viewed(node, _VIEWS)
        match source:
            case ast.Attribute(value=ast.Name(id=name), attr=member) if name != "self":
                return member in _PARAMETERS
            case ast.Name(id=name):
                return name in self._given
            case _:
                return own_attribute(source) in self._left

    def _with_views(self, given: set[str]) -> set[str]:
        """Return some variables, and the variables that the method binds to views of them."""
        found = set(given)
        for node in sorted((node for node in self._outside if isinstance(node, ast.Assign)), key=lambda n: n.lineno):
            value = viewed(node.value, _VIEWS)
            if isinstance(value, ast.Name) and value.id in found:
                found |= bound_names(node)
            else:
                found -= bound_names(node)
        return found


def _hands_out(block: ast.With) -> bool:
    """Return whether a block returns something, or copies something to another device."""
    nodes = block_nodes(block)
    return any(isinstance(node, ast.Return | ast.Yield) for node in nodes) or any(
        isinstance(node, ast.Call) and last_name(node.func) in _MOVES for node in nodes
    )


def _left_behind(kind: ast.ClassDef, method: Method) -> set[str]:
    """Return the attributes of `self` that other methods set to computed tensors, and never to anything else but None.

    What is computed on another stream does not count.
    """
    computed: set[str] = set()
    others: set[str] = set()
    for step in methods_of(kind).values():
        blocks = [node for node in own_nodes(step) if isinstance(node, ast.With)]
        inside = {node for block in blocks if is_on_stream(block) for node in walk(block)}
        for node in own_nodes(step):
            targets = node.targets if isinstance(node, ast.Assign) else []
            set_here = {own_attribute(target) for target in targets} - {""}
            if not isinstance(node, ast.Assign) or (isinstance(node.value, ast.Constant) and node.value.value is None):
                continue
            is_computed = node not in inside and step is not method and _computes(node.value)
            (computed if is_computed else others).update(set_here)
    return computed - others


def _computes(value: ast.expr) -> bool:
    """Return whether an expression is the result of an operator on tensors."""
    match value:
        case ast.Call(func=ast.Attribute(attr=name) as func):
            return name in _COMPUTING | {"detach"} or bool(_OPERATORS.match(text(func)))
        case _:
            return False
