"""What a name may stand for while a program is followed: only what matters for the order of GPU work is known."""

import ast
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any, TypeAlias

from syncheck.hb.ids import AllocationId, EventId, GraphId, LookedUp, ReadingId, SiteId, StreamId


class Value:
    """Anything. An instance of this very class is a value of which nothing is known."""

    __slots__ = ()


UNKNOWN = Value()
DERIVED = Value()
"""What unknown code has made of a tensor on a GPU: nothing is known of it but that it may be one, too."""
MOVED = Value()
"""What was moved to a device that is a GPU, or may be: a tensor or a layer. Only clocks take it for one on a GPU."""
UNKNOWN_STREAM = StreamId(0)
"""A stream that is not known."""


@dataclass(eq=False, slots=True)
class Constant(Value):
    """A number, a string, None, a slice."""

    value: Any


@dataclass(eq=False, slots=True)
class Key(Value):
    """A key or an index that is not known, by its source, and how often each name in it was bound before."""

    text: str
    bindings: tuple[int, ...]

    def is_like(self, other: "Key") -> bool:
        """Return whether both are certainly the same."""
        return bool(self.text) and (self.text, self.bindings) == (other.text, other.bindings)


@dataclass(eq=False, slots=True)
class Symbol(Value):
    """Something imported, by its full name: "torch.cuda.Stream"."""

    path: str


@dataclass(eq=False, slots=True)
class Sequence(Value):
    """A list, tuple, set or iterator whose items are known.

    Attributes:
        is_open: there may be more of them.
        is_iterator: items are used up as they are taken.
        picked: the indices that were met of which nothing is known; each stands for the item at its place here.
    """

    items: list[Value]
    is_open: bool = False
    is_iterator: bool = False
    picked: list[Key] = field(default_factory=list)


@dataclass(eq=False, slots=True)
class Mapping(Value):
    """A dictionary, by its keys: constants, and each `Key` for another one that is not known."""

    items: dict[Any, Value]
    is_open: bool = False


@dataclass(eq=False, slots=True)
class Device(Value):
    """A torch.device: an index of CUDA, or None for the CPU; `is_named`: the program says which, it is no tensor's."""

    index: int | None
    is_named: bool = True


DeviceIndex: TypeAlias = int | Value | None
"""The index of a CUDA device, None for the CPU, UNKNOWN where it is not known."""


class Life:
    """Lives as long as a value that holds it."""

    __slots__ = ("_ended",)

    def __init__(self, ended: Callable[[], None]) -> None:
        self._ended = ended

    def __del__(self) -> None:
        self._ended()


@dataclass(eq=False, slots=True)
class Stream(Value):
    """A stream, by its number in the session.

    Attributes:
        looked_up: the call that gave it.
        life: of one that the program made.
    """

    ident: StreamId
    device: int
    looked_up: LookedUp = LookedUp.BY_NAME
    life: Life | None = None


@dataclass(eq=False, slots=True)
class Event(Value):
    """An event, by its number in the session.

    Attributes:
        escaped: others may have recorded it, or waited for it.
        has_timing: None where that is not known.
        made, recorded: the call that made it; the stream, the call and the function of the last record.
        is_useful: something but the stream that recorded it has waited for it.
    """

    ident: EventId
    escaped: bool = False
    has_timing: bool | None = None
    recorded: tuple[StreamId, SiteId, str] | None = None
    is_useful: bool = False
    life: Life | None = None
    made: SiteId | None = None


@dataclass(eq=False, slots=True)
class Query(Value):
    """The answer to the question whether an event or a stream is complete."""

    event: Event | None


class Block:
    """Memory, from its allocation until the last tensor in it is gone.

    Args:
        ident: its number in the session; 0 for pageable memory of the host.
        device: where it lies; None for the host.
        is_pinned: it is pinned memory of the host.
        died: called with the number at the end.

    Attributes:
        escaped: unknown code has it.
        is_assumed: what was copied into it is of unknown device; the words say that it came from a GPU.
    """

    __slots__ = ("_died", "device", "escaped", "ident", "is_assumed", "is_pinned")

    def __init__(
        self, ident: AllocationId, device: int | None, *, is_pinned: bool, died: Callable[[AllocationId], None]
    ) -> None:
        self.ident = ident
        self.device = device
        self.is_pinned = is_pinned
        self.escaped = False
        self.is_assumed = False
        self._died = died

    def __del__(self) -> None:
        self._died(self.ident)


Part: TypeAlias = tuple[int, int] | None
"""Rows [first, stop) of a tensor; None for a part that is not known."""
WHOLE = (0, 1 << 30)
NONE = Constant(None)


@dataclass(eq=False, slots=True)
class Tensor(Value):
    """A tensor.

    Attributes:
        block: the memory that it lies in.
        part: which rows of it.
        leaves: the tensors that a backward pass from here gives gradients to.
        keeps: what the graph of the backward pass keeps alive.
        stream: the stream that it was made on.
        grad: its gradient, if it has one.
        is_leaf: it requires a gradient.
        is_mask: it is known to hold truth values, so that as an index it must be counted.
        is_strided: its elements are known not to lie side by side.
        is_given: it comes from a caller, so that nothing is known of how they lie.
        array: the call that made an array of NumPy of it: who gets that, reads it.
        hooks: what a backward pass calls with its gradient, and whether with the tensor itself instead.
    """

    block: Block
    part: Part = WHOLE
    leaves: tuple["Tensor", ...] = ()
    keeps: tuple["Tensor", ...] = ()
    stream: StreamId = UNKNOWN_STREAM
    grad: "Tensor | None" = None
    is_leaf: bool = False
    is_mask: bool = False
    is_strided: bool = False
    is_given: bool = False
    array: ast.AST | None = None
    hooks: list[tuple[Value, bool]] = field(default_factory=list)


