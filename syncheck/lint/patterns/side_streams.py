"""Streams that an object keeps, and that no method orders against the streams of its callers (SYN105, SYN201)."""

import ast
from collections.abc import Iterator
from dataclasses import dataclass, field, replace

from syncheck.findings import Finding
from syncheck.lint.evictions import evicted_copy
from syncheck.lint.host_waits import is_cast
from syncheck.lint.interp.functions import block_nodes
from syncheck.lint.interp.host_copies import host_copy_source, is_free_move
from syncheck.lint.interp.sites import SourceSites
from syncheck.lint.interp.unknown import may_wait
from syncheck.lint.kept_streams import is_known_use, streams_kept_by
from syncheck.lint.locations import lines_of
from syncheck.lint.nodes import bound_names, children, methods_of, own_attribute, text, walk
from syncheck.lint.overwritten_buffers import Overwritten, overwritten_buffer
from syncheck.lint.patterns.context import Context
from syncheck.lint.patterns.fresh_memory import FreshMemory, fresh_memory
from syncheck.lint.patterns.hooked_blocks import is_reached_by_hook
from syncheck.lint.patterns.kept_buffers import unordered_fetch
from syncheck.lint.patterns.kept_copies import kept_copy
from syncheck.lint.patterns.loaded_batches import loaded_batch
from syncheck.lint.patterns.missing_forks import COPIES, KNOWN_BASES, created_in, missing_fork
from syncheck.lint.patterns.returned_results import returned_result
from syncheck.lint.patterns.reused_buffers import reused_buffer
from syncheck.lint.patterns.updated_arguments import updated_argument
from syncheck.lint.patterns.yielded_copies import yielded_copy
from syncheck.rules import missing_record_stream, unordered_first_use, unordered_side_stream, unordered_write
from syncheck.rules.model import Family, Severity
from syncheck.source.expressions import STREAM_CONTEXTS, has_line, last_name

_WAITS = frozenset({"wait_stream", "wait_event"})
_JOINS = frozenset({"record_event", "query"})
_HOST_WAITS = frozenset({"item", "cpu", "tolist"})
_HOST_READS = _HOST_WAITS | {"numpy", "float", "int", "bool", "query"}
_REUSES = "{stream} never waits for the streams that use its copies, and reuses their memory"
_NEEDS_IT = "this needs the wait"
_OWN_BUFFER = "{stream} does not wait here for the stream that fills what it copies to the host"
_KEPT = "a copy is kept here until a method drops it"
_RECORD = (
    "call `x.record_stream(torch.cuda.current_stream())` for each tensor before it leaves the object, or let "
    "`{stream}` wait for the stream that uses it"
)
_NO_WAIT = "nothing waits for {stream}, and it waits for no other stream"
_NO_JOIN = "nothing waits for {stream}, whose results are used elsewhere"
_FORK = "call `{stream}.wait_stream(torch.cuda.current_stream())` before this work"
_AND_JOIN = "`torch.cuda.current_stream().wait_stream({stream})` before its results are used"
_JOIN = f"call {_AND_JOIN}"


@dataclass(frozen=True, slots=True)
class _Flaw:
    """A wait that a block on a stream lacks.

    Attributes:
        message, advice: what is missing, and what to do about it, both with a placeholder for the stream.
        related: a place in the block that needs the wait, with a text about it.
    """

    message: str
    advice: str = _FORK
    related: tuple[ast.AST, str] | None = None


@dataclass(slots=True)
class _Use:
    """The uses in a file of a stream that an object keeps.

    Attributes:
        blocks: the `with` statements that make it current, each with the name of its function.
        waits: whether it waits for something.
        waits_later: whether it does so outside of constructors, which order nothing later.
        waits_outside: whether another object makes it wait.
        is_awaited: whether something waits for it.
        is_shared: whether it is passed to code that is not analyzed.
        is_recorded: whether the file records any tensor on a stream.
    """

    blocks: list[tuple[ast.With, str]] = field(default_factory=list)
    waits: bool = False
    waits_later: bool = False
    waits_outside: bool = False
    is_awaited: bool = False
    is_shared: bool = False
    is_recorded: bool = False


def can_matter(source: str) -> bool:
    """Return whether this check may apply to a file."""
    return "Stream(" in source


def findings(context: Context) -> Iterator[Finding]:
    """Yield the streams of a file's classes for which one wait, or both, is missing."""
    made = set[str]().union(*map(streams_kept_by, context.classes))
    if not made:
        return
    owners = [(kind, streams) for kind in context.classes if (streams := streams_kept_by(kind, made))]
    lines = lines_of(context.known, {Family.RACE, Family.LIFETIME})
    nodes = walk(context.tree)
    attributes = [node for node in nodes if isinstance(node, ast.Attribute)]
    may_host_wait = any(node.attr == "synchronize" for node in attributes) or any(
        isinstance(node, ast.Name) and node.id == "synchronize" for node in nodes
    )
    parents = {child: node for node in nodes for child in children(node)}
    for kind, streams in owners:
        for name in sorted(streams):
            use = _use_of(name, attributes, parents)
            use.is_recorded = any(node.attr == "record_stream" for node in attributes)
            yield from _check(kind, name, use, lines, context.sites, may_host_wait=may_host_wait)


