"""Refer to streams, tensors and events in findings; the words are chosen at the end, when all names are known."""

from dataclasses import dataclass, field
from math import prod
from typing import NamedTuple, TypeAlias

from syncheck.hb.clock import HOST
from syncheck.hb.ids import AllocationId, EventId, NamedKind, SiteId, StreamId, ViewId
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


class EventRef(NamedTuple):
    """An event as a phrase: "`done`"."""

    event: EventId


class EventCode(NamedTuple):
    """An event as an expression: `done`."""

    event: EventId


Part: TypeAlias = str | StreamRef | StreamCode | TensorRef | TensorCode | EventRef | EventCode
Text: TypeAlias = tuple[Part, ...]


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


@dataclass(slots=True)
class Names:
    """What the program calls its things, and what they are.

    Attributes:
        given: ("stream" | "event" | "allocation", id) -> the program's name.
        sites: turns call sites into places, once the program has ended.
        shown: allocation -> the view that describes it, where a backend knew better than the access told.
        last_site: stream -> call site of its last op, for the streams that got one.
    """

    streams: dict[StreamId, StreamInfo] = field(default_factory=dict)
    views: list[View] = field(default_factory=list)
    given: dict[tuple[NamedKind, int], str] = field(default_factory=dict)
    last_site: dict[StreamId, SiteId] = field(default_factory=dict)
    shown: dict[AllocationId, ViewId] = field(default_factory=dict)
    sites: Sites | None = None

    def format(self, text: Text) -> str:
        """Put a text with references into words."""
        return "".join(part if isinstance(part, str) else self._part(part) for part in text)

    def _part(self, part: StreamRef | StreamCode | TensorRef | TensorCode | EventRef | EventCode) -> str:
        match part:
            case StreamRef(stream):
                return self.stream(stream)
            case StreamCode(stream, is_current):
                return self.stream_code(stream, is_current=is_current)
            case TensorRef(allocation, view):
                return self.tensor(allocation, view)
            case TensorCode(allocation):
                return self.given.get((NamedKind.ALLOCATION, allocation), "tensor")
            case EventRef(event):
                name = self.given.get((NamedKind.EVENT, event))
                return f"`{name}`" if name else "an event"
            case EventCode(event):
                return self.given.get((NamedKind.EVENT, event), "event")

    def stream(self, stream: StreamId) -> str:
        """Return a phrase for a stream."""
        if stream == HOST:
            return "the host"
        info = self.streams[stream]
        if info.handle == 0:
            return f"the default stream of cuda:{info.device}"
        name = self.given.get((NamedKind.STREAM, stream))
        if name:
            return f"stream `{name}` (cuda:{info.device})"
        return f"the stream{self._made_at(info, ' made at {0}:{1}')} (cuda:{info.device})"

    def _made_at(self, info: StreamInfo, form: str) -> str:
        """Return where a stream was made, put into a form; "" where nobody knows."""
        frame = self.sites.place(info.site).frame if self.sites is not None and info.site else None
        return form.format(frame.path, frame.line) if frame is not None else ""

    def stream_code(self, stream: StreamId, *, is_current: bool = False) -> str:
        """Return an expression for a stream; `is_current`: it is the current stream where the line is to stand."""
        info = self.streams[stream]
        name = self.given.get((NamedKind.STREAM, stream))
        if name and info.handle:
            return name
        many = len({self.streams[busy].device for busy in self.last_site}) > 1
        device = str(info.device) if many or info.device else ""
        if info.handle == 0 and not is_current:
            return f"torch.cuda.default_stream({device})"
        if is_current:
            return f"torch.cuda.current_stream({device})"
        return f"stream{self._made_at(info, '_of_line_{1}')}"

    def tensor(self, allocation: AllocationId, view: ViewId) -> str:
        """Return a phrase for a tensor: name, shape, type and size."""
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
