"""Tables of informational commands, in the width of the terminal."""

import os
from collections.abc import Iterator
from typing import Any

from rich.cells import cell_len

from syncheck.cli.terminal import OutputStreams
from syncheck.report.style import STYLE_OF, Painter, Style, hang
from syncheck.rules.model import Severity

_WIDTH = 80
"""Line width in cells without a terminal and without COLUMNS."""
_WIDE = 110
"""Line width from which the summary of a rule is beside its name."""


def painter() -> Painter:
    """Return the capabilities of standard output; COLUMNS applies without a terminal, too."""
    streams = OutputStreams(is_for_data=True)
    columns = os.environ.get("COLUMNS", "")
    given = int(columns) if columns.isdecimal() else 0
    return Painter(streams.is_colored("auto", is_data=False), given or streams.width(is_data=False, default=_WIDTH))


def rule_lines(table: list[dict[str, Any]], to: Painter) -> Iterator[str]:
    """Yield the lines that list rules, with the code and the name of each first."""
    for row in table:
        found_by, style = ", ".join(row["halves"]) or "-", STYLE_OF[Severity(row["level"])]
        if to.width >= _WIDE:
            lead = f"{row['code']}  {row['name']:<30} {row['level']:<8} {found_by:<10} "
            lines = hang(lead, row["summary"], to.width)
        else:
            lines = hang(f"{row['code']}  ", f"{row['name']} ({row['level']}; {found_by})", to.width)
            lines += hang("    ", row["summary"], to.width)
        yield to.paint(row["code"], style) + lines[0].removeprefix(row["code"])
        yield from lines[1:]


def setting_lines(rows: list[tuple[str, str, str]], to: Painter) -> Iterator[str]:
    """Yield the lines that list settings: key, value, origin."""
    for key, value, origin in rows:
        line = f"{key:<20} {value:<36} {origin}"
        fits = cell_len(line) <= to.width
        lines = [line] if fits else hang(f"{key} ", f"{value or '-'} ({origin})", to.width)
        yield to.paint(key, Style.STRONG) + lines[0].removeprefix(key)
        yield from lines[1:]
