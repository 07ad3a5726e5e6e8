"""Functions and classes that nothing in their file uses. Errors in them are warnings, since they may never run.

They are private, their uses are commented out, or the file is a script that does not use them.
"""

import ast
import re
from collections import Counter
from collections.abc import Iterable, Iterator

from syncheck.findings import Finding
from syncheck.lint.files import lines_of
from syncheck.lint.nodes import nodes_in, text
from syncheck.rules.model import Severity
from syncheck.source.expressions import has_line

_WORD = re.compile(r"\w+")
_COMMENTS = re.compile(r"^[ \t]*#.*$", re.MULTILINE)
"""Lines that are comments."""


def as_warnings(findings: Iterable[Finding], tree: ast.Module, source: str) -> Iterator[Finding]:
    """Yield the findings of a file, with those in such functions as warnings.

    Args:
        findings: the findings.
        tree: the file.
        source: its text.
    """
    helpers: list[ast.stmt] | None = None
    for finding in findings:
        if finding.level is Severity.ERROR:
            helpers = list(_helpers(tree, source)) if helpers is None else helpers
            if any(has_line(helper, finding.location.frame.line) for helper in helpers):
                yield finding.as_warning()
                continue
        yield finding


def _helpers(tree: ast.Module, source: str) -> Iterator[ast.stmt]:
    """Yield the functions, methods and classes of a file that nothing in it uses."""
    inherited = {
        id(member) for kind in nodes_in(tree) if isinstance(kind, ast.ClassDef) and kind.bases for member in kind.body
    }
    of_script = set(tree.body) if any(map(_is_main, tree.body)) else set()
    lines, comments = lines_of(source), "\n".join(_COMMENTS.findall(source))
    words = Counter(_WORD.findall(_COMMENTS.sub("", source)))
    for node in nodes_in(tree):
        if not isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef) or node.decorator_list:
            continue
        is_of_script = node in of_script and not node.name.startswith("test")  # pytest may call it
        if id(node) not in inherited and (is_of_script or _is_private(node.name) or f"{node.name}(" in comments):
            own = _COMMENTS.sub("", "".join(lines[node.lineno - 1 : node.end_lineno]))
            if words[node.name] == _WORD.findall(own).count(node.name):  # else it is also elsewhere
                yield node


def _is_main(step: ast.stmt) -> bool:
    return isinstance(step, ast.If) and "__main__" in text(step.test)


def _is_private(name: str) -> bool:
    return name.startswith("_") and not name.endswith("__")
