"""The parameters of a function that are GPU tensors, judging by names and uses."""

import ast
import re
from collections.abc import Iterator
from typing import TypeAlias

from syncheck.lint.interp.functions import own_nodes
from syncheck.lint.interp.machine import Machine
from syncheck.lint.interp.values import Tensor
from syncheck.lint.nodes import bound_names, own_attribute, parameters, text
from syncheck.semantics.collectives import FUNCTIONS
from syncheck.semantics.python_api import FACTORIES
from syncheck.source.expressions import arguments_of
from syncheck.source.words import words_of

_TENSOR = re.compile(r"^(?:torch\.)?Tensor(?: \| None)?$|^(?:typing\.)?Optional\[(?:torch\.)?Tensor\]$")
_OF_THE_HOST = frozenset("cpu host pin pinned".split())
"""Words in the names of tensors in host memory."""
_METHODS = frozenset(
    """record_stream is_cuda contiguous detach clone numel element_size data_ptr view reshape narrow flatten permute
    transpose unsqueeze squeeze requires_grad grad_fn new_empty new_zeros exp sigmoid tanh relu softmax log_softmax
    matmul mm bmm masked_fill index_select""".split()
)
"""Members that hardly anything but a tensor has."""
_MOVING = frozenset({"cuda", "to", "pin_memory", "cpu", "is_pinned", "numpy", "device"})
"""Members whose use shows that the device of a tensor is not fixed."""
_OPERATORS = re.compile(r"^(?:torch|F|torch\.nn\.functional)\.([a-z]\w*)$")
_COLLECTIVES = re.compile(r"^(?:dist|torch\.distributed)\.(\w+)$")
_OTHERS = FACTORIES | frozenset(
    """cat stack concat hstack vstack device dtype save load manual_seed compile typename is_tensor is_storage no_grad
    finfo iinfo autocast set_default_device set_default_dtype set_num_threads from_numpy frombuffer
    broadcast_shapes""".split()
)
"""Functions of torch whose first argument is not a tensor."""


Function: TypeAlias = ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda


def tensors_given(function: Function, *, has_device: bool = False) -> Iterator[ast.arg]:
    """Yield the parameters that are tensors, and that the function uses on whatever device they are.

    Args:
        function: the function.
        has_device: whether a function that reads the device of a tensor may count, too.
    """
    used = _used(function)
    for name in _on_gpu(function) if any("device" in members for members in used.values()) else ():
        used.get(name, set()).discard("device")
    moving, refused = (_MOVING - {"device"} if has_device else _MOVING), set(_refused_on_gpu(function))
    for argument in parameters(function):
        members = used.get(argument.arg, set())
        if argument.arg in refused or members & moving or words_of(argument.arg) & _OF_THE_HOST:
            continue
        annotation = ast.unparse(argument.annotation).strip("'\"") if argument.annotation is not None else ""
        if _TENSOR.match(annotation) or (
            not annotation and members & (_METHODS | {"dtype"} if has_device else _METHODS)
        ):
            yield argument


def assumed_tensor(machine: Machine, argument: ast.arg) -> Tensor:
    """Return a new tensor for a parameter that is assumed to be on the current GPU. Other code may hold it."""
    tensor = Tensor(machine.allocate(machine.device, argument), stream=machine.current(machine.device))
    machine.sites.premises.assume_on_gpu(tensor, on_gpu(argument))
    machine.sites.premises.keep([tensor])
    return tensor


def on_gpu(argument: ast.arg) -> str:
    """Return, in words, that a parameter is on a GPU."""
    return f"`{argument.arg}` is on a GPU"


def _on_gpu(function: Function) -> Iterator[str]:
    """Yield the variables whose device a function passes to CUDA functions: `torch.cuda.current_stream(x.device)`."""
    for call in own_nodes(function):
        if isinstance(call, ast.Call) and text(call.func).startswith("torch.cuda."):
            for given in arguments_of(call):
                match given:
                    case ast.Attribute(value=ast.Name(id=name), attr="device"):
                        yield name
                    case _:
                        pass


def _refused_on_gpu(function: Function) -> Iterator[str]:
    """Yield the variables that must not be on a GPU: `if ids.is_cuda: raise ValueError`."""
    for node in own_nodes(function):
        match node:
            case ast.If(test=ast.Attribute(value=ast.Name(id=name), attr="is_cuda"), body=[*_, ast.Raise()]):
                yield name
            case _:
                pass


def _used(function: Function) -> dict[str, set[str]]:
    """Return name -> members of it that a function uses.

    An argument of a torch function counts as a tensor, and so does one that `forward` passes to a layer.
    """
    used: dict[str, set[str]] = {}
    for node in own_nodes(function):
        if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name):
            used.setdefault(node.value.id, set()).add(node.attr)
        for name in _computed_with(node, is_forward=getattr(function, "name", "") == "forward"):
            used.setdefault(name, set()).update(_METHODS)
    for node in [node for node in own_nodes(function) if isinstance(node, ast.Assign)]:
        _trace_back(node, used)
    return used


def _computed_with(node: ast.AST, *, is_forward: bool) -> Iterator[str]:
    """Yield the variables that an expression uses as only tensors are used.

    `is_forward`: whether it is part of a `forward` method, whose calls of attributes are those of layers.
    """
    match node:
        case ast.BinOp(op=ast.MatMult(), left=left, right=right):
            yield from (operand.id for operand in (left, right) if isinstance(operand, ast.Name))
        case ast.Call(func=ast.Attribute() as called, args=[ast.Name(id=name), *_]) if _takes_tensor(called):
            yield name
        case ast.Call(func=called, args=[ast.Name(id=name)]) if is_forward and own_attribute(called):
            yield name
        case _:
            pass


def _trace_back(node: ast.Assign, used: dict[str, set[str]]) -> None:
    """Propagate tensor use to an operator's only variable: `x` in `y = x * 2`, `y.record_stream(s)`."""
    made = bound_names(node)
    if not isinstance(node.value, ast.BinOp) or not any(used.get(name, set()) & _METHODS for name in made):
        return
    operands = [part.id for part in (node.value.left, node.value.right) if isinstance(part, ast.Name)]
    if len(operands) == 1:
        used.setdefault(operands[0], set()).update(_METHODS)


def _takes_tensor(function: ast.Attribute) -> bool:
    """Return whether a function of torch takes a tensor as its first argument."""
    name = ast.unparse(function)
    operator, collective = _OPERATORS.match(name), _COLLECTIVES.match(name)
    if collective is not None:
        known = FUNCTIONS.get(collective[1])
        return known is not None and (0, "tensor") in (*known.reads, *known.writes)
    return operator is not None and operator[1] not in _OTHERS
