"""Removal of comments that suppress nothing."""

import io
import re
import tokenize

from syncheck.filters import comments
from syncheck.lint import files
from syncheck.lint.engine import lint_source

_COMMENT = re.compile(r"#\s*syncheck:\s*ignore(?:[^#]|#\d|(?<=\w)#(?=\w)(?!syncheck))*", re.IGNORECASE)
"""A comment with its reason, up to the next comment on the same line. A reason may contain `#42` and `page#part`."""
_LIST = re.compile(r"\[[^\]]*\]")


def without_unused(path: str, source: str, *, is_strict: bool = False) -> tuple[str, int]:
    """Return a file's text without unused suppressions, and the number of comments changed.

    Malformed comments are kept, since it is unknown what they are meant to suppress.

    Args:
        path: the path passed to the linter.
        source: the text, with its original line endings.
        is_strict: whether comments may suppress findings of `--strict`.
    """
    reported = set(lint_source(path, files.Text(source), is_strict=is_strict).unused)
    unused = {line for line, _ in reported}
    if not unused:
        return source, 0
    lines, removed = files.lines_of(source), 0
    for token in list(tokenize.generate_tokens(io.StringIO(source).readline)):
        line, column = token.start
        if token.type != tokenize.COMMENT or line not in unused:
            continue
        left, count = _without(token.string, line, reported)
        removed += count
        text = lines[line - 1]
        end = text[len(text.rstrip("\r\n")) :]
        rest = (text[:column] + left).rstrip()
        lines[line - 1] = rest + end if rest else ""
    return "".join(lines), removed


def _without(comment: str, line: int, reported: set[tuple[int, str]]) -> tuple[str, int]:
    """Return a comment without its unused parts, and the number of parts changed."""
    removed = 0

    def replaced(match: re.Match[str]) -> str:
        nonlocal removed
        parts = comments.read(match[0])
        if not parts or parts[0].problem:
            return match[0]
        comment = parts[0]
        if (line, str(comment)) in reported:
            removed += 1
            return ""
        left = [name for name, _ in comment.names if (line, comment.unused_message(name)) not in reported]
        if len(left) == len(comment.names):
            return match[0]
        removed += 1
        return _LIST.sub(f"[{', '.join(left)}]", match[0], count=1)

    return _COMMENT.sub(replaced, comment), removed
