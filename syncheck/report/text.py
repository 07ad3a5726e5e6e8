"""Text report: each finding with its source lines, then a summary of what was checked and what was not."""

from collections import Counter
from collections.abc import Iterator

from syncheck.findings import (
    NO_FILES,
    NO_STEPS,
    NOTHING_CHECKED,
    NOTHING_SEEN,
    Finding,
    Frame,
    Location,
    Report,
    counted,
    format_ranks,
)
from syncheck.report import fixes
from syncheck.report.snippet import Snippet, bar, note, snippets
from syncheck.report.style import (
    STYLE_OF,
    Painter,
    Style,
    cut,
    format_location,
    hang,
    hidden_line,
    one_line,
    visible,
    where,
)
from syncheck.rules import catalogue
from syncheck.rules.model import Severity
from syncheck.witness.proofs import MAX_SHOWN, Proof

_NARROWEST = 40


def render(
    report: Report,
    *,
    color: bool,
    stacks: bool,
    width: int = 100,
    full: bool = False,
    is_quiet: bool = False,
    show_fixes: bool = False,
    links: bool = False,
) -> str:
    """Return the whole report, with a newline after every line.

    Args:
        report: the report; its order is kept.
        color: whether to use ANSI colors; without them the report is plain text.
        stacks: whether to show the call stack of every location.
        width: line width in terminal cells; prose is wrapped, longer source lines are cut around their marks.
        full: whether to show findings that concern only installed packages in full, too.
        is_quiet: whether to omit the summary, except for the reasons why the check is incomplete.
        show_fixes: whether to list the applied fixes.
        links: whether to link rules to their pages and paths to their files, with terminal hyperlinks.
    """
    painter = Painter(color, max(width, _NARROWEST), links)
    lines: list[str] = []
    short = [finding for finding in report.findings if finding.package and not full]
    for finding in report.findings:
        if finding not in short:
            lines += [*_finding(finding, painter, stacks=stacks, is_fixable=report.is_fixable(finding)), ""]
    lines += _in_packages(short, painter)
    lines += fixes.list_fixed(report) if show_fixes else []
    lines += _doubts(report, painter) if is_quiet else _summary(report, painter)
    return "".join(f"{line}\n" for line in lines)


def _finding(finding: Finding, painter: Painter, *, stacks: bool, is_fixable: bool) -> Iterator[str]:
    parts = snippets(finding.location, finding.related, STYLE_OF[finding.level])
    gutter = _gutter(parts)
    yield from _head(finding, painter, is_fixable=is_fixable)
    for part in parts:
        yield from part.draw(gutter, painter)
        yield bar("", gutter, painter)
    if stacks:
        for location in finding.locations:
            yield from _stack(location, gutter, painter)
    yield from _advise(finding, gutter, painter)


def _in_packages(findings: list[Finding], painter: Painter) -> Iterator[str]:
    """Yield one paragraph for each rule and line of an installed package, and a hint."""
    counts = Counter((f.rule, f.level, format_location(f.location.author or f.location.frame)) for f in findings)
    first = {(f.rule, format_location(f.location.author or f.location.frame)): f for f in reversed(findings)}
    for (rule, level, there), number in counts.items():
        finding = first[rule, there]
        more = f" ({counted(number, 'finding')})" if number > 1 else ""
        text = f"{rule.name}: {there}: {one_line(finding.message)}{more}; from {where(finding.location.frame)}"
        label = f"{level}[{rule.code}]"
        first_line, *rest = hang(f"{label} ", text, painter.prose)
        yield painter.paint(label, STYLE_OF[level]) + first_line.removeprefix(label)
        yield from rest
    if findings:
        yield "these are in installed packages: --third-party full shows them in full, off hides them"
        yield ""


def _gutter(parts: list[Snippet]) -> int:
    numbers = [line for part in parts for line in part.lines]
    return max((len(str(number)) for number in numbers), default=1)


def _head(finding: Finding, painter: Painter, *, is_fixable: bool) -> Iterator[str]:
    label = f"{finding.level}[{finding.rule.code}]"
    mark = f"{fixes.MARK} " if is_fixable else ""
    sentence = f"{mark}{one_line(finding.title)}{_extent(finding)}"
    first, *rest = hang(f"{label} ", sentence, painter.prose)
    linked = painter.link(painter.paint(label, STYLE_OF[finding.level]), catalogue.url_of(finding.rule))
    yield linked + painter.paint(first.removeprefix(label), Style.STRONG)
    yield from (painter.paint(line, Style.STRONG) for line in rest)


def _extent(finding: Finding) -> str:
    parts = [f"seen {finding.count:,} times"] if finding.count > 1 else []
    ranks = format_ranks(finding.ranks or ((finding.rank,) if finding.rank else ()))
    if ranks and not finding.message.startswith(f"{ranks} "):
        parts.append(ranks)
    return f" ({', '.join(parts)})" if parts else ""


