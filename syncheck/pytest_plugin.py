"""The pytest plugin: `pytest --syncheck` fails the tests whose GPU synchronization is wrong.

Registered as `pytest11`, so it is imported in every test session: torch is not, unless it is asked for.
"""

import sys
from collections import Counter
from collections.abc import Generator, Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from syncheck.api import BlockReport
    from syncheck.findings import Finding
    from syncheck.job import Job

_LEVELS = ("error", "warning", "advice")


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add the options and settings."""
    group = parser.getgroup("syncheck", "GPU synchronization")
    group.addoption("--syncheck", action="store_true", help="run every test under the sanitizer")
    group.addoption("--syncheck-backend", choices=("auto", "cuda", "sim"), help="real or simulated GPUs")
    group.addoption("--syncheck-devices", type=int, help="number of simulated GPUs")
    parser.addini("syncheck", "run every test under the sanitizer", type="bool", default=False)
    parser.addini("syncheck_backend", "auto, cuda or sim", default="auto")
    parser.addini("syncheck_devices", "number of simulated GPUs", default="2")
    parser.addini("syncheck_ignore", "rules not to report", type="args", default=[])
    parser.addini("syncheck_fail_on", "the mildest level that fails a test", default="warning")


def pytest_configure(config: pytest.Config) -> None:
    """Begin to check, where every test is to be."""
    config.addinivalue_line(
        "markers", "syncheck(ignore=(), select=(), devices=2, disable=False): check this test's GPU synchronization"
    )
    checker = Checker(config)
    config.pluginmanager.register(checker, "syncheck-checker")
    is_controller = getattr(config.option, "dist", "no") != "no" and not hasattr(config, "workerinput")
    if (config.getoption("--syncheck") or config.getini("syncheck")) and not is_controller:
        checker.begin_session()


class Settings:
    """What the options, the settings and a test's marker say together."""

    def __init__(self, config: pytest.Config, item: pytest.Item | None = None) -> None:
        marker = item.get_closest_marker("syncheck") if item is not None else None
        given: dict[str, Any] = dict(marker.kwargs) if marker is not None else {}
        self.is_marked = marker is not None
        self.is_disabled = bool(given.get("disable"))
        self.backend = config.getoption("--syncheck-backend") or config.getini("syncheck_backend")
        chosen = given.get("devices") or config.getoption("--syncheck-devices") or config.getini("syncheck_devices")
        self.devices = int(chosen)
        self.select = tuple(given.get("select", ()))
        self.ignore = (*config.getini("syncheck_ignore"), *given.get("ignore", ()))
        self.fail_on = config.getini("syncheck_fail_on")
        if self.fail_on not in _LEVELS:
            raise pytest.UsageError(f"syncheck_fail_on is {self.fail_on!r}; choose one of {', '.join(_LEVELS)}")

    @contextmanager
    def check(self) -> "Iterator[BlockReport]":
        """Check a block with these settings."""
        import syncheck  # noqa: PLC0415  not for sessions that do not use it
        from syncheck.errors import SyncheckError  # noqa: PLC0415

        with ExitStack() as stack:
            try:
                check = syncheck.check(
                    backend=self.backend, devices=self.devices, select=self.select, ignore=self.ignore
                )
                report = stack.enter_context(check)
            except SyncheckError as error:
                raise pytest.UsageError(f"{error}; {error.hint}") from error
            yield report


class Checker:
    """Runs tests under the sanitizer, and fails those with findings."""

    def __init__(self, config: pytest.Config) -> None:
        self._config = config
        self._session = ExitStack()
        self._mark: Any = None
        self._expected: set[tuple[str, str, int]] = set()
        self._rules: Counter[str] = Counter()
        self._tests: set[str] = set()

    def begin_session(self) -> None:
        """Check from now on, so that what is made at import or by a fixture of a wide scope is known."""
        self._session.enter_context(Settings(self._config).check())

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
            running = _running_job()
            self._expected.clear()
            if running is not None:
                self._mark = running.session.ledger.mark()
            try:
                return (yield)
            finally:
                if running is not None:
                    running.begin_anew()

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_makereport(
        self, item: pytest.Item, call: pytest.CallInfo[None]
    ) -> Generator[None, pytest.TestReport, pytest.TestReport]:
        """Fail a test, or its teardown, with what was found in it."""
        report = yield
        if call.when == "setup" and report.passed:
            return report
        findings = self._new_findings(item)
        if not findings:
            return report
        self._rules.update(finding.rule.code for finding in findings)
        self._tests.add(item.nodeid)
        text = _text(findings)
        settings = Settings(self._config, item)
        ranks = [_LEVELS.index(finding.level.value) for finding in findings]
        if report.passed and min(ranks) <= _LEVELS.index(settings.fail_on):
            report.outcome = "failed"
            report.longrepr = text
        else:
            report.sections.append(("syncheck", text))
        return report

    def _new_findings(self, item: pytest.Item) -> "list[Finding]":
        running, settings = _running_job(), Settings(self._config, item)
        if running is None or settings.is_disabled:
            return []
        from syncheck.config import Options  # noqa: PLC0415  not for sessions that do not use it

        found = running.report(since=self._mark).findings
        self._mark = running.session.ledger.mark()
        codes = Options(select=settings.select, ignore=settings.ignore).selected()
        return [finding for finding in found if finding.rule.code in codes and _key(finding) not in self._expected]

    def expect(self, findings: "tuple[Finding, ...]") -> None:
        """These findings were expected: they fail no test."""
        self._expected |= {_key(finding) for finding in findings}

    def pytest_terminal_summary(self, terminalreporter: Any) -> None:
        """Count rules and tests."""
        if self._rules:
            rules = ", ".join(f"{code} {number}" for code, number in sorted(self._rules.items()))
            terminalreporter.section("syncheck")
            terminalreporter.line(f"{self._rules.total()} findings in {len(self._tests)} tests: {rules}")


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
    checker = request.config.pluginmanager.get_plugin("syncheck-checker")
    assert isinstance(checker, Checker)  # noqa: S101  registered by `pytest_configure`
    return Syncheck(checker, Settings(request.config, request.node))


def _running_job() -> "Job | None":
    """Return what checks this process now; nothing does as long as nobody has imported it."""
    module = sys.modules.get("syncheck.job")
    return module.active() if module is not None else None


def _key(finding: "Finding") -> tuple[str, str, int]:
    frame = finding.place.frame
    return finding.rule.code, frame.path, frame.line


def _text(findings: "list[Finding]") -> str:
    from syncheck.findings import Report, Summary  # noqa: PLC0415  not for sessions that do not use it
    from syncheck.report import text  # noqa: PLC0415

    report = Report(tuple(findings), summary=Summary(operators=1))
    lines = text.render(report, color=False, stacks=False).splitlines()
    return "\n".join(line for line in lines if not line.startswith(("checked: ", "syncheck: ")))
