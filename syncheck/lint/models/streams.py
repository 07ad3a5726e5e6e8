"""Streams, events and devices of torch."""

import ast

from syncheck.hb.ids import NamedKind, StreamOrigin, WaitCall
from syncheck.lint.interp.contexts import restoring, stream_context, unknown_streams
from syncheck.lint.interp.evaluator import Evaluator
from syncheck.lint.interp.machine import N_DEVICES, Machine
from syncheck.lint.interp.never_recorded import report_never_recorded
from syncheck.lint.interp.registry import models, models_methods
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
    Query,
    Stream,
    Symbol,
    Value,
    truth,
)

# -- devices


def _index(evaluator: Evaluator, value: Value | None) -> int | None:
    """Return the index of a device argument; the current device's if it is not given, None if unknown."""
    if value is None or (isinstance(value, Constant) and value.value is None):
        return evaluator.machine.device
    found = evaluator.operators.device_in(value)
    return found if isinstance(found, int) and 0 <= found < N_DEVICES else None


@models("torch.device")
def _device(evaluator: Evaluator, call: Call) -> Value:
    first = call.get("type", 0)
    if len(call.args) > 1 or "index" in call.kwargs:
        index = _index(evaluator, call.get("index", 1))
        is_cpu = isinstance(first, Constant) and first.value == "cpu"
        return Device(None) if is_cpu else UNKNOWN if index is None else Device(index)
    found = evaluator.operators.device_in(first) if first is not None else UNKNOWN
    is_for_all = not evaluator.machine.recent.loops.is_conditional
    return found if isinstance(found, Value) else Device(found, is_named=is_for_all)


@models("torch.cuda.device")
def _device_context(evaluator: Evaluator, call: Call) -> Value:
    index, thread = _index(evaluator, call.get("device", 0)), evaluator.machine.thread

    def enter() -> Value:
        thread.set_explicitly = True
        thread.device = thread.device if index is None else index
        return NONE

    def restore(device: int) -> None:
        thread.device = device

    return restoring(lambda: thread.device, enter, restore)


@models("torch.cuda.set_device", "torch.cuda.set_device_index")
def _set_device(evaluator: Evaluator, call: Call) -> Value:
    index, thread = _index(evaluator, call.get("device", 0)), evaluator.machine.thread
    thread.set_explicitly = True
    if index is not None:
        thread.device = index
    return NONE


@models("torch.cuda.current_device")
def _current_device(evaluator: Evaluator, call: Call) -> Value:
    del call
    return Constant(evaluator.machine.device)


@models("torch.cuda.current_accelerator")
def _current_accelerator(evaluator: Evaluator, call: Call) -> Value:
    del call
    return Device(evaluator.machine.device)


@models("torch.cuda.is_available", "*.is_cuda_alike")
def _is_available(evaluator: Evaluator, call: Call) -> Value:
    del evaluator, call
    return Constant(True)


@models("*.get_accelerator", "*.get_device_module", "*.get_torch_device")
def _device_module(evaluator: Evaluator, call: Call) -> Value:
    del evaluator, call
    return Symbol("torch.cuda")


@models("torch.cuda.is_synchronized_device", "torch.cuda.use_host_timers")
def _is_synchronized(evaluator: Evaluator, call: Call) -> Value:
    """Return that the host waits for no kernel of CUDA: DeepSpeed, accelerator/cuda_accelerator.py."""
    del evaluator, call
    return Constant(False)


@models("torch.cuda.empty_cache")
def _empty_cache(evaluator: Evaluator, call: Call) -> Value:
    """Wait for the device only as far as clocks are concerned. A program must not rely on this wait otherwise."""
    del call
    evaluator.machine.recent.flush()
    return NONE


@models("torch.cuda.synchronize")
def _synchronize(evaluator: Evaluator, call: Call) -> Value:
    device = _index(evaluator, call.get("device", 0))
    if device is None:
        evaluator.machine.assume_synchronized()
    else:
        evaluator.machine.sync_device(device, call.node)
    return NONE


