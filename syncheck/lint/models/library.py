"""Models of the functions and methods that library descriptions cover: see `syncheck.semantics.library`."""

import re
from collections import defaultdict
from functools import partial

from syncheck.hb.ids import WaitCall
from syncheck.lint.interp.contents import tensors_in
from syncheck.lint.interp.evaluator import Evaluator
from syncheck.lint.interp.machine import Machine
from syncheck.lint.interp.registry import FunctionModel, models
from syncheck.lint.interp.values import (
    UNKNOWN,
    UNKNOWN_STREAM,
    Call,
    Constant,
    Event,
    NativeObject,
    Stream,
    Tensor,
    Value,
)
from syncheck.lint.prefilter import add_words
from syncheck.semantics.library import CURRENT, HOST, NEW, Effect, described

Streams = dict[str, Stream]
"""The streams that a library creates for itself, by the names in its description."""


def register_described() -> None:
    """Register a model for each described function, and for the constructor of each described class."""
    methods: dict[str, list[Effect]] = defaultdict(list)
    global_streams: Streams = {}
    for effect in described():
        if effect.owner:
            methods[effect.owner].append(effect)
        elif not effect.is_operator:
            models(effect.name)(_function(effect, global_streams))
        else:
            models("torch.ops." + effect.name.replace("::", "."))(_function(effect, global_streams))
    for owner, effects in methods.items():
        models(owner)(_constructor(effects))
    add_words(re.split(r"\.|::", effect.name)[-1] for effect in described())


def _function(effect: Effect, streams: Streams) -> FunctionModel:
    return lambda evaluator, call: _run(evaluator, effect, effect.parameters, streams, call)


def _constructor(effects: list[Effect]) -> FunctionModel:
    """Return the model of a class. Its objects have the described methods, and streams of their own."""

    def construct(evaluator: Evaluator, call: Call) -> Value:
        del call
        streams: Streams = {}
        return NativeObject(
            {
                effect.name.rpartition(".")[2]: partial(_run, evaluator, effect, effect.parameters[1:], streams)
                for effect in effects
            }
        )

    return construct


def _run(evaluator: Evaluator, effect: Effect, parameters: tuple[str, ...], streams: Streams, call: Call) -> Value:
    """Apply the effect of a described function to the machine."""
    machine, node = evaluator.machine, call.node
    bound = dict(zip(parameters, call.args, strict=False)) | call.kwargs
    own = _stream(machine, effect.stream, bound, streams)
    for place in effect.waits_for:
        value = bound.get(place)
        if isinstance(value, Event):
            machine.wait(value, own, WaitCall.TORCH, node)
        elif place == CURRENT or "." in place or isinstance(value, Stream):
            _wait(machine, own, _stream(machine, place, bound, streams))
    touched = [(tensor, False) for place in effect.reads for tensor in tensors_in(bound.get(place, UNKNOWN))]
    touched += [(tensor, True) for place in effect.writes for tensor in tensors_in(bound.get(place, UNKNOWN))]
    result: Value = bound.get(effect.returns, UNKNOWN)
    if effect.returns == NEW:
        device = machine.device_of(own.ident) if own.ident else machine.device
        result = Tensor(machine.allocate(device, node), stream=own.ident)
        touched.append((result, True))
    if touched:
        machine.launch(own.ident, effect.name, touched, node)
    for place in effect.then_waits:
        if place == HOST:
            machine.sync_stream(own.ident, node, explicit=False)
        else:
            _wait(machine, _stream(machine, place, bound, streams), own)
    return result


def _stream(machine: Machine, place: str, bound: dict[str, Value], streams: Streams) -> Stream:
    """Return the stream that a description names; the current stream for an argument that is omitted or None."""
    value = bound.get(place)
    if isinstance(value, Stream):
        return value
    if "." in place:
        if place not in streams:
            streams[place] = Stream(machine.add_stream(machine.device), machine.device)
        return streams[place]
    is_left_out = value is None or (isinstance(value, Constant) and value.value is None)
    return Stream(machine.current(machine.device) if is_left_out else UNKNOWN_STREAM, machine.device)


def _wait(machine: Machine, waiter: Stream, awaited: Stream) -> None:
    """Make a stream wait for another stream; if either is unknown, assume that all work is complete."""
    if waiter.ident and awaited.ident:
        machine.join(waiter.ident, awaited.ident)
    else:
        machine.assume_synchronized()
