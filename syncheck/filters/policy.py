"""Filtering of findings by settings, comments and the baseline."""

from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import replace

from syncheck.config.options import Options
from syncheck.errors import ConfigError
from syncheck.filters import ignore_block
from syncheck.filters.baseline import Baseline, Entry
from syncheck.filters.comments import Comments
from syncheck.findings import Finding, Report, counted
from syncheck.paths import display_path
from syncheck.system import job


class Policy:
    """Filters the findings of a run.

    Args:
        options: the settings.
        is_suppressed_for_lint: returns whether a comment, given by (path, line), suppresses a finding of the linter.

    Raises:
        ConfigError: the baseline is missing or damaged.
    """

    def __init__(self, options: Options, is_suppressed_for_lint: Callable[[str, int], bool] | None = None) -> None:
        self._options = options
        self._comments = Comments()
        self._is_suppressed_for_lint = is_suppressed_for_lint
        self._baseline = baseline_of(options)
        self._rank = job.rank()

    def filter(self, report: Report) -> Report:
        """Return the report without the findings that settings and comments suppress."""
        findings = (f if f.ranks else replace(f, rank=self._rank) for f in report.findings)
        return replace(report, findings=tuple(filter(self._is_wanted, findings)))

    def is_failing(self, report: Report) -> bool:
        """Return whether a filtered report has a failing finding that is not in the baseline."""
        new = report.findings if self._baseline is None else self._baseline.new(report.findings)
        return replace(report, findings=new).failing(self._options.fail_on)

    def finalize(self, report: Report, lines: Iterable[tuple[str, int]] = ()) -> Report:
        """Return the report to show for a whole run.

        Args:
            report: the filtered report of the whole run.
            lines: (path, line) of all the program's call sites: unused comments there are reported, and baseline
                entries of other files are left unchanged.

        Raises:
            ConfigError: the baseline cannot be written.
        """
        lines = list(lines)
        return self.apply_baseline(report.noted(*self.unused(lines)), {path for path, _ in lines})

    def apply_baseline(self, report: Report, ran: Iterable[str]) -> Report:
        """Return the report to show: without the known findings, and limited in number.

        Args:
            report: the report of a whole run, or of all ranks of a job.
            ran: the files of its call sites.

        Raises:
            ConfigError: the baseline cannot be written.
        """
        if self._baseline is not None:
            seen = set(map(self._baseline.relative, ran))
            looked_at = checked_entry_filter("run", self._baseline, lambda _: self._options, seen.__contains__)
            report = without_known(report, self._baseline, self._options, looked_at)
        return truncate(report, self._options.max_findings)

    def _is_wanted(self, finding: Finding) -> bool:
        if finding.rule.code not in self._options.codes_for(finding.location.frame.path):
            return False
        if self._options.third_party == "off" and finding.package:
            return False
        return not self._comments.suppresses(finding)

    def unused(self, lines: Iterable[tuple[str, int]]) -> list[str]:
        """Return messages about unused comments and blocks at the program's call sites, given by path and line."""
        by_path: dict[str, set[int]] = {}
        for path, line in lines:
            by_path.setdefault(path, set()).add(line)
        notes = [
            f"{path}:{comment.line}: {comment}"
            for path, numbers in sorted(by_path.items())
            for comment in self._comments.unused(path, numbers)
            if comment.source
            or comment.problem
            or not (self._is_suppressed_for_lint and self._is_suppressed_for_lint(path, comment.line))
        ]
        blocks = sorted(ignore_block.entered - ignore_block.used, key=lambda block: (block.path, block.line))
        return notes + [
            f"{display_path(b.path)}:{b.line}: unused `syncheck.ignore({', '.join(sorted(b.codes))})`" for b in blocks
        ]


def checked_entry_filter(
    half: str, baseline: Baseline, options_of: Callable[[str], Options], is_seen: Callable[[str], bool]
) -> Callable[[Entry], bool]:
    """Return a function that returns whether the check would have found a baseline entry if it still existed.

    Args:
        half: "run" or "lint".
        baseline: the baseline.
        options_of: returns the settings for a file.
        is_seen: returns whether a file, given by its path in the baseline, was checked.
    """

    def would_be_found(entry: Entry) -> bool:
        path = baseline.file_of(entry)
        options = options_of(path)
        is_wanted = entry.rule in options.codes_for(path) and (options.strict or entry not in baseline.strict)
        return entry.half == half and is_seen(entry.path) and is_wanted

    return would_be_found


def baseline_of(options: Options) -> Baseline | None:
    """Return the baseline named in the options; None if none is named.

    If the file does not exist yet and is to be written, the baseline is empty.

    Raises:
        ConfigError: it is missing or damaged.
    """
    if options.baseline is None:
        if options.write_baseline:
            raise ConfigError("--write-baseline needs a file", "add --baseline FILE, or set it in pyproject.toml")
        return None
    if options.write_baseline and not options.baseline.exists():
        return Baseline(options.baseline)
    return Baseline.read(options.baseline)


def without_known(
    report: Report,
    baseline: Baseline,
    options: Options,
    is_checked: Callable[[Entry], bool],
    is_strict: Callable[[str], bool] = lambda _: False,
) -> Report:
    """Return the report without the known findings, and write the baseline if the settings say so.

    Args:
        report: the findings.
        baseline: the known findings.
        options: the settings; they decide whether the baseline is written.
        is_checked: returns whether the check would have found an entry if it still existed.
        is_strict: returns whether `--strict` applied to a file.

    Raises:
        ConfigError: it cannot be written.
    """
    if options.write_baseline and not (report.summary.operators or report.summary.files):
        return report.noted(f"{display_path(baseline.path)} was not changed: nothing was checked")
    stale = Counter({entry: n for entry, n in baseline.stale(report.findings).items() if is_checked(entry)})
    if options.write_baseline:
        baseline.replace(report.findings, is_checked, is_strict)
        baseline.write()
        report = report.noted(f"wrote {counted(len(report.findings), 'finding')} to {display_path(baseline.path)}")
    elif stale:
        were, are, them = ("was", "it is", "it") if stale.total() == 1 else ("were", "they are", "them")
        n_stale = f"{counted(stale.total(), 'known finding')} of {display_path(baseline.path)}"
        report = report.noted(f"{n_stale} {were} not found; if {are} fixed, --write-baseline removes {them}")
    new = baseline.new(report.findings)
    return replace(report, findings=new, known=len(report.findings) - len(new))


def truncate(report: Report, most: int) -> Report:
    """Return the report with at most `most` findings (0: all), counting the others as hidden."""
    if not most:
        return report
    hidden = report.findings[most:]
    worst = min((finding.level for finding in hidden), key=lambda level: level.rank, default=None)
    return replace(report, findings=report.findings[:most], hidden=len(hidden), worst_hidden=worst)
