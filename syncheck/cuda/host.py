"""Pinned host memory that streams copy from and to, and the host's accesses to it."""

import ctypes
import weakref
import zlib
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import torch

from syncheck.cuda.memory import Memory
from syncheck.cuda.reporter import Reporter
from syncheck.hb.clock import HOST
from syncheck.hb.ids import UNKNOWN_SITE, Access, AllocationId
from syncheck.instrument.methods import replace_method
from syncheck.instrument.patching import Patches
from syncheck.instrument.tensor_facts import extent
from syncheck.instrument.torch_internals import storage_key, storage_key_of
from syncheck.sanitizer.race_context import UNSEEN_WRITE


@dataclass(slots=True)
class HostBuffer:
    """Pinned host memory that a stream has copied from or to.

    Attributes:
        ident: the allocation.
        storage: weak reference to the storage, which calls back when the storage is gone.
        exported: the address was exposed (numpy, data_ptr), so that writes by the host may go unseen.
        in_flight: byte range of each asynchronous copy from an exported buffer -> checksum at the time of the copy.
    """

    ident: AllocationId
    storage: "weakref.ref[torch.UntypedStorage]"
    exported: bool = False
    in_flight: dict[tuple[int, int], int] = field(default_factory=dict)


class HostMemory:
    """The pinned buffers in use by streams; host memory is tracked from its first asynchronous copy.

    Attributes:
        buffers: identity of a storage -> its buffer.
        on_read: called with a tensor that the host is about to read by a method that runs no operator.
    """

    def __init__(self, reporter: Reporter, memory: Memory) -> None:
        self._reporter = reporter
        self._memory = memory
        self.on_read: Callable[[torch.Tensor], None] = lambda _: None
        self.buffers: dict[int, HostBuffer] = {}
        self._exported: weakref.WeakSet[torch.UntypedStorage] = weakref.WeakSet()

    def of(self, tensor: torch.Tensor) -> HostBuffer | None:
        """Return the buffer that holds a host tensor; None if no stream has touched its memory."""
        if not self.buffers or tensor.layout is not torch.strided or tensor.device.type != "cpu":
            return None
        try:
            return self.buffers.get(storage_key_of(tensor))
        except (RuntimeError, NotImplementedError):
            return None

    def tag(self, tensor: torch.Tensor) -> HostBuffer | None:
        """Return the buffer of a host tensor in pinned memory, created if necessary; None if it is not pinned."""
        known = self.of(tensor)
        if known is not None or not tensor.is_pinned():
            return known
        storage = tensor.untyped_storage()
        key, ident = storage_key(storage), self._memory.next_ident()
        buffer = HostBuffer(ident, weakref.ref(storage, lambda _: self._forget(key, ident)))
        buffer.exported = storage in self._exported
        self.buffers[key] = buffer
        self._reporter.monitor.allocate(ident, HOST, storage.nbytes(), 0, UNKNOWN_SITE)
        return buffer

    def _forget(self, key: int, ident: AllocationId) -> None:
        buffer = self.buffers.get(key)
        if buffer is not None and buffer.ident == ident:
            del self.buffers[key]
            if self._reporter.is_checking:
                self._reporter.call_buffer.add(("free", ident, 0))

    def access(self, tensor: torch.Tensor, *, is_write: bool) -> Access | None:
        """Return the access to a whole host tensor; None if no stream has touched its memory."""
        buffer = self.of(tensor)
        if buffer is None or not tensor.numel():
            return None
        return buffer.ident, self._memory.exact_view(tensor), is_write

    def touch(self, operator: str, tensor: torch.Tensor, *, escape: bool = False) -> None:
        """Report that the host reads a tensor, if a stream may be using it."""
        access = self.access(tensor, is_write=False)
        if access is not None:
            self.on_read(tensor)
            self.touched(operator, [access], escape=escape)

    def touched(self, operator: str, accesses: list[Access], *, escape: bool = False) -> None:
        """Report accesses by the host."""
        with self._reporter.locked_monitor() as monitor:
            monitor.host_access(operator, accesses, self._reporter.site(), escape=escape)

    # -- buffers whose address was exposed

    def mark_exported(self, tensor: torch.Tensor) -> None:
        """Note that a host tensor's address was exposed."""
        storage = tensor.untyped_storage()
        self._exported.add(storage)
        buffer = self.of(tensor)
        if buffer is not None:
            buffer.exported = True

    def note_async_copy(self, tensor: torch.Tensor) -> None:
        """Note an asynchronous copy from a pinned tensor that has just been submitted."""
        buffer = self.of(tensor)
        if buffer is not None and buffer.exported:
            sent = extent(tensor)
            buffer.in_flight[sent] = _checksum(tensor.untyped_storage(), *sent)

    def verify_unmodified(
        self, buffer: HostBuffer, within: tuple[int, int] | None = None, *, is_last: bool = True
    ) -> None:
        """Report changes to an exported buffer, or to a part of it, since copies from it that may be running."""
        storage = buffer.storage() if buffer.in_flight else None
        if storage is None:
            return
        reporter = self._reporter
        for (start, stop), before in list(buffer.in_flight.items()):
            if within is not None and not (start < within[1] and within[0] < stop):
                continue
            is_changed = _checksum(storage, start, stop) != before
            if is_changed or is_last:
                del buffer.in_flight[start, stop]
            if not is_changed:
                continue
            view = reporter.monitor.view(start, (stop - start,), (1,), 1, "")
            with reporter.locked_monitor() as monitor:
                monitor.host_access(UNSEEN_WRITE, [(buffer.ident, view, True)], reporter.site())

    def verify_all_unmodified(self, *, is_last: bool = True) -> None:
        """Verify all exported buffers with copies in flight, before the host waits for all or some of them."""
        if self._exported:
            for buffer in list(self.buffers.values()):
                self.verify_unmodified(buffer, is_last=is_last)

    # -- hooks

    def install(self, patches: Patches) -> None:
        """Hook the methods of torch.Tensor that expose values or addresses of host tensors."""
        calls = {"numpy": "Tensor.numpy()", "__dlpack__": "Tensor.__dlpack__()"}
        for name, call in calls.items():
            self._hook(patches, name, partial(self._escape, call))
        reads = {"tolist": "Tensor.tolist()", "__reduce_ex__": "pickling", "__repr__": "printing"}
        for name, call in reads.items():
            self._hook(patches, name, partial(self.touch, call))
        self._hook(patches, "data_ptr", self.mark_exported)

    def _escape(self, call: str, tensor: torch.Tensor) -> None:
        self.mark_exported(tensor)
        self.touch(call, tensor, escape=True)

    def _hook(self, patches: Patches, name: str, note: Callable[[torch.Tensor], None]) -> None:
        reporter = self._reporter

        def watched(original: Any, tensor: torch.Tensor, *args: Any, **kwargs: Any) -> Any:
            is_plain = reporter.is_checking and type(tensor) in PLAIN and tensor.is_cpu
            if is_plain and tensor.layout is torch.strided and reporter.sees_thread:  # otherwise its waits are unknown
                note(tensor)
            return original(tensor, *args, **kwargs)

        replace_method(patches, name, partial(partial, watched))


PLAIN = {torch.Tensor, torch.nn.Parameter}


def _checksum(storage: torch.UntypedStorage, start: int, stop: int) -> int:
    if start >= stop:
        return 0
    return zlib.crc32((ctypes.c_char * (stop - start)).from_address(storage.data_ptr() + start))
