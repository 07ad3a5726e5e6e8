"""Check part of a program from inside it: `with syncheck.check() as report: ...`."""

import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from typing import Any

from syncheck.config.options import BY_NAME, Options
from syncheck.config.settings import value_of
from syncheck.filters.policy import Policy, truncate
from syncheck.findings import Finding, Report, Summary
from syncheck.report.notebook import as_html
from syncheck.report.render import render
from syncheck.report.text import verdict
from syncheck.run import run
from syncheck.run.process import new_session


class BlockReport:
    """Report of a checked block: empty until the block ends."""

    def __init__(self, options: Options) -> None:
        self._options = options
        self._report = Report()

    def complete(self, report: Report) -> None:
        """Store the report of the block, which has ended."""
        self._report = report.completed()

    @property
    def report(self) -> Report:
        """The whole report, as plain data."""
        return self._report

    @property
    def findings(self) -> tuple[Finding, ...]:
        """The findings, in the order of path, line, column and code."""
        return self._report.findings

    @property
    def incomplete(self) -> tuple[str, ...]:
        """Reasons why findings may have been missed."""
        return self._report.incomplete

    @property
    def summary(self) -> Summary:
        """Statistics on what was checked."""
        return self._report.summary

    @property
    def codes(self) -> tuple[str, ...]:
        """The code of each finding: ("SYN101",)."""
        return tuple(finding.rule.code for finding in self.findings)

    def __bool__(self) -> bool:
        return bool(self.findings)

    def __str__(self) -> str:
        return render(self._report, self._options, color=False)

    def __repr__(self) -> str:
        return f"<syncheck report: {verdict(self._report)}>"

    def _repr_pretty_(self, printer: Any, cycle: bool) -> None:  # noqa: FBT001, ARG002  IPython's signature
        """Write the report for IPython on a terminal."""
        printer.text(str(self))

    def _repr_html_(self) -> str:
        """Return the report as HTML, for notebooks."""
        return as_html(render(self._report, self._options, color=True))


@contextmanager
def check(
    *,
    backend: str = "auto",
    devices: int = 2,
    device_type: str = "cuda",
    select: tuple[str, ...] | list[str] | str = (),
    ignore: tuple[str, ...] | list[str] | str = (),
    max_findings: int = 0,
    stacks: bool = False,
) -> Iterator[BlockReport]:
    """Check the GPU work of a block.

    Work and memory from before the block are unknown and take part in no finding. Threads that are already running when
    the block begins are not watched. Under `syncheck run`, and inside another `check`, the findings of the block also
    appear in the outer report.

    Args:
        backend: "auto", "cuda" or "sim"; tensors on simulated GPUs can only be used inside blocks.
        devices: number of simulated GPUs.
        device_type: "cuda" or "xpu": the torch module whose GPUs are simulated.
        select: rule codes, prefixes or names to report; empty for all.
        ignore: rule codes, prefixes or names not to report; wins over `select`.
        max_findings: maximum number of findings to keep; 0 for all.
        stacks: whether to show whole call stacks when the report is printed.

    Yields:
        The report of the block; its findings are available once the block has ended. Print it, or use `findings`.

    Raises:
        ConfigError: a rule name, the backend or the device type does not exist, the number of devices is not from 1 to
            64, or the number of findings is negative.
        BackendError: the requested GPUs cannot be used.
    """
    options = block_options(
        backend=backend, devices=devices, device_type=device_type, select=select, ignore=ignore,
        max_findings=max_findings, stacks=stacks,
    )  # fmt: skip
    with checking(options) as block:
        yield block


def block_options(
    *,
    backend: str = "auto",
    devices: int = 2,
    device_type: str = "cuda",
    select: tuple[str, ...] | list[str] | str = (),
    ignore: tuple[str, ...] | list[str] | str = (),
    max_findings: int = 0,
    stacks: bool = False,
) -> Options:
    """Return the settings for a block; see `check`.

    Raises:
        ConfigError: the backend or the device type does not exist, the number of devices is not from 1 to 64, or the
            number of findings is negative.
    """
    given = {"backend": backend, "devices": devices, "device_type": device_type, "max_findings": max_findings}
    values = {name: value_of(BY_NAME[name], str(value), name) for name, value in given.items()}
    return Options(**values, select=names(select), ignore=names(ignore), stacks=stacks)


def names(given: tuple[str, ...] | list[str] | str) -> tuple[str, ...]:
    """Return rule names as a tuple; a string is a single name."""
    return (given,) if isinstance(given, str) else tuple(given)


MakeRun = Callable[[Options, Policy], run.Run]
"""Returns the run that checks a block, given its settings and what filters its findings."""


def new_run(options: Options, policy: Policy) -> run.Run:
    """Return a run for one block. Simulated GPUs are those of earlier blocks, whose streams and tensors it may use.

    Raises:
        ConfigError: a rule name does not exist.
        BackendError: the requested GPUs cannot be used.
    """
    from syncheck.run import backends  # noqa: PLC0415  the first use of torch
    from syncheck.run.kept import KeptRun  # noqa: PLC0415

    if not backends.simulates(options):
        return run.Run(options, partial(new_session, options), policy, lambda *_: 0, *backends.choose(options))
    key = os.getpid(), replace(options, select=(), ignore=(), max_findings=0, stacks=False)
    kept: KeptRun | None = _KEPT.pop(key, None)
    if kept is None or not kept.was_complete:
        kept = KeptRun(options, policy, *backends.choose(options))
    kept.begin(options, policy)
    _KEPT[key] = kept
    return kept


_KEPT: dict[tuple[int, Options], Any] = {}
"""The runs on simulated GPUs, by process and settings. A forked process must not go on with its parent's."""


@contextmanager
def checking(options: Options, make_run: MakeRun = new_run) -> Iterator[BlockReport]:
    """Check a block like `check`, with arbitrary run options.

    Args:
        options: the settings.
        make_run: returns the run, unless the block is inside a checked one.

    Raises:
        ConfigError: a rule name does not exist.
        BackendError: the requested GPUs cannot be used.
    """
    options = replace(options, fail_fast=False)  # a finding must not stop the process inside the block
    codes = options.selected()
    block = BlockReport(options)
    outer = run.active()
    if outer is not None:
        session, mark = outer.session, outer.session.collector.checkpoint()
        try:
            yield block
        finally:
            report = outer.report(since=mark if outer.session is session else {})
            if outer.is_sampled:
                report = report.doubted("because of the budget, only windows of the block were checked")
            elif not outer.backend.is_checking:
                report = report.doubted("the block is outside the checked part of the program")
            findings = tuple(finding for finding in report.findings if finding.rule.code in codes)
            block.complete(truncate(replace(report, findings=findings), options.max_findings))
        return
    policy = Policy(replace(options, baseline=None, write_baseline=False))
    inner = make_run(options, policy)
    try:
        with inner.watching():
            yield block
    finally:
        block.complete(policy.finalize(inner.report(), inner.lines()))
