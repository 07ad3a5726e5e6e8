"""Work of other libraries on a stream that never waits for the stream which computes the inputs (SYN105).

Such work is launched with the handle of a stream, as in `context.execute_async_v3(self.stream.cuda_stream)` of
TensorRT or `cudart.cudaMemcpyAsync(..., stream.cuda_stream)`, on memory that is given by `x.data_ptr()`.
"""

import ast
import re
from collections.abc import Iterator, Sequence

from syncheck.findings import Finding
from syncheck.lint.file_calls import argument_of, calls_by_name, copies_values
from syncheck.lint.interp.functions import nodes_around
from syncheck.lint.interp.unknown import may_wait
from syncheck.lint.locations import lines_of
from syncheck.lint.nodes import HOST_READS, Method, bound_names, is_non_blocking, parameters, text, walk
from syncheck.lint.patterns.context import Context
from syncheck.lint.patterns.unordered_streams import FLAW, HELP, blocks_of, unordered_streams
from syncheck.lint.prefilter import MOVED
from syncheck.rules import unordered_side_stream
from syncheck.rules.model import Family
from syncheck.semantics.python_api import ALIASES, CASTS, FACTORIES
from syncheck.source.expressions import arguments_of, has_line, last_name

_HANDLE = "cuda_stream"
_NO_LAUNCH = frozenset("ExternalStream print info debug format int c_void_p CUstream cudaStream_t str hex".split())
"""Functions that get a handle and launch nothing."""
_COPY_FROM_HOST = re.compile(r"HostToDevice|H2D|htod", re.IGNORECASE)
_COMPUTING = CASTS | {"to", "contiguous", "clone", "type"}
"""Methods that launch a kernel, in general."""
_DTYPE = re.compile(r"dtype|^torch\.(?:b?float|half|double|u?int|long|bool)\d*$")
_LAUNCHING_NOTHING = frozenset(
    "empty empty_strided empty_like tensor as_tensor asarray from_numpy frombuffer load device Size Generator".split()
)
"""Functions of torch whose result is not filled by a kernel, or for which the host waits."""


def can_matter(source: str) -> bool:
    """Return whether this check may apply to a file."""
    return _HANDLE in source and "data_ptr()" in source and "Stream(" in source


def findings(context: Context) -> Iterator[Finding]:
    """Yield the launches, as warnings."""
    lines = lines_of(context.known, frozenset(Family) - {Family.HOST})
    for function, nodes, stream in unordered_streams(context.tree, context.sites.text):
        for call, used in _launches(function, nodes, stream, context.tree):
            if not lines & set(range(call.lineno, (call.end_lineno or call.lineno) + 1)):
                flaw, advice = FLAW.format(stream=stream, name=used), HELP.format(stream=stream, line=call.lineno)
                yield context.sites.warning(unordered_side_stream.RULE, call, function.name, advice, flaw=flaw)


def _launches(
    function: Method, nodes: Sequence[ast.AST], stream: str, tree: ast.Module
) -> Iterator[tuple[ast.Call, str]]:
    """Yield the launches on a stream, each with an input that the current stream may still be computing."""
    handle = f"{stream}.{_HANDLE}"
    assignments = [node for node in nodes if isinstance(node, ast.Assign)]
    fills = [node for node in nodes if isinstance(node, ast.Call) and last_name(node.func) == "copy_"]
    handles = {handle, *(name for node in assignments if handle in text(node.value) for name in bound_names(node))}
    calls = sorted((node for node in nodes if isinstance(node, ast.Call)), key=lambda call: call.lineno)
    on_stream = {node for block in blocks_of(stream, nodes) for node in walk(block)}
    for call in calls:
        given = {text(part) for argument in arguments_of(call) for part in walk(argument) if isinstance(part, ast.expr)}
        if last_name(call.func) in _NO_LAUNCH or given.isdisjoint(handles) or _COPY_FROM_HOST.search(text(call)):
            continue
        pointers = _pointers([call])
        if not pointers and last_name(call.func).startswith("execute"):  # what it uses is bound before
            pointers = _pointers([other for other in calls if other.lineno < call.lineno])
        for name in pointers:
            made = _filled(name, call, fills, assignments) or _computed(name, call, function, assignments, tree)
            if made is not None and made not in on_stream and not _is_awaited(made, call, calls, stream, function):
                yield call, name
                break


