"""Copies between host and devices, and between devices: the stream that they run on, and who waits."""

from collections.abc import Callable, Iterable
from functools import partial
from typing import Any

import torch

from syncheck.cuda.dispatch_plan import DispatchPlan
from syncheck.cuda.host import HostMemory
from syncheck.cuda.launches import Launches
from syncheck.cuda.memory import Memory
from syncheck.cuda.operator_errors import OperatorErrors
from syncheck.cuda.reporter import Reporter
from syncheck.cuda.streams import Streams
from syncheck.hb.ids import BY_TORCH, Access, NamedKind, StreamId
from syncheck.instrument.naming import name_of_tensor
from syncheck.instrument.tensor_facts import extent, is_staged_copy
from syncheck.instrument.torch_internals import tensor_of
from syncheck.semantics.copies import HOST_DEVICE, CopyEnd, CopyPlan, copy_plan, is_non_blocking
from syncheck.source.frames import frame_at


class Copies:
    """Copies, modeled after `aten/src/ATen/native/cuda/Copy.cu`.

    Attributes:
        specials: operators handled here, by base name: a predicate on the arguments, and the handler.
    """

    def __init__(
        self,
        reporter: Reporter,
        streams: Streams,
        memory: Memory,
        host: HostMemory,
        launches: Launches,
        errors: OperatorErrors,
    ) -> None:
        self._reporter = reporter
        self._streams = streams
        self._memory = memory
        self._host = host
        self._launches = launches
        self._errors = errors
        self.specials: dict[str, tuple[Callable[..., bool], Callable[..., Any]]] = {
            "_to_copy": (_moves, partial(self._copy, lambda result, args: [(result, args[0])])),
            "copy_": (_crosses, partial(self._copy, lambda _, args: [(args[0], tensor_of(args[1]))])),
            "_foreach_copy_": (_any_crosses, partial(self._copy, lambda _, args: zip(*args[:2], strict=True))),
            "record_stream": (_always, self._record_stream),
            "_pin_memory": (_always, self._pin),
        }

    def _run(self, dispatch: DispatchPlan, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        try:
            return dispatch.call(*args, **kwargs)
        except BaseException as error:
            self._errors.note(dispatch.plan, error, frame_at())
            raise

    def _copy(
        self,
        ends_of: Callable[[Any, Any], Iterable[tuple[torch.Tensor, torch.Tensor]]],
        dispatch: DispatchPlan,
        args: tuple[Any, ...],
        kwargs: dict[str, Any],
    ) -> Any:
        """Run a copying operator and ignore its callbacks, because its copies are reported here.

        `ends_of` returns target and source of each copy, given the operator's result and its arguments.
        """
        non_blocking = is_non_blocking(args, kwargs)
        if not non_blocking:
            self._streams.before_wait()
        with self._reporter.suppressed():
            result = self._run(dispatch, args, kwargs)
        with self._reporter.guard():
            for target, source in ends_of(result, args):
                self._log(target, source, non_blocking=non_blocking, is_new=dispatch.plan.base == "_to_copy")
        return result

    def _pin(self, dispatch: DispatchPlan, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        with self._reporter.guard():
            self._host.touch("aten::_pin_memory", args[0])
        return self._run(dispatch, args, kwargs)

    def _record_stream(self, dispatch: DispatchPlan, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        result = self._run(dispatch, args, kwargs)
        if not self._reporter.callbacks_suppressed:  # otherwise the hook of the method reports it
            self.note_record(args[0], args[1])
        return result

    def note_record(self, tensor: torch.Tensor, stream: Any) -> None:
        """Report a call of `Tensor.record_stream`."""
        with self._reporter.guard():
            ident = self._streams.of_object(stream)
            with self._reporter.locked_monitor() as monitor:
                access = self._memory.access(tensor, is_write=False)
                if access is not None:
                    view = self._memory.exact_view(tensor)
                    monitor.record_stream(access[0], view, ident, self._reporter.site())

    # -- ordering

    def _log(self, target: torch.Tensor, source: torch.Tensor, *, non_blocking: bool, is_new: bool = False) -> None:
        """Report a finished copy if it was between different devices."""
        if not target.numel() or not (target.is_cuda or source.is_cuda):
            return
        if target.is_cuda and is_new:
            with self._reporter.locked_monitor():
                home = self._streams.current(target.get_device())
                self._memory.begin_storage(target, home, self._reporter.site())
        plan = self._plan(target, source, non_blocking=non_blocking)
        stream = self._streams.current(plan.device)
        if not source.is_cuda:
            self._check_source(source, plan, stream)
        accesses = self._accesses(source, plan, is_write=False) + self._accesses(target, plan, is_write=True)
        if plan.is_peer:
            self._launch_between(plan, stream, accesses, [target, source])
        else:
            self._launches.launch("aten::copy_", stream, plan.device, accesses, [target, source])
        self._end_copy(plan, stream, target, source)

    def _plan(self, target: torch.Tensor, source: torch.Tensor, *, non_blocking: bool) -> CopyPlan:
        ends = [self._end(tensor, look_up=non_blocking) for tensor in (target, source)]
        if ends[0].is_pinned or ends[1].is_pinned:
            is_staged = is_staged_copy(target, source, to_host=ends[0].is_pinned)
            ends = [end._replace(is_staged=end.is_pinned and is_staged) for end in ends]
        return copy_plan(*ends, non_blocking=non_blocking)

    def _end_copy(self, plan: CopyPlan, stream: StreamId, target: torch.Tensor, source: torch.Tensor) -> None:
        """Report the host's part after a copy has been submitted."""
        if plan.host_waits:
            self._synchronize(stream)
        elif plan.uses_host_memory and not source.is_cuda:
            self._host.note_async_copy(source)
        if plan.host_writes_target and (access := self._host.access(target, is_write=True)):
            self._host.touched("aten::copy_", [access])

    def _end(self, tensor: torch.Tensor, *, look_up: bool) -> CopyEnd:
        """Return target or source of a copy; `look_up`: ask torch whether host memory is pinned if that is unknown."""
        if tensor.is_cuda:
            return CopyEnd(tensor.get_device())
        buffer = self._host.tag(tensor) if look_up else self._host.of(tensor)
        return CopyEnd(HOST_DEVICE, buffer is not None)

    def _check_source(self, source: torch.Tensor, plan: CopyPlan, stream: StreamId) -> None:
        """Check host memory that is about to be copied."""
        buffer = self._host.of(source)
        if buffer is not None:
            self._host.verify_unmodified(buffer, extent(source))
            if plan.host_reads_source:
                self._host.touch("aten::copy_", source)
        elif plan.overlaps_nothing and not self._reporter.monitor.capturing(stream):
            self._report_pageable(source)

    def _accesses(self, tensor: torch.Tensor, plan: CopyPlan, *, is_write: bool) -> list[Access]:
        if tensor.is_cuda:
            with self._reporter.locked_monitor():
                access = self._memory.access(tensor, is_write=is_write)
        else:
            access = self._host.access(tensor, is_write=is_write) if plan.uses_host_memory else None
        return [] if access is None else [access]

    def _report_pageable(self, source: torch.Tensor) -> None:
        ident = self._memory.next_ident()  # pageable host memory has no id of its own
        with self._reporter.locked_monitor() as monitor:
            monitor.pageable_copy(ident, self._memory.exact_view(source), self._reporter.site())
            if self._reporter.findings.new:
                name = name_of_tensor(frame_at(1), lambda value: value is source)
                monitor.name(NamedKind.ALLOCATION, ident, name)

    def _launch_between(
        self, plan: CopyPlan, stream: StreamId, accesses: list[Access], tensors: list[torch.Tensor]
    ) -> None:
        """Report a copy between devices, with the waits before and after it."""
        other = self._streams.current(plan.other)
        site = self._reporter.site()
        with self._reporter.locked_monitor() as monitor:
            monitor.wait_stream(stream, other, site, BY_TORCH)
        self._launches.launch("aten::copy_", stream, plan.device, accesses, tensors, plan.other)
        with self._reporter.locked_monitor() as monitor:
            monitor.wait_stream(other, stream, site, BY_TORCH)

    def _synchronize(self, stream: StreamId) -> None:
        with self._reporter.locked_monitor() as monitor:
            monitor.sync_stream(stream, self._reporter.site(), explicit=False)


def _always(args: tuple[Any, ...], kwargs: dict[str, Any]) -> bool:  # noqa: ARG001  same signature as the others
    return True


def _moves(args: tuple[Any, ...], kwargs: dict[str, Any]) -> bool:
    """Return whether `_to_copy` copies to another device."""
    wanted = kwargs.get("device")
    if wanted is None or not isinstance(args[0], torch.Tensor):
        return False
    device = args[0].device
    return device.type != wanted.type or (wanted.index is not None and device.index != wanted.index)


def _crosses(args: tuple[Any, ...], kwargs: dict[str, Any]) -> bool:  # noqa: ARG001  same signature as the others
    """Return whether `copy_` copies to another device."""
    return bool(args[0].get_device() != tensor_of(args[1]).get_device())


def _any_crosses(args: tuple[Any, ...], kwargs: dict[str, Any]) -> bool:  # noqa: ARG001  same signature as the others
    return any(target.get_device() != source.get_device() for target, source in zip(args[0], args[1], strict=True))
