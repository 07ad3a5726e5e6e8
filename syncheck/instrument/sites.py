"""Call sites: captured as code objects and instruction offsets, and converted to text only for a finding."""

import os
from itertools import count
from types import CodeType, FrameType

from syncheck.filters.ignore_block import Ignored, covers, current, running
from syncheck.findings import UNKNOWN, Frame, Location
from syncheck.hb.ids import UNKNOWN_SITE, SiteId
from syncheck.instrument.naming import bound_name, is_passed_on
from syncheck.rules.model import Rule
from syncheck.sanitizer.monitor import SourceLine
from syncheck.source.frames import frame_at
from syncheck.source.lines import PACKAGE, column_of, excerpt, is_user_file, lines_of, position, shown_path
from syncheck.source.scopes import scopes_of
from syncheck.source.text import GENERATED, source_line, source_text

_MAX_FRAMES = 48
_MAX_SKIPPED = 16
"""The most innermost frames of syncheck with which a stack can still be looked up in one walk."""
_MAX_WALKED = 2 * (_MAX_FRAMES + _MAX_SKIPPED)
_LAUNCHER_FOLDER = os.path.join(PACKAGE, "run", "launcher")
_PROGRAM, _SYNCHECK, _LAUNCHER = 1, 2, 3
"""Owners of code objects; 0 means unknown."""


