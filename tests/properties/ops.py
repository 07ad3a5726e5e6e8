"""The ops of random programs, printed the way a person would write them."""

from dataclasses import dataclass
from typing import TypeAlias

from tests.properties.reference import HOST, View

SMALL, LARGE = 1 << 20, (1 << 20) + 1


@dataclass(frozen=True)
class AddStream:
    stream: int
    device: int
    kind: str

    def __str__(self) -> str:
        return f"s{self.stream} = Stream(cuda:{self.device}, {self.kind})"


@dataclass(frozen=True)
class Launch:
    stream: int
    accesses: tuple[tuple[int, View, bool], ...]

    def __str__(self) -> str:
        return f"s{self.stream}: launch({', '.join(_access(*access) for access in self.accesses)})"


@dataclass(frozen=True)
class HostAccess:
    allocation: int
    view: View
    is_write: bool

    def __str__(self) -> str:
        return f"host: {_access(self.allocation, self.view, self.is_write)}"


@dataclass(frozen=True)
class Record:
    event: int
    stream: int

    def __str__(self) -> str:
        return f"e{self.event}.record(s{self.stream})"


@dataclass(frozen=True)
class Wait:
    event: int
    stream: int

    def __str__(self) -> str:
        return f"e{self.event}.wait(s{self.stream})"


@dataclass(frozen=True)
class ForgetEvent:
    event: int

    def __str__(self) -> str:
        return f"del e{self.event}"


@dataclass(frozen=True)
class WaitStream:
    stream: int
    other: int

    def __str__(self) -> str:
        return f"s{self.stream}.wait_stream(s{self.other})"


@dataclass(frozen=True)
class SyncEvent:
    event: int

    def __str__(self) -> str:
        return f"e{self.event}.synchronize()"


@dataclass(frozen=True)
class SyncStream:
    stream: int

    def __str__(self) -> str:
        return f"s{self.stream}.synchronize()"


@dataclass(frozen=True)
class SyncDevice:
    device: int

    def __str__(self) -> str:
        return f"synchronize(cuda:{self.device})"


@dataclass(frozen=True)
class Allocate:
    allocation: int
    home: int
    n_bytes: int
    pool: int

    def __str__(self) -> str:
        size = "small" if self.n_bytes == SMALL else "large"
        where = "pinned" if self.home == HOST else f"s{self.home}, {size}, pool {self.pool}"
        return f"a{self.allocation} = empty({where})"


@dataclass(frozen=True)
class RecordStream:
    allocation: int
    stream: int

    def __str__(self) -> str:
        return f"a{self.allocation}.record_stream(s{self.stream})"


@dataclass(frozen=True)
class Free:
    allocation: int

    def __str__(self) -> str:
        return f"del a{self.allocation}"


Op: TypeAlias = (
    AddStream
    | Launch
    | HostAccess
    | Record
    | Wait
    | ForgetEvent
    | WaitStream
    | SyncEvent
    | SyncStream
    | SyncDevice
    | Allocate
    | RecordStream
    | Free
)


@dataclass(frozen=True, repr=False)
class Program:
    """Ops in host order.

    Attributes:
        n_sites: number of call sites shared by the ops; 0 gives each op its own.
        first_prune: number of cells of an allocation at which the engine first prunes some.
    """

    ops: tuple[Op, ...]
    n_sites: int
    first_prune: int

    def __repr__(self) -> str:
        head = f"Program, {self.n_sites or 'all different'} call sites, prunes from {self.first_prune} cells:"
        return "\n    ".join([head, *(f"{index:2}  {op}" for index, op in enumerate(self.ops))])

    def _repr_pretty_(self, printer, cycle):
        """Print a failing program as text in Hypothesis's output."""
        for number, line in enumerate(repr(self).splitlines()):
            if number:
                printer.break_()
            printer.text(line)

    def label(self, index: int) -> int:
        """Return the call site of an op."""
        return index % self.n_sites if self.n_sites else index


def _access(allocation: int, view: View, is_write: bool) -> str:
    item = f" of {view.item_size} bytes" if view.item_size > 1 else ""
    shape = "x".join(map(str, view.sizes)) or "1"
    return f"{'write' if is_write else 'read'} a{allocation}[{view.start} + {shape} by {view.strides}{item}]"
