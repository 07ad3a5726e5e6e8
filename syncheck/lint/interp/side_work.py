"""Unknown code that runs on a stream of the program's own, and the use that unknown code makes of GPU tensors."""

import ast
from typing import TypeVar

from syncheck.lint.interp.block_inputs import moved_inputs
from syncheck.lint.interp.contents import held_by, is_plain, tensors_in
from syncheck.lint.interp.identities import is_unknown
from syncheck.lint.interp.machine import Machine
from syncheck.lint.interp.premises import Premise, description_of
from syncheck.lint.interp.unknown import (
    called_name,
    computes,
    derived,
    exports,
    gets_moved,
    is_network,
    is_on_gpu,
    is_on_host,
    makes_object,
    may_be_read,
    may_evaluate,
    may_wait,
    reads_tokens,
    says_moved,
    stores,
    takes_code,
    takes_flag,
)
from syncheck.lint.interp.values import (
    DERIVED,
    MOVED,
    UNKNOWN_STREAM,
    Call,
    Event,
    Instance,
    Module,
    Sequence,
    Stream,
    Tensor,
    Value,
)
from syncheck.lint.nodes import Method, function_around, names, parameters
from syncheck.semantics.waits import SYNCHRONIZING

_Result = TypeVar("_Result", Value, Value | None)


def is_on_side_stream(machine: Machine) -> bool:
    """Return whether the current stream is one that the program has created."""
    stream = machine.current(machine.thread.device)
    return bool(stream) and machine.handle_of(stream) != 0


def may_run_on_gpu(machine: Machine, node: ast.AST, given: list[Value]) -> bool:
    """Return whether unknown code computes on a GPU, judging by its name and what it gets, or by `autocast`."""
    return computes(node) and (gets_moved(given) or machine.recent.is_autocast)


def as_moved(result: _Result, machine: Machine, node: ast.AST) -> _Result:
    """Return the result of a call, known to be moved to a device if the name says so: `to_device(batch)`."""
    return MOVED if is_unknown(result) and machine.sites.may_use_gpu and says_moved(called_name(node)) else result


def calls_parameter(machine: Machine, node: ast.AST) -> bool:
    """Return whether a function calls one of its parameters on a stream of the program: only a GPU works there."""
    if not isinstance(node, ast.Call) or not isinstance(node.func, ast.Name) or not is_on_side_stream(machine):
        return False
    function = function_around(machine.sites.tree, node.lineno)
    return isinstance(function, Method) and node.func.id in {argument.arg for argument in parameters(function)}


def is_given_work_of_others(machine: Machine, given: list[Value]) -> bool:
    """Return whether unknown code runs on a stream of the program's own, and gets a GPU tensor of another stream.

    Such code rarely has a reference to the other stream, so it does not wait for it.
    """
    if machine.ordering_only or not is_on_side_stream(machine) or machine.is_capturing():
        return False
    device = machine.thread.device
    stream = machine.current(device)
    tensors = [tensor for tensor in tensors_in(Sequence(given)) if tensor.block.device == device]
    return any(tensor.stream not in {stream, UNKNOWN_STREAM} and not tensor.block.escaped for tensor in tensors)


def is_only_used(machine: Machine, name: str, given: list[Value], node: ast.AST) -> bool:
    """Let unknown code use its arguments at once; return whether it is assumed to do so, and to wait for nothing."""
    premises = machine.sites.premises
    is_assumed = premises.has(Premise.CODE) or is_given_work_of_others(machine, given)
    if not is_assumed or may_wait(name or called_name(node)) or takes_code(given, node):
        return False
    if is_on_host(node) or makes_object(node) or takes_flag(node) or not all(map(is_plain, given)):
        return False
    premises.assume_of_code(does_not_wait(node), is_network=is_network(node))
    if calls_parameter(machine, node):
        premises.about_parameters.add(does_not_wait(node))
    if is_network(node):
        machine.guesses[machine.site(node)] = True
    premises.keep(use(machine, given, node))
    return True


def use(machine: Machine, given: list[Value], node: ast.AST) -> list[Tensor]:
    """Let unknown code read the GPU tensors among its arguments, each on its current stream; return the tensors."""
    tensors = [tensor for tensor in tensors_in(Sequence(given)) if tensor.block.device is not None]
    for device in {tensor.block.device for tensor in tensors}:
        used = [(tensor, False) for tensor in tensors if tensor.block.device == device]
        machine.launch(machine.current(device or 0), "unknown code", used, node)
    return tensors


