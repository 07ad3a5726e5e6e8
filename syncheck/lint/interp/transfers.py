"""Copies between host and devices: the stream that they run on, and who waits."""

import ast

from syncheck.hb.ids import NO_VIEW, AllocationId, SiteId, StreamId
from syncheck.lint import nodes
from syncheck.lint.interp.contents import tensors_in
from syncheck.lint.interp.functions import own_nodes
from syncheck.lint.interp.given_copies import GivenCopies
from syncheck.lint.interp.identities import is_unknown
from syncheck.lint.interp.machine import Machine
from syncheck.lint.interp.operators import Operators
from syncheck.lint.interp.side_work import is_on_side_stream
from syncheck.lint.interp.type_arguments import first_argument, is_host_type, is_type, is_type_of_tensor, names_type
from syncheck.lint.interp.unknown import says_moved
from syncheck.lint.interp.values import (
    DERIVED,
    MOVED,
    UNKNOWN,
    UNKNOWN_STREAM,
    Call,
    Constant,
    Device,
    DeviceIndex,
    Event,
    Module,
    Stream,
    Symbol,
    Tensor,
    Value,
)
from syncheck.lint.prefilter import words_in
from syncheck.rules import serialized_peer_copy
from syncheck.sanitizer.collector import PendingFinding
from syncheck.sanitizer.messages import StreamRef, Text
from syncheck.semantics.copies import HOST_DEVICE, CopyEnd, CopyPlan, copy_plan
from syncheck.source.expressions import last_name
from syncheck.source.words import words_of

_HOST = frozenset({"cpu", "host"})
"""Words in the names of devices that are the host."""
_OFTEN = 3
"""Number of copies at one call site from which a separate stream is worthwhile."""
RULES = (serialized_peer_copy.RULE,)