def _check(
    kind: ast.ClassDef, name: str, use: _Use, lines: set[int], sites: SourceSites, *, may_host_wait: bool
) -> Iterator[Finding]:
    if use.is_shared:
        return
    blocks, whole = [block for block, _ in use.blocks], use
    for block, function in use.blocks:
        reached = is_reached_by_hook(kind, block, name)
        use = replace(whole, waits=whole.waits and not reached, waits_later=whole.waits_later and not reached)
        if _is_unreported(block, kind, lines):
            if not use.waits and (fresh := fresh_memory(kind, block, name, blocks)):
                yield _overwritten_at_once(fresh, f"self.{name}", function, sites)
            elif flaw := _flaw(kind, block, name, use, may_host_wait=may_host_wait):
                yield _unordered(flaw, block, f"self.{name}", function, sites)
            elif use.waits and not use.waits_outside and (copy := unordered_fetch(kind, block, name, blocks)):
                yield _unordered(_Flaw(_OWN_BUFFER, related=(copy, _NEEDS_IT)), block, f"self.{name}", function, sites)
            elif not use.waits_later:
                yield from _used_too_long(kind, block, name, use, function, sites, may_host_wait=may_host_wait)


def _used_too_long(
    kind: ast.ClassDef,
    block: ast.With,
    name: str,
    use: _Use,
    function: str,
    sites: SourceSites,
    *,
    may_host_wait: bool,
) -> Iterator[Finding]:
    """Yield what a block overwrites, or whose memory its stream reuses, while another stream may still read it."""
    reused = _reused(kind, block, name, use)
    if reused:
        context, advice = block.items[-1].context_expr, _RECORD.format(stream=f"self.{name}")
        yield sites.warning(missing_record_stream.RULE, context, function, advice, verb="reading", **reused)
    elif use.is_awaited:
        buffer = None if may_host_wait else overwritten_buffer(kind, block, [other for other, _ in use.blocks])
        if buffer := buffer or reused_buffer(kind, block, name):
            yield _overwritten(buffer, f"self.{name}", function, sites)


def _flaw(kind: ast.ClassDef, block: ast.With, name: str, use: _Use, *, may_host_wait: bool) -> _Flaw | None:
    """Return the wait that a block lacks; None if it lacks none, or that is unknown."""
    fork = None if use.waits_later else missing_fork(kind, block, name, [other for other, _ in use.blocks])
    if fork is not None and not (use.waits and fork[0] == COPIES):  # what it copies may be written only before the wait
        return _Flaw(fork[0], related=(fork[1], _NEEDS_IT))
    return None if may_host_wait else _missing_join(kind, block, use)


def _unordered(flaw: _Flaw, block: ast.With, stream: str, function: str, sites: SourceSites) -> Finding:
    """Return a finding about a wait that a block on a stream lacks."""
    location = sites.location(sites.id_of(block.items[-1].context_expr, function))
    finding = Finding.of(unordered_side_stream.RULE, location, flaw=flaw.message.format(stream=f"stream `{stream}`"))
    related = () if flaw.related is None else (sites.related(flaw.related[0], function, flaw.related[1]),)
    return replace(finding, help=flaw.advice.format(stream=stream), related=related)


def _reused(kind: ast.ClassDef, block: ast.With, name: str, use: _Use) -> dict[str, str]:
    """Return the tensor of a block whose memory its stream may reuse too early, and its user; empty if unknown."""
    if use.is_recorded or not use.is_awaited:
        return {}
    if copy := yielded_copy(kind, block, name):
        return {"tensor": f"`{copy}`", "user": "the stream that uses it outside of the method"}
    attribute, method = returned_result(kind, block, name)
    if attribute:
        return {"tensor": f"`self.{attribute}`", "user": f"the stream that uses what `{method}` returns"}
    if method := loaded_batch(kind, block, name):
        return {"tensor": f"memory of stream `self.{name}`", "user": f"the stream that uses what `{method}` returns"}
    if copy := kept_copy(kind, block, name):
        return {"tensor": f"`{copy}`", "user": "the stream that uses it until a method drops it"}
    return {}


