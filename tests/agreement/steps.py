"""The steps of random programs for several devices, and the programs as Python source with one line per step.

Names in a program: streams `s0` and so on, the default stream of each device first; tensors `t0`; pinned buffers `b0`;
events `e0`; graphs `g0`; threads `h0`; handles of collectives `w0`.
"""

from dataclasses import dataclass, field
from typing import TypeAlias

from tests.properties.ops import Record, SyncEvent, SyncStream, WaitStream

STREAMS = (0, 0, 0, 1, 1)
"""stream -> its device."""
TENSORS = (0, 0, 0, 1, 1)
"""tensor -> its device."""
EVENTS = (0, 0, 1)
"""event -> its device: CUDA rejects a record on another one."""
N_BUFFERS = 3
FIRST_VALUE = 5
"""The initial value of tensor 0: not a value that a backward pass produces by itself."""
SIZE = 8
HALF = SIZE // 2
DEFAULT = {0: 0, 1: 3}
"""device -> its default stream."""


def _on(*streams: int) -> str:
    return f"with {', '.join(f'torch.cuda.stream(s{stream})' for stream in streams)}: "


@dataclass(frozen=True)
class New:
    stream: int
    tensor: int
    value: int

    def __str__(self) -> str:
        kind = f"dtype=torch.float64, device='cuda:{TENSORS[self.tensor]}'"
        return f"{_on(self.stream)}t{self.tensor} = torch.full(({SIZE},), {self.value}.0, {kind})"


@dataclass(frozen=True)
class Empty:
    """Allocate memory without touching it."""

    stream: int
    tensor: int

    def __str__(self) -> str:
        kind = f"dtype=torch.float64, device='cuda:{TENSORS[self.tensor]}'"
        return f"{_on(self.stream)}t{self.tensor} = torch.empty({SIZE}, {kind})"


@dataclass(frozen=True)
class Fill:
    stream: int
    tensor: int
    value: int

    def __str__(self) -> str:
        return f"{_on(self.stream)}t{self.tensor}.fill_({self.value}.0)"


@dataclass(frozen=True)
class Compute:
    """Create a tensor from another one."""

    stream: int
    target: int
    source: int
    factor: int

    def __str__(self) -> str:
        return f"{_on(self.stream)}t{self.target} = t{self.source} * {self.factor}"


@dataclass(frozen=True)
class Change:
    """Update a tensor from another one: `target = source + 2 * target`."""

    stream: int
    target: int
    source: int

    def __str__(self) -> str:
        return f"{_on(self.stream)}torch.add(t{self.source}, t{self.target}, alpha=2, out=t{self.target})"


@dataclass(frozen=True)
class Part:
    """Update one half of a tensor through a view."""

    stream: int
    target: int
    half: int
    factor: int

    def __str__(self) -> str:
        view = f":{HALF}" if not self.half else f"{HALF}:"
        return f"{_on(self.stream)}t{self.target}[{view}].mul_({self.factor})"


@dataclass(frozen=True)
class PeerCopy:
    """Copy between two devices, or within one."""

    stream: int
    other: int
    target: int
    source: int

    def __str__(self) -> str:
        streams = (self.other, self.stream) if self.other != self.stream else (self.stream,)
        return f"{_on(*streams)}t{self.target}.copy_(t{self.source}, non_blocking=True)"


@dataclass(frozen=True)
class Backward:
    stream: int
    tensor: int

    def __str__(self) -> str:
        made = f"torch.ones({SIZE}, dtype=torch.float64, device='cuda:{TENSORS[self.tensor]}', requires_grad=True)"
        done = f"(w * t{self.tensor} * 3).sum().backward(); t{self.tensor} = w.grad; w = None"
        return f"{_on(self.stream)}w = {made}; {done}"


@dataclass(frozen=True)
class Free:
    tensor: int

    def __str__(self) -> str:
        return f"t{self.tensor} = None"


@dataclass(frozen=True)
class RecordStream:
    tensor: int
    stream: int

    def __str__(self) -> str:
        return f"t{self.tensor}.record_stream(s{self.stream})"


@dataclass(frozen=True)
class Wait:
    event: int
    stream: int

    def __str__(self) -> str:
        return f"s{self.stream}.wait_event(e{self.event})"


@dataclass(frozen=True)
class SyncDevice:
    device: int

    def __str__(self) -> str:
        return f"torch.cuda.synchronize({self.device})"


@dataclass(frozen=True)
class Upload:
    stream: int
    tensor: int
    buffer: int

    def __str__(self) -> str:
        return f"{_on(self.stream)}t{self.tensor}.copy_(b{self.buffer}, non_blocking=True)"


@dataclass(frozen=True)
class Download:
    stream: int
    tensor: int
    buffer: int

    def __str__(self) -> str:
        return f"{_on(self.stream)}b{self.buffer}.copy_(t{self.tensor}, non_blocking=True)"


@dataclass(frozen=True)
class Read:
    buffer: int

    def __str__(self) -> str:
        return f"out.append(b{self.buffer}.tolist())"


@dataclass(frozen=True)
class Write:
    buffer: int
    value: int

    def __str__(self) -> str:
        return f"b{self.buffer}.fill_({self.value}.0)"


@dataclass(frozen=True)
class Item:
    stream: int
    tensor: int

    def __str__(self) -> str:
        return f"{_on(self.stream)}out.append(t{self.tensor}.sum().item())"


@dataclass(frozen=True)
class Replay:
    graph: int
    stream: int

    def __str__(self) -> str:
        return f"{_on(self.stream)}g{self.graph}.replay()"


Simple: TypeAlias = (
    New | Empty | Fill | Compute | Change | Part | PeerCopy | Backward | Free | RecordStream | WaitStream | Record
    | Wait | SyncStream | SyncEvent | SyncDevice | Upload | Download | Read | Write | Item | Replay
)  # fmt: skip


