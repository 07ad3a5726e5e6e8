"""Applies the advice in a report's text as a reader who pastes it would, without using the structured edits."""

import ast
import re

_ADDED = re.compile(r"add `([^`<]+)` (before|after) line (\d+)")
_CALLED = re.compile(r"call `([^`<]+)` (?:instead of `\.(\w+)\(\)` )?at line (\d+)")
_APPENDED = re.compile(r"add `(\.[^`]+)` to (?:the call|both calls) at line (\d+)")
_ARGUMENT = re.compile(r"pass `(\w+=\w+)` to (?:the call|both calls) at line (\d+)")
_REMOVED = re.compile(r"remove the (?:call|wait) at line (\d+)")
_DROPPED = re.compile(r"drop `(non_blocking=True)` at line (\d+)")
_ALTERNATIVES = re.compile(r"; or let|, or record an event|, or record `|, or keep its handle")


def pasted(source: str, advice: str) -> str | None:
    """Return a program with a finding's first advice applied, or None if it is not code or has a placeholder."""
    first = _ALTERNATIVES.split(advice)[0]
    lines = source.split("\n")
    changes = [
        *((int(n), _insert, (code, where)) for code, where, n in _ADDED.findall(first)),
        *((int(n), _replace_call, (method or _method(code), code)) for code, method, n in _CALLED.findall(first)),
        *((int(n), _append, (code,)) for code, n in _APPENDED.findall(first)),
        *((int(n), _add_argument, (code,)) for code, n in _ARGUMENT.findall(first)),
        *((int(n), _remove, ()) for n in _REMOVED.findall(first)),
        *((int(n), _drop, (code,)) for code, n in _DROPPED.findall(first)),
    ]  # fmt: skip
    if not changes or "for example" in first:
        return None
    for number, change, arguments in sorted(changes, key=lambda change: -change[0]):
        change(lines, number, *arguments)
    return "\n".join(lines)


def has_placeholder(advice: str) -> bool:
    """Return whether a reader would have to complete the advised code or choose its place."""
    pattern = r"`[^`]*<\w[\w ]*>[^`]*`|for example|split line|end of the block|returns a handle and not None"
    return re.search(pattern, advice) is not None


def _method(code: str) -> str:
    """Return the function name in a call: "synchronize" for `torch.cuda.synchronize(1)`."""
    return code.partition("(")[0].rpartition(".")[2]


def _insert(lines: list[str], number: int, code: str, where: str) -> None:
    line = lines[number - 1]
    indent = line[: len(line) - len(line.lstrip())]
    lines.insert(number - (where == "before"), indent + code)


def _calls(lines: list[str], number: int, name: str) -> list[ast.Call]:
    """Return the calls of a function or method in a line, last one first."""
    calls = [node for node in ast.walk(ast.parse("\n".join(lines))) if isinstance(node, ast.Call)]
    named = [c for c in calls if c.lineno == number and ast.unparse(c.func).rpartition(".")[2] == name]
    return sorted(named, key=lambda call: -call.col_offset)


def _replace_call(lines: list[str], number: int, name: str, code: str) -> None:
    (call,) = _calls(lines, number, name)
    line = lines[number - 1]
    lines[number - 1] = line[: call.col_offset] + code + line[call.end_col_offset :]


def _append(lines: list[str], number: int, code: str) -> None:
    lines[number - 1] = lines[number - 1].partition("#")[0].rstrip() + code


def _add_argument(lines: list[str], number: int, code: str) -> None:
    name = code.partition("=")[0]
    for call in _calls(lines, number, "Event"):
        line, end = lines[number - 1], (call.end_col_offset or 0) - 1
        known = [keyword for keyword in call.keywords if keyword.arg == name]
        if known:
            lines[number - 1] = line[: known[0].col_offset] + code + line[known[0].end_col_offset :]
        else:
            comma = ", " if call.args or call.keywords else ""
            lines[number - 1] = line[:end] + comma + code + line[end:]


def _remove(lines: list[str], number: int) -> None:
    line = lines[number - 1]
    lines[number - 1] = line[: len(line) - len(line.lstrip())] + "pass"


def _drop(lines: list[str], number: int, code: str) -> None:
    lines[number - 1] = re.sub(rf",?\s*{code}", "", lines[number - 1])
