"""Looks for the rules of shape in one file."""

from collections.abc import Iterator, Sequence

import libcst as cst

from syncheck.findings import Finding
from syncheck.lint.analysis import Analysis
from syncheck.lint.definitions import Definition
from syncheck.lint.gpu_state import GpuState, GpuStates, Position, RecordingExpressions
from syncheck.lint.interp.decisions import Flipped
from syncheck.lint.interp.imported import FindFunction
from syncheck.lint.interp.interpreter import Interpreter
from syncheck.lint.interp.machine import Machine
from syncheck.lint.prefilter import lines_with
from syncheck.lint.rules.base import ShapeRule
from syncheck.lint.source_file import SourceFile


def check(source: SourceFile, kinds: Sequence[type[ShapeRule]]) -> tuple[list[Finding], str]:
    """Look for some rules in a file. Definitions without a word of a rule are not parsed for it.

    Returns:
        What they find, and why a rule of a project failed; "" if none did.
    """
    states = GpuStates(lambda found: _record(source, found))
    found: list[Finding] = []
    problem = ""
    for kind, definition in _pairs(source, kinds):
        try:
            found += _visited(kind, source, definition, states)
        except Exception as error:  # noqa: BLE001  a project's code: the other rules are looked for all the same
            where = f"line {definition.lines.first}"
            problem = problem or f"{where}: the rule {kind.rule.code} failed: {type(error).__name__}: {error}"
    return found, problem


def _pairs(source: SourceFile, kinds: Sequence[type[ShapeRule]]) -> Iterator[tuple[type[ShapeRule], Definition]]:
    """Yield the rules with the definitions that they concern."""
    for is_whole in (False, True):
        wanted = [kind for kind in kinds if kind.looks_at_classes is is_whole]
        for definition in source.definitions.near(_lines(source, wanted), are_classes_whole=is_whole):
            for kind in wanted:
                if kind.rule.concerns(definition.text) and kind.may_find(definition.text):
                    yield kind, definition


def _lines(source: SourceFile, kinds: Sequence[type[ShapeRule]]) -> Sequence[int]:
    """Return the lines in which a word of some rules stands; all of them for a rule without words."""
    if any(not kind.rule.words for kind in kinds):
        return range(1, len(source.lines_with_ends) + 1)
    return lines_with(source.text, {word for kind in kinds for word in kind.rule.first_words})


def _visited(kind: type[ShapeRule], source: SourceFile, definition: Definition, states: GpuStates) -> list[Finding]:
    rule = kind(source, definition, states)
    try:
        rule.look()
    except cst.ParserSyntaxError:  # syntax that this version of libcst does not know
        return []
    return rule.found


def _record(source: SourceFile, found: dict[Position, GpuState]) -> None:
    """Follow a file, whatever stands in it, and record the states."""

    def recording(machine: Machine, flipped: Flipped, steps: int, find: FindFunction) -> Interpreter:
        def expressions_of(evaluator: object) -> RecordingExpressions:
            return RecordingExpressions(evaluator, found, source.lines)  # type: ignore[arg-type]  # as Expressions

        return Interpreter(machine, flipped, steps, find, expressions_of)

    Analysis(source, recording, is_thorough=True).findings()
