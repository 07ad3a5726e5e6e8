"""What becomes of findings: which are left out, as settings, comments and the baseline say."""

from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import replace

from syncheck import ignoring
from syncheck.baseline import Baseline, Entry
from syncheck.config import Options
from syncheck.errors import ConfigError
from syncheck.findings import Finding, Report
from syncheck.paths import shown
from syncheck.suppressions import Comments


class Policy:
    """Leaves findings of a run out.

    Args:
        options: how.
        is_linted_away: tells whether a comment, given by (path, line), silences what the linter finds.

    Raises:
        ConfigError: the baseline is missing or damaged.
    """

    def __init__(self, options: Options, is_linted_away: Callable[[str, int], bool] | None = None) -> None:
        self._options = options
        self._comments = Comments()
        self._is_linted_away = is_linted_away
        self._baseline = baseline_of(options)

    def applied(self, report: Report) -> Report:
        """Return the report without what settings and comments silence."""
        return replace(report, findings=tuple(filter(self._is_wanted, report.findings)))

    def concluded(self, report: Report, lines: Iterable[tuple[str, int]] = ()) -> Report:
        """Return what is to be shown of a whole run's report, as `applied` gave it.

        Args:
            report: of the whole run.
            lines: (path, line) of all the program's call sites: comments there that silenced nothing are told.

        Raises:
            ConfigError: the baseline cannot be written.
        """
        report = replace(report, notes=(*report.notes, *self._unused(lines)))
        if self._baseline is not None:
            report = known_left_out(report, self._baseline, self._options, self._is_looked_at, is_certain=False)
        return limited(report, self._options.max_findings)

    def _is_wanted(self, finding: Finding) -> bool:
        if finding.rule.code not in self._options.codes_for(finding.place.frame.path):
            return False
        if self._options.third_party == "off" and finding.package:
            return False
        return not self._comments.silence(finding)

    def _is_looked_at(self, entry: Entry) -> bool:
        return entry.half == "run" and entry.rule in self._options.selected()

    def _unused(self, lines: Iterable[tuple[str, int]]) -> list[str]:
        by_path: dict[str, set[int]] = {}
        for path, line in lines:
            by_path.setdefault(path, set()).add(line)
        notes = [
            f"{path}:{comment.line}: unused `{comment}`"
            for path, numbers in sorted(by_path.items())
            for comment in self._comments.unused(path, numbers)
            if comment.half or not (self._is_linted_away and self._is_linted_away(path, comment.line))
        ]
        blocks = sorted(ignoring.entered - ignoring.used, key=lambda block: (block.path, block.line))
        return notes + [
            f"{shown(b.path)}:{b.line}: unused `syncheck.ignore({', '.join(sorted(b.codes))})`" for b in blocks
        ]


def baseline_of(options: Options) -> Baseline | None:
    """Return the baseline that the options name: an empty one if it is to be written; None if there is none.

    Raises:
        ConfigError: it is missing or damaged.
    """
    if options.baseline is None:
        if options.write_baseline:
            raise ConfigError(
                "--write-baseline needs the name of a file", "add --baseline FILE, or set it in pyproject.toml"
            )
        return None
    if options.write_baseline and not options.baseline.exists():
        return Baseline(options.baseline)
    return Baseline.read(options.baseline)


def known_left_out(
    report: Report, baseline: Baseline, options: Options, is_looked_at: Callable[[Entry], bool], *, is_certain: bool
) -> Report:
    """Return the report without what the baseline knows, and bring the baseline up to date.

    Args:
        report: what was found.
        baseline: what is known.
        options: whether the baseline is to be written anew.
        is_looked_at: tells whether an entry would have been found, were it still there.
        is_certain: what was looked at and not found is fixed, and vanishes from the baseline.

    Raises:
        ConfigError: it cannot be written.
    """
    gone = Counter({entry: n for entry, n in baseline.gone(report.findings).items() if is_looked_at(entry)})
    notes = report.notes
    if options.write_baseline:
        baseline.replace(report.findings, is_looked_at)
        baseline.write()
    elif gone and is_certain:
        baseline.known -= gone
        baseline.write()
        notes = (*notes, f"known findings that are fixed, and taken out of {shown(baseline.path)}: {gone.total()}")
    elif gone:
        hint = "if they are fixed, --write-baseline takes them out"
        notes = (*notes, f"known findings of {shown(baseline.path)} that this run did not meet: {gone.total()}; {hint}")
    new = baseline.new(report.findings)
    return replace(report, findings=new, notes=notes, known=len(report.findings) - len(new))


def limited(report: Report, most: int) -> Report:
    """Return the report with at most some findings, 0 for all; the others are counted as hidden."""
    if not most:
        return report
    hidden = max(0, len(report.findings) - most)
    return replace(report, findings=report.findings[:most], hidden=report.hidden + hidden)
