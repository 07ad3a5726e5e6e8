"""The pytest plugin: `pytest --syncheck` fails tests whose GPU synchronization is wrong.

Registered as `pytest11`, so it is imported in every test session; it imports torch only when needed.
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

from syncheck.pytest_plugin.outcome import are_failing, may_fail
from syncheck.pytest_plugin.settings import Settings, add_settings, as_usage, check_settings

if TYPE_CHECKING:
    from syncheck.api import BlockReport
    from syncheck.config.options import Options
    from syncheck.filters.baseline import Baseline
    from syncheck.findings import Finding
    from syncheck.run.run import Run


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add the options and settings."""
    group = parser.getgroup("syncheck", "GPU synchronization")
    group.addoption("--syncheck", action="store_true", help="run every test under the sanitizer")
    group.addoption("--syncheck-output", type=Path, help="Write one report for all tests to this file.")
    parser.addini("syncheck", "run every test under the sanitizer", type="bool", default=False)
    add_settings(group, parser)


def pytest_configure(config: pytest.Config) -> None:
    """Start checking if every test is to be checked."""
    config.addinivalue_line(
        "markers", "syncheck(ignore=(), select=(), devices=2, disable=False): check this test's GPU synchronization"
    )
    if config.getoption("--syncheck") or config.getini("syncheck"):
        _checker(config, is_for_all=True).begin_session()
    elif config.getoption("--syncheck-output") or config.getoption("--syncheck-write-baseline"):
        _checker(config)
    elif _is_controller(config):
        config.pluginmanager.register(Collector(config), "syncheck-collector")


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Create the checker only if some tests are marked, so that other sessions have no overhead."""
    if any(item.get_closest_marker("syncheck") for item in items):
        _checker(config)


def _is_controller(config: pytest.Config) -> bool:
    """Return whether this process distributes the tests to workers (xdist)."""
    return getattr(config.option, "dist", "no") != "no" and not hasattr(config, "workerinput")


class Collector:
    """Watches, in a process that runs no tests itself, for reports from workers that check."""

    def __init__(self, config: pytest.Config) -> None:
        self._config = config

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Create a checker at the first report with findings; it then receives all later reports."""
        if hasattr(report, "syncheck") and not self._config.pluginmanager.has_plugin("syncheck-checker"):
            _checker(self._config).pytest_runtest_logreport(report)


def _checker(config: pytest.Config, *, is_for_all: bool = False) -> "Checker":
    """Return the session's checker, creating it on first use."""
    checker = config.pluginmanager.get_plugin("syncheck-checker")
    if not isinstance(checker, Checker):
        checker = Checker(config, is_for_all=is_for_all)
        check_settings(config)
        config.pluginmanager.register(checker, "syncheck-checker")
    return checker


