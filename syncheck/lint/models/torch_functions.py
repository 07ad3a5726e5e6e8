"""Functions of torch, by their full names; those of others are looked up from here, too."""

import ast
import re
from collections.abc import Callable
from typing import TYPE_CHECKING

from syncheck.hb.ids import LookedUp, NamedKind, StreamId
from syncheck.lint.interp.contexts import restoring
from syncheck.lint.interp.machine import N_DEVICES
from syncheck.lint.interp.operators import FACTORIES, LIKE
from syncheck.lint.interp.values import (
    NONE,
    UNKNOWN,
    UNKNOWN_STREAM,
    Attribute,
    Call,
    Constant,
    Context,
    Device,
    Event,
    Graph,
    Module,
    Optimizer,
    Sequence,
    Stream,
    Symbol,
    Tensor,
    Value,
    tensors_in,
    truth,
)
from syncheck.lint.models.builtins import Builtins
from syncheck.lint.models.stdlib import StandardLibrary

if TYPE_CHECKING:
    from syncheck.lint.interp.calls import Calls

_BACKENDS = re.compile(r"^torch\.(xpu|npu|hpu|musa|mtia|accelerator)\b|^torch_npu\.npu\b")
_CLOCKS = frozenset(
    """time.time time.perf_counter time.monotonic time.time_ns time.perf_counter_ns time.monotonic_ns
    timeit.default_timer""".split()
)
_SAME_DEVICE_MODULE = re.compile(r"(^|\.)(get_accelerator|get_device_module|get_torch_device)$")
_NOT_OPERATORS = frozenset(
    """manual_seed seed initial_seed set_default_device set_default_dtype get_default_dtype is_tensor is_grad_enabled
    compile jit set_num_threads get_num_threads load typename use_deterministic_algorithms Size dtype Generator
    get_rng_state set_rng_state is_floating_point numel result_type promote_types set_printoptions""".split()
)
_KINDS = frozenset({"torch.cuda.Stream", "torch.cuda.Event", "torch.Stream", "torch.Event", "torch.Tensor"})
_TORCH_FUNCTIONS = re.compile(r"^torch\.(nn\.functional\.|fft\.|linalg\.|special\.|_foreach|_C\.|ops\.aten\.)?\w+$")