def _pointers(calls: Sequence[ast.Call]) -> list[str]:
    """Return the tensors whose addresses calls get, as written: `x` of `x.data_ptr()`."""
    inside = (node for call in calls for node in walk(call))
    owners = (
        node.func.value
        for node in inside
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr == "data_ptr"
    )
    return list(dict.fromkeys(map(text, owners)))


def _filled(name: str, use: ast.Call, fills: Sequence[ast.Call], assignments: Sequence[ast.Assign]) -> ast.Call | None:
    """Return the last copy into a tensor before its use, if its source is on a GPU; `name`: the tensor, as written.

    The host waits for a copy from the host, unless it is non-blocking.
    """
    before = [call for call in fills if call.lineno < use.lineno and text(call.func).removesuffix(".copy_") == name]
    copy = max(before, key=lambda call: call.lineno, default=None)
    if copy is None or not copy.args:
        return None
    match copy.args[0]:
        case ast.Name(id=source):
            made = _latest(source, copy, assignments)
            is_on_gpu = made is not None and (_computes(made.value) or MOVED.search(text(made.value)) is not None)
        case source:
            is_on_gpu = MOVED.search(text(source)) is not None
    return copy if is_on_gpu or is_non_blocking(copy) else None


def _computed(
    name: str, use: ast.Call, function: Method, assignments: Sequence[ast.Assign], tree: ast.Module
) -> ast.Assign | None:
    """Return the statement that computes a variable before its use, or the argument that a caller passes for it."""
    made = _latest(name.partition("[")[0], use, assignments)
    if made is not None:
        return made if _computes(made.value) else None
    declared = [parameter.arg for parameter in parameters(function)]
    if name not in declared or any(name in bound_names(node) for node in assignments):
        return None
    index = declared.index(name) - (declared[:1] == ["self"])
    for call in calls_by_name(tree).get(function.name, []):
        given = argument_of(call, name, index)
        around = [node for node in nodes_around(tree, call.lineno) if isinstance(node, ast.Assign)]
        passed = _latest(given.id, call, around) if isinstance(given, ast.Name) else None
        if passed is not None and _computes(passed.value):
            return passed
    return None


def _latest(name: str, use: ast.Call, assignments: Sequence[ast.Assign]) -> ast.Assign | None:
    before = [node for node in assignments if name in bound_names(node) and node.lineno < use.lineno]
    return max(before, key=lambda node: node.lineno, default=None)


def _computes(value: ast.expr) -> bool:
    """Return whether an expression launches a kernel for its result, or for its items: `x.half()`, `torch.randn(4)`."""
    match value:
        case ast.ListComp(elt=item):
            return _computes(item)
        case ast.Call(func=ast.Attribute(value=ast.Name(id="torch"), attr=name)):
            return name not in _LAUNCHING_NOTHING and (name not in FACTORIES or _has_device(value))
        case ast.Call(func=ast.Attribute(value=owner, attr=name)):
            is_cast = name != "to" or all(_DTYPE.search(text(given)) for given in arguments_of(value))
            return (name in _COMPUTING and is_cast) or (name in ALIASES and _computes(owner))
        case _:
            return False


def _has_device(call: ast.Call) -> bool:
    devices = (keyword.value for keyword in call.keywords if keyword.arg == "device")
    return any("cpu" not in text(device) for device in devices)


def _is_awaited(
    made: ast.stmt | ast.expr, use: ast.Call, calls: Sequence[ast.Call], stream: str, function: Method
) -> bool:
    """Return whether the host may wait between a computation, here or in a caller, and a use of its result."""
    start = (made.end_lineno, made.end_col_offset) if has_line(function, made.lineno) else (function.lineno, 0)
    between = (call for call in calls if start <= (call.lineno, call.col_offset) and call.lineno < use.lineno)
    return any(
        (may_wait(last_name(call.func)) or last_name(call.func) in HOST_READS or copies_values(call))
        and not (isinstance(call.func, ast.Attribute) and text(call.func.value) == stream)
        for call in between
    )
