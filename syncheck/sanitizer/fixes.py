"""Fixes as data: the change that a detector proposes, and its text and edits once names can be chosen."""

import ast
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

from syncheck.findings import Applicability, Edit, EditKind, Fix, Frame
from syncheck.hb.ids import UNKNOWN_SITE, EventId, NamedKind, SiteId, StreamId
from syncheck.sanitizer.insertion import times_code
from syncheck.sanitizer.messages import DeviceSyncCode, EventCode, GroupCode, Names, Part, StreamCode, Text, WaitCode
from syncheck.sanitizer.monitor import Sites
from syncheck.sanitizer.spelling import Spelling, Target
from syncheck.semantics.collectives import is_functional
from syncheck.source.handles import returns_several

_WAITS = (".wait_stream(", ".wait_event(")


class PendingEdit(NamedTuple):
    """An edit whose names are not chosen yet; see `syncheck.findings.Edit`.

    Attributes:
        kind: the kind of edit.
        site: the call next to whose statement a line is inserted, or the call that is changed.
        code: the code, with references in place of names.
        old: see `Edit`.
        is_first: whether an inserted line may come before the call that `PendingFix.after` names.
    """

    kind: EditKind
    site: SiteId
    code: Text
    old: str = ""
    is_first: bool = False


class PendingFix(NamedTuple):
    """A fix whose names are not chosen yet.

    Attributes:
        edits: the edits, which belong together.
        is_unsafe: whether it makes the host wait or guesses the place.
        after: the call after which lines inserted before another call must come; 0 if there is no such constraint.
        before: the call before which lines inserted after another call must come; 0 if there is no such constraint.
        is_example: whether it is only shown.
        is_between_threads: whether another thread must not receive a call's result before a line inserted after it, and
            has other local variables than the thread that runs that line.
        otherwise: the fallback if this fix cannot be applied.
    """

    edits: tuple[PendingEdit, ...]
    is_unsafe: bool = False
    after: SiteId = UNKNOWN_SITE
    before: SiteId = UNKNOWN_SITE
    is_example: bool = False
    is_between_threads: bool = False
    otherwise: "PendingFix | None" = None

    def choices(self) -> Iterator["PendingFix"]:
        """Yield this fix and its fallbacks, best first."""
        yield self
        if self.otherwise is not None:
            yield from self.otherwise.choices()

    def as_example(self) -> "PendingFix":
        """Return the same fix marked as an example."""
        otherwise = self.otherwise.as_example() if self.otherwise is not None else None
        return self._replace(is_example=True, otherwise=otherwise)

    @property
    def places(self) -> tuple[tuple[EditKind, SiteId], ...]:
        """The call sites that the edits of all choices concern."""
        return tuple((edit.kind, edit.site) for edit in self.all_edits())

    def all_edits(self) -> tuple[PendingEdit, ...]:
        """Return the edits of all choices, because any of them may be the one that is applied."""
        return tuple(edit for choice in self.choices() for edit in choice.edits)


def insertion(site: SiteId, *code: Part) -> PendingEdit:
    """Return the edit that inserts a statement before the statement of a call."""
    return PendingEdit(EditKind.INSERT_BEFORE, site, code)


def replacement(site: SiteId, old: str, *code: Part) -> PendingEdit:
    """Return the edit that replaces a method name and its arguments, keeping the object."""
    return PendingEdit(EditKind.REPLACE_CALL, site, code, old)


_PUTS = frozenset({"put", "put_nowait", "set_result"})
"""Methods that give another thread a value."""
_OF_STATEMENTS = frozenset({EditKind.INSERT_BEFORE, EditKind.INSERT_AFTER})
"""Kinds of edits that add a statement."""
EACH = "each"
"""The loop variable of a comprehension over a group."""


def for_each(kind: NamedKind, ident: int, *code: Part) -> Text:
    """Return the statement that runs code for each member of a group, called `EACH` in the code."""
    return ("[", *code, f" for {EACH} in ", GroupCode(kind, ident), "]")


def host_wait(site: SiteId, events: Iterable[EventId], stream: StreamId, after: SiteId) -> PendingFix:
    """Return the fix that makes the host wait before a call, using the first candidate that has a name there.

    Args:
        site: the call.
        events: events that cover the work, best first.
        stream: the stream of the work.
        after: the call that submitted the work.
    """
    waits: list[Text] = [(EventCode(event), ".synchronize()") for event in events]
    waits += _waits_for(stream)
    return first_of([PendingFix((insertion(site, *wait),), is_unsafe=True, after=after) for wait in waits])


def _waits_for(stream: StreamId) -> list[Text]:
    """Return the statements that make the host wait for a stream, best first."""
    return [(StreamCode(stream), ".synchronize()"), (DeviceSyncCode(stream),)]


def wait_after_copy(stream: StreamId, site: SiteId) -> PendingFix:
    """Return the fix that makes the host wait directly after a copy, because it is unknown where its memory changes."""
    edits = [PendingEdit(EditKind.INSERT_AFTER, site, wait) for wait in _waits_for(stream)]
    return first_of([PendingFix((edit,), is_unsafe=True) for edit in edits])


