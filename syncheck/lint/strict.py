"""Findings of `--strict`: they rest on additional assumptions, and are warnings that state these assumptions."""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace

from syncheck.findings import Finding, Frame
from syncheck.lint.interp.machine import Machine
from syncheck.lint.interp.premises import Premise, Premises
from syncheck.lint.interp.values import Function, Value
from syncheck.lint.parameters import assumed_tensor, tensors_given
from syncheck.rules.model import Severity

PASSES: tuple[frozenset[Premise], ...] = tuple(frozenset((kind,)) for kind in Premise)
"""The premises of each additional pass over the functions of a file: one kind at a time."""
_MAX = {Premise.DEVICE: 2, Premise.CODE: 2, Premise.BRANCH: 1}
"""Maximum number of premises per finding, by kind. With more, it is rarely true, since conditions are related."""

_CLOCK = "SYN701"

Texts = Mapping[tuple[str, Frame], tuple[str, ...]]
"""The premises of findings, by rule code and frame."""


def with_premises_first(
    findings: Iterable[Finding], texts: Texts, premises: Premises, kinds: frozenset[Premise]
) -> Iterator[Finding]:
    """Yield findings with their premises listed before their other assumptions.

    Args:
        findings: the findings of one path.
        texts: the premises of findings.
        premises: the premises of the path.
        kinds: the kinds of premises of this pass. Without any, findings about unknown code are warnings.
    """
    for finding in findings:
        taken = texts.get((finding.rule.code, finding.location.frame), ())
        resting = replace(finding, assumptions=(*taken, *finding.assumptions))
        guessed = premises.about_code - (premises.about_networks if finding.rule.code == _CLOCK else set())
        if not premises.about_models.isdisjoint(taken):
            if finding.rule.code != _CLOCK:
                yield _worded(resting)
        elif kinds or guessed.isdisjoint(taken):
            yield resting
        elif resting.level is not Severity.ADVICE and is_likely(resting, frozenset((Premise.CODE,))):
            yield _worded(resting)


def is_likely(finding: Finding, kinds: frozenset[Premise]) -> bool:
    """Return whether a finding rests on few premises. Work that unknown code leaves for a clock is mere guesswork."""
    if Premise.CODE in kinds and finding.rule.code == _CLOCK:
        return False
    return 0 < len(_premises(finding)) <= min((_MAX[kind] for kind in kinds), default=0)


def more(findings: Iterable[Finding], known: Iterable[Finding]) -> list[Finding]:
    """Return the findings to report in addition to the known ones, one per rule and line."""
    spots = {_spot(finding) for finding in known}
    best: dict[tuple[str, int], Finding] = {}
    for finding in findings:
        spot = _spot(finding)
        if finding.level is Severity.ADVICE or spot in spots:
            continue
        if spot not in best or len(finding.assumptions) < len(best[spot].assumptions):
            best[spot] = finding
    return [_worded(finding) for finding in best.values()]


def _spot(finding: Finding) -> tuple[str, int]:
    return finding.rule.code, finding.location.frame.line


def _premises(finding: Finding) -> tuple[str, ...]:
    """Return the assumptions of a finding, except that its path can be taken, which all findings share."""
    return tuple(text for text in finding.assumptions if not text.startswith("conditions"))


def _worded(finding: Finding) -> Finding:
    """Return a finding as a warning that states its premises. Its fix becomes an example: it may be unnecessary."""
    message = f"{finding.message}, if {' and '.join(_premises(finding))}"
    return replace(finding.with_example(), message=message, level=Severity.WARNING)


def assumed_arguments(machine: Machine, function: Function) -> dict[str, Value]:
    """Return the tensors that a function is assumed to get, by parameter name."""
    if not machine.sites.premises.has(Premise.DEVICE):
        return {}
    made: dict[str, Value] = {}
    for argument in tensors_given(function.node):
        tensor = assumed_tensor(machine, argument)
        machine.launch(tensor.stream, "the caller's work", [(tensor, True)], argument)
        made[argument.arg] = tensor
    return made