def _overwritten(found: Overwritten, stream: str, function: str, sites: SourceSites) -> Finding:
    """Return a finding about a buffer that a block on a stream overwrites while another stream may still read it."""
    flaw = f"stream `{stream}` never waits for the streams that read `self.{found.name}`, which it overwrites here"
    finding = Finding.of(unordered_side_stream.RULE, sites.location(sites.id_of(found.write, function)), flaw=flaw)
    read = found.read
    related = () if read is None else (sites.related(read, found.method, "another stream reads it here"),)
    return replace(finding, related=related, help=_FORK.format(stream=stream))


def _overwritten_at_once(found: FreshMemory, stream: str, function: str, sites: SourceSites) -> Finding:
    """Return a finding about memory of the callers' stream that a block on another stream overwrites too early."""
    tensor, writer = f"`{found.name}`", f"stream `{stream}`"
    where = sites.location(sites.id_of(found.write, function))
    if found.is_filled:
        facts = {"tensor": tensor, "writer": writer, "earlier": "the stream that filled it"}
        finding = Finding.of(unordered_write.RULE, where, **facts)
    else:
        facts = {"tensor": tensor, "stream": writer, "allocator": "the callers' stream"}
        finding = Finding.of(unordered_first_use.RULE, where, **facts)
    made = sites.related(found.allocation, function, "allocated here")
    return replace(finding, related=(made,), help=_FORK.format(stream=stream), level=Severity.WARNING)


def _missing_join(kind: ast.ClassDef, block: ast.With, use: _Use) -> _Flaw | None:
    """Return the wait that a block lacks if the host waits for nothing; None if it lacks none, or that is unknown."""
    if not use.is_awaited:
        has_known_bases = all(ast.unparse(base) in KNOWN_BASES for base in kind.bases)
        if not has_known_bases or not (_moves(kind, block) or updated_argument(kind, block)):
            return None
        if not use.waits:
            return _Flaw(_NO_WAIT, f"{_FORK}, and {_AND_JOIN}")
        return None if _may_be_awaited(kind, block) else _Flaw(_NO_JOIN, _JOIN)
    if use.waits:
        return None
    if _copies_from_outside(block):
        return _Flaw(COPIES)
    kept = None if use.is_recorded else evicted_copy(kind, block)
    return None if kept is None else _Flaw(_REUSES, related=(kept, _KEPT))


def _may_be_awaited(kind: ast.ClassDef, block: ast.With) -> bool:
    """Return whether the host may wait for a block, or whoever reads its copies on the host may."""
    nodes = [*block_nodes(block), *_in_methods(kind, block)]
    calls = [node for node in nodes if isinstance(node, ast.Call) and not is_cast(node)]
    called = {last_name(call.func) for call in calls} - _WAITS - {"wait"}
    pinned = {
        text(target)
        for node in walk(kind)
        if isinstance(node, ast.Assign) and "pin_memory" in text(node.value)
        for target in node.targets
    }
    is_awaited = any(name in _HOST_READS or "record" in name or may_wait(name) for name in called)
    return is_awaited or any(host_copy_source(node, pinned) is not None for node in nodes)


def _moves(kind: ast.ClassDef, block: ast.With) -> bool:
    """Return whether a block copies between devices, without waiting, directly or in a method of its class."""
    return any(map(is_free_move, block_nodes(block))) or any(
        is_free_move(node) and "non_blocking" in text(node) for node in _in_methods(kind, block)
    )


def _in_methods(kind: ast.ClassDef, block: ast.With) -> list[ast.AST]:
    """Return the nodes of the methods of its class that a block calls, with those of lambdas in them."""
    methods = methods_of(kind)
    return [node for name in _called(block) & methods.keys() for node in walk(methods[name])]


def _is_unreported(block: ast.With, kind: ast.ClassDef, lines: set[int]) -> bool:
    """Return whether a block is in a class, and contains no other finding."""
    return has_line(kind, block.lineno) and not any(has_line(block, line) for line in lines)


def _use_of(name: str, attributes: list[ast.Attribute], parents: dict[ast.AST, ast.AST]) -> _Use:
    use = _Use()
    for node in attributes:
        parent = parents[node]
        is_called = isinstance(parent, ast.Call) and parent.func is node  # `torch.cuda.stream(...)`
        if node.attr == name and isinstance(node.ctx, ast.Load) and not is_called:
            _note(node, parents, use)
    return use


def _note(node: ast.Attribute | ast.Name, parents: dict[ast.AST, ast.AST], use: _Use) -> None:
    """Record one use of a stream, or of one of several in a container, also through a variable of a function."""
    parent = parents[node]
    for name in (names := _names_for(node, parents)):
        _note(name, parents, use)
    if names:
        return
    if isinstance(parent, ast.Subscript) and parent.value is node:
        parent = parents[parent]
    if isinstance(parent, ast.keyword):
        parent = parents[parent]
    if isinstance(parent, ast.Attribute):
        is_early = getattr(_function_around(node, parents), "name", "") == "__init__"
        use.waits |= parent.attr in _WAITS
        use.waits_later |= parent.attr in _WAITS and not is_early
        use.waits_outside |= parent.attr in _WAITS and isinstance(node, ast.Attribute) and not own_attribute(node)
        use.is_awaited |= parent.attr in _JOINS | {"synchronize"}
        use.is_shared |= parent.attr not in _WAITS | _JOINS | {"device", "synchronize"}
    elif isinstance(parent, ast.withitem):
        _note_block(parent, parents, use)
    elif isinstance(parent, ast.Call):
        _note_call(parent, parents, use)
    else:
        use.is_shared |= not is_known_use(node, parent)


