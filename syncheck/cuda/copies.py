"""Copies between host and devices, and between devices: which stream they run on, and who waits."""

import sys
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import torch

from syncheck.cuda.host import extent
from syncheck.instrument.naming import name_of_tensor

if TYPE_CHECKING:
    from syncheck.cuda.backend import Cuda
    from syncheck.cuda.operators import Operators


class Copies:
    """Copies as `aten/src/ATen/native/cuda/Copy.cu` does them.

    Attributes:
        specials: the operators that are handled here, by base name: for which arguments, and how.
    """

    def __init__(self, cuda: "Cuda", operators: "Operators") -> None:
        self._cuda = cuda
        self._operators = operators
        self.specials: dict[str, tuple[Callable[..., bool], Callable[..., Any]]] = {
            "_to_copy": (_moves, self._to_copy),
            "copy_": (_crosses, self._copy),
            "_foreach_copy_": (_any_crosses, self._foreach_copy),
            "record_stream": (_always, self._record_stream),
            "_pin_memory": (_always, self._pin),
        }

    def _run(self, dispatch: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        try:
            return dispatch.call(*args, **kwargs)
        except BaseException as error:
            self._cuda.operator_failed(dispatch.plan, error, sys._getframe())  # noqa: SLF001
            raise

    def _guarded(self, action: Callable[[], None]) -> None:
        try:
            action()
        except Exception as error:  # noqa: BLE001  the border to the user's program
            self._cuda.disable_after_error(error)

    def _run_aside(self, dispatch: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """Run an operator; the callbacks that come meanwhile say what is known here already."""
        with self._cuda.suppressed():
            return self._run(dispatch, args, kwargs)

    def _to_copy(self, dispatch: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        result = self._run_aside(dispatch, args, kwargs)
        non_blocking = bool(kwargs.get("non_blocking"))
        self._guarded(lambda: self._log(result, args[0], non_blocking=non_blocking, is_new=True))
        return result

    def _copy(self, dispatch: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        result = self._run_aside(dispatch, args, kwargs)
        self._guarded(lambda: self._log(args[0], args[1], non_blocking=_non_blocking(args, kwargs)))
        return result

    def _foreach_copy(self, dispatch: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        result = self._run_aside(dispatch, args, kwargs)
        non_blocking = _non_blocking(args, kwargs)
        for target, source in zip(args[0], args[1], strict=True):
            self._guarded(lambda t=target, s=source: self._log(t, s, non_blocking=non_blocking))  # type: ignore[misc]
        return result

    def _pin(self, dispatch: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        self._guarded(lambda: self._cuda.host.touch("aten::_pin_memory", args[0]))
        return self._run(dispatch, args, kwargs)

    def _record_stream(self, dispatch: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        result = self._run(dispatch, args, kwargs)
        if not self._cuda.callbacks_suppressed:  # the hook of the method knows it better
            self._guarded(lambda: self.note_record(args[0], args[1]))
        return result

    def note_record(self, tensor: torch.Tensor, stream: Any) -> None:
        """Tell the monitor of `Tensor.record_stream`."""
        cuda = self._cuda
        ident = cuda.stream_of(stream)
        with cuda.locked_monitor() as monitor:
            access = cuda.memory.access(tensor, is_write=False)
            if access is not None:
                view = cuda.memory.exact_view(tensor)
                monitor.record_stream(access[0], view, ident, cuda.site())

    # -- ordering

    def _log(self, target: torch.Tensor, source: torch.Tensor, *, non_blocking: bool, is_new: bool = False) -> None:
        """Tell the monitor of a copy between different devices, done already."""
        if not target.numel():
            return
        if target.is_cuda and is_new:
            with self._cuda.locked_monitor():
                home = self._cuda.streams.current(target.get_device())
                self._cuda.memory.begin_storage(target, home, self._cuda.site())
        if target.is_cuda and source.is_cuda:
            self._device_to_device(target, source)
        elif target.is_cuda:
            self._host_to_device(target, source, non_blocking=non_blocking)
        elif source.is_cuda:
            self._device_to_host(target, source, non_blocking=non_blocking)

    def _access(self, tensor: torch.Tensor, *, is_write: bool) -> list[tuple[int, int, bool]]:
        """Return the access to a tensor on a GPU."""
        with self._cuda.locked_monitor():
            access = self._cuda.memory.access(tensor, is_write=is_write)
        return [] if access is None else [access]

    def _host_to_device(self, target: torch.Tensor, source: torch.Tensor, *, non_blocking: bool) -> None:
        cuda = self._cuda
        device = target.get_device()
        stream = cuda.streams.current(device)
        accesses = self._access(target, is_write=True)
        buffer = cuda.host.tag(source) if non_blocking else cuda.host.of(source)
        read = cuda.host.access(source, is_write=False)
        if buffer is not None and read is not None:
            cuda.host.verify_unmodified(buffer, extent(source))
            accesses.append(read)
        elif non_blocking and not cuda.monitor.capturing(stream):
            self._report_pageable(source)
        self._operators.launch("aten::copy_", stream, device, accesses, [target, source])
        if not non_blocking:
            self._synchronize(stream)
        elif buffer is not None:
            cuda.host.note_async_copy(source)

    def _report_pageable(self, source: torch.Tensor) -> None:
        cuda = self._cuda
        ident = cuda.memory.next_ident()  # plain host memory has no id of its own
        with cuda.locked_monitor() as monitor:
            if monitor.pageable_copy(ident, cuda.memory.exact_view(source), cuda.site()):
                name = name_of_tensor(sys._getframe(1), lambda value: value is source)  # noqa: SLF001  to get a frame
                monitor.name("allocation", ident, name)

    def _device_to_host(self, target: torch.Tensor, source: torch.Tensor, *, non_blocking: bool) -> None:
        cuda = self._cuda
        device = source.get_device()
        stream = cuda.streams.current(device)
        accesses = self._access(source, is_write=False)
        buffer = cuda.host.tag(target) if non_blocking else cuda.host.of(target)
        written = cuda.host.access(target, is_write=True)
        if buffer is not None and written is not None:
            accesses.append(written)
        self._operators.launch("aten::copy_", stream, device, accesses, [target, source])
        if not (non_blocking and buffer is not None):
            self._synchronize(stream)

    def _device_to_device(self, target: torch.Tensor, source: torch.Tensor) -> None:
        """Log a peer copy: on the source's current stream, with waits before and after.

        Source:
            aten/src/ATen/native/cuda/Copy.cu, `copy_device_to_device`: dst_ready and src_ready events.
        """
        cuda = self._cuda
        here, there = target.get_device(), source.get_device()
        source_stream, target_stream = cuda.streams.current(there), cuda.streams.current(here)
        accesses = self._access(source, is_write=False)
        accesses += self._access(target, is_write=True)
        site = cuda.site()
        with cuda.locked_monitor() as monitor:
            monitor.wait_stream(source_stream, target_stream, site, ("torch", ""))
        self._operators.launch("aten::copy_", source_stream, there, accesses, [target, source], here)
        with cuda.locked_monitor() as monitor:
            monitor.wait_stream(target_stream, source_stream, site, ("torch", ""))

    def _synchronize(self, stream: int) -> None:
        cuda = self._cuda
        with cuda.locked_monitor() as monitor:
            monitor.sync_stream(stream, cuda.site(), explicit=False)


def _always(args: tuple[Any, ...], kwargs: dict[str, Any]) -> bool:  # noqa: ARG001  as the others
    return True


def _moves(args: tuple[Any, ...], kwargs: dict[str, Any]) -> bool:
    """Tell whether `_to_copy` goes to another device."""
    wanted = kwargs.get("device")
    if wanted is None or not isinstance(args[0], torch.Tensor):
        return False
    device = args[0].device
    return device.type != wanted.type or (wanted.index is not None and device.index != wanted.index)


def _crosses(args: tuple[Any, ...], kwargs: dict[str, Any]) -> bool:  # noqa: ARG001  as the others
    """Tell whether `copy_` goes to another device."""
    return bool(args[0].get_device() != args[1].get_device())


def _any_crosses(args: tuple[Any, ...], kwargs: dict[str, Any]) -> bool:  # noqa: ARG001  as the others
    return any(target.get_device() != source.get_device() for target, source in zip(args[0], args[1], strict=True))


def _non_blocking(args: tuple[Any, ...], kwargs: dict[str, Any]) -> bool:
    return bool(args[2] if len(args) > 2 else kwargs.get("non_blocking", False))
