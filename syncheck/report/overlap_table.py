"""The overlap report as text tables, or as lists on a narrow terminal."""

import io
from collections.abc import Iterable
from dataclasses import dataclass, field, replace

from rich import box
from rich.console import Console
from rich.table import Table
from rich.text import Text

from syncheck.findings import Location, counted
from syncheck.overlap.report import EdgeLine, LinkLine, OverlapReport, PairLine, UsageLine, WorkLine
from syncheck.overlap.verdicts import duration
from syncheck.report.style import format_location, one_line

WIDTH = 120
_NARROW = 80
"""Tables need lines of this width; with less, their columns would break in the middle of words."""


@dataclass(frozen=True)
class _Table:
    """A table: its title, its columns, each with its name and whether it holds numbers, and its rows."""

    title: str
    columns: tuple[tuple[str, bool], ...]
    rows: list[tuple[str | Text, ...]] = field(default_factory=list)

    def add_row(self, *cells: str | Text) -> None:
        """Append a row with a cell for each column."""
        self.rows.append(cells)

    def print_to(self, console: Console) -> None:
        """Print the table, or a list with an entry for each row if the console is narrow."""
        if console.width >= _NARROW:
            console.print(self._as_grid())
            return
        console.print(Text(self.title, "bold"))
        for row in self.rows:
            console.print()
            for index, ((name, _), cell) in enumerate(zip(self.columns, row, strict=True)):
                if str(cell) not in {"", "-"}:
                    text = Text.assemble(("  " if index else "") + f"{name}: ", cell)
                    console.print(text, overflow="fold")

    def _as_grid(self) -> Table:
        table = Table(
            title=self.title, title_justify="left", title_style="bold", box=box.SIMPLE_HEAD, pad_edge=False
        )  # fmt: skip
        for name, is_number in self.columns:
            table.add_column(name, justify="right" if is_number else "left", overflow="fold", no_wrap=is_number)
        for row in self.rows:
            table.add_row(*row)
        return table


def render(report: OverlapReport, *, color: bool, most: int = 20, width: int = WIDTH) -> str:
    """Return the report as text.

    Args:
        report: the report.
        color: whether to use ANSI colors.
        most: maximum number of rows in the tables of edges and of the critical path.
        width: width of a line in terminal cells.
    """
    file = io.StringIO()
    console = Console(
        file=file, width=width, force_terminal=color, color_system="standard" if color else None, highlight=False,
        force_jupyter=False, legacy_windows=False, soft_wrap=False,
    )  # fmt: skip
    console.print(Text(_head(report)))
    console.print(Text(f"Times: {report.times}."))
    console.print()
    for verdict in report.verdicts:
        console.print(Text(f"- {one_line(verdict)}."))
    tables = (
        _uses(report.uses),
        _pairs(report.pairs),
        _edges(report.edges[:most]),
        _links(report.links),
        _path(report.path[:most]),
    )
    for table in tables:
        if table.rows:
            console.print()
            table.print_to(console)
    for note in report.notes:
        console.print(Text(f"note: {one_line(note)}"))
    return "".join(f"{line.rstrip()}\n" for line in file.getvalue().splitlines())


def _head(report: OverlapReport) -> str:
    ratio = report.makespan / report.shortest if report.shortest else 1.0
    return (
        f"{counted(report.operations, 'operation')} take {duration(report.makespan)} on {report.backend}. "
        f"The longest dependency chain takes {duration(report.shortest)}: "
        f"no order can be more than {ratio:.2f} times as fast."
    )


def _table(title: str, *columns: tuple[str, bool]) -> _Table:
    return _Table(title, columns)


def _uses(lines: Iterable[UsageLine]) -> _Table:
    table = _table("Work", ("device, stream", False), ("operations", True), ("work", True), ("idle", True))
    for line in lines:
        name = one_line(line.name) if line.is_device else f"  {one_line(line.name)}"
        table.add_row(
            Text(name, "bold" if line.is_device else ""),
            f"{line.operations:,}",
            duration(line.work),
            duration(line.idle),
        )
    return table


def _pairs(lines: Iterable[PairLine]) -> _Table:
    table = _table(
        "Overlap", ("first", False), ("second", False), ("free to overlap", True), ("overlaps", True),
        ("measured", True),
    )  # fmt: skip
    for line in lines:
        measured = duration(line.measured) if line.measured >= 0 else "-"
        names = (Text(one_line(line.first)), Text(one_line(line.second)))
        table.add_row(*names, duration(line.free), duration(line.overlapped), measured)
    return table


def _edges(lines: Iterable[EdgeLine]) -> _Table:
    table = _table(
        "Waits", ("edge", False), ("waits", True), ("critical", True), ("source line", False),
        ("why needed", False), ("without it", True),
    )  # fmt: skip
    for line in lines:
        times = f", {line.count} times" if line.count > 1 else ""
        change = f"\n-> {one_line(line.advice)}" if line.advice else ""
        table.add_row(
            Text(one_line(line.text) + times + change),
            duration(line.waits),
            duration(line.on_path) if line.on_path else "-",
            Text(_line(line.location)),
            Text(one_line(line.need), "" if line.is_needed else "yellow"),
            f"{line.speed_up:.2f}x" if line.speed_up >= 1.005 else "-",
        )
    return table


def _links(lines: Iterable[LinkLine]) -> _Table:
    table = _table(
        "Critical path, from start to end", ("work or edge", False), ("time", True),
        ("source line", False), ("why needed", False),
    )  # fmt: skip
    for line in lines:
        table.add_row(
            Text(("-> " if line.is_edge else "") + one_line(line.text)),
            duration(line.nanoseconds),
            Text(_line(line.location) if line.location.frame.line else ""),
            Text(one_line(line.need), "" if line.is_needed else "yellow"),
        )
    return table


def _line(location: Location) -> str:
    """Return the path and line, without the column, which is of little use in a table."""
    return format_location(replace(location.frame, column=0))


def _path(lines: Iterable[WorkLine]) -> _Table:
    table = _table("Work on the critical path", ("operator", False), ("time", True), ("source line", False))
    for line in lines:
        table.add_row(Text(one_line(line.operator)), duration(line.nanoseconds), Text(_line(line.location)))
    return table
