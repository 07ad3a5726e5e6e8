"""The pytest plugin: `pytest --syncheck` fails the tests whose GPU synchronization is wrong.

Registered as `pytest11`, so it is imported in every test session: torch is not, unless it is asked for.
"""

import itertools
import os
import sys
from collections.abc import Generator, Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager
from dataclasses import replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from syncheck.api import BlockReport
    from syncheck.baseline import Baseline
    from syncheck.config import Options
    from syncheck.findings import Finding
    from syncheck.job import Job


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add the options and settings."""
    group = parser.getgroup("syncheck", "GPU synchronization")
    group.addoption("--syncheck", action="store_true", help="run every test under the sanitizer")
    group.addoption("--syncheck-backend", choices=("auto", "cuda", "sim"), help="real or simulated GPUs")
    group.addoption("--syncheck-devices", type=int, help="number of simulated GPUs")
    group.addoption("--syncheck-output", type=Path, help="write one report on all tests to this file")
    group.addoption("--syncheck-output-format", help="its format: text, json, sarif, github, gitlab, junit, concise")
    group.addoption("--syncheck-baseline", type=Path, help="file of known findings, which fail no test")
    group.addoption("--syncheck-write-baseline", action="store_true", help="make the findings of now the known ones")
    parser.addini("syncheck", "run every test under the sanitizer", type="bool", default=False)
    parser.addini("syncheck_backend", "auto, cuda or sim", default="")
    parser.addini("syncheck_devices", "number of simulated GPUs", default="")
    parser.addini("syncheck_ignore", "rules not to report", type="args", default=[])
    parser.addini("syncheck_fail_on", "the mildest level that fails a test", default="")


def pytest_configure(config: pytest.Config) -> None:
    """Begin to check, where every test is to be."""
    config.addinivalue_line(
        "markers", "syncheck(ignore=(), select=(), devices=2, disable=False): check this test's GPU synchronization"
    )
    if config.getoption("--syncheck") or config.getini("syncheck"):
        _checker(config, is_for_all=True).begin_session()


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Watch the tests, where some are to be checked: the others should not pay for it."""
    if any(item.get_closest_marker("syncheck") for item in items):
        _checker(config)


def _checker(config: pytest.Config, *, is_for_all: bool = False) -> "Checker":
    """Return the session's checker, made when it is first needed."""
    checker = config.pluginmanager.get_plugin("syncheck-checker")
    if not isinstance(checker, Checker):
        checker = Checker(config, is_for_all=is_for_all)
        config.pluginmanager.register(checker, "syncheck-checker")
    return checker


class Settings:
    """What the options, the settings and a test's marker say together."""

    def __init__(self, config: pytest.Config, item: pytest.Item | None = None) -> None:
        self._config = config
        marker = item.get_closest_marker("syncheck") if item is not None else None
        self._given: dict[str, Any] = dict(marker.kwargs) if marker is not None else {}
        self.is_marked = marker is not None
        self.is_disabled = bool(self._given.get("disable"))

    @cached_property
    def options(self) -> "Options":
        """The marker's before those of the command line, of pytest's own file, and of `[tool.syncheck]`."""
        from syncheck.errors import SyncheckError  # noqa: PLC0415  not for sessions that do not use it
        from syncheck.settings import given, options_in  # noqa: PLC0415

        config, marked = self._config, self._given
        baseline = config.getoption("--syncheck-baseline")
        layer = given(
            backend=config.getoption("--syncheck-backend") or config.getini("syncheck_backend") or None,
            devices=marked.get("devices") or config.getoption("--syncheck-devices") or self._devices(),
            select=tuple(marked.get("select", ())),
            ignore=(*config.getini("syncheck_ignore"), *marked.get("ignore", ())),
            fail_on=self._level(),
            baseline=baseline.absolute() if baseline is not None else None,
            write_baseline=config.getoption("--syncheck-write-baseline") or None,
            output_format=self._format(),
        )
        try:
            options = options_in(str(config.rootpath), layer)
            options.selected()
        except SyncheckError as error:
            raise pytest.UsageError(f"{error}; {error.hint}") from error
        return options

    def _format(self) -> str | None:
        from syncheck.settings import FORMATS  # noqa: PLC0415  as above

        text = self._config.getoption("--syncheck-output-format")
        if text is not None and text not in FORMATS:
            raise pytest.UsageError(f"there is no output format {text!r}; choose one of {', '.join(FORMATS)}")
        return str(text) if text is not None else None

    def _devices(self) -> int | None:
        text = self._config.getini("syncheck_devices")
        if text and not text.isdecimal():
            raise pytest.UsageError(f"syncheck_devices is {text!r}; write a number")
        return int(text) if text else None

    def _level(self) -> Any:
        from syncheck.rules.model import Severity  # noqa: PLC0415  not for sessions that do not use it

        text = self._config.getini("syncheck_fail_on")
        if text and text not in set(Severity):
            raise pytest.UsageError(f"syncheck_fail_on is {text!r}; choose one of {', '.join(Severity)}")
        return Severity(text) if text else None

    @contextmanager
    def check(self) -> "Iterator[BlockReport]":
        """Check a block with these settings."""
        from syncheck.api import checking  # noqa: PLC0415  not for sessions that do not use it
        from syncheck.errors import SyncheckError  # noqa: PLC0415

        options = self.options
        with ExitStack() as stack:
            try:
                report = stack.enter_context(checking(options))
            except SyncheckError as error:
                raise pytest.UsageError(f"{error}; {error.hint}") from error
            yield report