def first_of(choices: Sequence[PendingFix]) -> PendingFix:
    """Chain fixes so that the first applicable one is used."""
    *better, last = choices
    for choice in reversed(better):
        last = choice._replace(otherwise=last)
    return last


def wait_code(operator: str, site: SiteId) -> WaitCode:
    """Return the statement that waits for a collective started at a call site."""
    return WaitCode(site, is_functional=is_functional(operator))


def wait_at_once(operator: str, site: SiteId) -> PendingFix:
    """Return the fix that waits for a collective where it is started."""
    wait = wait_code(operator, site)
    fix = PendingFix((PendingEdit(EditKind.INSERT_AFTER, site, (wait,)),), is_unsafe=True)
    if wait.is_functional:
        return fix
    thrown_away = PendingEdit(EditKind.APPEND_CALL, site, (".wait()",))
    return PendingFix((thrown_away,), is_unsafe=True, otherwise=fix)


class WordedFix(NamedTuple):
    """A worded fix.

    Attributes:
        text: a sentence without the final period.
        fix: the fix.
        is_incomplete: whether the text contains placeholders or leaves a decision to the reader.
        has_placeholders: whether the text contains placeholders.
    """

    text: str
    fix: Fix
    is_incomplete: bool = False
    has_placeholders: bool = False


def word(pending: PendingFix, names: Names, sites: Sites, path: str) -> WordedFix:
    """Choose the names of a fix and word it.

    Args:
        pending: the fix.
        names: the program's names for its objects.
        sites: the call sites.
        path: the file of the finding, which the text does not repeat.
    """
    spelling = Spelling(names, sites)
    choices = [_word(choice, spelling, path) for choice in pending.choices() if _fits(choice, sites)]
    usable = (worded for worded in choices if worded.fix.applicability is not Applicability.EXAMPLE)
    complete = (worded for worded in choices if pending.is_example and not worded.is_incomplete)
    named = (worded for worded in choices if worded.is_incomplete and not worded.has_placeholders)
    better = (worded for worded in named if _places(worded) == _places(choices[0]))
    best = next(usable, next(complete, next(better, choices[0])))
    return best._replace(text=best.text + _instead(pending, spelling)) if best.has_placeholders else best


def _fits(choice: PendingFix, sites: Sites) -> bool:
    """Return whether a fix suits the calls that it changes: a list of handles cannot be waited for as a whole."""
    changed = (sites.lines_of(edit.site)[0] for edit in choice.edits if edit.kind is EditKind.APPEND_CALL)
    return not any(returns_several(line.statement, line.number, line.column) for line in changed)


def _instead(pending: PendingFix, spelling: Spelling) -> str:
    """Return what can be pasted in place of a wait for an object without a name there: a wait for the whole device."""
    edit = pending.edits[0]
    stream = next((part.stream for part in edit.code if isinstance(part, StreamCode)), None)
    is_wait = any(isinstance(part, str) and part.startswith(_WAITS) for part in edit.code)
    target = spelling.target(edit.kind, edit.site, edit.code, pending.after)
    if edit.kind is not EditKind.INSERT_BEFORE or stream is None or not is_wait or target.is_split:
        return ""
    spelled = spelling.spell((DeviceSyncCode(stream),), target.line)
    return f"; or add `{spelled.statement}` there, which waits for more" if not spelled.missing else ""


def _places(worded: WordedFix) -> list[tuple[EditKind, str, int]]:
    return [(edit.kind, edit.path, edit.line) for edit in worded.fix.edits]


def for_all(several: Sequence[PendingFix], names: Names, sites: Sites) -> PendingFix | None:
    """Return one fix for several mistakes at one place: a line that fixes all of them, else a line for each.

    Returns:
        The fix; None if one of the mistakes has no applicable fix.
    """
    spelling = Spelling(names, sites)
    usable = [_applicable_choices(pending, spelling) for pending in several]
    if not all(usable):
        return None
    first, *others = usable
    for edits, choice in first.items():
        if all(edits in found for found in others):
            return choice._replace(otherwise=None)
    best = [next(iter(found.values())) for found in usable]
    return best[0]._replace(
        edits=tuple(dict.fromkeys(edit for choice in best for edit in choice.edits)),
        is_unsafe=any(choice.is_unsafe for choice in best),
        after=next((choice.after for choice in best if choice.after), UNKNOWN_SITE),
        before=next((choice.before for choice in best if choice.before), UNKNOWN_SITE),
        otherwise=None,
    )


def without_applicable_choice(several: Sequence[PendingFix], names: Names, sites: Sites) -> PendingFix | None:
    """Return the first of several fixes that cannot be applied as it is, or None if all can."""
    spelling = Spelling(names, sites)
    return next((pending for pending in several if not _applicable_choices(pending, spelling)), None)


