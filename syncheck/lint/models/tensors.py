"""Methods of tensors, and functions of torch that take tensors."""

import ast
import re
from collections.abc import Callable

from syncheck.hb.ids import NO_VIEW, StreamId
from syncheck.lint.interp.contents import held_by, tensors_in
from syncheck.lint.interp.contexts import setting
from syncheck.lint.interp.device_tests import on_gpu
from syncheck.lint.interp.evaluator import Evaluator
from syncheck.lint.interp.registry import models, models_below, models_methods
from syncheck.lint.interp.side_work import compute
from syncheck.lint.interp.unknown import computes, gets_moved, may_wait
from syncheck.lint.interp.values import (
    MOVED,
    NONE,
    UNKNOWN,
    Attribute,
    Call,
    Constant,
    Context,
    Event,
    Function,
    Mapping,
    Partial,
    Sequence,
    Stream,
    Tensor,
    Value,
    truth,
)
from syncheck.rules import record_stream_in_capture
from syncheck.sanitizer.collector import PendingFinding
from syncheck.sanitizer.messages import StreamRef, TensorRef, Text
from syncheck.semantics.python_api import FACTORIES, LIKE, SIZED_BY_VALUES
from syncheck.source.expressions import last_name
from syncheck.source.words import words_of

_NOT_OPERATORS = frozenset(
    """manual_seed seed initial_seed set_default_device set_default_dtype get_default_dtype is_tensor is_grad_enabled
    compile jit set_num_threads get_num_threads load typename use_deterministic_algorithms Size dtype Generator
    get_rng_state set_rng_state is_floating_point numel result_type promote_types set_printoptions""".split()
)
_CLASSES = frozenset({"torch.cuda.Stream", "torch.cuda.Event", "torch.Stream", "torch.Event", "torch.Tensor"})
"""Classes whose methods may be called through the class."""
_OF_LAYERS = frozenset(
    """parameters named_parameters buffers named_buffers modules named_modules children named_children state_dict
    load_state_dict zero_grad""".split()
)
"""Methods of a layer. What was moved to a GPU may be a layer, too."""
_LONG = frozenset("bmm baddbmm addmm einsum linear matrix_power svd inverse cholesky eigh fft".split())
"""Functions that take a time that matters to a clock. Others are recognized by their names."""
_FUNCTIONS = re.compile(r"^torch\.(nn\.functional\.|fft\.|linalg\.|special\.|_foreach|_C\.|ops\.aten\.)?\w+$")
_PINNED = frozenset({"pin", "pinned", "cuda", "gpu"})
"""Words of flags that pin memory."""
_CHANGING_ARRAYS = frozenset({"fill", "sort", "partition", "put", "itemset", "byteswap"})
"""Methods of numpy's arrays that write to their memory. Source: numpy.ndarray."""
_CUSTOM = re.compile(r"^torch\.ops\.(?!\w*c10d)\w+\.\w+(?:\.default)?$")
"""Operators of libraries: they run on the current stream. Those of torch.distributed run on another one."""

# -- functions


@models_below("torch")
def call_torch_function(evaluator: Evaluator, path: str, call: Call) -> Value | None:
    """Call a function of torch."""
    head, _, name = path.rpartition(".")
    if head in _CLASSES and call.args:
        rest = Call(call.node, call.args[1:], call.kwargs, call.is_complete)
        return evaluator.call_method(call.args[0], name, rest)
    if head == "torch" and name in FACTORIES:
        return evaluator.operators.factory(name, _with_pinned(evaluator, call))
    if head == "torch" and name in LIKE:
        source = call.args[0] if call.args else UNKNOWN
        known = source if isinstance(source, Tensor) else None
        return evaluator.operators.like(name, known, _with_pinned(evaluator, call))
    if name in _NOT_OPERATORS or head.startswith(("torch.cuda", "torch.utils", "torch.backends")):
        return UNKNOWN if not any(isinstance(value, Stream | Event) for value in call.values()) else None
    inputs = tensors_in(Sequence(call.values()))
    if not inputs:
        return _without_tensors(evaluator, name, call)
    is_operator = _FUNCTIONS.match(path) or (_CUSTOM.match(path) and not may_wait(path))
    return _call_operator(evaluator, path, name, inputs, call) if is_operator else None


