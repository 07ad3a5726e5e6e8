"""The use cases: run a program, replay a trace, list and explain rules. Data in, Report out.

What only some commands need is imported where it is used: `--help` and `rules` answer at once.
"""

import os
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from syncheck import __version__
from syncheck.config import Options
from syncheck.errors import BackendError
from syncheck.findings import Report
from syncheck.rules.model import Rule

if TYPE_CHECKING:
    from syncheck.launcher import Program
    from syncheck.sanitizer.session import Session

_NOTHING_SEEN = "no GPU operator was seen: nothing was checked"


def halves(rule: Rule) -> frozenset[str]:
    """Return which halves of syncheck report a rule: "run", "lint"."""
    from syncheck.sanitizer.session import RULES  # noqa: PLC0415

    return frozenset({"run"} if rule in RULES else ())


def new_session(options: Options, backend: str) -> "Session":
    """Return a session that reports the selected rules.

    Raises:
        ConfigError: a rule name that does not exist.
    """
    from syncheck.sanitizer.session import Session  # noqa: PLC0415

    codes = options.selected()
    return Session(lambda rule: rule.code in codes, backend)


def run(program: "Program", options: Options, deliver: Callable[[Report], int]) -> int:
    """Run a program under the sanitizer.

    Args:
        program: what to run.
        options: how.
        deliver: prints a report and returns the exit status that it calls for.

    Returns:
        The exit status: the program's own if it failed, else that of the report.

    Raises:
        ScriptError: the program cannot be read or compiled.
        ConfigError: a rule name that does not exist.
        BackendError: there is no torch, or no backend for it.
    """
    from syncheck import launcher  # noqa: PLC0415

    options.selected()
    prepared = launcher.load(program)
    try:
        from syncheck import backends  # noqa: PLC0415  the first use of torch
        from syncheck.job import Job  # noqa: PLC0415
    except ModuleNotFoundError as error:
        if error.name != "torch":
            raise
        raise BackendError(
            "torch is not installed in this environment",
            f"install it for {sys.executable}: pip install 'torch>=2.8'",
        ) from error
    job = Job(options, lambda name: new_session(options, name), deliver, *backends.choose(options))
    return job.run(prepared)


def replay(path: Path, options: Options) -> Report:
    """Replay a trace and return its findings.

    Raises:
        TraceError: the trace cannot be used.
        ConfigError: a rule name that does not exist.
    """
    from syncheck.trace import codec  # noqa: PLC0415

    return codec.replay(path, lambda backend: new_session(options, backend), options.max_findings)


def completed(report: Report) -> Report:
    """Return the report with the reason added why it may say too little: nothing was seen."""
    if report.summary.operators:
        return report
    return replace(report, incomplete=(*report.incomplete, _NOTHING_SEEN))


def render(report: Report, options: Options, *, color: bool) -> str:
    """Return a report in the chosen format."""
    from syncheck.report import concise, structured, text  # noqa: PLC0415

    if options.output_format == "json":
        return structured.render_json(report, version=__version__)
    if options.output_format == "concise":
        return concise.render(report)
    return text.render(report, color=color, stacks=options.stacks)


def status_of(report: Report, options: Options) -> int:
    """Return the exit status that a report calls for: 0 clean, 1 findings, 3 nothing could be checked."""
    if report.failing(options.fail_on):
        return 1
    return 3 if _NOTHING_SEEN in report.incomplete else 0


def rule_table() -> list[dict[str, object]]:
    """Return one entry a rule: code, name, level, halves, summary."""
    from syncheck.rules import catalogue  # noqa: PLC0415

    return [
        {
            "code": rule.code,
            "name": rule.name,
            "level": rule.severity.value,
            "halves": sorted(halves(rule)),
            "summary": rule.summary,
        }
        for rule in catalogue.CATALOGUE
    ]


def rule_page(name: str) -> str:
    """Return a rule's page as Markdown.

    Raises:
        ConfigError: no rule has this code or name; the hint names the nearest.
    """
    from syncheck.rules import catalogue, page  # noqa: PLC0415

    rule = catalogue.find(name)
    return page.markdown(rule, halves(rule))


def doctor() -> list[tuple[str, str]]:
    """Return what this machine offers: (what, finding) pairs."""
    rows = [("syncheck", __version__), ("python", sys.version.split()[0])]
    try:
        import importlib.util  # noqa: PLC0415

        if importlib.util.find_spec("torch") is None:
            return [
                *rows,
                ("torch", "missing: pip install 'torch>=2.8'; without it nothing can be run or replayed live"),
            ]
        from syncheck import backends  # noqa: PLC0415

        rows.extend(backends.doctor())
    except BackendError as error:
        rows.append(("torch", f"{error}; {error.hint}"))
    rows.append(("working directory", os.getcwd()))
    return rows
