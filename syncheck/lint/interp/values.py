"""Values that names may stand for during interpretation: only facts that matter for the order of GPU work are kept."""

import ast
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any, TypeAlias

from syncheck.hb.ids import AllocationId, EventId, GraphId, ReadingId, SiteId, StreamId, StreamOrigin
from syncheck.lint.interp.life import Life
from syncheck.lint.interp.replays import Replays


class Value:
    """Any value. A direct instance of this class is an unknown value; see `identities`."""

    __slots__ = ()


UNKNOWN = Value()
DERIVED = Value()
"""Result of unknown code that was given a GPU tensor. It may be a GPU tensor, too."""
MOVED = Value()
"""A tensor or layer on a device that may be a GPU. Only clocks, and stream blocks that use it, regard it as there."""
UNKNOWN_STREAM = StreamId(0)


@dataclass(eq=False, slots=True)
class Constant(Value):
    """A known constant: a number, a string, None, a slice and so on."""

    value: Any


@dataclass(eq=False, slots=True)
class Key(Value):
    """An unknown key or index: its source text, how often each name in it had been bound, and its value."""

    text: str
    bindings: tuple[int, ...]
    value: Value = UNKNOWN

    def is_like(self, other: "Key") -> bool:
        """Return whether both keys are certainly the same."""
        is_alike = bool(self.text) and (self.text, self.bindings) == (other.text, other.bindings)
        return is_alike or (self.value is other.value is not UNKNOWN)


@dataclass(eq=False, slots=True)
class Symbol(Value):
    """An imported object, by its full name: "torch.cuda.Stream"."""

    path: str


@dataclass(eq=False, slots=True)
class Sequence(Value):
    """A list, tuple, set or iterator whose items are known.

    Attributes:
        is_open: there may be further items.
        is_iterator: iterating consumes the items.
        picked: the unknown indices seen so far. The index at position n stands for the item at position n.
        limit: the most items that it holds; 0 without a limit, -1 if the limit is unknown.
    """

    items: list[Value]
    is_open: bool = False
    is_iterator: bool = False
    picked: list[Key] = field(default_factory=list)
    limit: int = 0


@dataclass(eq=False, slots=True)
class Mapping(Value):
    """A dictionary. Its keys are constants, and a `Key` for each unknown key."""

    items: dict[Any, Value]
    is_open: bool = False
    alike: list[Any] = field(default_factory=list)  # keys of the items that a comprehension over unknown keys made
    picked: list[Key] = field(default_factory=list)  # the unknown keys that stand for these items, in turn


@dataclass(eq=False, slots=True)
class Device(Value):
    """A torch.device: a CUDA index, or None for the CPU; `is_named`: named on every path, not read from a tensor."""

    index: int | None
    is_named: bool = True


DeviceIndex: TypeAlias = int | Value | None  # None stands for the CPU, UNKNOWN for an unknown device


@dataclass(eq=False, slots=True)
class Stream(Value):
    """A stream, by its id in the session.

    Attributes:
        origin: how the program obtained it.
        life: reports the end of a stream that the program created.
    """

    ident: StreamId
    device: int
    origin: StreamOrigin = StreamOrigin.BY_NAME
    life: Life | None = None


@dataclass(eq=False, slots=True)
class Event(Value):
    """An event, by its id in the session.

    Attributes:
        escaped: unknown code may have recorded it or waited for it.
        has_timing: whether it measures time; None if unknown.
        made, recorded: its creation (None: it may be recorded already); stream, call and function of its last record.
        is_useful: something other than the stream that recorded it has waited for it.
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
    """Result of querying whether an event or a stream is complete."""

    event: Event | None


class Block:
    """A memory block, from its allocation until its last tensor is gone.

    Args:
        ident: its id in the session; 0 for pageable host memory.
        device: the device that it is on; None for the host.
        is_pinned: whether it is pinned host memory.
        died: called at the end.

    Attributes:
        escaped: unknown code may hold it.
        is_assumed: the source of the copy that filled it is only assumed to be on a GPU.
        replays: those of the CUDA graph that writes it; None without one.
    """

    __slots__ = ("_died", "device", "escaped", "ident", "is_assumed", "is_pinned", "replays")

    def __init__(
        self, ident: AllocationId, device: int | None, *, is_pinned: bool, died: Callable[["Block"], None]
    ) -> None:
        self.ident, self.device, self.is_pinned, self._died = ident, device, is_pinned, died
        self.escaped = self.is_assumed = False
        self.replays: Replays | None = None

    def __del__(self) -> None:
        self._died(self)


Part: TypeAlias = tuple[int, int] | None
"""Rows [first, stop) of a tensor; None for an unknown part."""
WHOLE = (0, 1 << 30)
NONE = Constant(None)


@dataclass(eq=False, slots=True)
class Tensor(Value):
    """A tensor.

    Attributes:
        block: the memory block that contains it.
        part: its rows within the block.
        leaves: the leaf tensors that a backward pass from here computes gradients for.
        keeps: the tensors that the graph of the backward pass keeps alive.
        stream: the stream that it was created on.
        grad: its gradient, if it has one.
        is_leaf: it requires a gradient.
        is_mask: it is known to be Boolean, so that indexing with it must count its true elements.
        is_strided, is_single: it is known not to be contiguous; to be one tensor, and no tuple or array instead.
        is_argument: a caller passed it, so that its memory layout is unknown.
        array: the call that created a NumPy array over its memory. Code that gets the array reads it.
        hooks: the functions that a backward pass calls, and whether with the tensor itself instead of its gradient.
        taken: where the program took this result of a CUDA graph, and after how many replays; None for others.
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
    is_single: bool = False
    is_argument: bool = False
    array: ast.AST | None = None
    hooks: list[tuple[Value, bool]] = field(default_factory=list)
    taken: tuple[SiteId, int] | None = None