def capture(machine: Machine, given: list[Value], node: ast.AST) -> Tensor:
    """Let a graph capture unknown code, which cannot wait then, and return the tensor that it computes."""
    use(machine, given, node)
    return _new_tensor(machine, node)


def does_not_wait(node: ast.AST) -> str:
    """Return, in words, that a call of unknown code does not wait."""
    return f"{description_of(node)} does not wait"


def result(machine: Machine, node: ast.AST) -> Tensor:
    """Return the tensor that unknown code computes on a stream of the program's own, if it does not wait."""
    made = _new_tensor(machine, node)
    machine.sites.premises.assume_on_gpu(made, does_not_wait(node))
    if calls_parameter(machine, node):
        machine.guesses[machine.site(node)] = True
    return made


def _new_tensor(machine: Machine, node: ast.AST) -> Tensor:
    device = machine.thread.device
    made = Tensor(machine.allocate(device, node), stream=machine.current(device))
    machine.launch(made.stream, "unknown code", [(made, True)], node)
    return made


def used_in_block(machine: Machine, node: ast.AST) -> Tensor | None:
    """Return the tensor that an expression makes on the current stream, if a stream block of its function uses it.

    What was moved by a blocking copy is ready at once.
    """
    name = moved_inputs(machine.sites.tree).get(node)
    if name is None or machine.ordering_only:
        return None
    made = _new_tensor(machine, node)
    machine.sites.premises.assume_on_gpu(made, f"`{name}` is on a GPU")
    if called_name(node) == "to":
        machine.sync_stream(made.stream, node, explicit=False)
    elif isinstance(node, ast.Call):
        machine.guesses[machine.site(node)] = True
    return made


def compute(machine: Machine, node: ast.AST, *, is_long: bool) -> Value:
    """Compute on something that was moved to a device; `is_long`: a clock that misses this is wrong."""
    if is_long:
        machine.guess(node)
        machine.guesses[machine.site(node)] = True
    return MOVED


def is_open(layer: Module) -> bool:
    """Return whether a network may do anything with unknown values: one of several layers that may be on the host."""
    return not (layer.is_single or _is_on_gpu(layer))


def _is_on_gpu(layer: Module) -> bool:
    return layer.weight is not None and layer.weight.block.device is not None


def run_layer(machine: Machine, layer: Module, call: Call, *, may_wait: bool = False) -> Value:
    """Run a layer of torch on unknown values. The host does not wait in it, unless it has hooks that may wait.

    What a layer on a GPU gets is there, too.
    """
    if may_wait:
        machine.assume_synchronized()
        return DERIVED if any(map(is_on_gpu, call.values())) else derived(*call.values())
    found = derived(*call.values())
    if may_be_read(found) or _is_on_gpu(layer):
        compute(machine, call.node, is_long=True)
    return MOVED if _is_on_gpu(layer) and not may_be_read(found) else found


def combine(machine: Machine, kind: ast.operator, values: tuple[Value, Value], node: ast.AST) -> Value:
    """Return the result of an operator on unknown values, which may hold the contents of containers from now on.

    Of these operators, only matrix products take long.
    """
    machine.sites.premises.keep(tensors_in(Sequence(list(values))))
    found = derived(*values)
    return compute(machine, node, is_long=isinstance(kind, ast.MatMult)) if found is MOVED else found


def keep_alive(value: Value, depth: int = 3) -> None:
    """Let the streams and events that are stored, themselves or in something, stay alive."""
    if isinstance(value, Stream | Event) and value.life is not None:
        value.life.keep()
    inside = value.attributes.values() if isinstance(value, Instance) else held_by(value)
    for item in inside if depth else ():
        keep_alive(item, depth - 1)


def note_arguments(machine: Machine, call: Call, given: list[Value]) -> None:
    """Let an unknown function use what it gets.

    The host reads tokens that become a text, and the results of unknown training if the function evaluates them. The
    function keeps tensors if it stores them.
    """
    called, losses = called_name(call.node), machine.recent.losses
    is_test = called in SYNCHRONIZING and losses and not losses.isdisjoint(names(call.node))
    is_read = reads_tokens(call.node) or (gets_moved(call.values()) and exports(call.node))
    if is_test or is_read or (machine.recent.is_of_unknown and call.values() and may_evaluate(called)):
        machine.read_unknown()
    if stores(call.node):
        machine.sites.premises.keep(tensors_in(Sequence(given)))
    if stores(call.node) or makes_object(call.node):
        for value in given:
            keep_alive(value)
