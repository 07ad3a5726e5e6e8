"""State of the GPUs at an expression of a file, recorded while the linter interprets the program."""

import ast
from collections.abc import Callable
from dataclasses import dataclass, replace

from syncheck.hb.ids import StreamId
from syncheck.lint.interp.evaluator import Evaluator
from syncheck.lint.interp.expressions import Expressions
from syncheck.lint.interp.machine import Machine
from syncheck.lint.interp.scope import Scope
from syncheck.lint.interp.values import UNKNOWN_STREAM, Stream, Tensor, Value


@dataclass(frozen=True, slots=True)
class StreamState:
    """State of a stream.

    Attributes:
        name: the name that the program gave it; "" if it has none.
        device: the index of its device.
        is_default: whether it is the default stream of its device.
    """

    name: str
    device: int
    is_default: bool

    def __str__(self) -> str:
        return f"the default stream of cuda:{self.device}" if self.is_default else f"`{self.name or '<stream>'}`"


@dataclass(frozen=True, slots=True)
class TensorState:
    """State of a tensor.

    Attributes:
        device: the index of its device; None for host memory.
        is_pinned: whether it is in pinned host memory.
        stream: the stream that it was created on; None if unknown, or for host memory.
        is_ready: whether the current stream is that stream, or has waited for it.
    """

    device: int | None
    is_pinned: bool
    stream: StreamState | None
    is_ready: bool


@dataclass(frozen=True, slots=True)
class GpuState:
    """State of the GPUs when the program begins to evaluate an expression.

    An attribute whose value differs between evaluations of the expression is None. `pending` is the union over all
    evaluations.

    Attributes:
        current_stream: the current stream of the current device; None if unknown.
        pending: the streams with work that the current stream has not waited for.
        tensor: the tensor that the expression evaluates to, if any.
        stream: the stream that the expression evaluates to, if any.
    """

    current_stream: StreamState | None
    pending: tuple[StreamState, ...] = ()
    tensor: TensorState | None = None
    stream: StreamState | None = None

    def merged(self, other: "GpuState") -> "GpuState":
        """Return the state that holds in both evaluations."""
        return GpuState(
            self.current_stream if self.current_stream == other.current_stream else None,
            tuple(dict.fromkeys((*self.pending, *other.pending))),
            self.tensor if self.tensor == other.tensor else None,
            self.stream if self.stream == other.stream else None,
        )


Position = tuple[int, int, int, int]
"""(line from 1, column in characters from 0, last line, end column)."""


class GpuStates:
    """The states at the expressions of one file, recorded on first access.

    Args:
        record: interprets the file and fills a dictionary with the states.
    """

    def __init__(self, record: Callable[[dict[Position, GpuState]], None]) -> None:
        self._record = record
        self._found: dict[Position, GpuState] | None = None

    def at(self, line: int, column: int, end_line: int, end_column: int) -> GpuState | None:
        """Return the state at a position; None if the program never gets there."""
        if self._found is None:
            self._found = {}
            self._record(self._found)
        return self._found.get((line, column, end_line, end_column))


class RecordingExpressions(Expressions):
    """Evaluates expressions and records the state at each of them.

    Args:
        evaluator: see `Expressions`.
        found: position -> state; filled in by this class.
        lines: the lines of the file.
    """

    def __init__(self, evaluator: Evaluator, found: dict[Position, GpuState], lines: list[str]) -> None:
        super().__init__(evaluator)
        self._machine = evaluator.machine
        self._found = found
        self._lines = lines

    def evaluate(self, node: ast.expr | None, scope: Scope) -> Value:
        """See `Evaluator`."""
        if node is None or self._machine.ordering_only:
            return super().evaluate(node, scope)
        before = _state(self._machine)
        value = super().evaluate(node, scope)
        state = replace(before, tensor=_tensor(self._machine, value), stream=_stream_of(self._machine, value))
        position = self._position(node)
        known = self._found.get(position)
        self._found[position] = state if known is None else known.merged(state)
        return value

    def _position(self, node: ast.expr) -> Position:
        end_line = node.end_lineno or node.lineno
        return (
            node.lineno,
            self._column(node.lineno, node.col_offset),
            end_line,
            self._column(end_line, node.end_col_offset or 0),
        )

    def _column(self, line: int, offset: int) -> int:
        source = self._lines[line - 1] if line <= len(self._lines) else ""
        return offset if source.isascii() else len(source.encode()[:offset].decode(errors="replace"))


def _state(machine: Machine) -> GpuState:
    current = machine.current(machine.thread.device)
    if current == UNKNOWN_STREAM:
        return GpuState(None)
    return GpuState(
        _described(machine, current), tuple(_described(machine, other) for other in machine.session.unordered(current))
    )


def _described(machine: Machine, stream: StreamId) -> StreamState:
    name = machine.stream_names.get(stream, "")
    return StreamState(name, machine.device_of(stream), machine.handle_of(stream) == 0)


def _tensor(machine: Machine, value: Value) -> TensorState | None:
    if not isinstance(value, Tensor):
        return None
    block = value.block
    if block.device is None or value.stream == UNKNOWN_STREAM:
        return TensorState(block.device, block.is_pinned, None, is_ready=block.device is None)
    current = machine.current(machine.thread.device)
    is_ready = current == value.stream or (
        current != UNKNOWN_STREAM and value.stream not in machine.session.unordered(current)
    )
    return TensorState(block.device, block.is_pinned, _described(machine, value.stream), is_ready)


def _stream_of(machine: Machine, value: Value) -> StreamState | None:
    if not isinstance(value, Stream) or value.ident == UNKNOWN_STREAM:
        return None
    return _described(machine, value.ident)