@dataclass(eq=False, slots=True)
class Module(Value):
    """A torch.nn layer, or several (`is_single`). One tensor stands for all parameters; None if hooks may wait."""

    weight: Tensor | None
    is_single: bool = False


@dataclass(eq=False, slots=True)
class Optimizer(Value):
    """An optimizer and its parameters; `may_wait`: it has hooks that may wait."""

    parameters: list[Tensor]
    may_wait: bool = False


@dataclass(eq=False, slots=True)
class Work(Value):
    """The handle of an asynchronous collective.

    Attributes:
        event: recorded at its end; None if it is not tracked.
        device: the device whose stream it runs on.
        on_host: whether its tensors are in host memory.
    """

    event: EventId | None
    device: int = 0
    on_host: bool = False


class Group(Value):
    """A process group that the program has created."""


@dataclass(eq=False, slots=True)
class Graph(Value):
    """A CUDA graph, by its id in the session."""

    ident: GraphId
    has_captured: bool = False
    replays: Replays = field(default_factory=Replays)


@dataclass(eq=False, slots=True)
class ClockReading(Value):
    """A reading of a host clock, perhaps subtracted from a sum of intervals: `total -= time()`."""

    ident: ReadingId
    is_negative: bool = False


@dataclass(eq=False, slots=True)
class Function(Value):
    """A function of the program.

    Attributes:
        node: its definition.
        scope: the scope that it was defined in.
        defaults: its default arguments by name.
        is_static: it takes no `self` although it is defined in a class.
        is_of_class: it takes the class instead.
    """

    node: ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda
    scope: Any
    defaults: dict[str, Value] = field(default_factory=dict)
    is_static: bool = False
    is_of_class: bool = False
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
        """Return a member of this class or of a base class in the program; None if no such member is known."""
        if name in self.members:
            return self.members[name]
        return next((found for base in self.bases if isinstance(base, Class) and (found := base.find(name))), None)

    @property
    def is_known(self) -> bool:
        """Whether all base classes are in the program."""
        return all(isinstance(base, Class) and base.is_known for base in self.bases)

    @property
    def is_net(self) -> bool:
        """Whether it is a subclass of torch.nn.Module."""
        known = {"torch.nn.Module", "torch.nn.Sequential"}
        return any(b.path in known if isinstance(b, Symbol) else isinstance(b, Class) and b.is_net for b in self.bases)


@dataclass(eq=False, slots=True)
class Instance(Value):
    """An object of a class of the program."""

    kind: Class
    attributes: dict[str, Value] = field(default_factory=dict)


@dataclass(eq=False, slots=True)
class Partial(Value):
    """A function with its first arguments, such as a bound method or a `functools.partial`."""

    function: Value
    args: list[Value]
    kwargs: dict[str, Value] = field(default_factory=dict)


@dataclass(eq=False, slots=True)
class Attribute(Value):
    """A method of a value that is not an object of the program, such as `stream.wait_event`."""

    owner: Value
    name: str


@dataclass(eq=False, slots=True)
class Native(Value):
    """A function that a model has created. It returns None for calls that it does not cover."""

    function: Callable[["Call"], Value | None]


@dataclass(eq=False, slots=True)
class NativeObject(Value):
    """An object that a model has created: name -> method."""

    methods: dict[str, Callable[["Call"], Value | None]]


@dataclass(eq=False, slots=True)
class Generator(Value):
    """A generator that has started."""

    values: Iterator[Value]


@dataclass(eq=False, slots=True)
class Context(Value):
    """A context manager: its enter and leave functions; `is_portable`: they run no code of the program."""

    enter: Callable[[], Value]
    leave: Callable[[], object]
    is_portable: bool = False


@dataclass(slots=True)
class Call:
    """One call.

    Attributes:
        is_complete: all arguments are known, with no `*args` of unknown length among them.
    """

    node: ast.AST
    args: list[Value]
    kwargs: dict[str, Value] = field(default_factory=dict)
    is_complete: bool = True

    def get(self, name: str, position: int = -1) -> Value | None:
        """Return an argument by name, or else by position; None if it is not given."""
        if name in self.kwargs:
            return self.kwargs[name]
        return self.args[position] if 0 <= position < len(self.args) else None

    def flag(self, name: str, position: int = -1) -> bool | None:
        """Return whether an argument is true; False if it is not given, None if unknown."""
        return truth(self.get(name, position) or Constant(False))

    def values(self) -> list[Value]:
        """Return all arguments."""
        return [*self.args, *self.kwargs.values()]


_OPEN = frozenset({Value, Key, Symbol, Tensor, ClockReading, Attribute, Query})  # of unknown truth


def truth(value: Value) -> bool | None:
    """Return whether a value is true; None if unknown."""
    if value.__class__ in _OPEN:
        return None
    if isinstance(value, Instance):
        return None if not value.kind.is_known or any(map(value.kind.find, ("__bool__", "__len__"))) else True
    if isinstance(value, Sequence | Mapping):
        return True if value.items else None if value.is_open else False
    return bool(value.value) if isinstance(value, Constant) else True
