"""Edits of definitions as libcst transforms, which preserve comments and formatting."""

from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping
from typing import Any

import libcst as cst

from syncheck.findings import Edit, EditKind
from syncheck.lint.definitions import UNSUPPORTED, Definition, Definitions
from syncheck.lint.files import lines_of
from syncheck.source.text import parse_module

_INVALID = (IndexError, SyntaxError, TypeError, ValueError)
"""The errors for an edit whose code does not fit its kind. Fixes of a project's rules may have such edits."""
_INSERTIONS = frozenset({EditKind.INSERT_BEFORE, EditKind.INSERT_AFTER})


def apply(source: str, edits: Iterable[Edit]) -> tuple[str, set[Edit]]:
    """Apply edits to a file's text.

    Returns:
        The text, and the edits that could be applied.

    Raises:
        SyntaxError: the text is not valid Python.
    """
    lines = lines_of(source)
    definitions = Definitions(parse_module(source), lines)
    grouped: dict[int, tuple[Definition, list[Edit]]] = {}
    for edit in dict.fromkeys(edits):
        definition = definitions.at(edit.line)
        if definition is not None:
            grouped.setdefault(definition.lines.first, (definition, []))[1].append(edit)
    done: set[Edit] = set()
    for first in sorted(grouped, reverse=True):
        definition, wanted = grouped[first]
        changed = _changed(definition, wanted, done)
        lines[definition.lines.first - 1 : definition.lines.last] = [changed]
    return "".join(lines), done


def _changed(definition: Definition, edits: list[Edit], done: set[Edit]) -> str:
    try:
        if not definition.is_preserved:
            return definition.text
        transformer = _Editor(definition, edits)
        code = definition.wrapper.module.visit(transformer).code
    except (*UNSUPPORTED, *_INVALID):
        return definition.text
    done |= transformer.done
    return code


class _Editor(cst.CSTTransformer):
    """Applies the edits of one definition."""

    def __init__(self, definition: Definition, edits: list[Edit]) -> None:
        super().__init__()
        self.done: set[Edit] = set()
        self._statements: dict[cst.CSTNode, list[Edit]] = defaultdict(list)
        self._calls: dict[cst.CSTNode, list[Edit]] = defaultdict(list)
        for edit in edits:
            statement = definition.statement_at(edit.line)
            if statement is None:
                continue
            if edit.kind in _INSERTIONS:
                self._statements[statement].append(edit)
            else:
                call = _call_of(definition, statement, edit)
                if call is not None:
                    self._calls[call].append(edit)

    def on_visit(self, node: cst.CSTNode) -> bool:
        """Drop the insertions at an `elif`: there is no place for a statement before or after it."""
        if isinstance(node, cst.If) and isinstance(node.orelse, cst.If):
            self._statements.pop(node.orelse, None)
        return super().on_visit(node)

    def on_leave(
        self, original_node: cst.CSTNodeT, updated_node: cst.CSTNodeT
    ) -> cst.CSTNodeT | cst.RemovalSentinel | cst.FlattenSentinel[cst.CSTNodeT]:
        """Apply the edits of a node, after those of the nodes inside it."""
        node = super().on_leave(original_node, updated_node)
        for edit in self._calls.get(original_node, ()):
            if isinstance(node, cst.Call):
                node = self._edited_call(node, edit)  # type: ignore[assignment]  # a call replaces a call
        inserted = self._statements.get(original_node)
        if inserted and isinstance(node, cst.SimpleStatementLine | cst.BaseCompoundStatement):
            return self._with_lines(node, inserted)  # type: ignore[return-value]  # statements replace a statement
        return node

    def _with_lines(
        self, node: cst.SimpleStatementLine | cst.BaseCompoundStatement, edits: list[Edit]
    ) -> cst.FlattenSentinel[cst.BaseStatement]:
        before = [_statement(edit.code) for edit in edits if edit.kind is EditKind.INSERT_BEFORE]
        after = [_statement(edit.code) for edit in edits if edit.kind is EditKind.INSERT_AFTER]
        self.done |= set(edits)
        if before:  # the insertions go below the comments above the statement
            before[0] = before[0].with_changes(leading_lines=node.leading_lines)
            node = node.with_changes(leading_lines=())
        return cst.FlattenSentinel([*before, node, *after])

    def _edited_call(self, call: cst.Call, edit: Edit) -> cst.Call:
        match edit.kind:
            case EditKind.REPLACE_CALL:
                wanted = cst.ensure_type(cst.parse_expression(edit.code), cst.Call)
                function = cst.ensure_type(call.func, cst.Attribute)
                name = cst.ensure_type(wanted.func, cst.Attribute).attr
                changed = call.with_changes(func=function.with_changes(attr=name), args=wanted.args)
            case EditKind.APPEND_CALL:
                changed = cst.Call(func=cst.Attribute(value=call, attr=cst.Name(edit.code.strip(".()"))))
            case _:
                changed = _with_argument(call, edit.code)
        self.done.add(edit)
        return changed


def _call_of(definition: Definition, statement: cst.CSTNode, edit: Edit) -> cst.Call | None:
    """Return the call that an edit targets: the one at its position, or else the only candidate."""
    calls = [node for node in _calls_in(statement) if _fits(node, edit)]
    exact = [call for call in calls if _begins_at(definition, call, edit)]
    chosen = exact or (calls if len(calls) == 1 else [])
    return chosen[0] if chosen else None