class SiteTable:
    """Interned call stacks.

    Args:
        roots: folders whose files are user code even inside an installed package (the program's own folder).
    """

    def __init__(self, roots: tuple[str, ...] = ()) -> None:
        self._roots = tuple(os.path.realpath(root) + os.sep for root in roots)
        self._ids: dict[tuple[int, ...], SiteId] = {}
        # site -> its stack; keeps the code objects alive, so that their ids stay unique
        self._stacks: dict[SiteId, list[tuple[CodeType, int]]] = {UNKNOWN_SITE: []}
        self._captured: dict[tuple[int, ...], SiteId] = {}  # stack including frames that do not count -> site
        self._bottom: FrameType | None = None  # the launcher's innermost frame, if there is one
        self._numbers = count(1)
        self._kinds: dict[int, bool] = {}  # id of a code object -> whether it is user code
        self._owners: dict[int, int] = {}  # id of a code object -> its owner
        self._codes: list[CodeType] = []  # keeps code objects alive, so that their ids stay unique
        self._frames: dict[tuple[int, int], Frame] = {}  # (id of a code object in `_stacks`, offset) -> its description
        self._ignored: dict[SiteId, tuple[Ignored, ...]] = {}  # call site -> the enclosing `syncheck.ignore` blocks
        self._twins: dict[tuple[SiteId, tuple[Ignored, ...]], SiteId] = {}  # (site, enclosing blocks) -> its twin

    def capture(self, frame: FrameType | None) -> SiteId:
        """Return the id of the call stack that ends in `frame`, excluding syncheck's own frames."""
        key: list[int] = []
        walked, bottom = frame, self._bottom
        while walked is not None and walked is not bottom and len(key) < _MAX_WALKED:
            key += id(walked.f_code), walked.f_lasti
            walked = walked.f_back
        wanted = tuple(key)
        known = self._captured.get(wanted) or self._capture(wanted, frame)
        return self._inside(known, UNKNOWN_SITE) if running else known

    def _capture(self, walked: tuple[int, ...], frame: FrameType | None) -> SiteId:
        """Look up or add a stack for `capture`; `walked`: ids and offsets of the frames on its walk, in order."""
        inner = frame
        n_skipped = 0
        while frame is not None and self._owner(frame.f_code) != _PROGRAM:
            frame = frame.f_back
            n_skipped += 1
        key: list[int] = []
        start = frame
        while frame is not None and len(key) < 2 * _MAX_FRAMES and self._owner(frame.f_code) != _LAUNCHER:
            key += id(frame.f_code), frame.f_lasti
            frame = frame.f_back
        if frame is not None and self._owner(frame.f_code) == _LAUNCHER:
            self._bottom = frame
        wanted = tuple(key)
        known = self._ids.get(wanted) or self._add(wanted, _stack(start))
        if n_skipped <= _MAX_SKIPPED:
            for _ in walked[::2]:
                assert inner is not None, "the walk ends with the stack"
                self._owner(inner.f_code)  # keeps it alive
                inner = inner.f_back
            self._captured[walked] = known
        return known

    def capture_innermost(self, frame: FrameType | None, outer: SiteId = UNKNOWN_SITE) -> SiteId:
        """Return the id of the innermost user frame's current call, whatever its callers; a tenth of `capture`'s cost.

        The id refers to the stack of the first such call. If there is no user frame, that of `outer` is appended to
        the stack.
        """
        start = frame
        kinds = self._kinds
        while frame is not None:
            code = frame.f_code
            kind = kinds.get(id(code))
            if kind is None:
                kind = self._classify(code)
            if kind:
                key = (id(code), frame.f_lasti)
                known = self._ids.get(key) or self._add(key, _stack(start))
                return self._inside(known, outer) if running else known
            frame = frame.f_back
        if start is None:
            return outer
        beyond = (id(start.f_code), start.f_lasti, outer)
        known = self._ids.get(beyond) or self._add(beyond, _stack(start) + self._stacks[outer])
        return self._inside(known, outer) if running else known

    def _inside(self, site: SiteId, outer: SiteId) -> SiteId:
        """Return the id of a call site inside this thread's `syncheck.ignore` blocks, or inside those of `outer`."""
        blocks = current() or self._ignored.get(outer)
        if not blocks or not site:
            return site
        twin = self._twins.get((site, blocks))
        if twin is None:
            twin = SiteId(next(self._numbers))
            self._stacks[twin] = self._stacks[site]
            self._ignored[twin] = blocks
            twin = self._twins.setdefault((site, blocks), twin)
        return twin

    def ignored(self, ident: SiteId, rule: Rule) -> bool:
        """Return whether the program ignores a rule at a call site."""
        return covers(self._ignored.get(ident, ()), rule)

    def ignored_codes(self, ident: SiteId) -> list[str]:
        """Return the codes of all rules that the program ignores at a call site, sorted."""
        return sorted({code for block in self._ignored.get(ident, ()) for code in block.codes})

    def __len__(self) -> int:
        return len(self._stacks)

    def lines(self, n_known: int = 0) -> set[tuple[str, int]]:
        """Return (displayed path, line) of all call sites in user code so far, without the first `n_known`."""
        found: dict[int, tuple[CodeType, set[int]]] = {}
        for ident in tuple(self._stacks)[n_known:]:
            if (place := self.user_code(ident)) is not None:
                code, lasti = place
                found.setdefault(id(code), (code, set()))[1].add(lasti)
        return {
            (shown_path(code.co_filename), line) for code, offsets in found.values() for line in lines_of(code, offsets)
        }

    def _owner(self, code: CodeType) -> int:
        """Return the owner of a code object, and keep the object alive."""
        known = self._owners.get(id(code))
        if known is not None:
            return known
        self._codes.append(code)
        owner = _LAUNCHER if is_launcher_code(code) else _SYNCHECK if code.co_filename.startswith(PACKAGE) else _PROGRAM
        self._owners[id(code)] = owner
        return owner

    def is_user_code(self, code: CodeType) -> bool:
        """Return whether a code object is user code, and keep it alive, so that its id stays unique."""
        kind = self._kinds.get(id(code))
        return self._classify(code) if kind is None else kind

    def _classify(self, code: CodeType) -> bool:
        self._codes.append(code)
        kind = self._kinds[id(code)] = self._is_user(code)
        return kind

    def _add(self, key: tuple[int, ...], stack: list[tuple[CodeType, int]]) -> SiteId:
        # another thread, or a finalizer during this call, may add sites at the same time
        new = SiteId(next(self._numbers))
        self._stacks[new] = stack
        return self._ids.setdefault(key, new)

    def here(self) -> SiteId:
        """Return the id of the caller's call stack."""
        return self.capture(frame_at(1))

    def location(self, ident: SiteId) -> Location:
        """Return the location of a call site, with its innermost user frame and a source excerpt."""
        frames = tuple(
            self._frame(code, lasti)
            for code, lasti in self._stacks[ident]
            if not code.co_filename.startswith((PACKAGE, "<frozen runpy"))
        )
        if not frames:
            return UNKNOWN
        codes = [code for code, _ in self._stacks[ident] if not code.co_filename.startswith((PACKAGE, "<frozen runpy"))]
        chosen = next((index for index, frame in enumerate(frames) if frame.is_user), 0)
        return Location(frames[chosen], "", excerpt(codes[chosen].co_filename, frames[chosen]), frames)

    def lines_of(self, ident: SiteId) -> tuple[SourceLine, ...]:
        """Implements `Sites`."""
        codes = [(code, lasti) for code, lasti in self._stacks[ident] if self._is_user(code)]
        return tuple(self._source_line(code, lasti) for code, lasti in codes) or (
            SourceLine.of_library(self.location(ident).frame),
        )

    def _source_line(self, code: CodeType, lasti: int) -> SourceLine:
        frame = self._frame(code, lasti)
        scopes = scopes_of(source_text(code.co_filename))
        return SourceLine(frame.path, frame.line, frame.column, frame.function, scopes)

    def bound(self, ident: SiteId) -> str:
        """Return the name that the program binds the result of a call site to, or deletes there; "" if none."""
        return bound_name(self.user_code(ident))

    def bound_directly(self, ident: SiteId) -> str:
        """Return the name bound to an object that the program itself, rather than a library, creates at a call site."""
        stack = self._stacks[ident]
        found = next((one for one in stack if not one[0].co_filename.startswith(PACKAGE)), None)
        is_direct = found is not None and self._is_user(found[0]) and not is_passed_on(found)
        return self.bound(ident) if is_direct else ""

    def user_code(self, ident: SiteId) -> tuple[CodeType, int] | None:
        """Return the code object and instruction offset of a site's innermost user frame."""
        for code, lasti in self._stacks[ident]:
            if self._is_user(code):
                return code, lasti
        return None

    def _is_user(self, code: CodeType) -> bool:
        filename = code.co_filename
        if filename == GENERATED and code.co_qualname.startswith("__create_fn__"):
            return False  # a generated method of a dataclass, which has no line (dataclasses.py)
        return is_user_file(filename) or (bool(self._roots) and os.path.realpath(filename).startswith(self._roots))

    def _frame(self, code: CodeType, lasti: int) -> Frame:
        """Describe a frame of a stack, once: most stacks share their outer frames."""
        key = (id(code), lasti)
        if key not in self._frames:
            self._frames[key] = self._described(code, lasti)
        return self._frames[key]

    def _described(self, code: CodeType, lasti: int) -> Frame:
        line, end_line, column, end_column = position(code, lasti)
        source = source_line(code.co_filename, line)
        return Frame(
            path=shown_path(code.co_filename),
            line=line,
            column=column_of(source, column),
            end_line=end_line,
            end_column=column_of(source_line(code.co_filename, end_line), end_column),
            function=code.co_qualname,
            source=source,
            is_user=self._is_user(code),
        )


def is_launcher_code(code: CodeType) -> bool:
    """Return whether a frame belongs to the launcher; its callers are not part of the program."""
    return code.co_filename.startswith(_LAUNCHER_FOLDER)


def _stack(frame: FrameType | None) -> list[tuple[CodeType, int]]:
    stack: list[tuple[CodeType, int]] = []
    while frame is not None and len(stack) < _MAX_FRAMES and not is_launcher_code(frame.f_code):
        stack.append((frame.f_code, frame.f_lasti))
        frame = frame.f_back
    return stack
