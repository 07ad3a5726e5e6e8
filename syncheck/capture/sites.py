"""Call sites: captured as code objects and instruction offsets, turned into text only for a finding."""

import os
import sys
from types import CodeType, FrameType

from syncheck.capture.naming import bound_name
from syncheck.capture.sources import PACKAGE, column_of, excerpt, is_user_file, position, shown_path, source_line
from syncheck.findings import Frame, Place

_MAX_FRAMES = 48
UNKNOWN = Place(Frame("<unknown>", 0))


class SiteTable:
    """Interned call stacks.

    Args:
        roots: folders whose files are the user's even inside an installed package (the program's own folder).
    """

    def __init__(self, roots: tuple[str, ...] = ()) -> None:
        self._roots = tuple(os.path.realpath(root) + os.sep for root in roots)
        self._ids: dict[tuple[int, ...], int] = {}
        self._stacks: list[list[tuple[CodeType, int]]] = [[]]

    def capture(self, frame: FrameType | None) -> int:
        """Return the id of the call stack that ends in `frame`, syncheck's own frames left out."""
        while frame is not None and frame.f_code.co_filename.startswith(PACKAGE):
            frame = frame.f_back
        key: list[int] = []
        start = frame
        while frame is not None and len(key) < 2 * _MAX_FRAMES:
            key.append(id(frame.f_code))
            key.append(frame.f_lasti)
            frame = frame.f_back
        wanted = tuple(key)
        known = self._ids.get(wanted)
        if known is None:
            known = self._ids[wanted] = len(self._stacks)
            self._stacks.append(_stack(start))  # holds the code objects, so that their ids stay theirs
        return known

    def here(self) -> int:
        """Return the id of the caller's call stack."""
        return self.capture(sys._getframe(1))  # noqa: SLF001  the documented way to get a frame

    def place(self, ident: int) -> Place:
        """Return the place of a call site, with its innermost user frame and an excerpt of the source."""
        frames = tuple(
            self._frame(code, lasti)
            for code, lasti in self._stacks[ident]
            if not code.co_filename.startswith((PACKAGE, "<frozen runpy"))
        )
        if not frames:
            return UNKNOWN
        codes = [code for code, _ in self._stacks[ident] if not code.co_filename.startswith((PACKAGE, "<frozen runpy"))]
        chosen = next((index for index, frame in enumerate(frames) if frame.is_user), 0)
        return Place(frames[chosen], "", excerpt(codes[chosen], frames[chosen]), frames)

    def bound(self, ident: int) -> str:
        """Return the name that the program binds what is made at a call site to, or deletes there; "" if none."""
        return bound_name(self.user_code(ident))

    def user_code(self, ident: int) -> tuple[CodeType, int] | None:
        """Return code object and instruction offset of a site's innermost user frame."""
        for code, lasti in self._stacks[ident]:
            if self._is_user(code.co_filename):
                return code, lasti
        return None

    def _is_user(self, filename: str) -> bool:
        return is_user_file(filename) or (bool(self._roots) and os.path.realpath(filename).startswith(self._roots))

    def _frame(self, code: CodeType, lasti: int) -> Frame:
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
            is_user=self._is_user(code.co_filename),
        )


def _stack(frame: FrameType | None) -> list[tuple[CodeType, int]]:
    stack: list[tuple[CodeType, int]] = []
    while frame is not None and len(stack) < _MAX_FRAMES:
        stack.append((frame.f_code, frame.f_lasti))
        frame = frame.f_back
    return stack