@dataclass(frozen=True)
class Capture:
    """Capture a graph on a stream. The body may fork other streams of the same device and joins them at its end."""

    graph: int
    stream: int
    body: tuple[Simple, ...]

    def lines(self) -> list[str]:
        begin = f"{_on(self.stream)}g{self.graph}.capture_begin(capture_error_mode='relaxed')"
        return [begin, *map(str, self.body), f"{_on(self.stream)}g{self.graph}.capture_end()"]


@dataclass(frozen=True)
class Thread:
    """Run steps in a thread. They have run when the program continues, but only a join orders them for certain.

    The program polls `is_alive`, which may or may not order them.
    """

    number: int
    body: tuple[Simple, ...]

    def lines(self) -> list[str]:
        name = f"h{self.number}"
        start = f"{name} = threading.Thread(target=run_{name}); {name}.start(); wait_for({name})"
        return [f"def run_{name}():", *(f"    {step}" for step in self.body), start]


@dataclass(frozen=True)
class Join:
    number: int

    def __str__(self) -> str:
        return f"h{self.number}.join()"


@dataclass(frozen=True)
class Collective:
    """Start a collective in a job of one rank: a copy, or an all-reduce, which changes no value there."""

    number: int
    stream: int
    name: str
    target: int
    source: int

    def __str__(self) -> str:
        tensors = f"t{self.target}" if self.is_in_place else f"t{self.target}, t{self.source}"
        return f"{_on(self.stream)}w{self.number} = dist.{self.name}({tensors}, async_op=True)"

    @property
    def is_in_place(self) -> bool:
        return self.name == "all_reduce"


@dataclass(frozen=True)
class WaitWork:
    """Make a stream wait for a collective."""

    number: int
    stream: int

    def __str__(self) -> str:
        return f"{_on(self.stream)}w{self.number}.wait()"


Step: TypeAlias = Simple | Capture | Thread | Join | Collective | WaitWork


_JOB = (
    "import torch.distributed as dist",
    "dist.init_process_group('nccl', store=dist.HashStore(), rank=0, world_size=1)",
)


@dataclass(frozen=True)
class Line:
    """A line of a program: its number, its text, and the step or part of a step that it contains."""

    number: int
    text: str
    step: Step
    part: Simple | None = None


@dataclass(frozen=True, repr=False)
class Program:
    """A sequence of steps and its source."""

    steps: tuple[Step, ...]
    n_devices: int = 1
    lines: list[Line] = field(init=False, compare=False, default_factory=list)
    source: str = field(init=False, compare=False, default="")

    def __post_init__(self) -> None:
        text = self._head()
        for step in self.steps:
            match step:
                case Capture() | Thread():
                    parts = [None, *step.body, None]
                    for part, line in zip(parts, step.lines(), strict=True):
                        self._add(text, line, step, part)
                case _:
                    self._add(text, str(step), step)
        object.__setattr__(self, "source", "\n".join([*text, *self._tail(), ""]))

    def _add(self, text: list[str], line: str, step: Step, part: Simple | None = None) -> None:
        text.append(line)
        self.lines.append(Line(len(text), line, step, part))

    def _head(self) -> list[str]:
        streams = [
            f"s{stream} = torch.cuda.{'default_stream' if stream in DEFAULT.values() else 'Stream'}({device})"
            for stream, device in self.of_devices(STREAMS)
        ]
        return [
            "import threading, time, torch",
            *(_JOB if self.has_collectives else ()),
            "def wait_for(thread):",
            "    while thread.is_alive():",
            "        time.sleep(0)",
            *streams,
            *(str(New(DEFAULT[device], tensor, tensor + FIRST_VALUE)) for tensor, device in self.of_devices(TENSORS)),
            *(f"b{n} = torch.full(({SIZE},), {n + 11}.0, dtype=torch.float64).pin_memory()" for n in range(N_BUFFERS)),
            *(f"e{event} = torch.cuda.Event()" for event, _ in self.of_devices(EVENTS)),
            *(f"g{step.graph} = torch.cuda.CUDAGraph()" for step in self.steps if isinstance(step, Capture)),
            *self._synchronize(),
            "out = []",
        ]

    def _tail(self) -> list[str]:
        tensors = ["None" if n in self.without_values else f"t{n}" for n, _ in self.of_devices(TENSORS)]
        values = ", ".join([*tensors, *(f"b{n}" for n in range(N_BUFFERS))])
        return [*self._synchronize(), f"out += [None if x is None else x.tolist() for x in ({values})]"]

    def _synchronize(self) -> list[str]:
        return [str(SyncDevice(device)) for device in range(self.n_devices)]

    @property
    def has_threads(self) -> bool:
        return any(isinstance(step, Thread) for step in self.steps)

    @property
    def has_collectives(self) -> bool:
        return any(isinstance(step, Collective) for step in self.steps)

    @property
    def without_values(self) -> set[int]:
        """The tensors without values at the end."""
        found: set[int] = set()
        for step in self.steps:
            if isinstance(step, Empty):
                found.add(step.tensor)
            elif isinstance(step, Fill):
                found.discard(step.tensor)
        return found

    def of_devices(self, devices: tuple[int, ...]) -> list[tuple[int, int]]:
        """Return the (number, device) pairs whose device this program uses."""
        return [(number, device) for number, device in enumerate(devices) if device < self.n_devices]

    def __repr__(self) -> str:
        return self.source

    def _repr_pretty_(self, printer: object, cycle: bool) -> None:
        """Let Hypothesis print a failing program as its source."""
        for number, line in enumerate(self.source.splitlines()):
            if number:
                printer.break_()
            printer.text(line)