class Checker:
    """Runs tests under the sanitizer, and fails those with findings."""

    def __init__(self, config: pytest.Config, *, is_for_all: bool) -> None:
        from syncheck.tally import Tally  # noqa: PLC0415  not for sessions that do not use it

        self._config = config
        self._is_for_all = is_for_all
        self._pid = os.getpid()
        self._session = ExitStack()
        self._mark: Any = None
        self._expected: set[tuple[str, str, int]] = set()
        self._operators = 0
        self._tally = Tally()

    @cached_property
    def _baseline(self) -> "Baseline | None":
        from syncheck.errors import SyncheckError  # noqa: PLC0415  not for sessions that do not use it
        from syncheck.policy import baseline_of  # noqa: PLC0415

        try:
            return baseline_of(Settings(self._config).options)
        except SyncheckError as error:
            raise pytest.UsageError(f"{error}; {error.hint}") from error

    def begin_session(self) -> None:
        """Check from now on, so that what is made at import or by a fixture of a wide scope is known.

        Not in the process that only hands tests out (xdist), or forks one for each (pytest-forked).
        """
        config = self._config
        is_controller = getattr(config.option, "dist", "no") != "no" and not hasattr(config, "workerinput")
        if is_controller or getattr(config.option, "forked", False):
            return
        self._session.enter_context(Settings(self._config).check())
        _ = self._baseline  # a wrong one is told before any test runs

    def pytest_unconfigure(self) -> None:
        """End the check."""
        self._session.close()

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_protocol(self, item: pytest.Item) -> Generator[None, Any, Any]:
        """Check one test, its fixtures included."""
        settings = Settings(self._config, item)
        with ExitStack() as stack:
            if _running_job() is None and settings.is_marked and not settings.is_disabled:
                stack.enter_context(settings.check())
            return (yield)

    @pytest.hookimpl(wrapper=True, tryfirst=True)
    def pytest_runtest_setup(self, item: pytest.Item) -> Generator[None, None, None]:
        """Take it that all earlier work is complete: each attempt at a test is a program of its own."""
        if os.getpid() != self._pid:
            self._begin_in_child(item)
        running = _running_job()
        self._expected.clear()
        if running is not None:
            running.begin_anew()
            self._mark = running.session.ledger.mark()
        return (yield)

    def _begin_in_child(self, item: pytest.Item) -> None:
        """Check in a process that was forked for this one test, and ends with it."""
        settings = Settings(self._config, item)
        if self._is_for_all or (settings.is_marked and not settings.is_disabled):
            from syncheck import job  # noqa: PLC0415  not for sessions that do not use it

            job.leave_to_parent()
            self._session.enter_context(settings.check())

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_makereport(
        self, item: pytest.Item, call: pytest.CallInfo[None]
    ) -> Generator[None, pytest.TestReport, pytest.TestReport]:
        """Fail a test, or its teardown, with what was found in it."""
        report = yield
        running, settings = _running_job(), Settings(self._config, item)
        if running is None or settings.is_disabled or (call.when == "setup" and report.passed):
            return report
        findings = self._new_findings(running, settings.options)
        known = [finding for finding in findings if self._baseline is not None and self._baseline.knows(finding)]
        self._note(report, running, findings, len(known))
        new = [finding for finding in findings if finding not in known]
        if not new or settings.options.write_baseline:
            return report
        text = _text(new, settings.options)
        if report.passed and any(finding.level.rank <= settings.options.fail_on.rank for finding in new):
            report.outcome = "failed"
            report.longrepr = text
        else:
            report.sections.append(("syncheck", text))
        return report

    def _new_findings(self, running: "Job", options: "Options") -> "list[Finding]":
        found = running.report(since=self._mark).findings
        self._mark = running.session.ledger.mark()
        codes = options.selected()
        return [
            finding
            for finding in found
            if finding.rule.code in codes and _key(finding) not in self._expected and not _is_of_pytest(finding)
        ]

    def _note(self, report: pytest.TestReport, running: "Job", findings: "list[Finding]", known: int) -> None:
        """Attach to a report what the end of the session tells, as plain data: xdist brings it to the controller."""
        from syncheck import plain  # noqa: PLC0415  not for sessions that do not use it

        seen = running.report(since=self._mark)
        report.syncheck = {  # type: ignore[attr-defined]  # pytest keeps and sends any attribute
            "findings": [plain.of_finding(finding) for finding in findings],
            "known": known,
            "operators": seen.summary.operators - self._operators,
            "backend": seen.summary.backend,
            "incomplete": list(seen.incomplete),
        }
        self._operators = seen.summary.operators

    def expect(self, findings: "tuple[Finding, ...]") -> None:
        """These findings were expected: they fail no test."""
        self._expected |= {_key(finding) for finding in findings}

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Count what was found, also by xdist's workers."""
        self._tally.add(report.nodeid, getattr(report, "syncheck", None))

    def pytest_sessionfinish(self) -> None:
        """Write the baseline and the report, if they are asked for."""
        if hasattr(self._config, "workerinput"):
            return
        if self._config.getoption("--syncheck-write-baseline"):
            assert self._baseline is not None  # noqa: S101  `baseline_of` refuses to write where there is no name
            self._baseline.replace(self._tally.findings, lambda entry: entry.half == "run")
            self._baseline.write()
        file = self._config.getoption("--syncheck-output")
        if file is not None:
            from syncheck import app  # noqa: PLC0415  not for sessions that do not use it

            text = app.render(self._tally.report(self._baseline), Settings(self._config).options, color=False)
            try:
                file.write_text(text, encoding="utf-8")
            except OSError as error:
                raise pytest.UsageError(f"cannot write {file}: {error.strerror or error}") from error

    def pytest_terminal_summary(self, terminalreporter: Any) -> None:
        """Count rules and tests, and say what was not checked."""
        if self._is_for_all or self._tally.findings:
            terminalreporter.section("syncheck")
            for line in self._tally.lines():
                terminalreporter.line(line)