def _applicable_choices(pending: PendingFix, spelling: Spelling) -> dict[tuple[Edit, ...], PendingFix]:
    """Return the applicable choices of a fix by their edits, best first."""
    worded = ((_word(choice, spelling, "").fix, choice) for choice in pending.choices())
    return {fix.edits: choice for fix, choice in worded if fix.applicability is not Applicability.EXAMPLE}


def _puts(statement: ast.AST | None) -> bool:
    """Return whether a statement gives another thread a value."""
    calls = (node.func for node in ast.walk(statement) if isinstance(node, ast.Call)) if statement is not None else ()
    return any(isinstance(function, ast.Attribute) and function.attr in _PUTS for function in calls)


def _word(pending: PendingFix, spelling: Spelling, path: str) -> WordedFix:
    edits: list[Edit] = []
    placed: set[tuple[Edit, bool]] = set()
    sentences: list[str] = []
    is_clear = False  # the text itself shows that it cannot be pasted
    has_placeholders = False
    missing: dict[str, str] = {}
    is_example = pending.is_example
    for edit in pending.edits:
        other = pending.before if edit.kind is EditKind.INSERT_AFTER else pending.after
        other = UNKNOWN_SITE if edit.is_first else other
        target = spelling.target(edit.kind, edit.site, edit.code, other)
        line = target.line
        spelled = spelling.spell(edit.code, line)
        missing |= {name: what for name, what in spelled.missing.items() if what}
        is_shared = pending.is_between_threads or _puts(line.statement)
        is_after = is_shared and edit.kind is EditKind.INSERT_AFTER
        is_example |= is_after and spelling.is_for_one_thread(edit.code, line)
        is_example |= not (spelled.is_usable and target.is_usable)
        code = spelled.statement if edit.kind in _OF_STATEMENTS else spelled.code
        if edit.kind is EditKind.REPLACE_CALL and line.scopes is not None:
            owner = line.scopes.owner_of_call(line.number, line.column, edit.old)
            is_example |= not owner
            code = f"{owner}.{code}".removeprefix(".")
        rendered = Edit(edit.kind, line.path, line.number, line.column, code, edit.old)
        if (rendered, target.is_split) in placed:
            continue  # two tensors successively have the same name there
        placed.add((rendered, target.is_split))
        edits.append(rendered)
        number = target.shown_line(edit.kind)
        where = f"line {number}" if line.path == path else f"{line.path}:{number}"
        if target.is_split:
            sentences.append(_inside(spelling.author(edit.site), target, where, code))
        elif target.may_be_none:
            sentences.append(f"if the call at {where} returns a handle and not None, call `{code.strip('.')}` on it")
        else:
            sentences.append(_describe_edit(edits[-1], where))
        has_placeholders |= bool(spelled.missing)
        is_clear |= target.is_split or target.may_be_none or has_placeholders
    applicability = Applicability.UNSAFE if pending.is_unsafe else Applicability.SAFE
    text = ", and ".join(_merged(sentences))
    if is_example and not is_clear:
        text = f"for example, {text}"
    if missing:
        text += ", where " + " and ".join(f"`{name}` is {what}" for name, what in missing.items())
    fix = Fix(tuple(edits), Applicability.EXAMPLE if is_example else applicability)
    return WordedFix(text, fix, is_clear, has_placeholders)


def _merged(sentences: Sequence[str]) -> Iterator[str]:
    """Yield the sentences, with one for equal changes to several calls of a line."""
    for sentence, count in Counter(sentences).items():
        calls = "both calls" if count == 2 else f"all {count} calls"
        yield sentence.replace("the call at", f"{calls} at") if count > 1 else sentence


def _inside(author: Frame | None, target: Target, where: str, code: str) -> str:
    """Return the advice for a statement that launches work and also uses its result too early."""
    if target.inner is not None:
        where = f"before line {target.inner.number} returns its result"
        return f"in `{target.inner.function}`, add `{code}` after the `with` block of the stream, {where}"
    if author is None or not author.package:
        if isinstance(target.line.statement, ast.With | ast.AsyncWith):  # the context manager is left after the block
            return f"add `{code}` at the end of the block that begins in {where}"
        if times_code(target.line.statement):
            return f"end the timed code with `{code}`, or use `torch.utils.benchmark.Timer`, which waits"
        return f"split {where} and add `{code}` between the launch and the use"
    return f"in {author.package}, add `{code}` before {author.path}:{author.line}"


def _describe_edit(edit: Edit, where: str) -> str:
    match edit.kind:
        case EditKind.INSERT_BEFORE:
            return f"add `{edit.code}` before {where}"
        case EditKind.INSERT_AFTER:
            return f"add `{edit.code}` after {where}"
        case EditKind.REPLACE_CALL if edit.code.partition("(")[0].endswith(edit.old):
            return f"call `{edit.code}` at {where}"
        case EditKind.REPLACE_CALL:
            return f"call `{edit.code}` instead of `.{edit.old}()` at {where}"
        case EditKind.APPEND_CALL:
            return f"add `{edit.code}` to the call at {where}"
        case EditKind.ADD_ARGUMENT:
            return f"pass `{edit.code}` to the call at {where}"
