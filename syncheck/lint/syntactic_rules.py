"""Checks the syntactic rules on one file."""

from collections.abc import Iterator, Sequence

import libcst as cst

from syncheck.findings import Finding
from syncheck.lint import budget
from syncheck.lint.analysis import Analysis
from syncheck.lint.definitions import Definition
from syncheck.lint.gpu_state import GpuState, GpuStates, Position, RecordingExpressions
from syncheck.lint.interp.decisions import Flipped
from syncheck.lint.interp.imported import FindFunction
from syncheck.lint.interp.interpreter import Interpreter
from syncheck.lint.interp.machine import Machine
from syncheck.lint.prefilter import lines_with
from syncheck.lint.rules.base import SyntacticRule
from syncheck.lint.source_file import SourceFile

_UNKNOWN_SYNTAX = "not checked to the end: findings in syntax that this version of libcst cannot parse are missing"


def check(source: SourceFile, kinds: Sequence[type[SyntacticRule]]) -> tuple[list[Finding], str, str]:
    """Check some rules on a file. Only definitions with a trigger word of a rule are parsed for it.

    Returns:
        The findings, the error message of a project's rule that failed ("" if none did), and a note about definitions
        that were left out ("" if none were).
    """
    states = GpuStates(lambda found: _record(source, found))
    found: list[Finding] = []
    problem = left_out = ""
    for kind, definition in _pairs(source, kinds):
        try:
            rule = kind(source, definition, states)
            rule.look()
            found += rule.found
        except cst.ParserSyntaxError:
            left_out = left_out or _UNKNOWN_SYNTAX
        except RecursionError:
            left_out = left_out or budget.TOO_DEEP
        except Exception as error:  # noqa: BLE001  code of a project: its failure must not stop the other rules
            where = f"line {definition.lines.first}"
            problem = problem or f"{where}: the rule {kind.rule.code} failed: {type(error).__name__}: {error}"
    return found, problem, left_out


def _pairs(
    source: SourceFile, kinds: Sequence[type[SyntacticRule]]
) -> Iterator[tuple[type[SyntacticRule], Definition]]:
    """Yield the rules with the definitions that they apply to."""
    for is_whole in (False, True):
        wanted = [kind for kind in kinds if kind.looks_at_classes is is_whole]
        for definition in source.definitions.near(_lines(source, wanted), with_whole_classes=is_whole):
            for kind in wanted:
                if kind.rule.concerns(definition.text) and kind.may_find(definition.text):
                    yield kind, definition


def _lines(source: SourceFile, kinds: Sequence[type[SyntacticRule]]) -> Sequence[int]:
    """Return the lines with a trigger word of some rules; all lines if any rule has no trigger words."""
    if any(not kind.rule.words for kind in kinds):
        return range(1, len(source.lines_with_ends) + 1)
    return lines_with(source.text, {word for kind in kinds for word in kind.rule.first_words})


def _record(source: SourceFile, found: dict[Position, GpuState]) -> None:
    """Interpret all of a file, and record the states."""

    def recording(machine: Machine, flipped: Flipped, steps: int, find: FindFunction) -> Interpreter:
        def expressions_of(evaluator: object) -> RecordingExpressions:
            return RecordingExpressions(evaluator, found, source.lines)  # type: ignore[arg-type]  # an Evaluator

        return Interpreter(machine, flipped, steps, find, expressions_of)

    Analysis(source, recording, is_thorough=True).findings()
