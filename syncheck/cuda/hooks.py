"""Hooks on streams, contexts and functions of `torch.cuda`, `torch.accelerator` and the generic classes."""

import contextlib
import weakref
from collections import deque
from collections.abc import Callable, Iterator
from functools import partial, wraps
from operator import attrgetter
from typing import Any

import torch

from syncheck.cuda import devices
from syncheck.cuda.copies import Copies
from syncheck.cuda.events import ORIGIN, Events, on_finalize
from syncheck.cuda.gpu_trace import GpuTrace
from syncheck.cuda.host import PLAIN
from syncheck.cuda.launches import Launches
from syncheck.cuda.memory import Memory
from syncheck.cuda.open_classes import install_open_classes
from syncheck.cuda.reporter import Reporter
from syncheck.cuda.streams import Streams
from syncheck.cuda.thread_contexts import ThreadContexts
from syncheck.hb.ids import EventId, NamedKind, ObjectKind, StreamOrigin, WaitCall
from syncheck.instrument.patching import Patches
from syncheck.sanitizer.monitor import Monitor


class Hooks:
    """Installs the hooks; methods are named after torch's functions."""

    def __init__(
        self,
        reporter: Reporter,
        streams: Streams,
        threads: ThreadContexts,
        memory: Memory,
        events: Events,
        copies: Copies,
        launches: Launches,
        patches: Patches,
    ) -> None:
        self._reporter = reporter
        self._streams = streams
        self._threads = threads
        self._memory = memory
        self._events = events
        self._copies = copies
        self._launches = launches
        self._patches = patches
        self._destroyed_streams: deque[EventId] = deque()  # destroyed stream objects, reported with the next call
        reporter.before_call.append(self._report_destroyed)

    def install(self, gpu_trace: GpuTrace) -> None:
        """Install all hooks."""
        self._hook_streams(torch.cuda.Stream, gpu_trace)
        self._events.hook(self._patches, torch.cuda.Event)
        self._hook_generic_classes(gpu_trace)
        context = torch.cuda.StreamContext
        self._patches.set(context, "__enter__", self._enter(context.__enter__, attrgetter("stream")))
        self._patches.set(context, "__exit__", self._exit(context.__exit__))
        self._hook_record_stream()
        self._hook_resize()
        self._hook_functions()

    # -- streams

    def _hook_streams(self, kind: Any, gpu_trace: GpuTrace) -> None:
        reporter = self._reporter
        hooks: dict[str, Callable[[Any], Any]] = {
            "__new__": self._new_stream,
            "wait_event": self._wait_event,
            "wait_stream": self._wait_stream,
            "query": self._query,
            "synchronize": gpu_trace.around,
            "__enter__": partial(self._enter, stream_of=lambda stream: stream),
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
            if not reporter.callbacks_suppressed:
                with reporter.locked_monitor():
                    reporter.name_new(NamedKind.STREAM, self._streams.of_object(stream), reporter.sites.here())
            return stream

        if kind is torch.cuda.Stream:
            self._patches.set(torch.cuda.ExternalStream, "__new__", staticmethod(new_external))

    def _new_stream(self, original: Any) -> Any:
        reporter = self._reporter

        @wraps(original)
        def new(cls: Any, *args: Any, **kwargs: Any) -> Any:
            if reporter.callbacks_suppressed:
                return original(cls, *args, **kwargs)
            with reporter.suppressed():
                stream = original(cls, *args, **kwargs)
            if not {"stream_id", "stream_ptr"} & kwargs.keys():
                self._stream_created(stream)
                self._threads.state.implicit_device |= not args and kwargs.get("device") is None
            return stream

        return staticmethod(new)

    def _stream_created(self, stream: Any) -> None:
        reporter = self._reporter
        with reporter.locked_monitor() as monitor:
            site = reporter.sites.here()
            known = self._streams.of_object(stream)
            reporter.name_new(NamedKind.STREAM, known, site)
            ident = reporter.next_event()
            monitor.object_created(ObjectKind.STREAM, ident, site)
            monitor.stream_object(ident, known, site)
        on_finalize(stream, weakref.WeakMethod(self._stream_destroyed), ident)

    def _stream_destroyed(self, ident: EventId) -> None:
        if self._reporter.is_checking:
            self._destroyed_streams.append(ident)

    def _report_destroyed(self, monitor: Monitor) -> None:
        while self._destroyed_streams:
            monitor.object_destroyed(ObjectKind.STREAM, self._destroyed_streams.popleft())

    def _wait_event(self, original: Any) -> Any:
        events = self._events

        @wraps(original)
        def wait_event(self: Any, event: Any) -> None:
            events.wait(event, self, WaitCall.STREAM_WAIT_EVENT, lambda event, stream: original(stream, event))

        return wait_event

    def _wait_stream(self, original: Any) -> Any:
        reporter, streams = self._reporter, self._streams

        @wraps(original)
        def wait_stream(self: Any, stream: Any) -> None:
            if reporter.callbacks_suppressed:
                original(self, stream)
                return
            with reporter.suppressed():
                original(self, stream)
            origins = (getattr(self, ORIGIN, StreamOrigin.BY_NAME), getattr(stream, ORIGIN, StreamOrigin.BY_NAME))
            waiter, awaited = streams.of_object(self), streams.of_object(stream)
            # the stream whose wait matters: on the waiter's device if that was looked up, else on the awaited one's
            device = streams.device_of(waiter if origins[0] else awaited)
            with reporter.locked_monitor() as monitor:
                site = reporter.sites.here()
                monitor.wait_stream(waiter, awaited, site, origins, streams.current(device))

        return wait_stream

    def _query(self, original: Any) -> Any:
        reporter = self._reporter

        @wraps(original)
        def query(stream: Any) -> Any:
            done = original(stream)
            if done and not reporter.callbacks_suppressed:
                with reporter.locked_monitor() as monitor:
                    monitor.sync_stream(self._streams.of_object(stream), reporter.sites.here(), explicit=False)
            return done

        return query

    # -- contexts

    def _enter(self, original: Any, stream_of: Callable[[Any], Any]) -> Any:
        @wraps(original)
        def enter(owner: Any) -> Any:
            self._launches.entering(owner, stream_of(owner))
            result = original(owner)
            self._entered(owner, stream_of(owner))
            return result

        return enter

    def _entered(self, owner: Any, stream: Any) -> None:
        """Store an entered stream, unless there is only one GPU, where it applies to every operator."""
        threads, reporter = self._threads, self._reporter
        threads.state.set_explicitly = True
        if threads.n_devices < 2 or stream is None or reporter.callbacks_suppressed:
            return
        with reporter.lock:
            entry = (self._streams.of_object(stream), reporter.sites.here())
            threads.add_checked_contexts(1)
        threads.state.contexts.append(entry)
        owner.__dict__.setdefault("_syncheck_entered", []).append(entry)

    def _exit(self, original: Any) -> Any:
        threads = self._threads

        @wraps(original)
        def leave(owner: Any, *error: Any) -> Any:
            self._launches.left(owner)
            entered = owner.__dict__.get("_syncheck_entered")
            if entered:
                entry = entered.pop()
                if entry in threads.state.contexts:  # otherwise it was entered before this check began
                    threads.state.contexts.remove(entry)
                    threads.add_checked_contexts(-1)
            return original(owner, *error)

        return leave

    # -- generic classes

    def _hook_generic_classes(self, gpu_trace: GpuTrace) -> None:
        """Replace torch.Stream and torch.Event by subclasses: classes defined in C cannot be modified."""
        stream, event = install_open_classes(self._patches)
        self._hook_streams(stream, gpu_trace)
        self._patches.set(stream, "record_event", _record_event(event))
        self._events.hook(self._patches, event)

    # -- memory

    def _hook_record_stream(self) -> None:
        """Hook the `Tensor.record_stream` method itself: FSDP calls it where no dispatch mode is active."""
        reporter = self._reporter
        original = torch.Tensor.record_stream

        @wraps(original)
        def record_stream(tensor: torch.Tensor, stream: Any) -> Any:
            if reporter.callbacks_suppressed or type(tensor) not in PLAIN:
                return original(tensor, stream)
            with reporter.suppressed():
                original(tensor, stream)
            self._copies.note_record(tensor, stream)
            return None

        self._patches.set(torch.Tensor, "record_stream", record_stream)

    def _hook_resize(self) -> None:
        """Hook `UntypedStorage.resize_`, which frees a block while its storage lives on, as FSDP does."""
        original = torch.UntypedStorage.resize_

        @wraps(original)
        def resize_(storage: torch.UntypedStorage, size: int) -> Any:
            before = storage.data_ptr() if storage.is_cuda else 0
            result = original(storage, size)
            if before and storage.data_ptr() != before:
                self._memory.freed(before)
            return result

        self._patches.set(torch.UntypedStorage, "resize_", resize_)

    # -- functions

    def _hook_functions(self) -> None:
        replacements: dict[Any, Any] = {
            torch.cuda.current_stream: self._with_origin(torch.cuda.current_stream, StreamOrigin.CURRENT),
            torch.cuda.default_stream: self._with_origin(torch.cuda.default_stream, StreamOrigin.DEFAULT),
            torch.accelerator.current_stream: self._accelerator_stream(torch.accelerator.current_stream),
            torch.cuda.set_stream: self._set_explicitly(torch.cuda.set_stream),
            torch.cuda.set_device: self._set_explicitly(torch.cuda.set_device),
            torch.cuda._exchange_device: self._set_explicitly(torch.cuda._exchange_device),
            torch.cuda.current_device: self._current_device(torch.cuda.current_device),
            torch.cuda._sleep: self._sleep(torch.cuda._sleep),
        }
        if hasattr(torch.cuda, "use_mem_pool"):
            replacements[torch.cuda.use_mem_pool] = self._use_mem_pool(torch.cuda.use_mem_pool)
        self._patches.everywhere(replacements)

    def _with_origin(self, original: Any, origin: StreamOrigin) -> Any:
        reporter = self._reporter

        @wraps(original)
        def look_up(*args: Any, **kwargs: Any) -> Any:
            stream = original(*args, **kwargs)
            if not reporter.callbacks_suppressed:
                setattr(stream, ORIGIN, origin)
            return stream

        return look_up

    def _accelerator_stream(self, original: Any) -> Any:
        reporter = self._reporter

        @wraps(original)
        def current_stream(*args: Any, **kwargs: Any) -> Any:
            stream = original(*args, **kwargs)
            if reporter.callbacks_suppressed or stream.device.type != "cuda":
                return stream
            stream = torch.Stream(
                stream_id=stream.stream_id, device_index=stream.device_index, device_type=stream.device_type
            )
            setattr(stream, ORIGIN, StreamOrigin.CURRENT)
            return stream

        return current_stream

    def _set_explicitly(self, original: Any) -> Any:
        @wraps(original)
        def set_current(*args: Any, **kwargs: Any) -> Any:
            self._threads.state.set_explicitly = True
            return original(*args, **kwargs)

        return set_current

    def _current_device(self, original: Any) -> Any:
        @wraps(original)
        def current_device() -> Any:
            self._threads.state.implicit_device = True
            return original()

        return current_device

    def watch_default_device(self) -> None:
        """Start noting tensors that move to the current device because no index was given."""
        for name in ("to", "cuda"):
            self._patches.set(torch.Tensor, name, self._move(getattr(torch.Tensor, name), name))

    def _move(self, original: Any, name: str) -> Any:
        @wraps(original)
        def move(tensor: torch.Tensor, *args: Any, **kwargs: Any) -> Any:
            wanted = kwargs.get("device", args[0] if args else None)
            is_bare = isinstance(wanted, torch.device) and wanted.type == "cuda" and wanted.index is None
            if is_bare or wanted == "cuda" or (wanted is None and name == "cuda"):
                self._threads.state.implicit_device = True
            return original(tensor, *args, **kwargs)

        return move

    def _sleep(self, original: Callable[[int], None]) -> Any:
        reporter = self._reporter

        @wraps(original)
        def sleep(cycles: int) -> None:
            original(cycles)
            if not reporter.callbacks_suppressed:
                device = devices.current_device()
                self._threads.state.implicit_device = True
                self._launches.launch_empty("torch.cuda._sleep", self._streams.current(device), device)

        return sleep

    def _use_mem_pool(self, original: Any) -> Any:
        @contextlib.contextmanager
        def use_mem_pool(pool: Any, device: Any = None) -> Iterator[None]:
            index = devices.current_device() if device is None else torch.cuda._utils._get_device_index(device)
            pools = self._threads.state.pools
            before = pools.get(index, 0)
            number = int(pool.id[0] << 20 | pool.id[1]) + 1
            with original(pool, device):
                pools[index] = number
                self._threads.add_pool(1)
                try:
                    yield
                finally:
                    self._threads.add_pool(-1)
                    pools[index] = before

        return use_mem_pool


def _record_event(kind: Any) -> Any:
    """Return `Stream.record_event` for generic streams; torch's own creates an event without hooks.

    Source:
        torch/csrc/Stream.cpp, `THPStream_record_event`.
    """

    @wraps(torch.Stream.record_event)
    def record_event(stream: Any, event: Any = None) -> Any:
        event = kind(stream.device) if event is None else event
        event.record(stream)
        return event

    return record_event