def _with_pinned(evaluator: Evaluator, call: Call) -> Call:
    """Return a call after deciding whether it pins memory.

    A flag that says by its name that there is a GPU, or that memory is pinned, is assumed to be set, by default.
    """
    keywords = call.node.keywords if isinstance(call.node, ast.Call) else []
    named = next((keyword.value for keyword in keywords if keyword.arg == "pin_memory"), None)
    if named is None or call.flag("pin_memory") is not None:
        return call
    if not words_of(last_name(named)) & _PINNED and not on_gpu(named):
        return call
    pinned = Constant(evaluator.decide(named))
    return Call(call.node, call.args, call.kwargs | {"pin_memory": pinned}, call.is_complete)


def _without_tensors(evaluator: Evaluator, name: str, call: Call) -> Value:
    """Call a function of torch that gets no known tensor. One that may wait for values matters to clocks."""
    if name in SIZED_BY_VALUES or (name == "where" and len(call.values()) == 1):
        evaluator.machine.recent.flush()
    if evaluator.operators.used_as(call.node):
        return evaluator.operators.make(f"aten::{name}", call, UNKNOWN)
    if not gets_moved(call.values()):
        return UNKNOWN
    return compute(evaluator.machine, call.node, is_long=name in _LONG or computes(call.node))


def _call_operator(evaluator: Evaluator, path: str, name: str, inputs: list[Tensor], call: Call) -> Value:
    operators = evaluator.operators
    first = call.args[0] if call.args else None
    if name == "where" and len(call.values()) == 1:  # source: torch/functional.py and ATen/native/TensorCompare.cpp
        name, path = "nonzero", "torch.nonzero"
    if isinstance(first, Tensor) and "out" not in call.kwargs:
        rest = Call(call.node, call.args[1:], call.kwargs, call.is_complete)
        is_method = path == f"torch.{name}"
        return evaluator.call_method(first, name if is_method else path.removeprefix("torch."), rest)
    if name.startswith("_foreach_") and name.endswith("_"):
        return _on_each(evaluator, name.removeprefix("_foreach_"), call)
    return operators.run(f"aten::{name}", inputs, call)


def _on_each(evaluator: Evaluator, name: str, call: Call) -> Value:
    """Call a method on each tensor of a list, with the tensors at its place in the other lists.

    Lists of different lengths have unknown items: each tensor may then meet each of the others.
    """
    modified = call.get("self", 0)
    targets = tensors_in(modified)
    others = [tensors_in(value) for value in call.values() if value is not modified]
    flags = {name: value for name, value in call.kwargs.items() if not tensors_in(value)}
    for place, target in enumerate(targets):
        aligned = [[held[place]] if len(held) == len(targets) else held for held in others]
        given = [tensor for held in aligned for tensor in held]
        if name == "copy_" and given:
            for source in given:
                evaluator.transfers.method(target, name, Call(call.node, [source, *call.args[2:]], flags))
        else:
            evaluator.operators.in_place(name, target, given, call)
    return UNKNOWN


@models("torch.from_numpy", "torch.frombuffer")
def _from_numpy(evaluator: Evaluator, call: Call) -> Value:
    source = call.get("ndarray", 0)
    if isinstance(source, Tensor):
        tensor = evaluator.operators.alias(source, source.part)
        tensor.array = None
        return tensor
    return evaluator.operators.make("aten::from_numpy", Call(call.node, []), None)


@models("torch.save")
def _save(evaluator: Evaluator, call: Call) -> Value:
    """Source: torch/serialization.py, `_save`: a tensor on a GPU is copied to the host, which waits."""
    saved = call.get("obj", 0) or UNKNOWN
    for tensor in tensors_in(saved):
        evaluator.operators.read_by_host(tensor, call.node, "save")
    if _may_hold_others(saved):
        evaluator.machine.read_unknown()
    return NONE


