"""Source excerpts with the relevant expressions underlined.

Marks are offsets into the shown text and are converted to terminal cells only when drawn, so that tabs and wide
characters cannot shift them.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from rich.cells import cell_len

from syncheck.findings import Frame, Place
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
    """One excerpt and the places marked in it, most important first.

    Attributes:
        primary: the finding's primary place, if it is in this excerpt.
        style: the color of the primary place's mark.
    """

    places: tuple[Place, ...]
    primary: Place | None
    style: Style

    @property
    def lines(self) -> dict[int, str]:
        """The source lines of all places, in order, without blank lines at either end."""
        lines = {n: text for place in self.places for n, text in known_lines(place).items()}
        marked = {place.frame.line for place in self.places}
        worth = [n for n, text in lines.items() if text.strip() or n in marked]
        return {n: lines[n] for n in sorted(lines) if min(worth, default=n) <= n <= max(worth, default=0)}

    def draw(self, gutter: int, painter: Painter) -> Iterator[str]:
        """Yield the header, the source lines and the marks; `gutter` is the width of a line number."""
        arrow = "-->" if self.primary else ":::"
        yield f"{' ' * gutter}{painter.paint(arrow, Style.GUTTER)} {_linked(self.places[0].frame, painter)}"
        yield from self._source(gutter, painter)
        for place in self.places:
            if place.message and place.frame.line not in self.lines:
                yield from note(place.message, gutter, painter)

    def _source(self, gutter: int, painter: Painter) -> Iterator[str]:
        before = 0
        for number, text in self.lines.items():
            if number != before + 1 or not before:
                yield painter.paint("...", Style.GUTTER) if before else bar("", gutter, painter)
            yield from self._line(number, text, gutter, painter)
            before = number

    def _line(self, number: int, text: str, gutter: int, painter: Painter) -> Iterator[str]:
        shown = _shown(text)
        marks = [self._mark(place, text) for place in self.places if place.frame.line == number]
        width_left = painter.width - gutter - 3
        shift = _shift(shown, marks, width_left)
        shown = cut("…" + shown[shift + 1 :] if shift else shown, width_left)
        yield _join(bar(str(number), gutter, painter), shown)
        for mark in marks:
            yield from _underline(mark, shown, shift, bar("", gutter, painter), width_left, painter)

    def _mark(self, place: Place, text: str) -> Checkpoint:
        start, stop = (len(_shown(text[:offset], strip=False)) for offset in _span(place.frame, text))
        first = place is self.primary
        stroke, style = ("^", self.style) if first else ("-", Style.RELATED)
        return Checkpoint(start, stop, stroke, style, one_line(place.message))


def _linked(frame: Frame, painter: Painter) -> str:
    return painter.link(where(frame), address_of(frame) if painter.links else "")


def known_lines(place: Place) -> dict[int, str]:
    """Return the source lines of a place by number, in order; empty if the source is unreadable."""
    lines = dict(place.excerpt)
    if place.frame.source:
        lines.setdefault(place.frame.line, place.frame.source)
    return dict(sorted(lines.items()))


def snippets(primary: Place, related: Sequence[Place], style: Style) -> list[Snippet]:
    """Return the excerpts to show; places in one file whose source lines overlap or touch share an excerpt."""
    groups: list[list[Place]] = [[primary]]
    for place in related:
        near = next((group for group in groups if _belongs(place, group)), None)
        if near is None:
            groups.append([place])
        else:
            near.append(place)
    return [Snippet(tuple(group), None if i else primary, style) for i, group in enumerate(groups)]


def note(text: str, gutter: int, painter: Painter) -> Iterator[str]:
    """Yield the lines of a note below an excerpt."""
    first, *rest = hang(f"{' ' * gutter} = ", text, painter.prose)
    yield first.replace("=", painter.paint("=", Style.GUTTER), 1)
    yield from rest


def bar(number: str, gutter: int, painter: Painter) -> str:
    """Return the left edge of an excerpt line, with its number or blanks."""
    return painter.paint(f"{number:>{gutter}} |", Style.GUTTER)


def _belongs(place: Place, group: Sequence[Place]) -> bool:
    return any(_touch(place, other) for other in group) and all(_agree(place, other) for other in group)


def _touch(place: Place, other: Place) -> bool:
    lines, others = known_lines(place), known_lines(other)
    if place.frame.path != other.frame.path or not lines or not others:
        return False
    return min(lines) <= max(others) + 1 and min(others) <= max(lines) + 1


def _agree(place: Place, other: Place) -> bool:
    lines, others = known_lines(place), known_lines(other)
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
