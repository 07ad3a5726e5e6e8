"""Tensors that a function returns to callers outside the file, which use them and free them (SYN201).

The caller's use is located where the function begins. Where the memory may be reused too early, the place to change is
the `return`: there, `record_stream` can be called on what is returned.
"""

import ast
from collections.abc import Iterable, Iterator
from dataclasses import replace

from syncheck.findings import Applicability, Edit, EditKind, Finding, Fix
from syncheck.hb.ids import UNKNOWN_SITE
from syncheck.lint.interp.functions import own_nodes
from syncheck.lint.interp.sites import SourceSites
from syncheck.lint.interp.values import Key, Mapping, Sequence, Tensor, Value
from syncheck.lint.nodes import Method, text
from syncheck.rules import missing_record_stream

_RECORD = "{tensor}.record_stream(torch.cuda.current_stream())"
_FREED = "freed here"
"""Text about the place of the last reference, which is in the caller here."""


def exit_of(function: ast.AST) -> ast.Return | None:
    """Return the last statement in which a function returns something."""
    returns = [node for node in own_nodes(function) if isinstance(node, ast.Return) and node.value is not None]
    return max(returns, key=lambda node: node.lineno, default=None) if isinstance(function, Method) else None


def code_for(returned: ast.expr, value: Value) -> str:
    """Return a statement that records the tensors in a result on the current stream; "" if its contents are unknown.

    Args:
        returned: the expression that is returned.
        value: its value.
    """
    if isinstance(returned, ast.Name | ast.Attribute) and isinstance(value, Tensor):
        return _RECORD.format(tensor=text(returned))
    parts = list(_parts(returned, value))
    if not parts or "" in parts:
        return ""
    if len(parts) == 1 and parts[0].startswith("*"):
        tensors = parts[0].removeprefix("*")
    else:
        tensors = f"({', '.join(parts)}{',' * (len(parts) == 1)})"
    return f"for tensor in {tensors}: {_RECORD.format(tensor='tensor')}"


def _parts(returned: ast.expr, value: Value) -> Iterator[str]:
    """Yield the tensors in a result as the elements of a tuple: `x`, `*batch`; "" for one of unknown contents."""
    match returned, value:
        case ((ast.Tuple(elts=elements) | ast.List(elts=elements)), Sequence(items=items)) if len(elements) == len(
            items
        ):
            for element, item in zip(elements, items, strict=True):
                yield from _parts(element, item)
        case ((ast.Name() | ast.Attribute() | ast.Subscript()), _):
            yield f"{text(returned)}" if isinstance(value, Tensor) else _elements(text(returned), value)
        case _:
            yield ""


def _elements(container: str, value: Value) -> str:
    """Return the elements of a container of tensors as those of a tuple: `*batch`; "" if there may be others."""
    match value:
        case Sequence(items=items):
            held, found = items, f"*{container}"
        case Mapping(items=by_key) if all(isinstance(key, int) for key in by_key):  # a list of unknown length
            held, found = list(by_key.values()), f"*{container}"
        case Mapping(items=by_key) if not any(isinstance(key, Key) for key in by_key):
            held, found = list(by_key.values()), f"*{container}.values()"
        case _:
            return ""
    return found if held and all(isinstance(item, Tensor) for item in held) else ""


def at_return(findings: Iterable[Finding], sites: SourceSites) -> Iterator[Finding]:
    """Yield findings, with memory that a caller's use outlives at the statement that returns it."""
    ends = {sites.location(used_at).frame: end for used_at, end in sites.handovers.items()}
    for finding in findings:
        end, code = ends.get(finding.location.frame, (UNKNOWN_SITE, ""))
        if not end or finding.rule is not missing_record_stream.RULE:
            yield finding
            continue
        location = replace(sites.location(end), message=finding.location.message)
        related = (place for place in finding.related if place.frame not in ends and place.message != _FREED)
        moved = replace(finding, location=location, related=tuple(dict.fromkeys(related)))
        yield _advised(moved, sites.nodes[end - 1], code)


def _advised(finding: Finding, node: ast.AST, code: str) -> Finding:
    """Return a finding with code to insert before its statement as its advice, and what else helps."""
    frame = finding.location.frame
    returned = text(node.value) if isinstance(node, ast.Return) and node.value is not None else "the result"
    advice = f"add `{code}`" if code else f"call `{_RECORD.format(tensor='x')}` for each tensor `x` in `{returned}`"
    otherwise = finding.help.partition("; or ")[2]
    edit = Edit(EditKind.INSERT_BEFORE, frame.path, frame.line, 0, code)
    return replace(
        finding,
        help=f"{advice} before line {frame.line}" + f"; or {otherwise}" * bool(otherwise),
        fix=Fix((edit,), Applicability.UNSAFE) if code else None,
    )
