"""Check part of a program from inside it: `with syncheck.check() as report: ...`."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

from syncheck.config.options import Options
from syncheck.errors import ConfigError
from syncheck.filters.policy import Policy, truncate
from syncheck.findings import Finding, Report, Summary
from syncheck.report.notebook import as_html
from syncheck.report.render import render
from syncheck.report.text import verdict
from syncheck.run import run
from syncheck.run.process import new_session


class BlockReport:
    """What was found in a block: complete when the block has ended, empty before."""

    def __init__(self, options: Options) -> None:
        self._options = options
        self._report = Report()

    def complete(self, report: Report) -> None:
        """The block has ended."""
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
        """Reasons why something may have been missed."""
        return self._report.incomplete

    @property
    def summary(self) -> Summary:
        """What was checked."""
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
        """Write what IPython shows on a terminal."""
        printer.text(str(self))

    def _repr_html_(self) -> str:
        """Return what notebooks show."""
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
    """Check what a block of the program does on its GPUs.

    Work from before the block, and memory from before it, counts as unknown: it takes part in no finding. Threads that
    run when the block begins are not watched. Under `syncheck run`, and inside another `check`, the findings of the
    block are also findings of the outer report.

    Args:
        backend: "auto", "cuda" or "sim"; on simulated GPUs the program must make its tensors inside the block.
        devices: number of simulated GPUs.
        device_type: "cuda" or "xpu": the module of torch whose GPUs are simulated.
        select: rule codes, prefixes or names to report; empty for all.
        ignore: rule codes, prefixes or names not to report; wins over `select`.
        max_findings: findings to keep, 0 for all.
        stacks: show whole call stacks when the report is printed.

    Yields:
        The report of the block; its findings are there when the block has ended. Print it, or look at `findings`.

    Raises:
        ConfigError: a rule name or a backend that does not exist.
        BackendError: the GPUs that were asked for cannot be used.
    """
    if backend not in {"auto", "cuda", "sim"}:
        raise ConfigError(f"unknown backend {backend!r}", "choose auto, cuda or sim")
    if device_type not in {"cuda", "xpu"}:
        raise ConfigError(f"unknown device type {device_type!r}", "choose cuda or xpu")
    options = Options(
        backend=backend, devices=devices, device_type=device_type,
        select=names(select), ignore=names(ignore), max_findings=max_findings,
        stacks=stacks,
    )  # fmt: skip
    with checking(options) as block:
        yield block


def names(given: tuple[str, ...] | list[str] | str) -> tuple[str, ...]:
    """Return names of rules; a string is one of them."""
    return (given,) if isinstance(given, str) else tuple(given)


@contextmanager
def checking(options: Options) -> Iterator[BlockReport]:
    """Check a block, as `check` does, with any settings of a run.

    Raises:
        ConfigError: a rule name that does not exist.
        BackendError: the GPUs that were asked for cannot be used.
    """
    options = replace(options, fail_fast=False)  # the block ends by itself
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
                report = replace(report, incomplete=(*report.incomplete, "a budget has windows of the block checked"))
            elif not outer.backend.is_checking:
                report = replace(report, incomplete=(*report.incomplete, "the block lies outside of what is checked"))
            findings = tuple(finding for finding in report.findings if finding.rule.code in codes)
            block.complete(truncate(replace(report, findings=findings), options.max_findings))
        return
    from syncheck.run import backends  # noqa: PLC0415  the first use of torch

    policy = Policy(replace(options, baseline=None, write_baseline=False))
    make_session, backend_of = (
        (lambda name, on_finding: new_session(options, name, on_finding)),
        backends.choose(options),
    )
    inner = run.Run(options, make_session, policy, lambda *_: 0, *backend_of)
    try:
        with inner.watching():
            yield block
    finally:
        block.complete(policy.finalize(inner.report(), inner.sites.lines()))
