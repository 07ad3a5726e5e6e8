"""Strategies that mutate inputs: bytes, JSON values and Python source."""

import keyword
import re
from typing import Any

from hypothesis import strategies as st

STRANGE: list[Any] = [
    None, True, 0, -1, 1 << 31, 1 << 70, 1.5, float("nan"), "", "x", "\udcff", "\x1b[31m", [], [[1, 2]], {}, {"a": 1},
]  # fmt: skip
"""Replacement values for damaged JSON."""

_TOKEN = re.compile(r"\w+|[^\w\s]")


@st.composite
def damaged_bytes(draw: st.DrawFn, data: bytes) -> bytes:
    """Draw bytes with some parts changed, removed, duplicated or inserted, possibly truncated."""
    damaged = bytearray(data)
    for _ in range(draw(st.integers(1, 6))):
        start = draw(st.integers(0, len(damaged)))
        stop = min(len(damaged), start + draw(st.sampled_from([0, 1, 4, 64])))
        damaged[start:stop] = draw(
            st.one_of(st.binary(max_size=8), st.just(bytes(damaged[start:stop]) * 2), st.just(b""))
        )
    if draw(st.booleans()):
        del damaged[draw(st.integers(0, len(damaged))) :]
    return bytes(damaged)


def _paths(value: Any, path: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    """Return the path to each value in a JSON value, outermost first."""
    inner = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    return [path, *(found for key, part in inner for found in _paths(part, (*path, key)))]


def _replaced(value: Any, path: tuple[Any, ...], new: Any) -> Any:
    """Return a copy of a JSON value with the value at a path replaced."""
    if not path:
        return new
    key, *rest = path
    part = _replaced(value[key], tuple(rest), new)
    if isinstance(value, dict):
        return {**value, key: part}
    return [*value[:key], part, *value[key + 1 :]]


@st.composite
def damaged_json(draw: st.DrawFn, value: Any) -> Any:
    """Draw a JSON value with one to three of its parts replaced by unexpected values."""
    for _ in range(draw(st.integers(1, 3))):
        value = _replaced(value, draw(st.sampled_from(_paths(value))), draw(st.sampled_from(STRANGE)))
    return value


@st.composite
def damaged_source(draw: st.DrawFn, text: str) -> str:
    """Draw a program with lines moved, duplicated, removed or indented, or with tokens replaced."""
    lines = text.splitlines(keepends=True)
    for _ in range(draw(st.integers(1, 4))):
        if not lines:
            break
        at = draw(st.integers(0, len(lines) - 1))
        match draw(st.sampled_from(["drop", "double", "move", "indent", "token"])):
            case "drop":
                del lines[at]
            case "double":
                lines[at:at] = [lines[at]] * draw(st.sampled_from([1, 2, 50]))
            case "move":
                lines.insert(draw(st.integers(0, len(lines) - 1)), lines.pop(at))
            case "indent":
                lines[at] = draw(st.sampled_from(["    ", "\t", "  "])) + lines[at]
            case _:
                lines[at] = draw(_exchanged(lines[at], text))
    return "".join(lines)


@st.composite
def _exchanged(draw: st.DrawFn, line: str, text: str) -> str:
    tokens = list(_TOKEN.finditer(line))
    if not tokens:
        return line
    old = draw(st.sampled_from(tokens))
    new = draw(st.sampled_from([*keyword.kwlist, *sorted(set(_TOKEN.findall(text))), "0", "''", "*", "lambda: 0"]))
    return line[: old.start()] + new + line[old.end() :]