def _begins_at(definition: Definition, call: cst.Call, edit: Edit) -> bool:
    start = definition.position(call).start
    if (start.line, start.column + 1) == (edit.line, edit.column):
        return True
    name = call.func.attr if isinstance(call.func, cst.Attribute) else call.func
    named = definition.position(name).start  # in Python's frames, a multi-line method call begins at its name
    return (named.line, named.column + 1) == (edit.line, edit.column)


def _fits(call: cst.Call, edit: Edit) -> bool:
    """Return whether an edit can target a call."""
    if edit.kind is EditKind.REPLACE_CALL:
        return isinstance(call.func, cst.Attribute) and call.func.attr.value == edit.old
    if edit.kind is EditKind.ADD_ARGUMENT:
        return all(argument.keyword is not None for argument in call.args)
    return True


def _calls_in(statement: cst.CSTNode) -> list[cst.Call]:
    """Return the calls of a statement, without those of nested statements."""
    found: list[cst.Call] = []
    waiting: list[cst.CSTNode] = [statement]
    while waiting:
        node = waiting.pop()
        if isinstance(node, cst.Call):
            found.append(node)
        waiting += [child for child in node.children if not isinstance(child, cst.BaseSuite)]
    return found


def _with_argument(call: cst.Call, code: str) -> cst.Call:
    wanted = cst.ensure_type(cst.parse_expression(f"f({code})"), cst.Call).args[0]
    name = code.partition("=")[0]
    kept = [argument for argument in call.args if argument.keyword is None or argument.keyword.value != name]
    if len(kept) < len(call.args):
        args = [
            wanted.with_changes(comma=argument.comma)
            if argument.keyword is not None and argument.keyword.value == name
            else argument
            for argument in call.args
        ]
        return call.with_changes(args=args)
    comma = cst.Comma(whitespace_after=cst.SimpleWhitespace(" ")) if kept else cst.MaybeSentinel.DEFAULT
    return call.with_changes(args=[wanted.with_changes(comma=comma), *kept])


def _statement(code: str) -> cst.SimpleStatementLine | cst.BaseCompoundStatement:
    return cst.parse_statement(code)


# -- comments


def with_comments(
    source: str, words: Mapping[int, Iterable[str]], comment: Callable[[list[str]], str]
) -> tuple[str, int]:
    """Add comments at the ends of some statements.

    Args:
        source: a file's text.
        words: line of a statement -> what its comment should name. A statement may have several lines.
        comment: returns the comment for some words, including the "#".

    Returns:
        The text, and the number of comments.
    """
    lines = lines_of(source)
    definitions = Definitions(parse_module(source), lines)
    grouped: dict[int, tuple[Definition, dict[int, set[str]]]] = {}
    for line, wanted in words.items():
        definition = definitions.at(line)
        if definition is not None:
            grouped.setdefault(definition.lines.first, (definition, {}))[1][line] = set(wanted)
    number = 0
    for first in sorted(grouped, reverse=True):
        definition, by_line = grouped[first]
        changed, n_added = _commented(definition, by_line, comment)
        lines[definition.lines.first - 1 : definition.lines.last] = [changed]
        number += n_added
    return "".join(lines), number


def _commented(
    definition: Definition, by_line: dict[int, set[str]], comment: Callable[[list[str]], str]
) -> tuple[str, int]:
    """Return the text of a definition with comments, and their number."""
    words: dict[cst.CSTNode, set[str]] = defaultdict(set)
    try:
        if not definition.is_preserved:
            return definition.text, 0
        for line, wanted in by_line.items():
            statement = definition.statement_at(line)
            if statement is not None:
                words[statement] |= wanted
        comments = {statement: comment(sorted(wanted)) for statement, wanted in words.items()}
        return definition.wrapper.module.visit(_Commenter(comments)).code, len(comments)
    except UNSUPPORTED:
        return definition.text, 0


class _Commenter(cst.CSTTransformer):
    """Adds comments to statements: at the end of a simple statement, and of the header of any other."""

    def __init__(self, comments: dict[cst.CSTNode, str]) -> None:
        super().__init__()
        self._comments = comments

    def on_leave(
        self, original_node: cst.CSTNodeT, updated_node: cst.CSTNodeT
    ) -> cst.CSTNodeT | cst.RemovalSentinel | cst.FlattenSentinel[cst.CSTNodeT]:
        """Add the comment of one node."""
        comment = self._comments.get(original_node)
        if comment is None:
            return updated_node
        if isinstance(updated_node, cst.SimpleStatementLine):
            return _with_end(updated_node, "trailing_whitespace", comment)
        if isinstance(updated_node, cst.Match):
            return _with_end(updated_node, "whitespace_after_colon", comment)
        body: Any = getattr(updated_node, "body", None)  # all other statements have a block
        name = "header" if isinstance(body, cst.IndentedBlock) else "trailing_whitespace"
        return updated_node.with_changes(body=_with_end(body, name, comment))


def _with_end(node: cst.CSTNodeT, name: str, comment: str) -> cst.CSTNodeT:
    """Return a node with a comment added to one of its ends of a line."""
    return node.with_changes(**{name: _ended_by(getattr(node, name), comment)})


def _ended_by(end: cst.TrailingWhitespace, comment: str) -> cst.TrailingWhitespace:
    if end.comment is not None:
        return end.with_changes(comment=cst.Comment(f"{end.comment.value}  {comment}"))
    return end.with_changes(whitespace=cst.SimpleWhitespace("  "), comment=cst.Comment(comment))