def _may_hold_others(value: Value, depth: int = 4) -> bool:
    """Return whether a value may hold tensors that are not known, such as the parameters of a network."""
    match value:
        case Tensor() | Constant():
            return False
        case Sequence() | Mapping() if depth:
            return value.is_open or any(_may_hold_others(item, depth - 1) for item in held_by(value))
        case _:
            return True


@models("torch.no_grad", "torch.inference_mode")
def _without_grad(evaluator: Evaluator, call: Call) -> Value:
    del call
    return setting(evaluator.operators, "has_grad", value=False)


@models(
    "torch.enable_grad", "torch.set_grad_enabled",
    "torch.profiler.record_function", "torch.autograd.profiler.record_function",
)  # fmt: skip
def _changes_no_stream(evaluator: Evaluator, call: Call) -> Value:
    """Return a context that makes no stream current, even if it gets a device, and waits for nothing."""
    del evaluator, call
    return Context(lambda: NONE, lambda: None, is_portable=True)


@models("torch.autograd.Variable")
def _variable(evaluator: Evaluator, call: Call) -> Value:
    """Return the tensor itself. Source: torch/csrc/autograd/python_variable.cpp, `THPVariable_pynew`."""
    del evaluator
    return call.get("data", 0) or UNKNOWN


# -- methods


@models_methods(Tensor)
def _tensor(evaluator: Evaluator, owner: Tensor, name: str, call: Call) -> Value | None:
    moved = evaluator.transfers.method(owner, name, call)
    if moved is not None:
        return moved
    if owner.array is not None and name in _CHANGING_ARRAYS:
        evaluator.machine.touch_host(f"ndarray.{name}()", [(owner, True)], call.node)
        return NONE
    special = _SPECIAL.get(name)
    if special is not None:
        return special(evaluator, owner, call)
    if any(isinstance(value, Function | Partial) for value in call.values()):
        return evaluator.call_unknown(name, call)
    return evaluator.operators.method(owner, name, call)


def _record_stream(evaluator: Evaluator, owner: Tensor, call: Call) -> Value:
    stream, block, machine = call.get("s", 0), owner.block, evaluator.machine
    if isinstance(stream, Stream) and stream.ident and machine.is_capturing() and not machine.ordering_only:
        facts: dict[str, Text] = {
            "tensor": (TensorRef(block.ident, NO_VIEW) if block.ident else "a tensor",),
            "stream": (StreamRef(stream.ident),),
        }
        advice = ("remove the call at {line}, and join the streams before the tensor is freed",)
        machine.session.collector.add(
            PendingFinding(record_stream_in_capture.RULE, machine.site(call.node), facts, [], advice)
        )
        return NONE
    if isinstance(stream, Stream) and stream.ident and block.ident and not machine.ordering_only:
        if block.device is not None and not block.escaped:
            view = machine.view(owner.part, is_write=False)
            machine.session.record_stream(block.ident, view, stream.ident, machine.site(call.node))
    else:
        block.escaped = True
    return NONE


def _generate(evaluator: Evaluator, owner: Tensor, call: Call) -> Value:
    """Run a language model that was moved to a GPU: the host reads after each token whether it was the last.

    Source:
        transformers/generation/utils.py, `_has_unfinished_sequences`.
    """
    del owner
    result = evaluator.call_unknown("generate", call)
    evaluator.machine.read_unknown()
    return result


def _of_layer(evaluator: Evaluator, owner: Tensor, call: Call) -> Value:
    """Return what a layer contains, if the moved object is a layer. This runs nothing on a GPU."""
    del evaluator, owner, call
    return MOVED


def _set_mode(evaluator: Evaluator, owner: Tensor, call: Call) -> Value:
    """Set the mode of a layer."""
    del evaluator, call
    return owner


def _numpy(evaluator: Evaluator, owner: Tensor, call: Call) -> Value:
    if owner.block.device is not None:  # `force=True` copies to the host and waits; otherwise torch raises an error
        return evaluator.transfers.method(owner, "cpu", Call(call.node, [])) or UNKNOWN
    array = evaluator.operators.alias(owner, owner.part)
    array.array = call.node
    return array