class Syncheck:
    """What the fixture `syncheck` offers to a test."""

    def __init__(self, checker: Checker, settings: Settings) -> None:
        self._checker = checker
        self._settings = settings

    def check(self) -> "AbstractContextManager[BlockReport]":
        """Check a block; see `syncheck.check`. What is found in it does not fail the test by itself."""
        return self._checked(())

    def expect(self, *codes: str) -> "AbstractContextManager[BlockReport]":
        """Fail the test if one of these rules does not report anything in the block."""
        return self._checked(codes)

    @contextmanager
    def _checked(self, codes: tuple[str, ...]) -> "Iterator[BlockReport]":
        with self._settings.check() as report:
            yield report
        self._checker.expect(tuple(f for f in report.findings if not codes or f.rule.code in codes))
        missing = [code for code in codes if code not in report.codes]
        if missing:
            pytest.fail(f"{', '.join(missing)} reported nothing; found: {', '.join(report.codes) or 'nothing'}")


@pytest.fixture
def syncheck(request: pytest.FixtureRequest) -> Syncheck:
    """Check blocks of a test: `with syncheck.check() as report`, `with syncheck.expect("SYN201")`."""
    return Syncheck(_checker(request.config), Settings(request.config, request.node))


def _running_job() -> "Job | None":
    """Return what checks this process now; nothing does as long as nobody has imported it."""
    module = sys.modules.get("syncheck.job")
    return module.active() if module is not None else None


def _is_of_pytest(finding: "Finding") -> bool:
    """Tell whether pytest itself looked at a tensor, to print it in the explanation of a failure."""
    inner = itertools.takewhile(lambda frame: not frame.is_user, finding.place.stack)
    return any(frame.package == "_pytest" for frame in inner)


def _key(finding: "Finding") -> tuple[str, str, int]:
    frame = finding.place.frame
    return finding.rule.code, frame.path, frame.line


def _text(findings: "list[Finding]", options: "Options") -> str:
    from syncheck import app  # noqa: PLC0415  not for sessions that do not use it
    from syncheck.findings import Report, Summary  # noqa: PLC0415

    report = Report(tuple(findings), summary=Summary(operators=1))
    lines = app.render(report, replace(options, output_format="text"), color=False).splitlines()
    return "\n".join(line for line in lines if not line.startswith(("checked: ", "syncheck: ")))
