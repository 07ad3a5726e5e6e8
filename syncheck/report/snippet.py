"""Source excerpts with the relevant expressions underlined.

Marks are offsets into the shown text and are converted to terminal cells only when drawn, so that tabs and wide
characters cannot shift them.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from rich.cells import cell_len

from syncheck.findings import Frame, Location
from syncheck.report.style import Painter, Style, address_of, cut, hang, one_line, visible, where, wrap

_TAB = 4


@dataclass(frozen=True, slots=True)
class Checkpoint:
    """An underline at the offsets `[start, stop)` of one shown line."""

    start: int
    stop: int
    stroke: str
    style: Style
    label: str


@dataclass(frozen=True, slots=True)
class Snippet:
    """One excerpt and the locations marked in it, most important first.

    Attributes:
        primary: the finding's primary location, if it is in this excerpt.
        style: the color of the primary location's mark.
    """

    locations: tuple[Location, ...]
    primary: Location | None
    style: Style

    @property
    def lines(self) -> dict[int, str]:
        """The source lines of all locations, in order, without blank lines at either end."""
        lines = {n: text for location in self.locations for n, text in known_lines(location).items()}
        marked = {location.frame.line for location in self.locations}
        worth = [n for n, text in lines.items() if text.strip() or n in marked]
        return {n: lines[n] for n in sorted(lines) if min(worth, default=n) <= n <= max(worth, default=0)}

    def draw(self, gutter: int, painter: Painter) -> Iterator[str]:
        """Yield the header, the source lines and the marks; `gutter` is the width of a line number."""
        arrow = "-->" if self.primary else ":::"
        yield f"{' ' * gutter}{painter.paint(arrow, Style.GUTTER)} {_linked(self.locations[0].frame, painter)}"
        yield from self._source(gutter, painter)
        for location in self.locations:
            if location.message and location.frame.line not in self.lines:
                yield from note(location.message, gutter, painter)

    def _source(self, gutter: int, painter: Painter) -> Iterator[str]:
        before = 0
        for number, text in self.lines.items():
            if number != before + 1 or not before:
                yield painter.paint("...", Style.GUTTER) if before else bar("", gutter, painter)
            yield from self._line(number, text, gutter, painter)
            before = number

    def _line(self, number: int, text: str, gutter: int, painter: Painter) -> Iterator[str]:
        shown = _shown(text)
        marks = [self._mark(location, text) for location in self.locations if location.frame.line == number]
        width_left = painter.width - gutter - 3
        shift = _shift(shown, marks, width_left)
        shown = cut("…" + shown[shift + 1 :] if shift else shown, width_left)
        yield _join(bar(str(number), gutter, painter), shown)
        for mark in marks:
            yield from _underline(mark, shown, shift, bar("", gutter, painter), width_left, painter)

    def _mark(self, location: Location, text: str) -> Checkpoint:
        start, stop = (len(_shown(text[:offset], strip=False)) for offset in _span(location.frame, text))
        first = location is self.primary
        stroke, style = ("^", self.style) if first else ("-", Style.RELATED)
        return Checkpoint(start, stop, stroke, style, one_line(location.message))


def _linked(frame: Frame, painter: Painter) -> str:
    return painter.link(where(frame), address_of(frame) if painter.links else "")


def known_lines(location: Location) -> dict[int, str]:
    """Return the source lines of a location by number, in order; empty if the source is unreadable."""
    lines = dict(location.excerpt)
    if location.frame.source:
        lines.setdefault(location.frame.line, location.frame.source)
    return dict(sorted(lines.items()))


def snippets(primary: Location, related: Sequence[Location], style: Style) -> list[Snippet]:
    """Return the excerpts to show; locations in one file whose source lines overlap or touch share an excerpt."""
    groups: list[list[Location]] = [[primary]]
    for location in related:
        near = next((group for group in groups if _belongs(location, group)), None)
        if near is None:
            groups.append([location])
        else:
            near.append(location)
    return [Snippet(tuple(group), None if i else primary, style) for i, group in enumerate(groups)]


def note(text: str, gutter: int, painter: Painter) -> Iterator[str]:
    """Yield the lines of a note below an excerpt."""
    first, *rest = hang(f"{' ' * gutter} = ", text, painter.prose)
    yield first.replace("=", painter.paint("=", Style.GUTTER), 1)
    yield from rest


def bar(number: str, gutter: int, painter: Painter) -> str:
    """Return the left edge of an excerpt line, with its number or blanks."""
    return painter.paint(f"{number:>{gutter}} |", Style.GUTTER)


def _belongs(location: Location, group: Sequence[Location]) -> bool:
    return any(_touch(location, other) for other in group) and all(_agree(location, other) for other in group)


def _touch(location: Location, other: Location) -> bool:
    lines, others = known_lines(location), known_lines(other)
    if location.frame.path != other.frame.path or not lines or not others:
        return False
    return min(lines) <= max(others) + 1 and min(others) <= max(lines) + 1


def _agree(location: Location, other: Location) -> bool:
    lines, others = known_lines(location), known_lines(other)
    return all(lines[line] == others[line] for line in lines.keys() & others.keys())


def _shown(text: str, *, strip: bool = True) -> str:
    return visible(text.rstrip() if strip else text).expandtabs(_TAB)


def _span(frame: Frame, text: str) -> tuple[int, int]:
    """Return the offsets in `text` to underline: the part of the expression on its first line."""
    end = len(text.rstrip())
    if not frame.column:
        first = min(len(text) - len(text.lstrip()), end)
        return first, first + 1
    start = min(frame.column - 1, end)
    stop = end if frame.end_line > frame.line else min(frame.end_column - 1, end)
    return start, max(stop, start + 1)


def _shift(shown: str, marks: Sequence[Checkpoint], width_left: int) -> int:
    """Return the number of characters to skip in an overlong line, so that its first mark is visible."""
    first = min((mark.start for mark in marks), default=0)
    too_far = cell_len(shown) > width_left and cell_len(shown[:first]) > width_left * 2 // 3
    return first - width_left // 3 if too_far else 0


def _underline(mark: Checkpoint, shown: str, shift: int, edge: str, width_left: int, painter: Painter) -> Iterator[str]:
    start = min(mark.start - shift, len(shown))
    stop = min(mark.stop - shift, len(shown))
    pad = cell_len(shown[:start])
    strokes = mark.stroke * max(cell_len(shown[start:stop]), 1)
    for indent, text in _label(mark.label, pad, strokes, width_left):
        yield f"{edge} {' ' * indent}{painter.paint(text, mark.style)}"


def _label(label: str, pad: int, strokes: str, width_left: int) -> list[tuple[int, str]]:
    """Return the indent and text of each line; a label is beside its strokes, or below if it is too long."""
    if not label or pad + len(strokes) + 1 + cell_len(label) <= width_left:
        return [(pad, f"{strokes} {label}".rstrip())]
    indent = max(min(pad, width_left - 40), 0)
    return [(pad, strokes), *((indent, line) for line in wrap(label, width_left - indent))]


def _join(edge: str, text: str) -> str:
    return f"{edge} {text}" if text else edge
