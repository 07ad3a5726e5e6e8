"""Continuous checking of a share of a long-running program: `syncheck.watch(budget=0.05)`."""

from collections.abc import Callable, Hashable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from functools import partial
from typing import Any

from syncheck.api import block_options
from syncheck.config.kinds import BUDGET
from syncheck.config.options import Options
from syncheck.errors import ConfigError
from syncheck.filters.policy import Policy
from syncheck.findings import Finding, Report
from syncheck.report.render import render
from syncheck.report.text import verdict
from syncheck.run import backends, run
from syncheck.run.budget import Share
from syncheck.run.process import new_session
from syncheck.run.sampled import SampledRun

OnFinding = Callable[[Finding], None]


class Watch:
    """Checks windows of requests, or of training steps if there are no requests.

    Print it or read `findings` at any time; `close` stops it.
    """

    def __init__(self, options: Options, on_finding: OnFinding) -> None:
        self._options = options
        self._on_finding = on_finding
        self._known: set[tuple[str, str, int, str]] = set()
        self._stack = ExitStack()
        self._policy = Policy(options)
        self._run: SampledRun | None = None
        outer = run.active()
        if outer is None:
            self._run = self._begin()
            self._stack.enter_context(self._run.watching())
        elif isinstance(outer, SampledRun):
            self._run = outer

    def _begin(self) -> SampledRun:
        options = self._options
        run = SampledRun(
            options,
            partial(new_session, options),
            self._policy,
            lambda *_: 0,
            *backends.choose(options),
        )
        run.on_window = self._window_ended
        return run

    @contextmanager
    def request(self, kind: Hashable = None) -> Iterator[None]:
        """Mark a block as one request.

        Args:
            kind: a value that distinguishes requests, such as an endpoint or a batch shape; new kinds take precedence.
        """
        if self._run is None:
            yield
            return
        sampler = self._run.sampler
        sampler.request_starts(kind)
        try:
            yield
        finally:
            sampler.request_ended(kind)

    # -- results

    @property
    def report(self) -> Report:
        """The whole report so far, as plain data."""
        if self._run is None:
            return Report(notes=("`syncheck run` checks all of this program",))
        return self._run.report()

    @property
    def findings(self) -> tuple[Finding, ...]:
        """The findings so far, in the order of path, line, column and code."""
        return self.report.findings

    @property
    def share(self) -> Share:
        """The checked share so far and its cost."""
        return self._run.sampler.controller.share() if self._run is not None else Share()

    def _window_ended(self) -> None:
        for finding in self.findings:
            frame = finding.location.frame
            key = (finding.rule.code, frame.path, frame.line, finding.message)
            if key not in self._known:
                self._known.add(key)
                self._on_finding(finding)

    def close(self) -> None:
        """Stop checking; must be called in the thread that called `watch`."""
        self._stack.close()

    def __enter__(self) -> "Watch":
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

    def __str__(self) -> str:
        return render(self._policy.finalize(self.report), self._options, color=False)

    def __repr__(self) -> str:
        return f"<syncheck watch: {verdict(self.report)}>"


def watch(
    *,
    budget: float | str = 0.05,
    backend: str = "auto",
    devices: int = 2,
    select: tuple[str, ...] | list[str] | str = (),
    ignore: tuple[str, ...] | list[str] | str = (),
    on_finding: OnFinding = lambda _: None,
) -> Watch:
    """Check windows of a service's requests, or of training steps, for as long as the program runs.

    The cost of checking is measured, and windows are opened as the budget allows: see `docs/budget.md`. Only the
    requests of one thread count, the first that makes one. Under `syncheck run`, this only marks requests, which count
    towards a budget given there.

    Args:
        budget: the share of the requests' time that checking may cost: 0.05 or "5%".
        backend: "auto", "cuda" or "sim"; on simulated GPUs the program must create its tensors after this call.
        devices: number of simulated GPUs.
        select: rule codes, prefixes or names to report; empty for all.
        ignore: rule codes, prefixes or names not to report; wins over `select`.
        on_finding: called with each new finding when its window has ended; an exception in it stops the checking.

    Returns:
        An object with the findings so far: print it, or read `findings`.

    Raises:
        ConfigError: the budget is invalid, a rule name or the backend does not exist, or the number of devices is not
            from 1 to 64.
        BackendError: the requested GPUs cannot be used.
    """
    options = block_options(backend=backend, devices=devices, select=select, ignore=ignore)
    try:
        share: Any = BUDGET.from_toml(budget)
    except TypeError:
        raise ConfigError(f"invalid budget {budget!r}", "write a share of the run's time: 0.05 or '5%'") from None
    options = replace(options, budget=share)
    options.selected()
    return Watch(options, on_finding)
