"""References to streams, tensors and events in findings, worded at the end, when all names are known."""

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
    """A stream as an expression that the program can use: `copy`.

    Attributes:
        stream: the stream.
        is_current: whether it is the current one on the line.
        is_last_resort: whether, in source code, the default stream may stand for the current stream of the caller.
    """

    stream: StreamId
    is_current: bool = False
    is_last_resort: bool = False


class TensorRef(NamedTuple):
    """A tensor as a phrase: "`y` (1024 float32, 4 KiB)"."""

    allocation: AllocationId
    view: ViewId


class TensorCode(NamedTuple):
    """A tensor as an expression: `y`."""

    allocation: AllocationId


class ResultCode(NamedTuple):
    """The variable that holds the result of a call after the statement of that call: `y` for `y = copy(x)`.

    Attributes:
        site: the call.
    """

    site: SiteId


class RecordedStreamCode(NamedTuple):
    """The stream passed to `record_stream`, as the line of that call spells it: `torch.cuda.current_stream()`.

    Attributes:
        site: the call.
    """

    site: SiteId


class GroupCode(NamedTuple):
    """A collection that contains a stream or a tensor, as an expression: `streams`, `batch.values()`.

    Attributes:
        kind: the kind of collection.
        ident: id of the stream or tensor.
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
    """The call that makes the host wait for the device of a stream: `torch.cuda.synchronize(1)`."""

    stream: StreamId


class TorchCode(NamedTuple):
    """A function of torch, as an expression: `torch.cuda.Event`."""

    name: str


class WaitCode(NamedTuple):
    """The statement that waits for the result of a call, by the name that it is bound to: `work.wait()`.

    Attributes:
        site: the call.
        is_functional: whether the call returns a tensor: `torch.ops._c10d_functional.wait_tensor(total)`.
    """

    site: SiteId
    is_functional: bool = False


class ThreadRef(NamedTuple):
    """A thread of the program as a phrase: "thread `loader`"."""

    host: HostId


Code: TypeAlias = (
    StreamCode
    | TensorCode
    | ResultCode
    | RecordedStreamCode
    | GroupCode
    | EventCode
    | DeviceSyncCode
    | TorchCode
    | WaitCode
)
Reference: TypeAlias = StreamRef | TensorRef | EventRef | ThreadRef | Code
Part: TypeAlias = str | Reference
Text: TypeAlias = tuple[Part, ...]

_KEPT_NAMES = 4096
"""Maximum number of destroyed events whose names are kept."""


class View(NamedTuple):
    """Description of a view; sizes are in elements."""

    sizes: tuple[int, ...]
    item_size: int
    dtype: str


class StreamInfo(NamedTuple):
    """Properties of a stream."""

    device: int
    handle: int
    site: SiteId

    @property
    def is_internal(self) -> bool:
        """Return whether torch created it internally: neither a default stream nor one of the program's."""
        return self.handle != 0 and not self.site


