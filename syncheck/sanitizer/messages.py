"""Refer to streams, tensors and events in findings; the words are chosen at the end, when all names are known."""

from collections import deque
from collections.abc import Iterable
from dataclasses import dataclass, field
from math import prod
from typing import NamedTuple, TypeAlias

from syncheck.hb.clock import HOST
from syncheck.hb.ids import MAIN_THREAD, AllocationId, EventId, HostId, NamedKind, SiteId, StreamId, ViewId
from syncheck.sanitizer.device_names import CUDA
from syncheck.sanitizer.monitor import Sites


class StreamRef(NamedTuple):
    """A stream as a phrase: "stream `copy` (cuda:0)"."""

    stream: StreamId


class StreamCode(NamedTuple):
    """A stream as an expression that the program could use: `copy`."""

    stream: StreamId
    is_current: bool = False


class TensorRef(NamedTuple):
    """A tensor as a phrase: "`y` (1024 float32, 4 KiB)"."""

    allocation: AllocationId
    view: ViewId


class TensorCode(NamedTuple):
    """A tensor as an expression: `y`."""

    allocation: AllocationId


class GroupCode(NamedTuple):
    """What the program can go through to meet a stream or a tensor, among others: `streams`, `batch.values()`.

    Attributes:
        kind: of the group.
        ident: of the stream or the tensor.
    """

    kind: NamedKind
    ident: int


class EventRef(NamedTuple):
    """An event as a phrase: "`done`"."""

    event: EventId


class EventCode(NamedTuple):
    """An event as an expression: `done`."""

    event: EventId


class DeviceSyncCode(NamedTuple):
    """The call that waits on the host for the device of a stream: `torch.cuda.synchronize(1)`."""

    stream: StreamId


class TorchCode(NamedTuple):
    """A function of torch, as an expression: `torch.cuda.Event`."""

    name: str


class WaitCode(NamedTuple):
    """The statement that waits for what is made at a call site, by the name that it is bound to: `work.wait()`.

    Attributes:
        site: the call.
        is_functional: it returns a tensor: `torch.ops._c10d_functional.wait_tensor(total)`.
    """

    site: SiteId
    is_functional: bool = False


class ThreadRef(NamedTuple):
    """A thread of the program as a phrase: "thread `loader`"."""

    host: HostId


Reference: TypeAlias = (
    StreamRef
    | StreamCode
    | TensorRef
    | TensorCode
    | GroupCode
    | EventRef
    | EventCode
    | DeviceSyncCode
    | TorchCode
    | WaitCode
    | ThreadRef
)
Part: TypeAlias = str | Reference
Text: TypeAlias = tuple[Part, ...]

_KEPT_NAMES = 4096
"""Events that are gone and whose names are kept."""


class View(NamedTuple):
    """What a view id stands for; sizes in elements."""

    sizes: tuple[int, ...]
    item_size: int
    dtype: str


class StreamInfo(NamedTuple):
    """What is known of a stream."""

    device: int
    handle: int
    site: SiteId

    @property
    def is_torchs(self) -> bool:
        """Return whether torch made it for itself: no default stream, and none of the program's."""
        return self.handle != 0 and not self.site


