"""Building blocks of text reports: safe text, its width on a terminal, and color."""

import os
import re
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path

from rich.cells import cell_len

from syncheck.findings import Frame, counted
from syncheck.paths import real_path
from syncheck.rules.model import Severity

_C0 = {code: 0x2400 + code for code in range(32) if chr(code) != "\t"} | {0x7F: 0x2421}
_UNSAFE = (
    range(0x80, 0xA0),  # C1: interpreted by some terminals
    range(0xD800, 0xE000),  # lone surrogates: cannot be encoded
    range(0x2028, 0x202F),  # line separators; bidirectional controls, which change how code reads
    range(0x2066, 0x206A),
)
_VISIBLE = _C0 | {code: 0xFFFD for codes in _UNSAFE for code in codes}
# Neither a word nor `code in backticks` is ever broken.
_WORD = re.compile(r"(?:`[^`]*`|\S)+")


_WIDEST = 120
_MIN_WIDTH = 30
"""Minimum width of hanging text, in cells, beside its lead."""


class Style(StrEnum):
    """Text styles, as the parameters of ANSI's "select graphic rendition"."""

    ERROR = "1;31"
    WARNING = "1;33"
    ADVICE = "1;36"
    RELATED = "1;34"
    HELP = "1;32"
    PLAIN = ""
    STRONG = "1"
    FAINT = "2"
    GUTTER = "34"


STYLE_OF = {Severity.ERROR: Style.ERROR, Severity.WARNING: Style.WARNING, Severity.ADVICE: Style.ADVICE}


@dataclass(frozen=True, slots=True)
class Painter:
    """Output capabilities.

    Attributes:
        color: whether to use color.
        width: maximum width of a line in terminal cells.
        links: whether to write terminal hyperlinks.
    """

    color: bool
    width: int
    links: bool = False

    @property
    def prose(self) -> int:
        """Maximum width of a line of prose in terminal cells, limited for readability."""
        return min(self.width, _WIDEST)

    def paint(self, text: str, style: Style) -> str:
        """Return `text` in the color of `style`, or unchanged without color."""
        return f"\x1b[{style}m{text}\x1b[0m" if self.color and style and text else text

    def link(self, text: str, address: str) -> str:
        """Return `text` as a link to an address, or unchanged without links.

        Source:
            https://gist.github.com/egmontkob/eb114294efbcd5adb1944c9f3cb5feda (OSC 8).
        """
        return f"\x1b]8;;{address}\x1b\\{text}\x1b]8;;\x1b\\" if self.links and address else text


def visible(text: str) -> str:
    """Replace characters that a terminal would interpret or cannot show, one by one; tabs stay."""
    return text.translate(_VISIBLE)


def one_line(text: str) -> str:
    """Return `text` as one line that is safe to print."""
    return visible(" ".join(text.splitlines())).strip()


def sentence(text: str) -> str:
    """Return `text` with a capital letter first, for use after a full stop."""
    return text[:1].upper() + text[1:]


def wrap(text: str, width: int) -> list[str]:
    """Break prose at blanks into lines of at most `width` cells; a longer word gets its own line."""
    indent = text[: len(text) - len(text.lstrip())]
    lines = [indent]
    for word in _WORD.findall(text):
        blank = " " if lines[-1].strip() else ""
        if blank and cell_len(lines[-1]) + 1 + cell_len(word) > width:
            lines.append(indent + word)
        else:
            lines[-1] += blank + word
    return lines


def hang(lead: str, text: str, width: int) -> list[str]:
    """Return `text` wrapped to `width` cells, with `lead` before the first line and blanks before the others."""
    pad = cell_len(lead)
    if width - pad < _MIN_WIDTH:
        return _hang_narrow(lead, text, width)
    width_left = width - pad
    lines = [part for line in text.splitlines() or [""] for part in wrap(visible(line).expandtabs(4), width_left)]
    return [((" " * pad if i else lead) + line).rstrip() for i, line in enumerate(lines)]


def _hang_narrow(lead: str, text: str, width: int) -> list[str]:
    """Return `text` after `lead`, with the other lines indented two cells more than `lead`."""
    indent = lead[: len(lead) - len(lead.lstrip())]
    width_left = width - len(indent) - 2
    lines = [
        part
        for number, line in enumerate(text.splitlines() or [""])
        for part in wrap((visible(line).expandtabs(4) if number else lead.lstrip() + visible(line)), width_left)
    ]
    return [(indent + ("  " if i else "") + line).rstrip() for i, line in enumerate(lines)]


def cut(text: str, width_left: int) -> str:
    """Return `text` truncated to `width_left` cells, with "…" if anything was cut."""
    if cell_len(text) <= width_left:
        return text
    text = text[:width_left]
    while cell_len(text) >= width_left:
        text = text[:-1]
    return text + "…"


def hidden_line(number: int) -> str:
    """Return a line with the number of hidden findings and how to show them."""
    return f"{counted(number, 'more finding')} {'is' if number == 1 else 'are'} hidden: raise --max-findings"


def format_location(frame: Frame) -> str:
    """Return the path and, if known, line and column, in the form that editors turn into links."""
    numbers = (frame.line, frame.column if frame.line else 0)
    return ":".join((visible(frame.path), *(str(number) for number in numbers if number)))


def address_of(frame: Frame) -> str:
    """Return the URL of a source line for a terminal link; "" if the file does not exist."""
    path = real_path(frame.path)
    return f"{Path(path).as_uri()}#{frame.line}" if os.path.isfile(path) else ""


def where(frame: Frame) -> str:
    """Return the location, with the function unless it is module-level code."""
    function = one_line(frame.function)
    return format_location(frame) + (f" in {function}" if function not in ("", "<module>") else "")