@models("torch.mps.synchronize")
def _synchronize_another(evaluator: Evaluator, call: Call) -> Value:
    """Wait for a non-CUDA device that the program treats as its device."""
    del call
    evaluator.machine.assume_synchronized()
    return NONE


@models("torch.cuda._sleep")
def _sleep(evaluator: Evaluator, call: Call) -> Value:
    machine = evaluator.machine
    machine.launch(machine.current(machine.device), "torch.cuda._sleep", [], call.node)
    return NONE


# -- streams


@models("torch.cuda.Stream", "torch.Stream")
def _new_stream(evaluator: Evaluator, call: Call) -> Value:
    machine, device = evaluator.machine, _index(evaluator, call.get("device", 0))
    if {"stream_id", "stream_ptr"} & call.kwargs.keys():
        return Stream(UNKNOWN_STREAM, 0)
    stream = machine.new_stream(machine.device if device is None else device, call.node)
    if machine.imported.running is not None:
        machine.session.collector.names.of_other_files.add(stream.ident)
    machine.name_new(NamedKind.STREAM, stream.ident, call.node)
    return stream


@models("torch.cuda.ExternalStream")
def _external_stream(evaluator: Evaluator, call: Call) -> Value:
    handle = call.get("stream_ptr", 0)
    if isinstance(handle, Attribute) and handle.name == "cuda_stream" and isinstance(handle.owner, Stream):
        return handle.owner
    return Stream(UNKNOWN_STREAM, evaluator.machine.device)


@models("torch.cuda.current_stream")
def _current_stream(evaluator: Evaluator, call: Call) -> Value:
    device = _index(evaluator, call.get("device", 0))
    if device is None:
        device = evaluator.machine.only_device(call.node)
    if device is None:
        return Stream(UNKNOWN_STREAM, 0, StreamOrigin.CURRENT)
    return Stream(evaluator.machine.current(device), device, StreamOrigin.CURRENT)


@models("torch.cuda.default_stream")
def _default_stream(evaluator: Evaluator, call: Call) -> Value:
    device = _index(evaluator, call.get("device", 0))
    if device is None:
        return Stream(UNKNOWN_STREAM, 0, StreamOrigin.DEFAULT)
    return Stream(evaluator.machine.default_stream(device), device, StreamOrigin.DEFAULT)


@models("torch.cuda.stream", "torch.cuda.StreamContext")
def _stream_context(evaluator: Evaluator, call: Call) -> Value:
    machine, value = evaluator.machine, call.get("stream", 0) or UNKNOWN
    if isinstance(value, Stream):
        return stream_context(machine, value, call.node)
    if truth(value) is False:
        return Context(lambda: NONE, lambda: None, is_portable=True)
    return stream_context(machine, Stream(UNKNOWN_STREAM, machine.thread.device), call.node)


@models("torch.cuda.set_stream")
def _set_stream(evaluator: Evaluator, call: Call) -> Value:
    thread, stream = evaluator.machine.thread, call.get("stream", 0)
    thread.set_explicitly = True
    if isinstance(stream, Stream) and stream.ident:
        thread.streams[stream.device] = stream.ident
        thread.device = stream.device
    else:
        thread.streams = unknown_streams()
    return NONE


@models_methods(Stream)
def _stream_methods(evaluator: Evaluator, owner: Stream, name: str, call: Call) -> Value | None:
    machine, first = evaluator.machine, call.get("stream" if name == "wait_stream" else "event", 0)
    if name == "wait_stream" and isinstance(first, Stream):
        machine.wait_stream(owner, first, call.node)
    elif name == "wait_event" and isinstance(first, Event):
        machine.wait(first, owner, WaitCall.STREAM_WAIT_EVENT, call.node)
    elif name == "record_event":
        event = first if isinstance(first, Event) else machine.new_event(call.node, timing=False)
        machine.record(event, owner, call.node)
        return event
    elif name == "synchronize":
        machine.sync_stream(owner.ident, call.node, explicit=True)
    elif name == "query":
        return Query(None)
    elif name == "__enter__":
        return stream_context(machine, owner, call.node).enter()
    else:
        return None
    return NONE