def _names_for(node: ast.Attribute | ast.Name, parents: dict[ast.AST, ast.AST]) -> list[ast.Name]:
    """Return the uses of the variable that a function binds to an attribute, if it binds it once and uses it."""
    parent = parents[node]
    if not isinstance(node, ast.Attribute) or not isinstance(parent, ast.Assign) or parent.value is not node:
        return []
    bound = bound_names(parent)
    found = [each for each in walk(_function_around(parent, parents)) if isinstance(each, ast.Name)]
    uses = [each for each in found if each.id in bound and isinstance(each.ctx, ast.Load)]
    is_bound_once = sum(each.id in bound and not isinstance(each.ctx, ast.Load) for each in found) == 1
    return uses if is_bound_once and len(parent.targets) == len(bound) else []


def _note_call(call: ast.Call, parents: dict[ast.AST, ast.AST], use: _Use) -> None:
    """Record a call with a stream as an argument."""
    called = ast.unparse(call.func).rpartition(".")[2]
    entered = _entered(call, parents) if called in STREAM_CONTEXTS else []
    if entered:
        for item in entered:
            _note_block(item, parents, use)
    elif called in {"wait_stream", "record"}:
        use.is_awaited = True
    elif called == "wait":
        use.waits = use.waits_later = True
    else:
        use.is_shared |= called != "record_stream"


def _entered(context: ast.Call, parents: dict[ast.AST, ast.AST]) -> list[ast.withitem]:
    """Return where a context is entered, directly, by a variable, or as one of two contexts: `with a if b else c:`."""
    parent = parents[context]
    while isinstance(parent, ast.IfExp):
        parent = parents[parent]
    if isinstance(parent, ast.withitem):
        return [parent]
    if not isinstance(parent, ast.Assign) or len(parent.targets) != 1 or not isinstance(parent.targets[0], ast.Name):
        return []
    nodes, name = walk(_function_around(parent, parents)), parent.targets[0].id
    uses = [node for node in nodes if isinstance(node, ast.Name) and node.id == name and node is not parent.targets[0]]
    items = [item for node in uses if isinstance(item := parents[node], ast.withitem)]
    return items if len(items) == len(uses) else []


def _function_around(node: ast.AST, parents: dict[ast.AST, ast.AST]) -> ast.AST:
    """Return the innermost function that contains a node, or else the outermost node."""
    while node in parents and not isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
        node = parents[node]
    return node


def _note_block(item: ast.withitem, parents: dict[ast.AST, ast.AST], use: _Use) -> None:
    """Record a block in which a stream is current."""
    block = parents[item]
    if not isinstance(block, ast.With):
        use.is_shared = True
        return
    function = getattr(_function_around(block, parents), "name", "")
    use.blocks.append((block, function))
    if any(isinstance(node, ast.Yield) for node in block_nodes(block)):  # `with self.on_side():`, a context manager
        for node in parents:
            if isinstance(node, ast.With) and any(_calls_own(item.context_expr, function) for item in node.items):
                use.blocks.append((node, getattr(_function_around(node, parents), "name", "")))
    called = _called(block)
    waits = bool(called & (_WAITS | {"wait"}))
    use.waits, use.waits_later = use.waits or waits, use.waits_later or waits
    use.is_awaited |= bool(called & (_HOST_WAITS | _JOINS | {"record"}))


def _calls_own(context: ast.expr, method: str) -> bool:
    """Return whether an expression calls a method of the object."""
    return isinstance(context, ast.Call) and own_attribute(context.func) == method


def _called(block: ast.With) -> set[str]:
    """Return the last names of all called functions in a block."""
    calls = [node for node in block_nodes(block) if isinstance(node, ast.Call)]
    return {ast.unparse(call.func).rpartition(".")[2] for call in calls}


def _copies_from_outside(block: ast.With) -> bool:
    """Return whether a block copies between tensors that both existed before it."""
    nodes, made = block_nodes(block), created_in(block)
    copies = [node for node in nodes if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute)]
    for call in copies:
        if isinstance(call.func, ast.Attribute) and call.func.attr == "copy_" and call.args:
            names = {
                node.id for part in (call.func.value, *call.args) for node in walk(part) if isinstance(node, ast.Name)
            }
            if not names & made:
                return True
    return False