def _stack(location: Location, gutter: int, painter: Painter) -> Iterator[str]:
    """Yield the other frames of a location's stack, innermost first."""
    own_index = location.stack.index(location.frame) if location.frame in location.stack else -1
    if len(location.stack) > (own_index >= 0):
        yield from note(f"stack of {format_location(location.frame)}:", gutter, painter)
    for i, frame in enumerate(location.stack):
        if i != own_index:
            step = f"{' ' * (gutter + 5)}{'into' if i < own_index else 'from'} {_frame(frame)}"
            yield painter.paint(cut(step, painter.width), Style.PLAIN if frame.is_user else Style.FAINT)


def _frame(frame: Frame) -> str:
    source = one_line(frame.source)
    return where(frame) + (f": {source}" if source else "")


def _advise(finding: Finding, gutter: int, painter: Painter) -> Iterator[str]:
    if finding.help:
        first, *rest = hang(f"{' ' * gutter} = help: ", finding.help, painter.prose)
        yield first.replace("= help:", f"{painter.paint('=', Style.GUTTER)} {painter.paint('help:', Style.HELP)}", 1)
        yield from rest
    if finding.proof is not None:
        yield from _proof(finding.proof, gutter, painter)
    yield painter.paint(f"{' ' * gutter} = explain: syncheck explain {finding.rule.code}", Style.FAINT)


def _proof(proof: Proof, gutter: int, painter: Painter) -> Iterator[str]:
    """Yield the result of the attempt to reproduce a race: the verdict, the changes, and the command."""
    lead = f"{' ' * gutter} = proof: "
    yield from hang(lead, proof.verdict + (f": {proof.reason}" if proof.reason else ""), painter.prose)
    for one in proof.differences[:MAX_SHOWN]:
        yield from hang(f"{' ' * (len(lead) + 2)}", f"{one.what}: {one.other}, not {one.usual}", painter.prose)
    if proof.command:
        yield f"{' ' * len(lead)}reproduce with: {proof.command}"


def _summary(report: Report, painter: Painter) -> Iterator[str]:
    worst = min((finding.level for finding in report.findings), key=lambda level: level.rank, default=None)
    doubt = bool(report.incomplete or report.hidden or not (report.summary.operators or report.summary.files))
    style = STYLE_OF[worst] if worst else Style.WARNING if doubt else Style.HELP
    verdict_text = verdict(report)
    yield painter.paint("syncheck:", style) + painter.paint(f" {verdict_text}", Style.STRONG)
    yield from fixes.count_fixes(report)
    if report.summary.files:
        yield f"looked at: {counted(report.summary.files, 'file')} in {report.summary.seconds:.1f} s"
    elif report.summary.operators or (report.summary.backend and verdict_text not in NOTHING_CHECKED):
        yield from hang("checked: ", _checked(report), painter.prose)
    yield from _doubts(report, painter, verdict_text)
    for remark in report.notes:
        yield from hang("note: ", remark, painter.prose)
    if report.hidden:
        yield painter.paint(hidden_line(report.hidden), Style.STRONG)
    if report.known:
        yield f"{counted(report.known, 'known finding')} in the baseline not shown"


def _doubts(report: Report, painter: Painter, said: str = "") -> Iterator[str]:
    """Yield the reasons why the check is incomplete, except the one already shown."""
    for reason in (reason for reason in report.incomplete if reason != said):
        yield from (painter.paint(line, Style.WARNING) for line in hang("incomplete: ", reason, painter.prose))


def verdict(report: Report) -> str:
    """Return the result of a check in a few words."""
    if report.findings:
        return f"{_levels(report)} in {_files(report)}"
    if report.hidden:
        return "all findings are hidden"
    if report.known and not report.incomplete:
        return "no new findings"
    if not (report.summary.operators or report.summary.files):
        return _nothing(report)
    return "no findings, but the check is incomplete" if report.incomplete else "no findings"


def _nothing(report: Report) -> str:
    """Return why nothing was checked, if there is a single reason."""
    if set(report.incomplete) - NOTHING_CHECKED or not (report.incomplete or report.summary.backend):
        return "nothing was checked"
    return next((reason for reason in (NO_FILES, NO_STEPS) if reason in report.incomplete), NOTHING_SEEN)


def _levels(report: Report) -> str:
    counts = Counter(finding.level for finding in report.findings)
    nouns = {Severity.ERROR: "error", Severity.WARNING: "warning", Severity.ADVICE: "suggestion"}
    parts = [counted(counts[level], noun) for level, noun in nouns.items() if counts[level]]
    return ", ".join(parts)


def _files(report: Report) -> str:
    paths = sorted({visible(finding.location.frame.path) for finding in report.findings})
    return " and ".join(paths) if len(paths) <= 2 else f"{len(paths)} files"


def _checked(report: Report) -> str:
    seen = report.summary
    backend = f" ({seen.backend})" if seen.backend else ""
    if not seen.operators:
        return f"no GPU operator{backend}"
    actors = f"{counted(seen.streams, 'stream')} of {counted(seen.devices, 'device')}"
    ranks = f" in {counted(seen.ranks, 'rank')}" if seen.ranks else ""
    return f"{counted(seen.operators, 'operator')} on {actors}{ranks} in {seen.seconds:.1f} s{backend}"