class Api:
    """Calls functions by name."""

    def __init__(self, calls: "Calls") -> None:
        self._calls = calls
        self._machine = calls.machine
        self._known: dict[str, Callable[[Call], Value | None]] = {
            "torch.cuda.Stream": self._new_stream,
            "torch.Stream": self._new_stream,
            "torch.cuda.ExternalStream": self._external,
            "torch.cuda.Event": self._new_event,
            "torch.Event": self._new_event,
            "torch.cuda.current_stream": lambda call: self._looked_up(LookedUp.CURRENT, call),
            "torch.cuda.default_stream": lambda call: self._looked_up(LookedUp.DEFAULT, call),
            "torch.cuda.stream": self._stream,
            "torch.cuda.StreamContext": self._stream,
            "torch.cuda.set_stream": self._set_stream,
            "torch.cuda.device": self._device_context,
            "torch.cuda.set_device": self._set_device,
            "torch.cuda.set_device_index": self._set_device,
            "torch.cuda.synchronize": self._synchronize,
            "torch.cuda.is_available": lambda call: Constant(True),
            "torch.cuda.current_device": lambda call: Constant(self._machine.device),
            "torch.cuda.CUDAGraph": lambda call: self._machine.new_graph(),
            "torch.cuda.graph": self._graph,
            "torch.cuda.make_graphed_callables": self._graphed_callables,
            "torch.cuda._sleep": self._sleep,
            "torch.device": self._device,
            "torch.no_grad": lambda call: self._without_grad(),
            "torch.inference_mode": lambda call: self._without_grad(),
            "torch.nn.Parameter": self._parameter,
            "torch.from_numpy": lambda call: self._calls.operators.make("aten::from_numpy", Call(call.node, []), None),
            "torch.save": self._save,
        }
        self._tables = (self._known, StandardLibrary(calls).functions, Builtins(calls).functions)

    def call(self, path: str, call: Call) -> Value | None:
        """Call a function by its full name; None if it is not known."""
        path = canonical(path)
        known = next((table[path] for table in self._tables if path in table), None)
        if known is not None:
            return known(call)
        head, _, name = path.rpartition(".")
        if head == "builtins":
            return None
        if path in _CLOCKS:
            return self._machine.read_clock(call.node)
        if _SAME_DEVICE_MODULE.search(path):
            return Symbol("torch.cuda")
        if head.startswith("torch.distributed"):
            return self._calls.collectives.call(name, call)
        return self._call_torch(path, head, name, call) if path.startswith("torch.") else None

    def _call_torch(self, path: str, head: str, name: str, call: Call) -> Value | None:
        if head in _KINDS and call.args:
            rest = Call(call.node, call.args[1:], call.kwargs, call.is_complete)
            return self._calls.methods.call(call.args[0], name, rest)
        if head == "torch.nn" and name[:1].isupper():
            return self._net(call)
        if head == "torch.optim":
            return Optimizer(tensors_in(self._calls.iteration.listed(call.args[0]))) if call.args else None
        if head == "torch" and name in FACTORIES:
            return self._calls.operators.factory(name, call)
        if head == "torch" and name in LIKE:
            source = call.args[0] if call.args else UNKNOWN
            return self._calls.operators.like(name, source, call) if isinstance(source, Tensor) else UNKNOWN
        return self._compute(path, head, name, call)

    def _compute(self, path: str, head: str, name: str, call: Call) -> Value | None:
        if name in _NOT_OPERATORS or head.startswith(("torch.cuda", "torch.utils", "torch.backends")):
            return UNKNOWN if not any(isinstance(v, Stream | Event) for v in call.values()) else None
        inputs = tensors_in(Sequence(call.values()))
        if not inputs or not _TORCH_FUNCTIONS.match(path):
            return None if inputs else UNKNOWN
        return self._operator(name, inputs, call)

    def _operator(self, name: str, inputs: list[Tensor], call: Call) -> Value:
        operators = self._calls.operators
        first = call.args[0] if call.args else None
        rest = Call(call.node, call.args[1:], call.kwargs, call.is_complete)
        if isinstance(first, Tensor) and "out" not in call.kwargs:
            return self._calls.methods.call(first, name, rest)
        if name.startswith("_foreach") and name.endswith("_"):
            for target in tensors_in(first):
                operators.in_place("fill_", target, [], call)
            return UNKNOWN
        return operators.run(f"aten::{name}", inputs, call)

    # -- streams, events, devices

    def _index(self, value: Value | None) -> int | None:
        """Return the index of a device argument, the current one where it is not given; None if nobody knows."""
        if value is None or (isinstance(value, Constant) and value.value is None):
            return self._machine.device
        found = self._calls.operators.device_in(value)
        return found if isinstance(found, int) and 0 <= found < N_DEVICES else None

    def _new_stream(self, call: Call) -> Value:
        device = self._index(call.get("device", 0))
        if {"stream_id", "stream_ptr"} & call.kwargs.keys():
            return Stream(UNKNOWN_STREAM, 0)
        stream = self._machine.new_stream(self._machine.device if device is None else device, call.node)
        self._machine.name_new(NamedKind.STREAM, stream.ident, call.node)
        return stream

    def _external(self, call: Call) -> Value:
        handle = call.get("stream_ptr", 0)
        if isinstance(handle, Attribute) and handle.name == "cuda_stream" and isinstance(handle.owner, Stream):
            return handle.owner
        return Stream(UNKNOWN_STREAM, self._machine.thread.device)

    def _new_event(self, call: Call) -> Value:
        timing = call.flag("enable_timing", 0)
        event = self._machine.new_event(call.node, timing=bool(timing))
        event.escaped = timing is None or not call.is_complete
        return event

    def _looked_up(self, which: LookedUp, call: Call) -> Value:
        device = self._index(call.get("device", 0))
        machine = self._machine
        if device is None:
            return Stream(UNKNOWN_STREAM, 0, which)
        ident = machine.current(device) if which is LookedUp.CURRENT else machine.default_stream(device)
        return Stream(ident, device, which)

    def _stream(self, call: Call) -> Value:
        value = call.get("stream", 0) or UNKNOWN
        if isinstance(value, Stream):
            return self.stream_context(value, call.node)
        if truth(value) is False:
            return Context(lambda: NONE, lambda: None)
        return self.stream_context(Stream(UNKNOWN_STREAM, self._machine.thread.device), call.node)

    def stream_context(self, stream: Stream, node: ast.AST) -> Context:
        """Return the context in which a stream is current, and its device with it."""
        machine = self._machine

        def save() -> tuple[dict[int, StreamId], int]:
            return dict(machine.thread.streams), machine.thread.device

        def enter() -> Value:
            thread = machine.thread
            thread.set_explicitly = True
            if not stream.ident:
                thread.streams = dict.fromkeys(range(N_DEVICES), UNKNOWN_STREAM)
                return stream
            thread.contexts.append((stream.ident, machine.site(node)))
            thread.streams = thread.streams | {stream.device: stream.ident}
            thread.device = stream.device
            return stream

        def restore(saved: tuple[dict[int, StreamId], int]) -> None:
            thread = machine.thread
            thread.streams, thread.device = saved
            if stream.ident and thread.contexts:
                thread.contexts.pop()

        return restoring(save, enter, restore)

    def _set_stream(self, call: Call) -> Value:
        thread, stream = self._machine.thread, call.get("stream", 0)
        thread.set_explicitly = True
        if isinstance(stream, Stream) and stream.ident:
            thread.streams[stream.device] = stream.ident
            thread.device = stream.device
        else:
            thread.streams = dict.fromkeys(range(N_DEVICES), UNKNOWN_STREAM)
        return NONE

    def _device(self, call: Call) -> Value:
        first = call.get("type", 0)
        if len(call.args) > 1 or "index" in call.kwargs:
            index = self._index(call.get("index", 1))
            is_cpu = isinstance(first, Constant) and first.value == "cpu"
            return Device(None) if is_cpu else UNKNOWN if index is None else Device(index)
        found = self._calls.operators.device_in(first) if first is not None else UNKNOWN
        return found if isinstance(found, Value) else Device(found)

    def _device_context(self, call: Call) -> Value:
        index = self._index(call.get("device", 0))
        thread = self._machine.thread

        def enter() -> Value:
            thread.set_explicitly = True
            thread.device = thread.device if index is None else index
            return NONE

        def restore(device: int) -> None:
            thread.device = device

        return restoring(lambda: thread.device, enter, restore)

    def _set_device(self, call: Call) -> Value:
        index = self._index(call.get("device", 0))
        self._machine.thread.set_explicitly = True
        if index is not None:
            self._machine.thread.device = index
        return NONE

    def _synchronize(self, call: Call) -> Value:
        device = self._index(call.get("device", 0))
        if device is None:
            self._machine.assume_synchronized()
        else:
            self._machine.sync_device(device, call.node)
        return NONE

    def _sleep(self, call: Call) -> Value:
        machine = self._machine
        machine.launch(machine.current(machine.thread.device), "torch.cuda._sleep", [], call.node)
        return NONE

    # -- graphs

    def _graph(self, call: Call) -> Value:
        graph, given = call.get("cuda_graph", 0), call.get("stream", 2)
        machine = self._machine
        if not isinstance(graph, Graph):
            return UNKNOWN
        device = machine.thread.device
        stream = (
            given if isinstance(given, Stream) and given.ident else machine.new_stream(device, call.node, is_made=False)
        )
        context = self.stream_context(stream, call.node)

        def enter() -> Value:
            machine.sync_device(device, call.node)
            context.enter()
            self.capture(graph, call.node, is_begin=True)
            return NONE

        def leave() -> None:
            self.capture(graph, call.node, is_begin=False)
            context.leave()

        return Context(enter, leave)

    def _graphed_callables(self, call: Call) -> Value:
        """Capture a callable; with no warm-up where the program says so."""
        if truth(call.get("num_warmup_iters", 2) or UNKNOWN) is False:
            machine = self._machine
            graph, stream = machine.new_graph(), machine.new_stream(machine.thread.device, call.node)
            context = self.stream_context(stream, call.node)
            context.enter()
            self.capture(graph, call.node, is_begin=True)
            machine.launch(stream.ident, "aten::addmm", [], call.node)
            self.capture(graph, call.node, is_begin=False)
            context.leave()
        return UNKNOWN

    def capture(self, graph: Graph, node: ast.AST, *, is_begin: bool) -> None:
        """Begin or end a capture on the current stream."""
        machine = self._machine
        stream = machine.current(machine.thread.device)
        if machine.ordering_only or not stream:
            return
        if is_begin and not graph.has_captured:
            machine.session.capture_begin(graph.ident, stream, machine.site(node))
            graph.has_captured = True
        elif not is_begin and machine.session.capturing(stream):
            machine.session.capture_end(graph.ident)

    # -- layers and gradients

    def _net(self, call: Call) -> Value:
        device = self._calls.operators.device_in(call.get("device") or Constant("cpu"))
        if isinstance(device, Value):
            return UNKNOWN
        weight = self._calls.operators.make("aten::uniform_", Call(call.node, []), device)
        if isinstance(weight, Tensor):
            weight.is_leaf, weight.leaves = True, (weight,)
            return Module(weight)
        return UNKNOWN

    def _parameter(self, call: Call) -> Value:
        data = call.get("data", 0)
        if isinstance(data, Tensor) and call.flag("requires_grad", 1) is not False:
            data.is_leaf, data.leaves = True, (data,)
        return data or UNKNOWN

    def _without_grad(self) -> Value:
        operators = self._calls.operators

        def enter() -> Value:
            operators.has_grad = False
            return NONE

        def restore(has_grad: bool) -> None:  # noqa: FBT001  the value that was saved
            operators.has_grad = has_grad

        return restoring(lambda: operators.has_grad, enter, restore)

    def _save(self, call: Call) -> Value:
        for tensor in tensors_in(call.args[0] if call.args else None):
            self._calls.operators.read_by_host(tensor, call.node, "save")
        return NONE


def canonical(path: str) -> str:
    """Return torch's name for what other backends offer under theirs."""
    return _BACKENDS.sub("torch.cuda", path)