@dataclass(slots=True)
class Names:
    """The program's names for its objects, and descriptions of these.

    Attributes:
        given: ("stream" | "event" | "allocation", id) -> the program's name.
        parts: (allocation, view) -> the program's name for this part of the memory; "" if it has none.
        kept: objects mentioned in findings, whose names are kept after they are destroyed.
        gone: destroyed objects that still have their names, newest last.
        sites: converts call sites to locations, once the program has ended.
        known_at: (kind, id) -> the call site at which the name in `given` is valid.
        seen_at: (kind, id) -> its names observed on some lines: (path, number) -> name.
        held_until_freed: allocation -> the variable that held it until it was freed.
        owners: allocation -> the variable that held it from allocation to free, with the path and function of both.
        shown: allocation -> the view that describes it, if a backend provided a better one than the access.
        last_site: stream -> call site of its last op, for streams with work.
        threads: the names of the program's threads.
        device_type: the torch module of the GPUs, such as "xpu".
        of_other_files: streams that code of other files makes current, if any; only the linter knows this.
        is_run: whether they come from a run. Otherwise, the default stream stands for the current one of any caller.
        others: streams to be described as "another", because a finding describes a different one in the same words.
        is_main_process: whether the program takes the branches of the first rank.
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
    of_other_files: set[StreamId] = field(default_factory=set)
    is_run: bool = True
    others: set[StreamId] = field(default_factory=set)
    is_main_process: bool = True

    def set_device_type(self, device_type: str) -> None:
        """Set the torch module of the GPUs, if it is not `torch.cuda`."""
        self.device_type = device_type

    def keep(self, texts: Iterable[Text]) -> None:
        """Keep the names of the events in some texts after these are destroyed."""
        self.kept |= {
            (NamedKind.EVENT, part.event) for text in texts for part in text if isinstance(part, EventRef | EventCode)
        }

    def drop(self, kind: NamedKind, ident: int) -> None:
        """Forget the name of a destroyed object, unless a finding mentions it or may do so soon."""
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
        """Return a text with its references replaced by words."""
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

    def _code(self, part: Code) -> str:
        """Return the given name of an object, regardless of where it is valid, or a call."""
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

    def _call_code(self, part: ResultCode | RecordedStreamCode | DeviceSyncCode | TorchCode | WaitCode) -> str:
        match part:
            case DeviceSyncCode(stream):
                return f"torch.cuda.synchronize({self.device_argument(stream)})"
            case TorchCode(name):
                return f"torch.{name}"
            case ResultCode(site):
                return self._bound(site)
            case RecordedStreamCode():
                return "stream"
            case WaitCode(site):
                return f"{self._bound(site)}.wait()"

    def _bound(self, site: SiteId) -> str:
        return self.sites.bound(site) if self.sites is not None else ""

    def device(self, number: int) -> str:
        """Return torch's name for a GPU."""
        return f"{self.device_type}:{number}"

    def tell_apart(self, texts: Iterable[Text]) -> None:
        """Choose `others` for the texts of one finding."""
        first: dict[str, StreamId] = {}
        named = [part.stream for text in texts for part in text if isinstance(part, StreamRef)]
        self.others = {stream for stream in named if first.setdefault(self._stream(stream), stream) != stream}

    def stream(self, stream: StreamId) -> str:
        """Return a phrase for a stream."""
        phrase = self._stream(stream)
        return f"another {phrase.removeprefix('the ')}" if stream in self.others else phrase

    def _stream(self, stream: StreamId) -> str:
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
        """Return a phrase for a stream without a name where it was created: its name where it is used.

        A library may create many streams on one line.
        """
        seen = self.seen_at.get((NamedKind.STREAM, stream), {}).values()
        name = next((name for name in seen if "." in name), next(iter(seen), ""))
        return f"stream `{name}`" if name else "the stream"

    def _made_at(self, info: StreamInfo, form: str) -> str:
        """Return where a stream was created, formatted with `form`; "" if unknown."""
        frame = self.sites.location(info.site).frame if self.sites is not None and info.site else None
        return form.format(frame.path, frame.line) if frame is not None else ""

    def stream_and_origin(self, stream: StreamId) -> str:
        """Return a phrase for a stream with the location of its creation."""
        info = self.streams[stream]
        name = self.given.get((NamedKind.STREAM, stream))
        if not name:
            return self.stream(stream)
        return f"stream `{name}`{self._made_at(info, ' made at {0}:{1}')} ({self.device(info.device)})"

    def device_argument(self, stream: StreamId) -> str:
        """Return the argument that names a stream's device in a call; "" if the program uses only the first device."""
        device = self.streams[stream].device
        has_several_devices = len({self.streams[busy].device for busy in self.last_site}) > 1
        return str(device) if has_several_devices or device else ""

    def tensor(self, allocation: AllocationId, view: ViewId) -> str:
        """Return a phrase for a tensor: name, shape, type and size."""
        name = self.parts.get((allocation, view))
        if name is None:
            name = self.given.get((NamedKind.ALLOCATION, allocation))
        phrase = f"`{name}`" if name else "a tensor"
        view = self.shown.get(allocation, view)
        if not 0 <= view < len(self.views):
            return phrase
        sizes, item_size, dtype = self.views[view]
        if not dtype:
            return f"{phrase} ({_size(prod(sizes) * item_size)})"
        shape = "x".join(map(str, sizes)) or "scalar"
        return f"{phrase} ({shape} {dtype}, {_size(prod(sizes) * item_size)})"


def _size(n_bytes: int) -> str:
    """Return a number of bytes in human-readable form."""
    value = float(n_bytes)
    for unit in ("bytes", "KiB", "MiB"):
        if value < 1024:
            return f"{value:.0f} {unit}" if unit == "bytes" else f"{value:.3g} {unit}"
        value /= 1024
    return f"{value:.3g} GiB"
