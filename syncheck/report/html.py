"""Timeline as a single self-contained HTML file: no network, no other files."""

import json
from functools import cache
from pathlib import Path
from typing import Any

from syncheck.errors import REINSTALL, BackendError
from syncheck.findings import Finding, Frame, Location
from syncheck.overlap.timeline import Timeline
from syncheck.overlap.verdicts import duration
from syncheck.report.style import visible
from syncheck.version import __version__

_FOLDER = Path(__file__).parent / "page"
_DECIMALS = 3


def render(timeline: Timeline, title: str = "") -> str:
    """Return the page.

    Raises:
        BackendError: jinja2 is not installed, or the data files of syncheck are missing.
    """
    try:
        from jinja2 import Environment, StrictUndefined  # noqa: PLC0415  only pages need it
    except ModuleNotFoundError as error:
        raise BackendError("jinja2 is not installed: --html needs it", "pip install 'syncheck[html]'") from error
    environment = Environment(autoescape=True, undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True)
    environment.filters |= {"duration": duration, "line": _line}
    template = environment.from_string(_part("page.html"))
    return template.render(
        title=title or "syncheck",
        version=__version__,
        timeline=timeline,
        report=timeline.report,
        data=_embedded(data_of(timeline)),
        style=_part("vendor/uPlot.min.css") + _part("page.css"),
        script=_part("vendor/uPlot.iife.min.js") + "\n" + _part("page.js"),
    )


@cache
def _part(name: str) -> str:
    try:
        return (_FOLDER / name).read_text(encoding="utf-8")
    except OSError as error:
        raise BackendError(f"{_FOLDER / name} is missing: syncheck is installed without its data", REINSTALL) from error


def _embedded(data: Any) -> str:
    """Return data as JSON that is safe inside a script element, whatever it contains."""
    text = json.dumps(data, separators=(",", ":"), ensure_ascii=True)
    return text.replace("<", "\\u003c").replace(">", "\\u003e").replace("&", "\\u0026")


def _line(location: Location) -> str:
    """Return the path and line of a location."""
    return f"{visible(location.frame.path)}:{location.frame.line}" if location.frame.line else "-"


class _Numbers:
    """Assigns one number to equal objects, so that the page stores each only once."""

    def __init__(self) -> None:
        self.things: dict[Any, int] = {}

    def of(self, thing: Any) -> int:
        return self.things.setdefault(thing, len(self.things))


def data_of(timeline: Timeline) -> dict[str, Any]:
    """Return the data of the page: columns of boxes and arrows, and the tables they refer to; times in microseconds."""
    names, sites = _Numbers(), _Numbers()
    boxes, arrows = timeline.boxes, timeline.arrows
    columns = {
        "lane": [box.lane for box in boxes],
        "start": [round(box.start / 1000, _DECIMALS) for box in boxes],
        "taken": [round(max(0, box.end - box.start) / 1000, _DECIMALS) for box in boxes],
        "name": [names.of(visible(box.name)) for box in boxes],
        "site": [sites.of(box.site) for box in boxes],
        "bytes": [box.n_bytes for box in boxes],
        "flops": [box.flops for box in boxes],
        "critical": [int(box.is_critical) for box in boxes],
    }
    edges = [
        [a.source, a.target, names.of(visible(a.text)), round(a.waits / 1000, _DECIMALS), int(a.is_critical),
         int(a.is_missing)] for a in arrows
    ]  # fmt: skip
    return {
        "lanes": [{"name": visible(lane.name), "device": lane.device} for lane in timeline.lanes],
        "boxes": columns,
        "arrows": edges,
        "names": list(names.things),
        "sites": [_site(timeline.locations[site]) for site in sites.things],
        "findings": [{"box": mark.box, **_finding(mark.finding)} for mark in timeline.marks],
    }


def _site(location: Location) -> dict[str, Any]:
    """Return the page's data for a location."""
    if not location.frame.line:
        return {"at": "", "excerpt": [], "line": 0, "stack": []}
    return {
        "at": _line(location),
        "line": location.frame.line,
        "excerpt": [[number, visible(text)] for number, text in location.excerpt],
        "stack": [_frame(frame) for frame in location.stack],
    }


def _frame(frame: Frame) -> str:
    return visible(f"{frame.path}:{frame.line} {frame.function}".rstrip())


def _finding(finding: Finding) -> dict[str, Any]:
    return {
        "rule": finding.rule.code,
        "name": finding.rule.name,
        "level": finding.level.value,
        "message": visible(finding.message),
        "help": visible(finding.help),
        "proof": visible(finding.proof_summary),
        "at": _line(finding.location),
        "related": [f"{_line(location)} {visible(location.message)}" for location in finding.related],
    }