@dataclass(slots=True)
class Names:
    """What the program calls its things, and what they are.

    Attributes:
        given: ("stream" | "event" | "allocation", id) -> the program's name.
        parts: (allocation, view) -> what the program calls this part of the memory; "" if it has no name for it.
        kept: what findings speak of, whose names are kept when it is gone.
        gone: what is gone and still has its name, the latest last.
        sites: converts call sites to places, once the program has ended.
        known_at: (kind, id) -> the call site at which the name in `given` is right.
        seen_at: (kind, id) -> what it was called at some lines: (path, number) -> name.
        held_until_freed: allocation -> the variable that held it until it was freed.
        owners: allocation -> the variable that it was made for and that held it until it was freed, with the path and
            the function of both.
        shown: allocation -> the view that describes it, where a backend knew better than the access.
        last_site: stream -> call site of its last op, for the streams that got one.
        threads: the names of the program's threads.
        device_type: the module of torch that the GPUs belong to, such as "xpu".
    """

    streams: dict[StreamId, StreamInfo] = field(default_factory=dict)
    views: list[View] = field(default_factory=list)
    given: dict[tuple[NamedKind, int], str] = field(default_factory=dict)
    last_site: dict[StreamId, SiteId] = field(default_factory=dict)
    threads: dict[HostId, str] = field(default_factory=lambda: {MAIN_THREAD: "MainThread"})
    shown: dict[AllocationId, ViewId] = field(default_factory=dict)
    known_at: dict[tuple[NamedKind, int], SiteId] = field(default_factory=dict)
    seen_at: dict[tuple[NamedKind, int], dict[tuple[str, int], str]] = field(default_factory=dict)
    held_until_freed: dict[AllocationId, str] = field(default_factory=dict)
    owners: dict[AllocationId, tuple[str, str, str]] = field(default_factory=dict)
    parts: dict[tuple[AllocationId, ViewId], str] = field(default_factory=dict)
    kept: set[tuple[NamedKind, int]] = field(default_factory=set)
    gone: deque[tuple[NamedKind, int]] = field(default_factory=deque)
    sites: Sites | None = None
    device_type: str = CUDA

    def be_of_type(self, device_type: str) -> None:
        """The GPUs are those of another module of torch than `torch.cuda`."""
        self.device_type = device_type

    def keep(self, texts: Iterable[Text]) -> None:
        """Keep the names of the events in some texts when these are gone."""
        self.kept |= {
            (NamedKind.EVENT, part.event) for text in texts for part in text if isinstance(part, EventRef | EventCode)
        }

    def drop(self, kind: NamedKind, ident: int) -> None:
        """Forget the name of something that is gone, unless a finding speaks of it, or soon may."""
        self.gone.append((kind, ident))
        if len(self.gone) > _KEPT_NAMES:
            oldest = self.gone.popleft()
            if oldest not in self.kept:
                self.given.pop(oldest, None)
                self.known_at.pop(oldest, None)

    def name_view(self, allocation: AllocationId, view: ViewId, text: str) -> None:
        """See `Monitor`."""
        self.parts[allocation, view] = text

    def format(self, text: Text) -> str:
        """Put a text with references into words."""
        return "".join(part if isinstance(part, str) else self._part(part) for part in text)

    def _part(self, part: Reference) -> str:
        match part:
            case StreamRef(stream):
                return self.stream(stream)
            case TensorRef(allocation, view):
                return self.tensor(allocation, view)
            case EventRef(event):
                name = self.given.get((NamedKind.EVENT, event))
                return f"`{name}`" if name else "an event"
            case ThreadRef(host):
                return f"thread `{self.threads[host]}`" if host in self.threads else "another thread"
            case _:
                return self._code(part)

    def _code(
        self, part: StreamCode | TensorCode | GroupCode | EventCode | DeviceSyncCode | TorchCode | WaitCode
    ) -> str:
        """Return the name that something was given, wherever that is right, or a call."""
        match part:
            case StreamCode(stream):
                return self.given.get((NamedKind.STREAM, stream), "stream")
            case TensorCode(allocation):
                return self.given.get((NamedKind.ALLOCATION, allocation), "tensor")
            case EventCode(event):
                return self.given.get((NamedKind.EVENT, event), "event")
            case GroupCode(kind):
                return str(kind)
            case _:
                return self._call_code(part)

    def _call_code(self, part: DeviceSyncCode | TorchCode | WaitCode) -> str:
        match part:
            case DeviceSyncCode(stream):
                return f"torch.cuda.synchronize({self.device_argument(stream)})"
            case TorchCode(name):
                return f"torch.{name}"
            case WaitCode(site):
                return f"{self.sites.bound(site) if self.sites is not None else ''}.wait()"

    def device(self, number: int) -> str:
        """Return what torch calls a GPU."""
        return f"{self.device_type}:{number}"

    def stream(self, stream: StreamId) -> str:
        """Return a phrase for a stream."""
        if stream == HOST:
            return "the host"
        info = self.streams[stream]
        if info.handle == 0:
            return f"the default stream of {self.device(info.device)}"
        name = self.given.get((NamedKind.STREAM, stream))
        if name:
            return f"stream `{name}` ({self.device(info.device)})"
        return f"{self._used_as(stream)}{self._made_at(info, ' made at {0}:{1}')} ({self.device(info.device)})"

    def _used_as(self, stream: StreamId) -> str:
        """Return a phrase for a stream that was bound to no name where it was made: what it is called where it is used.

        A library makes many streams at one line.
        """
        seen = self.seen_at.get((NamedKind.STREAM, stream), {}).values()
        name = next((name for name in seen if "." in name), next(iter(seen), ""))
        return f"stream `{name}`" if name else "the stream"

    def _made_at(self, info: StreamInfo, form: str) -> str:
        """Return where a stream was made, put into a form; "" where that is not known."""
        frame = self.sites.place(info.site).frame if self.sites is not None and info.site else None
        return form.format(frame.path, frame.line) if frame is not None else ""

    def stream_and_origin(self, stream: StreamId) -> str:
        """Return a phrase for a stream with the place where it was made."""
        info = self.streams[stream]
        name = self.given.get((NamedKind.STREAM, stream))
        if not name:
            return self.stream(stream)
        return f"stream `{name}`{self._made_at(info, ' made at {0}:{1}')} ({self.device(info.device)})"

    def device_argument(self, stream: StreamId) -> str:
        """Return what names a stream's device in a call; "" where the program works on one device, the first."""
        device = self.streams[stream].device
        many = len({self.streams[busy].device for busy in self.last_site}) > 1
        return str(device) if many or device else ""

    def tensor(self, allocation: AllocationId, view: ViewId) -> str:
        """Return a phrase for a tensor: name, shape, type and size."""
        name = self.parts.get((allocation, view))
        if name is None:
            name = self.given.get((NamedKind.ALLOCATION, allocation))
        shown = f"`{name}`" if name else "a tensor"
        view = self.shown.get(allocation, view)
        if not 0 <= view < len(self.views):
            return shown
        sizes, item_size, dtype = self.views[view]
        if not dtype:
            return f"{shown} ({_size(prod(sizes) * item_size)})"
        shape = "x".join(map(str, sizes)) or "scalar"
        return f"{shown} ({shape} {dtype}, {_size(prod(sizes) * item_size)})"


def _size(n_bytes: int) -> str:
    """Return a number of bytes for people."""
    value = float(n_bytes)
    for unit in ("bytes", "KiB", "MiB"):
        if value < 1024:
            return f"{value:.0f} {unit}" if unit == "bytes" else f"{value:.3g} {unit}"
        value /= 1024
    return f"{value:.3g} GiB"