class Checker:
    """Runs tests under the sanitizer and fails those with findings."""

    def __init__(self, config: pytest.Config, *, is_for_all: bool) -> None:
        from syncheck.pytest_plugin.summary import SessionSummary

        self._config = config
        self._is_for_all = is_for_all
        self._pid = os.getpid()
        self._session = ExitStack()
        self._mark: Any = None
        self._expected: set[tuple[str, str, int]] = set()
        self._operators = 0
        self._counted: Run | None = None
        self._refused = ""
        self._collected: list[Finding] = []
        self._has_collected = False
        self._problems: list[str] = []
        self._summary = SessionSummary()

    @cached_property
    def _baseline(self) -> "Baseline | None":
        from syncheck.filters.policy import baseline_of

        with as_usage():
            return baseline_of(Settings(self._config).options)

    def begin_session(self) -> None:
        """Start checking now, so that objects created at import or by wide-scoped fixtures are known.

        Does nothing in a process that only distributes tests (xdist) or forks a child for each (pytest-forked).
        """
        _ = self._baseline  # report an invalid one before any test runs
        if _is_controller(self._config) or getattr(self._config.option, "forked", False):
            return
        everything = replace(
            Settings(self._config).options, select=(), extend_select=(), ignore=(), per_file_ignores=()
        )
        # each test selects its own rules
        self._session.enter_context(Settings(self._config, options=everything).check())

    def pytest_collection_finish(self) -> None:
        """Collect the findings from the import of the test modules; they belong to no test and fail the session."""
        running = _running_job()
        if running is not None and not self._has_collected:
            self._has_collected = True
            self._collected = self._new_findings(running, Settings(self._config).options)
            self._note_collected(self._collected, running)

    def _note_collected(self, findings: "list[Finding]", running: "Run") -> None:
        data = self._noted(running, findings, sum(map(self._is_known, findings)))
        if hasattr(self._config, "workeroutput"):
            self._config.workeroutput["syncheck"] = data
        else:
            self._summary.add("imports", data)

    @pytest.hookimpl(optionalhook=True)
    def pytest_testnodedown(self, node: Any) -> None:
        """Take the import findings of the first xdist worker: all workers import all modules and find the same."""
        worker_data = getattr(node, "workeroutput", {}).get("syncheck")
        if worker_data is not None and not self._collected:
            from syncheck import serialization

            self._collected = [serialization.to_finding(data) for data in worker_data["findings"]]
            self._summary.add("imports", worker_data)

    def pytest_unconfigure(self) -> None:
        """Stop checking."""
        self._session.close()

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_protocol(self, item: pytest.Item) -> Generator[None, Any, Any]:
        """Check one test, including its fixtures."""
        settings = Settings(self._config, item)
        with ExitStack() as stack:
            self._refused = ""
            if _running_job() is None and settings.is_marked and not settings.is_disabled:
                try:
                    stack.enter_context(settings.check())
                except pytest.UsageError as error:
                    self._refused = str(error)
            return (yield)

    @pytest.hookimpl(wrapper=True, tryfirst=True)
    def pytest_runtest_setup(self, item: pytest.Item) -> Generator[None, None, None]:
        """Treat all earlier work as complete: each attempt at a test is a separate program."""
        if os.getpid() != self._pid:
            self._begin_in_child(item)
        running = _running_job()
        self._expected.clear()
        if running is not None:
            self._refuse_wrong_marker(item)
            running.reset()
            self._mark = running.session.collector.checkpoint()
        yield
        if self._refused:
            pytest.fail(self._refused, pytrace=False)

    def _refuse_wrong_marker(self, item: pytest.Item) -> None:
        """Set `_refused` to the reason if a test's marker cannot be honored."""
        settings = Settings(self._config, item)
        try:
            wanted, there = settings.options.devices, Settings(self._config).options.devices
        except pytest.UsageError as error:
            self._refused = str(error)
        else:
            if self._is_for_all and wanted != there:
                self._refused = (
                    f"all tests of the session share {there} simulated GPUs: set --syncheck-devices {wanted} for more"
                )

    def _begin_in_child(self, item: pytest.Item) -> None:
        """Start checking in a process that was forked for this one test."""
        settings = Settings(self._config, item)
        if self._is_for_all or (settings.is_marked and not settings.is_disabled):
            from syncheck.run import run

            run.reset_in_child()
            self._session.enter_context(settings.check())

    @pytest.hookimpl(wrapper=True, tryfirst=True)
    def pytest_runtest_makereport(
        self, item: pytest.Item, call: pytest.CallInfo[None]
    ) -> Generator[None, pytest.TestReport, pytest.TestReport]:
        """Fail a test or its teardown if it has findings, as an exception does: an expected failure stays one."""
        running, settings = _running_job(), Settings(self._config, item)
        is_set_up = call.when == "setup" and call.excinfo is None
        if running is None or self._refused or settings.is_disabled or is_set_up:
            return (yield)
        findings = self._proved(item, self._new_findings(running, settings.options), settings.options)
        is_expected = may_fail(item)
        new = [finding for finding in findings if is_expected or not self._is_known(finding)]
        is_shown = bool(new) and (is_expected or not settings.options.write_baseline)
        text = _text(new, settings.options) + _page(running, item, new, settings.options) if is_shown else ""
        is_failure = is_shown and call.excinfo is None and are_failing(new, settings.options)
        if is_failure:
            call.excinfo = _failure(text)
        report = yield
        report.syncheck = self._noted(running, findings, len(findings) - len(new))  # type: ignore[attr-defined]  # pytest keeps and sends any attribute
        if is_failure:
            report.longrepr = text  # without the name of the exception
        elif text:
            report.sections.append(("syncheck", text))
        return report

    def _proved(self, item: pytest.Item, findings: "list[Finding]", options: "Options") -> "list[Finding]":
        """Return the findings with proofs of their races, if requested."""
        wanted = [finding for finding in findings if finding.pair and not self._is_known(finding)]
        if not options.witness or not wanted:
            return findings
        from syncheck.pytest_plugin.witness import Witness

        proved = {id(old): new for old, new in zip(wanted, Witness(item, options).prove(wanted), strict=True)}
        return [proved.get(id(finding), finding) for finding in findings]

    def _new_findings(self, running: "Run", options: "Options") -> "list[Finding]":
        found = running.report(since=self._mark).findings
        self._mark = running.session.collector.checkpoint()
        return [
            finding
            for finding in found
            if finding.rule.code in options.codes_for(finding.location.frame.path)
            and _key(finding) not in self._expected
            and not _is_of_pytest(finding)
        ]

    def _is_known(self, finding: "Finding") -> bool:
        return self._baseline is not None and self._baseline.contains(finding)

    def _noted(self, running: "Run", findings: "list[Finding]", known: int) -> dict[str, Any]:
        """Return the data for the end-of-session report as plain data, which xdist sends to the controller."""
        from syncheck import serialization

        seen = running.report(since=self._mark)
        before = self._operators if running is self._counted else 0
        self._operators, self._counted = seen.summary.operators, running
        return {
            "findings": [serialization.of_finding(finding) for finding in findings],
            "known": known,
            "operators": seen.summary.operators - before,
            "backend": seen.summary.backend,
            "incomplete": list(seen.incomplete),
        }

    def expect(self, findings: "tuple[Finding, ...]") -> None:
        """Mark findings as expected, so that they do not fail a test."""
        self._expected |= {_key(finding) for finding in findings}

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Count the findings, including those of xdist workers."""
        self._summary.add(report.nodeid, getattr(report, "syncheck", None))

    def pytest_sessionfinish(self, session: pytest.Session) -> None:
        """Write the baseline and the report, if requested."""
        if hasattr(self._config, "workerinput"):
            return
        options = Settings(self._config).options
        failing = [f for f in self._collected if f.level.rank <= options.fail_on.rank and not self._is_known(f)]
        if failing and not options.write_baseline:
            session.exitstatus = pytest.ExitCode.TESTS_FAILED
        try:
            self._write(options, session)
        except (OSError, pytest.UsageError) as error:
            self._problems.append(str(error))
            session.exitstatus = pytest.ExitCode.USAGE_ERROR

    def _write(self, options: "Options", session: pytest.Session) -> None:
        from syncheck.pytest_plugin.summary import runs_whole_suite
        from syncheck.report.render import render
        from syncheck.system import files

        if self._baseline is not None and options.write_baseline:
            is_whole = runs_whole_suite(session)
            self._problems += [] if is_whole else ["not all tests ran, so no finding was removed from the baseline"]
            with as_usage():
                self._baseline.replace(self._summary.findings, lambda entry: is_whole and entry.half == "run")
                self._baseline.write()
        file = self._config.getoption("--syncheck-output")
        if file is not None:
            text = render(self._summary.report(self._baseline), options, color=False)
            files.write(self._config.invocation_params.dir / file, text.encode())

    def pytest_terminal_summary(self, terminalreporter: Any) -> None:
        """Print the numbers of findings and tests, and what was not checked."""
        if self._is_for_all or self._summary.findings or self._problems:
            terminalreporter.section("syncheck")
            if self._collected:
                terminalreporter.line(_text(self._collected, Settings(self._config).options))
                terminalreporter.line("(found when the test modules were imported)")
            for line in (*self._summary.lines(), *self._problems):
                terminalreporter.line(line)


def _failure(text: str) -> pytest.ExceptionInfo[BaseException]:
    """Return the exception that fails a test with a text instead of a traceback."""
    try:
        pytest.fail(text, pytrace=False)
    except pytest.fail.Exception:
        return pytest.ExceptionInfo.from_current()


class Syncheck:
    """The object that the fixture `syncheck` provides to a test."""

    def __init__(self, checker: Checker, settings: Settings) -> None:
        self._checker = checker
        self._settings = settings

    def check(self) -> "AbstractContextManager[BlockReport]":
        """Check a block; see `syncheck.check`. Its findings do not fail the test by themselves."""
        return self._checked(())

    def expect(self, *codes: str) -> "AbstractContextManager[BlockReport]":
        """Fail the test unless each of these rules has a finding in the block."""
        return self._checked(codes)

    @contextmanager
    def _checked(self, codes: tuple[str, ...]) -> "Iterator[BlockReport]":
        with self._settings.check() as report:
            yield report
        from syncheck.rules import catalogue

        with as_usage():
            expected = {code: {rule.code for rule in catalogue.matching(code)} for code in codes}
        wanted = set[str]().union(*expected.values())
        self._checker.expect(tuple(f for f in report.findings if not codes or f.rule.code in wanted))
        missing = [code for code in codes if not expected[code].intersection(report.codes)]
        if missing:
            found = f"found {', '.join(report.codes)}" if report.codes else "no findings"
            pytest.fail(f"DID NOT REPORT {', '.join(missing)} ({found})", pytrace=False)


@pytest.fixture
def syncheck(request: pytest.FixtureRequest) -> Syncheck:
    """Check blocks of a test: `with syncheck.check() as report`, `with syncheck.expect("SYN201")`."""
    return Syncheck(_checker(request.config), Settings(request.config, request.node))


def _page(running: "Run", item: pytest.Item, findings: "list[Finding]", options: "Options") -> str:
    """Write the HTML page of a test, if requested; return a line with its path, or with the reason for a failure."""
    if options.html is None or running.recorder is None:
        return ""
    from syncheck.commands.timeline import write_page
    from syncheck.errors import BackendError

    try:
        report = replace(running.report(), findings=tuple(findings))
        path = write_page(running.recorder, running.sites, report, options.html, item.nodeid)
    except (OSError, BackendError) as error:
        return f"\nthe page for this test could not be written: {error}"
    return f"\ntimeline: {path}"


def _running_job() -> "Run | None":
    """Return the active run of this process; None if its module is not even imported."""
    module = sys.modules.get("syncheck.run.run")
    return module.active() if module is not None else None


def _is_of_pytest(finding: "Finding") -> bool:
    """Return whether pytest itself read a tensor, to print it in the explanation of a failure."""
    inner = itertools.takewhile(lambda frame: not frame.is_user, finding.location.stack)
    return any(frame.package == "_pytest" for frame in inner)


def _key(finding: "Finding") -> tuple[str, str, int]:
    frame = finding.location.frame
    return finding.rule.code, frame.path, frame.line


def _text(findings: "list[Finding]", options: "Options") -> str:
    from syncheck.findings import Report, Summary
    from syncheck.report.render import render

    report = Report(tuple(findings), summary=Summary(operators=1))
    lines = render(report, replace(options, output_format="text"), color=False).splitlines()
    return "\n".join(line for line in lines if not line.startswith(("checked: ", "syncheck: ")))
