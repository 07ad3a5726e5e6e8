"""Rendering of a report in the chosen format, and its exit status."""

from collections.abc import Callable

from syncheck.config.options import Options
from syncheck.findings import NOTHING_CHECKED, Report
from syncheck.report import concise, github, gitlab, junit, sarif, structured, text
from syncheck.version import __version__

WIDTH = 100
"""Line width in cells if the report does not go to a terminal."""


def render(report: Report, options: Options, *, color: bool, width: int = WIDTH, links: bool = False) -> str:
    """Return a report in the chosen format; `width`, `color` and `links` apply to the text format."""
    renderers: dict[str, Callable[[], str]] = {
        "json": lambda: structured.render_json(report, version=__version__),
        "sarif": lambda: sarif.render(report, version=__version__),
        "concise": lambda: concise.render(report, is_quiet=options.quiet, show_fixes=options.show_fixes),
        "github": lambda: github.render(report),
        "gitlab": lambda: gitlab.render(report),
        "junit": lambda: junit.render(report),
        "text": lambda: text.render(
            report,
            color=color,
            stacks=options.stacks,
            full=options.third_party == "full",
            is_quiet=options.quiet,
            show_fixes=options.show_fixes,
            width=width,
            links=links,
        ),
    }
    return renderers[options.output_format]()


def status_of(report: Report, options: Options) -> int:
    """Return the exit status of a report: 0 clean, 1 findings, 3 nothing could be checked."""
    if report.failing(options.fail_on):
        return 0 if options.exit_zero else 1
    return 3 if NOTHING_CHECKED & set(report.incomplete) else 0