def _entries(evaluator: Evaluator, owner: Tensor, call: Call) -> Value:
    """Return the entries of what unknown code returned, which is a dictionary of tensors then."""
    del evaluator, call
    return Sequence([Sequence([UNKNOWN, owner])])


def _untyped_storage(evaluator: Evaluator, owner: Tensor, call: Call) -> Value:
    del evaluator, call
    return Attribute(owner, "data")


def _resize(evaluator: Evaluator, owner: Tensor, call: Call) -> Value:
    if isinstance(call.get("", 0), Constant) and truth(call.get("", 0) or UNKNOWN) is False:
        evaluator.machine.release(owner.block)
    return owner


# -- backward


def _backward(evaluator: Evaluator, owner: Tensor, call: Call) -> Value:
    """Run the backward pass on the stream of the forward pass, with torch's own waits around it."""
    machine = evaluator.machine
    device = owner.block.device
    if device is None or not owner.leaves:
        return NONE
    current, forward = machine.current(device), owner.stream or machine.current(device)
    machine.join(forward, current)
    gradients: list[Tensor] = []
    for leaf in owner.leaves:
        if leaf.grad is None and leaf.block.device is not None:
            leaf.grad = Tensor(machine.allocate(leaf.block.device, call.node), stream=forward)
        gradients += [leaf.grad] if leaf.grad is not None else []
    seeds = tensors_in(Sequence(call.values()))
    own = [tensor for tensor in gradients if tensor.block.device == device]
    touched = [*((tensor, False) for tensor in (owner, *seeds)), *((tensor, True) for tensor in own)]
    machine.launch(forward, "aten::backward", touched, call.node)
    for gradient in gradients:
        other = gradient.block.device
        if other is not None and other != device:  # the engine makes the streams wait for each other
            machine.join(machine.current(other), forward)
            machine.launch(machine.current(other), "aten::backward", [(gradient, True)], call.node)
    _call_hooks(evaluator, _graph_of(owner), forward, call)
    machine.join(current, forward)
    owner.keeps = ()
    return NONE


def _call_hooks(evaluator: Evaluator, tensors: list[Tensor], forward: StreamId, call: Call) -> None:
    """Call the hooks of tensors on the stream of the forward pass."""
    machine = evaluator.machine
    thread = machine.thread
    before = dict(thread.streams)
    thread.streams = thread.streams | {machine.device_of(forward): forward}
    for tensor in tensors:
        for hook, takes_tensor in tensor.hooks:
            gradient = tensor.grad or Tensor(machine.allocate(tensor.block.device, call.node), stream=forward)
            evaluator.call(hook, Call(call.node, [tensor if takes_tensor else gradient]))
    thread.streams = before


def _register_hook(evaluator: Evaluator, owner: Tensor, call: Call) -> Value:
    del evaluator
    owner.hooks += [(hook, False) for hook in call.args[:1]]
    return UNKNOWN


def _register_post_accumulate_grad_hook(evaluator: Evaluator, owner: Tensor, call: Call) -> Value:
    del evaluator
    owner.hooks += [(hook, True) for hook in call.args[:1]]
    return UNKNOWN


def _graph_of(root: Tensor) -> list[Tensor]:
    """Return the tensors that a backward pass from a root visits."""
    found: dict[int, Tensor] = {}
    waiting = [root]
    while waiting:
        tensor = waiting.pop()
        if id(tensor) not in found:
            found[id(tensor)] = tensor
            waiting += tensor.keeps
    return list(found.values())


_SPECIAL: dict[str, Callable[[Evaluator, Tensor, Call], Value]] = {
    "record_stream": _record_stream,
    "generate": _generate,
    "numpy": _numpy,
    "items": _entries,
    "untyped_storage": _untyped_storage,
    "resize_": _resize,
    "backward": _backward,
    "register_hook": _register_hook,
    "register_post_accumulate_grad_hook": _register_post_accumulate_grad_hook,
    **dict.fromkeys(("train", "eval"), _set_mode),
    **dict.fromkeys(_OF_LAYERS, _of_layer),
}