class Transfers:
    """Copies tensors as `aten/src/ATen/native/cuda/Copy.cu` does.

    Attributes:
        given: copies to the host that unknown code got.
    """

    def __init__(self, machine: Machine, operators: Operators) -> None:
        self._machine = machine
        self._operators = operators
        self._other_stream = UNKNOWN_STREAM  # stands for all unknown streams
        self._on_unknown_stream = set[AllocationId]()  # host memory that is filled by copies on an unknown stream
        self._is_callers_stream = False  # whether code that got copies may know the stream that they are on
        self.given = GivenCopies(machine)
        self._peer_copies: dict[SiteId, int] = {}  # call site -> number of copies on a stream that also computes

    def method(self, tensor: Tensor, name: str, call: Call) -> Value | None:
        """Run a method that may copy between devices; return None for any other method."""
        special = {"copy_": self._copy, "pin_memory": self._pin, "type": self._as_type}.get(name)
        if special is not None:
            return special(tensor, call)
        if name not in {"to", "cuda", "cpu"}:
            return None
        target = self._target(name, call)
        non_blocking = _non_blocking(call, name)
        if isinstance(target, Value) and non_blocking and tensor.block.device is None and tensor.block.is_pinned:
            target = self._machine.thread.device  # such a copy goes to a GPU
        if isinstance(target, Value):
            return self._unknown_target(tensor, call, name)
        if target == tensor.block.device and not call.flag("copy"):
            return self._operators.run("aten::_to_copy", [tensor], call) if self._casts(name, call) else tensor
        return self._new_copy(tensor, target, call, non_blocking=non_blocking)

    def _as_type(self, tensor: Tensor, call: Call) -> Value | None:
        wanted = call.get("dtype", 0)
        if is_host_type(wanted):
            return self.method(tensor, "cpu", Call(call.node, []))
        if tensor.block.device is None and is_type_of_tensor(first_argument(call.node)):
            self._machine.assume_synchronized()  # `x.type(y.type())` may copy to a GPU, which waits for it
        return None

    def enter(self, function: ast.FunctionDef | ast.AsyncFunctionDef) -> None:
        """Note whether a called function expects a side stream of its caller, which may wait for copies on it."""
        self._is_callers_stream |= _records_current_stream(function)

    def may_be_awaited(self, tensor: Tensor) -> bool:
        """Return whether code that gets a copy may know the stream that it is on, and wait for it."""
        return self._is_callers_stream or tensor.block.ident in self._on_unknown_stream

    def _pin(self, tensor: Tensor, call: Call) -> Tensor:
        """Return a copy in pinned memory, or the tensor itself if it is already pinned.

        Only tensors in host memory can be pinned, so one that seemed to be on a GPU is not.

        Source:
            aten/src/ATen/native/Memory.cpp, `pin_memory`.
        """
        tensor.block.escaped |= tensor.block.device is not None
        if tensor.block.is_pinned:
            return tensor
        self._machine.touch_host("aten::_pin_memory", [(tensor, False)], call.node)
        return Tensor(self._machine.allocate(None, call.node, is_pinned=True))

    def _target(self, name: str, call: Call) -> DeviceIndex:
        if name == "cpu":
            return None
        wanted = call.get("device", 0)
        if wanted is None or (isinstance(wanted, Constant) and wanted.value is None):
            return self._machine.device if name == "cuda" else UNKNOWN
        if isinstance(wanted, Tensor):
            return wanted.block.device
        if isinstance(wanted, Symbol) and wanted.path.startswith("torch."):
            return UNKNOWN
        found = self._operators.device_in(wanted)
        if found is UNKNOWN and words_of(last_name(first_argument(call.node))) & _HOST:
            return None
        return self._machine.device if found is UNKNOWN and self._operators.is_gpu(first_argument(call.node)) else found

    def _casts(self, name: str, call: Call) -> bool:
        return name == "to" and (len(call.args) > 1 or "dtype" in call.kwargs)

    def _unknown_target(self, tensor: Tensor, call: Call, name: str) -> Value:
        """Return the result of a copy to an unknown target: a cast on the same device, or an unknown value."""
        values = call.values()
        if (values and all(is_type(value) for value in values)) or names_type(call.node):
            return self._operators.run("aten::_to_copy", [tensor], call)
        return self._elsewhere(UNKNOWN, name, call)

    def _elsewhere(self, target: DeviceIndex, name: str, call: Call) -> Value:
        """Return something that was moved to a device that is unknown, or that is not the current one."""
        may_be_gpu = name == "cuda" or self._operators.may_be_gpu(first_argument(call.node))
        return MOVED if may_be_gpu and isinstance(target, Value) else UNKNOWN

    def move(self, call: Call, name: str, *, is_tensor: bool) -> Value | None:
        """Move an unknown value to a device; return None if the call does not show that it moves anything.

        A non-blocking copy implies that the value is a tensor on the other side of the copy.

        Args:
            call: the call.
            name: the method.
            is_tensor: whether the value may be a GPU tensor.
        """
        if name not in {"to", "cuda", "cpu"}:
            return None
        machine, target, non_blocking = self._machine, self._target(name, call), _non_blocking(call, name)
        if target is None:
            is_certain = not non_blocking or self._names_host(call, name)
            return self._fetch(call, non_blocking=non_blocking) if is_certain else UNKNOWN
        if name == "to" and not non_blocking:
            if is_tensor and isinstance(target, Value):
                return DERIVED
            return self._move_now(target, call) if non_blocking is False else None
        if isinstance(target, Value) and name == "to" and is_on_side_stream(machine):
            target = machine.thread.device
        if isinstance(target, Value) or target != machine.thread.device:
            return self._elsewhere(target, name, call)  # from a GPU, the source's stream copies, not the target's
        made = Tensor(machine.allocate(target, call.node), stream=machine.current(target))
        machine.launch(made.stream, "aten::_to_copy", [(made, True)], call.node)
        if not non_blocking:
            machine.sync_stream(made.stream, call.node, explicit=False)
        return made

    def _names_host(self, call: Call, name: str) -> bool:
        """Return whether a copy to the host names its target, so that it is meant to copy from a GPU.

        A variable may stand for a GPU in other calls: the device that a tensor is on, or that another file is given.
        """
        if name == "cpu" or isinstance(first_argument(call.node), ast.Constant | ast.Call):
            return True
        wanted = call.get("device", 0)
        return self._machine.imported.running is None and not (isinstance(wanted, Device) and not wanted.is_named)

    def _move_now(self, target: int | Value, call: Call) -> Value | None:
        """Move an unknown value to a device that may be a GPU. If it comes from the host, that waits for the stream."""
        if not self._is_to_gpu(target, call):
            return None
        self._machine.recent.loops.note_wait([self._machine.current(self._machine.thread.device)])
        return MOVED

    def by_name(self, name: str, call: Call) -> Value | None:
        """Run a function that moves something, judging by its name, on a stream that the program has created.

        Its result belongs to that stream. Return None if the name says otherwise, or if an argument may order streams.
        """
        machine = self._machine
        if machine.ordering_only or not says_moved(name) or not is_on_side_stream(machine):
            return None
        if not call.args or any(isinstance(value, Stream | Event) for value in call.values()):
            return None
        made = Tensor(machine.allocate(machine.thread.device, call.node), stream=machine.current(machine.thread.device))
        machine.launch(made.stream, "aten::_to_copy", [(made, True)], call.node)
        if not call.flag("non_blocking"):
            machine.sync_stream(made.stream, call.node, explicit=False)
        machine.moves.add(machine.site(call.node))
        return made

    def upload(self, call: Call, name: str) -> Value | None:
        """Copy a tensor to an unknown target. A non-blocking copy is assumed to involve a GPU.

        A stream reads a tensor that is on a GPU, wherever the target is. Without `non_blocking`, the host may then wait
        as in any unknown code.
        """
        source, machine = call.get("src", 0) if name == "copy_" else None, self._machine
        if not isinstance(source, Tensor):
            return None
        device, is_free = source.block.device, call.flag("non_blocking", 1)
        if device is None and not (is_free and source.block.is_pinned):
            return None
        machine.n_relevant += bool(is_free)
        stream = machine.current(machine.thread.device if device is None else device)
        machine.launch(stream, "aten::copy_", [(source, False)], call.node)
        return UNKNOWN if is_free else None

    def _is_to_gpu(self, target: int | Value, call: Call) -> bool:
        """Return whether something that may be a layer is moved to a GPU, as far as the source shows."""
        if isinstance(target, Value):
            return self._operators.may_be_gpu(first_argument(call.node))
        return target == self._machine.thread.device

    def _fetch(self, call: Call, *, non_blocking: bool | None) -> Value:
        """Copy something unknown to host memory. A non-blocking copy is assumed to come from a GPU."""
        machine = self._machine
        if not non_blocking:
            if non_blocking is not None:
                machine.read_unknown()
            return UNKNOWN
        machine.n_relevant += 1
        made = Tensor(machine.allocate(None, call.node, is_pinned=True))
        made.block.is_assumed = True
        machine.assumed_copies.add(machine.site(call.node))
        machine.recent.note_copied(call.node)
        stream = machine.current(machine.thread.device)
        if not stream:  # whichever it is, the host does not wait for it
            self._other_stream = stream = self._other_stream or machine.add_stream(machine.thread.device)
            self._on_unknown_stream.add(made.block.ident)
        machine.self_waits.fetching.add(stream)
        machine.launch(stream, "aten::copy_", [(made, True)], call.node)
        if made.block.ident not in self._on_unknown_stream:
            self.given.made(made, stream)
        return made

    def _new_copy(self, source: Tensor, target: int | None, call: Call, *, non_blocking: bool | None) -> Value:
        machine = self._machine
        machine.n_relevant += bool(non_blocking)
        is_pinned = target is None and bool(non_blocking)
        made = Tensor(machine.allocate(target, call.node, is_pinned=is_pinned), leaves=source.leaves)
        made.stream = UNKNOWN_STREAM if target is None else machine.current(target)
        if source.leaves:
            made.keeps = (source,)
        self._log(made, source, call.node, non_blocking=non_blocking)
        if is_pinned and source.block.device is not None:
            self.given.made(made, machine.current(source.block.device))
        return made

    def _copy(self, target: Tensor, call: Call) -> Value:
        source = call.get("src", 0)
        if not isinstance(source, Tensor):
            machine, device = self._machine, target.block.device
            if device is None and target.block.is_pinned and call.flag("non_blocking", 1):
                device = machine.thread.device  # a non-blocking copy to pinned memory comes from a GPU
                machine.n_relevant += 1
            if device is None and target.block.is_pinned and is_unknown(source) and not call.args[1:]:
                self._fill_from_host(target, call)
            if device is not None and device != machine.thread.device and is_on_side_stream(machine):
                self._copy_from_other_gpu(target, machine.thread.device, device, call.node)
            elif device is not None:
                machine.launch(machine.current(device), "aten::copy_", [(target, True)], call.node)
                if is_unknown(source) and call.flag("non_blocking", 1) is False:  # from the host, which then waits
                    machine.recent.drop(machine.current(device))
            return target
        if source.block.device == target.block.device:
            return self._operators.in_place("copy_", target, tensors_in(source), call)
        self._log(target, source, call.node, non_blocking=call.flag("non_blocking", 1))
        return target

    def _copy_from_other_gpu(self, target: Tensor, source: int, device: int, node: ast.AST) -> None:
        """Copy something unknown to a GPU while a stream of another GPU is current: it is assumed to be there."""
        machine = self._machine
        sender, receiver = machine.current(source), machine.current(device)
        machine.join(sender, receiver)
        machine.launch(sender, "aten::copy_", [(target, True)], node, device)
        machine.join(receiver, sender)

    def _fill_from_host(self, target: Tensor, call: Call) -> None:
        """Copy something unknown to pinned memory. A blocking copy is assumed to come from the host."""
        if call.flag("non_blocking", 1) is False:
            self._machine.touch_host("aten::copy_", [(target, True)], call.node)

    def _log(self, target: Tensor, source: Tensor, node: ast.AST, *, non_blocking: bool | None) -> None:
        """Run a copy between different devices."""
        machine = self._machine
        machine.n_relevant += bool(non_blocking)
        plan = copy_plan(_end(target), _end(source), non_blocking=bool(non_blocking))
        stream = machine.current(plan.device)
        touched = [(source, False), (target, True)]
        if plan.is_peer:
            other = machine.current(plan.other)
            machine.join(stream, other)
            self._note_serialized(stream, plan, node)
            machine.launch(stream, "aten::copy_", touched, node, plan.other)
            machine.join(other, stream)
            return
        if plan.overlaps_nothing and not source.block.escaped:
            self._report_pageable(stream, node)
        if plan.host_reads_source:
            machine.touch_host("aten::copy_", [(source, False)], node)
        if not plan.uses_host_memory:
            touched = [(tensor, is_write) for tensor, is_write in touched if tensor.block.device is not None]
        machine.launch(stream, "aten::copy_", touched, node)
        self._finish(plan, target, stream, node)

    def _finish(self, plan: CopyPlan, target: Tensor, stream: StreamId, node: ast.AST) -> None:
        """Let the host wait for a copy and do its own part, as far as this happens before the call returns."""
        machine = self._machine
        if plan.overlaps_nothing:  # from pageable memory, which CUDA has already read
            machine.recent.drop(stream)
        if target.block.device is None and not plan.host_waits:
            machine.self_waits.fetching.add(stream)
        if plan.host_waits:
            machine.sync_stream(stream, node, explicit=False)
        if plan.host_writes_target:
            machine.touch_host("aten::copy_", [(target, True)], node)

    def _report_pageable(self, stream: StreamId, node: ast.AST) -> None:
        machine = self._machine
        if not machine.ordering_only and not (stream and machine.session.capturing(stream)):
            machine.session.pageable_copy(AllocationId(machine.next_ident()), NO_VIEW, machine.site(node))

    def _note_serialized(self, sender: StreamId, plan: CopyPlan, node: ast.AST) -> None:
        """Report a repeated copy that queues behind compute work on the same stream."""
        machine = self._machine
        if machine.ordering_only or sender not in machine.computing:
            return
        site = machine.site(node)
        n_copies = self._peer_copies[site] = self._peer_copies.get(site, 0) + 1
        if n_copies == _OFTEN:
            facts: dict[str, Text] = {
                "source": (f"cuda:{plan.device}",),
                "destination": (f"cuda:{plan.other}",),
                "stream": (StreamRef(sender),),
            }
            advice: Text = ("make it on a stream of its own, and let the users of its result wait for that",)
            machine.session.collector.add(PendingFinding(serialized_peer_copy.RULE, site, facts, [], advice))

    def move_net(self, net: Module, call: Call, name: str) -> Value:
        """Move a layer's parameters."""
        target = self._target(name, call)
        weight = net.weight
        if weight is None or isinstance(target, Value) or target == weight.block.device:
            return net
        moved = self._new_copy(weight, target, call, non_blocking=_non_blocking(call, name))
        if isinstance(moved, Tensor):
            moved.is_leaf, moved.leaves, moved.keeps = True, (moved,), ()
            net.weight = moved
        return net


def _non_blocking(call: Call, name: str) -> bool | None:
    """Return whether a copy is non-blocking; None if unknown.

    In `to(device, dtype, non_blocking)` and `to(dtype, non_blocking)`, it is the first positional Boolean.
    """
    if "non_blocking" in call.kwargs or name == "cpu":
        return call.flag("non_blocking")
    given = (value.value for value in call.args[1:] if isinstance(value, Constant))
    return next((value for value in given if isinstance(value, bool)), False)


def _end(tensor: Tensor) -> CopyEnd:
    device = tensor.block.device
    return CopyEnd(HOST_DEVICE if device is None else device, tensor.block.is_pinned, tensor.is_strided)


@nodes.once
def _records_current_stream(function: ast.AST) -> bool:
    """Return whether a function passes its current stream to `record_stream`, which only side streams need."""
    if "record_stream" not in words_in(function):
        return False
    calls = (node for node in own_nodes(function) if isinstance(node, ast.Call))
    recorded = (call.args[0] for call in calls if last_name(call.func) == "record_stream" and call.args)
    return any(map(nodes.is_current_stream, recorded))