@models_methods(Context)
def _context_methods(evaluator: Evaluator, owner: Context, name: str, call: Call) -> Value | None:
    if name == "__enter__":
        return owner.enter()
    if name == "__exit__":
        owner.leave()
        return NONE
    return evaluator.call_unknown("", call)


# -- events


@models("torch.Event")
def _new_event_of_device(evaluator: Evaluator, call: Call) -> Value:
    """Create an event; the first argument is its device. Source: torch/csrc/Event.cpp, `THPEvent_pynew`."""
    return _new_event(evaluator, Call(call.node, call.args[1:], call.kwargs, call.is_complete))


@models("torch.cuda.Event")
def _new_event(evaluator: Evaluator, call: Call) -> Value:
    timing = call.flag("enable_timing", 0)
    external = call.flag("external", 3)
    event = evaluator.machine.new_event(call.node, timing=bool(timing), external=bool(external))
    event.has_timing, event.made = timing if call.is_complete else None, evaluator.machine.site(call.node)
    event.escaped = timing is None or not call.is_complete or external is None
    return event


def _begin_timing(machine: Machine, event: Event, stream: Stream | None, node: ast.AST) -> None:
    """Assume that timed work was not seen, so that the event is incomplete until the host waits.

    There is some work between two timing events. Otherwise there would be nothing to time.
    """
    machine.imported.note_record(machine.site(node))
    target = machine.current(machine.device) if stream is None else stream.ident
    if not event.has_timing or not target or machine.ordering_only or machine.is_capturing():
        return
    is_idle = not machine.session.is_pending(NamedKind.STREAM, target) or machine.recent.is_at_event(target)
    others = machine.session.unordered(target)
    if is_idle and all(map(machine.recent.is_only_taken, others)):
        site = machine.site(node)
        machine.guesses[site] = True
        machine.recent.note_timed(target)
        machine.session.launch(target, "unknown code", [], site)
    machine.recent.note_event(target)


def _elapsed_time(machine: Machine, start: Event, call: Call) -> None:
    """Compute the time between two events."""
    end = call.get("end_event", 0)
    is_known = isinstance(end, Event) and not end.escaped
    lacks_timing = isinstance(end, Event) and (start.has_timing is False or end.has_timing is False)
    events = [event for event in (start, end) if isinstance(event, Event) and event.has_timing]
    if not lacks_timing and any(report_never_recorded(machine, event, call.node) for event in events):
        return
    if isinstance(end, Event) and (is_known or lacks_timing) and not machine.ordering_only:
        machine.session.elapsed(start.ident, end.ident, machine.site(call.node))


@models_methods(Event)
def _event_methods(evaluator: Evaluator, owner: Event, name: str, call: Call) -> Value | None:
    machine, first = evaluator.machine, call.get("stream", 0)
    stream = first if isinstance(first, Stream) else None
    if first is not None and stream is None and truth(first) is not False and name in {"record", "wait"}:
        owner.escaped |= name == "record"
        machine.assume_synchronized()
        return NONE
    if name == "record":
        _begin_timing(machine, owner, stream, call.node)
        machine.record(owner, stream, call.node)
    elif name == "wait":
        machine.wait(owner, stream, WaitCall.EVENT_WAIT, call.node)
    elif name == "synchronize":
        machine.sync_event(owner, call.node)
    elif name == "query":
        owner.is_useful = True
        return Query(owner)
    elif name == "elapsed_time":
        _elapsed_time(machine, owner, call)
        return UNKNOWN
    else:
        return None
    return NONE