@dataclass(eq=False, slots=True)
class Module(Value):
    """A layer of torch.nn, or several: one tensor stands for its parameters."""

    weight: Tensor | None


@dataclass(eq=False, slots=True)
class Optimizer(Value):
    """An optimizer and its parameters."""

    parameters: list[Tensor]


@dataclass(eq=False, slots=True)
class Work(Value):
    """The handle of an asynchronous collective.

    Attributes:
        event: is recorded at its end; None where it is not followed.
        device: whose stream it runs on.
        on_host: its tensors are in host memory.
    """

    event: EventId | None
    device: int = 0
    on_host: bool = False


class Group(Value):
    """A process group that the program has made."""


@dataclass(eq=False, slots=True)
class Graph(Value):
    """A CUDA graph, by its number in the session."""

    ident: GraphId
    has_captured: bool = False


@dataclass(eq=False, slots=True)
class ClockReading(Value):
    """A reading of a host clock."""

    ident: ReadingId


@dataclass(eq=False, slots=True)
class Function(Value):
    """A function of the program.

    Attributes:
        node: its definition.
        scope: where it was defined.
        defaults: its default arguments by name.
        is_static: it takes no `self` although it stands in a class.
    """

    node: ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda
    scope: Any
    defaults: dict[str, Value] = field(default_factory=dict)
    is_static: bool = False
    is_property: bool = False
    is_cached: bool = False


@dataclass(eq=False, slots=True)
class Class(Value):
    """A class of the program."""

    node: ast.ClassDef
    scope: Any
    bases: list[Value]
    members: dict[str, Value] = field(default_factory=dict)

    def find(self, name: str) -> Value | None:
        """Return a member, its own or of a base in the program; None where there is none that is known."""
        if name in self.members:
            return self.members[name]
        return next((found for base in self.bases if isinstance(base, Class) and (found := base.find(name))), None)

    @property
    def is_known(self) -> bool:
        """Return whether all its bases are in the program."""
        return all(isinstance(base, Class) and base.is_known for base in self.bases)

    @property
    def is_net(self) -> bool:
        """Return whether it is a subclass of torch.nn.Module."""
        return any(
            (isinstance(base, Symbol) and base.path in {"torch.nn.Module", "torch.nn.Sequential"})
            or (isinstance(base, Class) and base.is_net)
            for base in self.bases
        )


@dataclass(eq=False, slots=True)
class Instance(Value):
    """An object of a class of the program."""

    kind: Class
    attributes: dict[str, Value] = field(default_factory=dict)


@dataclass(eq=False, slots=True)
class Partial(Value):
    """A function with its first arguments: a method, a partial."""

    function: Value
    args: list[Value]
    kwargs: dict[str, Value] = field(default_factory=dict)


@dataclass(eq=False, slots=True)
class Attribute(Value):
    """A method of a value that is no object of the program: `stream.wait_event`."""

    owner: Value
    name: str


@dataclass(eq=False, slots=True)
class Native(Value):
    """A function that a model has made; it returns None if it does not know what it does."""

    function: Callable[["Call"], Value | None]


@dataclass(eq=False, slots=True)
class NativeObject(Value):
    """An object that a model has made, by its methods."""

    methods: dict[str, Callable[["Call"], Value | None]]


@dataclass(eq=False, slots=True)
class Generator(Value):
    """A generator that has begun."""

    values: Iterator[Value]


@dataclass(eq=False, slots=True)
class Context(Value):
    """A context manager: what it does at its ends; `is_portable`: no code of the program runs there."""

    enter: Callable[[], Value]
    leave: Callable[[], object]
    is_portable: bool = False


@dataclass(slots=True)
class Call:
    """One call.

    Attributes:
        is_complete: all arguments are known by position and name, no `*args` of unknown length among them.
    """

    node: ast.AST
    args: list[Value]
    kwargs: dict[str, Value] = field(default_factory=dict)
    is_complete: bool = True

    def get(self, name: str, position: int = -1) -> Value | None:
        """Return an argument by name, or by position; None where it is not given."""
        if name in self.kwargs:
            return self.kwargs[name]
        return self.args[position] if 0 <= position < len(self.args) else None

    def flag(self, name: str, position: int = -1) -> bool | None:
        """Return whether an argument is true; False where it is not given, None where it is not known."""
        return truth(self.get(name, position) or Constant(False))

    def values(self) -> list[Value]:
        """Return all arguments."""
        return [*self.args, *self.kwargs.values()]


_OPEN = frozenset({Value, Key, Symbol, Tensor, Instance, ClockReading, Attribute, Query})  # true or not


def truth(value: Value) -> bool | None:
    """Return whether a value is true; None where it is not known."""
    if value.__class__ in _OPEN:
        return None
    if isinstance(value, Sequence | Mapping):
        return True if value.items else None if value.is_open else False
    return bool(value.value) if isinstance(value, Constant) else True
