"""Hooks on streams, contexts and functions of `torch.cuda`, `torch.accelerator` and the generic classes."""

import contextlib
import weakref
from collections.abc import Callable, Iterator
from functools import wraps
from typing import TYPE_CHECKING, Any

import torch

from syncheck.cuda import devices
from syncheck.cuda.events import LOOKED_UP, on_finalize
from syncheck.cuda.host import PLAIN
from syncheck.instrument.patching import Patches

if TYPE_CHECKING:
    from syncheck.cuda.backend import Cuda


class Hooks:
    """Makes the replacements; the names are torch's."""

    def __init__(self, cuda: "Cuda", patches: Patches) -> None:
        self._cuda = cuda
        self._patches = patches

    def install(self) -> None:
        """Hook everything."""
        self._hook_streams(torch.cuda.Stream)
        self._cuda.events.hook(self._patches, torch.cuda.Event)
        self._hook_generic_classes()
        self._hook_context(torch.cuda.StreamContext)
        self._hook_record_stream()
        self._hook_resize()
        self._hook_functions()

    # -- streams

    def _hook_streams(self, kind: Any) -> None:
        cuda = self._cuda
        hooks: dict[str, Callable[[Any], Any]] = {
            "__new__": self._new_stream,
            "wait_event": self._wait_event,
            "wait_stream": self._wait_stream,
            "query": self._query,
            "synchronize": cuda.gpu_trace.around,
            "__enter__": self._enter_stream,
            "__exit__": self._exit,
        }
        for name, make in hooks.items():
            original = getattr(kind, name, None)
            if original is not None:
                self._patches.set(kind, name, make(original))
        new: Any = torch.cuda.ExternalStream.__new__

        @wraps(new)
        def new_external(cls: Any, *args: Any, **kwargs: Any) -> Any:
            stream = new(cls, *args, **kwargs)
            if not cuda.callbacks_suppressed:
                with cuda.locked_monitor():
                    cuda.name_new("stream", cuda.stream_of(stream), cuda.sites.here())
            return stream

        if kind is torch.cuda.Stream:
            self._patches.set(torch.cuda.ExternalStream, "__new__", staticmethod(new_external))

    def _new_stream(self, original: Any) -> Any:
        cuda = self._cuda

        @wraps(original)
        def new(cls: Any, *args: Any, **kwargs: Any) -> Any:
            if cuda.callbacks_suppressed:
                return original(cls, *args, **kwargs)
            with cuda.suppressed():
                stream = original(cls, *args, **kwargs)
            if not {"stream_id", "stream_ptr"} & kwargs.keys():
                self._stream_made(stream)
                cuda.thread.implicit_device |= not args and kwargs.get("device") is None
            return stream

        return staticmethod(new)

    def _stream_made(self, stream: Any) -> None:
        cuda = self._cuda
        with cuda.locked_monitor() as monitor:
            site = cuda.sites.here()
            cuda.name_new("stream", cuda.stream_of(stream), site)
            ident = cuda.next_id("event")
            monitor.object_created("stream", ident, site)
        on_finalize(stream, weakref.WeakMethod(self._stream_gone), ident)

    def _stream_gone(self, ident: int) -> None:
        if self._cuda.is_checking:
            self._cuda.streams_gone.append(ident)

    def _wait_event(self, original: Any) -> Any:
        cuda = self._cuda

        @wraps(original)
        def wait_event(self: Any, event: Any) -> None:
            cuda.events.wait(event, self, "stream", lambda event, stream: original(stream, event))

        return wait_event

    def _wait_stream(self, original: Any) -> Any:
        cuda = self._cuda

        @wraps(original)
        def wait_stream(self: Any, stream: Any) -> None:
            if cuda.callbacks_suppressed:
                original(self, stream)
                return
            with cuda.suppressed():
                original(self, stream)
            looked_up = (getattr(self, LOOKED_UP, ""), getattr(stream, LOOKED_UP, ""))
            waiter, awaited = cuda.stream_of(self), cuda.stream_of(stream)
            # the stream whose wait is at stake: on the waiter's device if that was looked up, else on the other's
            device = cuda.streams.device_of(waiter if looked_up[0] else awaited)
            with cuda.locked_monitor() as monitor:
                site = cuda.sites.here()
                monitor.wait_stream(waiter, awaited, site, looked_up, cuda.streams.current(device))

        return wait_stream

    def _query(self, original: Any) -> Any:
        cuda = self._cuda

        @wraps(original)
        def query(stream: Any) -> Any:
            done = original(stream)
            if done and not cuda.callbacks_suppressed:
                with cuda.locked_monitor() as monitor:
                    monitor.sync_stream(cuda.stream_of(stream), cuda.sites.here(), explicit=False)
            return done

        return query

    # -- contexts

    def _hook_context(self, kind: Any) -> None:
        self._patches.set(kind, "__enter__", self._enter_context(kind.__enter__))
        self._patches.set(kind, "__exit__", self._exit(kind.__exit__))

    def _enter_context(self, original: Any) -> Any:
        @wraps(original)
        def enter(context: Any) -> Any:
            result = original(context)
            self._entered(context, context.stream)
            return result

        return enter

    def _enter_stream(self, original: Any) -> Any:
        @wraps(original)
        def enter(stream: Any) -> Any:
            result = original(stream)
            self._entered(stream, stream)
            return result

        return enter

    def _entered(self, owner: Any, stream: Any) -> None:
        """Remember an entered stream; on one GPU it applies to everything, and nobody will ask."""
        cuda = self._cuda
        cuda.thread.set_explicitly = True
        if cuda.n_devices < 2 or stream is None or cuda.callbacks_suppressed:
            return
        with cuda.lock:
            entry = (cuda.stream_of(stream), cuda.sites.here())
            cuda.n_special += 1
        cuda.thread.contexts.append(entry)
        owner.__dict__.setdefault("_syncheck_entered", []).append(entry)

    def _exit(self, original: Any) -> Any:
        cuda = self._cuda

        @wraps(original)
        def leave(owner: Any, *error: Any) -> Any:
            entered = owner.__dict__.get("_syncheck_entered")
            if entered:
                entry = entered.pop()
                if entry in cuda.thread.contexts:  # else it was entered before this check began
                    cuda.thread.contexts.remove(entry)
                    cuda.n_special -= 1
            return original(owner, *error)

        return leave

    # -- generic classes

    def _hook_generic_classes(self) -> None:
        """Put subclasses in place of torch.Stream and torch.Event: classes made in C cannot be changed."""
        stream, event = _open_class(torch.Stream), _open_class(torch.Event)
        self._hook_streams(stream)
        self._patches.set(stream, "record_event", _record_event(event))
        self._cuda.events.hook(self._patches, event)
        self._patches.everywhere({torch.Stream: stream, torch.Event: event})

    # -- memory

    def _hook_record_stream(self) -> None:
        """Hook `Tensor.record_stream` itself: FSDP calls it where no dispatch mode is active."""
        cuda = self._cuda
        original = torch.Tensor.record_stream

        @wraps(original)
        def record_stream(tensor: torch.Tensor, stream: Any) -> Any:
            if cuda.callbacks_suppressed or type(tensor) not in PLAIN:
                return original(tensor, stream)
            with cuda.suppressed():
                original(tensor, stream)
            cuda.operators.recorded(tensor, stream)
            return None

        self._patches.set(torch.Tensor, "record_stream", record_stream)

    def _hook_resize(self) -> None:
        """Hook `UntypedStorage.resize_`, which lets go of a block while its storage lives on: FSDP does so."""
        cuda = self._cuda
        original = torch.UntypedStorage.resize_

        @wraps(original)
        def resize_(storage: torch.UntypedStorage, size: int) -> Any:
            before = storage.data_ptr() if storage.is_cuda else 0
            result = original(storage, size)
            if before and storage.data_ptr() != before:
                cuda.memory.freed(before)
            return result

        self._patches.set(torch.UntypedStorage, "resize_", resize_)

    # -- functions

    def _hook_functions(self) -> None:
        replacements: dict[Any, Any] = {
            torch.cuda.current_stream: self._looked_up(torch.cuda.current_stream, "current_stream"),
            torch.cuda.default_stream: self._looked_up(torch.cuda.default_stream, "default_stream"),
            torch.accelerator.current_stream: self._accelerator_stream(torch.accelerator.current_stream),
            torch.cuda.set_stream: self._chosen(torch.cuda.set_stream),
            torch.cuda.set_device: self._chosen(torch.cuda.set_device),
            torch.cuda._exchange_device: self._chosen(torch.cuda._exchange_device),  # noqa: SLF001
            torch.cuda.current_device: self._asked(torch.cuda.current_device),
            torch.cuda._sleep: self._sleep(torch.cuda._sleep),  # noqa: SLF001
        }
        if hasattr(torch.cuda, "use_mem_pool"):
            replacements[torch.cuda.use_mem_pool] = self._use_mem_pool(torch.cuda.use_mem_pool)
        self._patches.everywhere(replacements)

    def _looked_up(self, original: Any, name: str) -> Any:
        cuda = self._cuda

        @wraps(original)
        def look_up(*args: Any, **kwargs: Any) -> Any:
            stream = original(*args, **kwargs)
            if not cuda.callbacks_suppressed:
                setattr(stream, LOOKED_UP, name)
            return stream

        return look_up

    def _accelerator_stream(self, original: Any) -> Any:
        cuda = self._cuda

        @wraps(original)
        def current_stream(*args: Any, **kwargs: Any) -> Any:
            stream = original(*args, **kwargs)
            if cuda.callbacks_suppressed or stream.device.type != "cuda":
                return stream
            stream = torch.Stream(
                stream_id=stream.stream_id, device_index=stream.device_index, device_type=stream.device_type
            )
            setattr(stream, LOOKED_UP, "current_stream")
            return stream

        return current_stream

    def _chosen(self, original: Any) -> Any:
        cuda = self._cuda

        @wraps(original)
        def choose(*args: Any, **kwargs: Any) -> Any:
            cuda.thread.set_explicitly = True
            return original(*args, **kwargs)

        return choose

    def _asked(self, original: Any) -> Any:
        cuda = self._cuda

        @wraps(original)
        def ask() -> Any:
            cuda.thread.implicit_device = True
            return original()

        return ask

    def watch_defaults(self) -> None:
        """From now on, note where a tensor goes to the current device because no index was given."""
        for name in ("to", "cuda"):
            self._patches.set(torch.Tensor, name, self._to_default(getattr(torch.Tensor, name), name))

    def _to_default(self, original: Any, name: str) -> Any:
        cuda = self._cuda

        @wraps(original)
        def move(tensor: torch.Tensor, *args: Any, **kwargs: Any) -> Any:
            wanted = kwargs.get("device", args[0] if args else None)
            is_bare = isinstance(wanted, torch.device) and wanted.type == "cuda" and wanted.index is None
            if is_bare or wanted == "cuda" or (wanted is None and name == "cuda"):
                cuda.thread.implicit_device = True
            return original(tensor, *args, **kwargs)

        return move

    def _sleep(self, original: Callable[[int], None]) -> Any:
        cuda = self._cuda

        @wraps(original)
        def sleep(cycles: int) -> None:
            original(cycles)
            if not cuda.callbacks_suppressed:
                device = devices.current_device()
                cuda.thread.implicit_device = True
                stream = cuda.streams.current(device)
                with cuda.locked_monitor() as monitor:
                    site = cuda.site()
                    context = cuda.check_thread(stream, device, -1, site) if cuda.n_special else 0
                    monitor.launch(stream, "torch.cuda._sleep", [], site, context)

        return sleep

    def _use_mem_pool(self, original: Any) -> Any:
        cuda = self._cuda

        @contextlib.contextmanager
        def use_mem_pool(pool: Any, device: Any = None) -> Iterator[None]:
            index = devices.current_device() if device is None else torch.cuda._utils._get_device_index(device)  # noqa: SLF001
            pools = cuda.thread.pools
            before = pools.get(index, 0)
            number = int(pool.id[0] << 20 | pool.id[1]) + 1
            with original(pool, device):
                pools[index] = number
                cuda.pools_in_use += 1
                try:
                    yield
                finally:
                    cuda.pools_in_use -= 1
                    pools[index] = before

        return use_mem_pool


def _record_event(kind: Any) -> Any:
    """Return `Stream.record_event` for generic streams, whose own makes an event that has no hooks.

    Source:
        torch/csrc/Stream.cpp, `THPStream_record_event`.
    """

    @wraps(torch.Stream.record_event)
    def record_event(stream: Any, event: Any = None) -> Any:
        event = kind(stream.device) if event is None else event
        event.record(stream)
        return event

    return record_event


def _open_class(kind: Any) -> Any:
    """Return a subclass that can be hooked, and that counts every instance of `kind` as its own."""

    class Meta(type(kind)):  # type: ignore[misc]  # the class of a class made in C
        def __instancecheck__(cls, instance: Any) -> bool:
            return isinstance(instance, kind)

        def __subclasscheck__(cls, other: Any) -> bool:
            return issubclass(other, kind)

    return Meta(kind.__name__, (kind,), {"__module__": "torch", "__doc__": kind.__doc__})
