"""Streams that an object keeps, and that no method orders against the streams of its callers (SYN105)."""

import ast
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace

from syncheck.findings import Finding
from syncheck.lint.evictions import evicted_copy
from syncheck.lint.interp.functions import block_nodes
from syncheck.lint.interp.sites import SourceSites
from syncheck.lint.locations import lines_of
from syncheck.lint.nodes import STREAM_CONTEXTS, children, own_attribute, statements, walk
from syncheck.lint.overwritten_buffers import overwritten_buffer
from syncheck.rules import unordered_side_stream
from syncheck.rules.model import Family
from syncheck.semantics.collectives import FUNCTIONS

RULES = (unordered_side_stream.RULE,)
WORD = "Stream("
"""Text that a file must contain for this rule to apply."""
_WAITS = frozenset({"wait_stream", "wait_event"})
_JOINS = frozenset({"record_event", "query"})
_HOST_WAITS = frozenset({"item", "cpu", "tolist"})
_MOVES = frozenset({"to", "cuda", "copy_"})
_KNOWN_BASES = frozenset(
    {"object", "nn.Module", "torch.nn.Module", "Module", "ABC", "abc.ABC", "torch.autograd.Function"}
)
_LAYERS = frozenset({"nn.Module", "torch.nn.Module", "Module"})
_COLLECTIVES = FUNCTIONS.keys() - {"barrier"}
_KEPT = "a copy is kept here until a method drops it"
_SPOKEN = frozenset({"all_reduce", "all_gather", "reduce_scatter", "all_to_all"})
"""Names of collectives that are rarely used for anything else."""


@dataclass(slots=True)
class _Flaw:
    """A wait that a block on a stream lacks.

    Attributes:
        message: a message with a placeholder for the stream.
        needs_join: whether another stream must also wait for the stream.
        kept: where the block keeps a copy whose memory it reuses; None if the wait is for something else.
    """

    message: str
    needs_join: bool = False
    kept: ast.Assign | None = None


@dataclass(slots=True)
class _Use:
    """The uses in a file of a stream that an object keeps.

    Attributes:
        blocks: the `with` statements that make it current, each with the name of its function.
        waits: whether it waits for something.
        is_awaited: whether something waits for it.
        is_shared: whether it is passed to code that is not analyzed.
        is_recorded: whether the file records any tensor on a stream.
    """

    blocks: list[tuple[ast.With, str]] = field(default_factory=list)
    waits: bool = False
    is_awaited: bool = False
    is_shared: bool = False
    is_recorded: bool = False


def findings(
    tree: ast.Module, classes: Iterable[ast.ClassDef], sites: SourceSites, known: Sequence[Finding]
) -> Iterator[Finding]:
    """Yield the streams of a file's classes for which one wait, or both, is missing.

    Args:
        tree: the file.
        classes: the top-level classes that may create streams.
        sites: the call sites of the file.
        known: the findings on paths through the file. A race at the same location is more specific.
    """
    owners = [(kind, streams) for kind in classes if (streams := _streams_of(kind))]
    if not owners:
        return
    lines = lines_of(known, {Family.RACE, Family.LIFETIME})
    nodes = walk(tree)
    attributes = [node for node in nodes if isinstance(node, ast.Attribute)]
    waits = _Waits(
        [node for node in attributes if node.attr == "synchronize"]
        + [node for node in nodes if isinstance(node, ast.Name) and node.id == "synchronize"],
        has_others=any(node.attr in _WAITS for node in attributes),
    )
    parents = {child: node for node in nodes for child in children(node)}
    for kind, streams in owners:
        for name in sorted(streams):
            use = _use_of(name, attributes, parents)
            use.is_recorded = any(node.attr == "record_stream" for node in attributes)
            use.blocks = [(block, function) for block, function in use.blocks if _is_unreported(block, kind, lines)]
            yield from _check(kind, name, use, waits, sites)


@dataclass(frozen=True, slots=True)
class _Waits:
    """The waits in a file.

    Attributes:
        of_host: the references to calls that make the host wait, and so may order everything that follows.
        has_others: whether any stream waits for another.
    """

    of_host: list[ast.Attribute | ast.Name]
    has_others: bool

    def are_after(self, block: ast.With, method: ast.stmt) -> bool:
        """Return whether the host waits only after a block, within its method, and so not for the block's inputs."""
        start, end = block.end_lineno or block.lineno, method.end_lineno or method.lineno
        return all(start < node.lineno <= end for node in self.of_host)


def _check(kind: ast.ClassDef, name: str, use: _Use, waits: _Waits, sites: SourceSites) -> Iterator[Finding]:
    if use.is_shared or use.waits:
        return
    made = {variable for block, _ in use.blocks for variable in _created_in(block)}
    for block, function in use.blocks:
        flaw = _missing_fork(kind, block, function, made, waits)
        if flaw is None and not waits.of_host:
            flaw = _missing_join(kind, block, use)
        if flaw is not None:
            location = sites.location(sites.id_of(block.items[-1].context_expr, function))
            message = flaw.message.format(stream=f"stream `self.{name}`")
            finding = Finding.of(unordered_side_stream.RULE, location, flaw=message)
            kept = () if flaw.kept is None else (sites.location(sites.id_of(flaw.kept, function)),)
            related = tuple(replace(place, message=_KEPT) for place in kept)
            yield replace(finding, help=_advice(f"self.{name}", needs_join=flaw.needs_join), related=related)
        elif use.is_awaited and not waits.of_host:
            yield from _overwritten(kind, block, name, use, function, sites)


def _overwritten(
    kind: ast.ClassDef, block: ast.With, name: str, use: _Use, function: str, sites: SourceSites
) -> Iterator[Finding]:
    """Yield the buffer that a block overwrites while another method's stream may still read it."""
    found = overwritten_buffer(kind, block, [other for other, _ in use.blocks])
    if found is not None:
        stream = f"self.{name}"
        flaw = f"stream `{stream}` never waits for the streams that read `self.{found.name}`, which it overwrites here"
        finding = Finding.of(unordered_side_stream.RULE, sites.location(sites.id_of(found.write, function)), flaw=flaw)
        read = replace(sites.location(sites.id_of(found.read, found.method)), message="another stream reads it here")
        yield replace(finding, related=(read,), help=_advice(stream, needs_join=False))


def _advice(stream: str, *, needs_join: bool) -> str:
    fork = f"call `{stream}.wait_stream(torch.cuda.current_stream())` before this work"
    join = f"`torch.cuda.current_stream().wait_stream({stream})` before its results are used"
    return f"{fork}, and {join}" if needs_join else fork


def _missing_fork(kind: ast.ClassDef, block: ast.With, function: str, made: set[str], waits: _Waits) -> _Flaw | None:
    """Return the wait that a block lacks at its start, whatever follows; None if unknown."""
    if not waits.are_after(block, next((step for step in kind.body if _has(step, block)), block)):
        return None
    if _sends_from_outside(block, made):
        return _Flaw("{stream} never waits for the stream that computes what it sends here")
    bases = {ast.unparse(base) for base in kind.bases}
    is_layer = function == "forward" and bool(bases & _LAYERS) and bases <= _KNOWN_BASES
    if is_layer and not waits.has_others and _computes_from_outside(block, made, kind):
        return _Flaw("{stream} never waits for the stream that computes what it uses here")
    return None


def _missing_join(kind: ast.ClassDef, block: ast.With, use: _Use) -> _Flaw | None:
    """Return the wait that a block lacks; None if unknown."""
    if use.is_awaited:
        if _copies_from_outside(block):
            return _Flaw("{stream} never waits for the stream that computes what it copies here")
        kept = evicted_copy(kind, block) if not use.is_recorded else None
        reuses = "{stream} never waits for the streams that use its copies, and reuses their memory"
        return _Flaw(reuses, kept=kept) if kept is not None else None
    has_known_bases = all(ast.unparse(base) in _KNOWN_BASES for base in kind.bases)
    is_flaw = has_known_bases and bool(_called(block) & _MOVES)
    return _Flaw("nothing waits for {stream}, and it waits for no other stream", needs_join=True) if is_flaw else None


def _is_unreported(block: ast.With, kind: ast.ClassDef, lines: set[int]) -> bool:
    """Return whether a block is in a class, and contains no other finding."""
    last = block.end_lineno or block.lineno
    return kind.lineno <= block.lineno <= (kind.end_lineno or last) and not any(
        block.lineno <= line <= last for line in lines
    )


def _streams_of(kind: ast.ClassDef) -> set[str]:
    """Return the attributes to which a class assigns new streams and nothing else."""
    made: set[str] = set()
    other: set[str] = set()
    for node in statements(kind):
        if not isinstance(node, ast.Assign | ast.AnnAssign) or node.value is None:
            continue
        is_stream = all(map(_is_made, _values_of(node.value)))
        is_none = isinstance(node.value, ast.Constant) and node.value.value is None
        for target in node.targets if isinstance(node, ast.Assign) else [node.target]:
            if isinstance(target, ast.Attribute) and not is_none:
                (made if is_stream else other).add(target.attr)
    return made - other


def _values_of(node: ast.expr) -> list[ast.expr]:
    """Return the elements of a container display or comprehension, or else the expression itself."""
    match node:
        case ast.ListComp(elt=element):
            return [element]
        case ast.DictComp(value=element):
            return [element]
        case ast.List(elts=elements) | ast.Tuple(elts=elements) if elements:
            return elements
        case (
            ast.IfExp(body=body, orelse=ast.Constant(value=None))
            | ast.IfExp(body=ast.Constant(value=None), orelse=body)
        ):
            return [body]
        case _:
            return [node]


def _is_made(node: ast.expr) -> bool:
    """Return whether an expression creates a stream."""
    return isinstance(node, ast.Call) and ast.unparse(node.func).rpartition(".")[2] == "Stream"


def _use_of(name: str, attributes: list[ast.Attribute], parents: dict[ast.AST, ast.AST]) -> _Use:
    use = _Use()
    for node in attributes:
        parent = parents[node]
        is_called = isinstance(parent, ast.Call) and parent.func is node  # `torch.cuda.stream(...)`
        if node.attr == name and isinstance(node.ctx, ast.Load) and not is_called:
            _note(node, parents, use)
    return use


def _note(node: ast.Attribute, parents: dict[ast.AST, ast.AST], use: _Use) -> None:
    """Record one use of a stream, or of one of several in a container."""
    parent = parents[node]
    if isinstance(parent, ast.Subscript) and parent.value is node:
        parent = parents[parent]
    if isinstance(parent, ast.keyword):
        parent = parents[parent]
    if isinstance(parent, ast.Attribute):
        use.waits |= parent.attr in _WAITS
        use.is_awaited |= parent.attr in _JOINS
        use.is_shared |= parent.attr not in _WAITS | _JOINS | {"device"}
    elif isinstance(parent, ast.withitem):
        _note_block(parent, parents, use)
    elif isinstance(parent, ast.Call):
        _note_call(parent, parents, use)
    else:
        use.is_shared |= not isinstance(parent, ast.Compare | ast.BoolOp | ast.If | ast.UnaryOp)


def _note_call(call: ast.Call, parents: dict[ast.AST, ast.AST], use: _Use) -> None:
    """Record a call with a stream as an argument."""
    called = ast.unparse(call.func).rpartition(".")[2]
    item = parents[call]
    if called in STREAM_CONTEXTS and isinstance(item, ast.withitem):
        _note_block(item, parents, use)
    elif called in {"wait_stream", "record"}:
        use.is_awaited = True
    elif called == "wait":
        use.waits = True
    else:
        use.is_shared |= called != "record_stream"


def _note_block(item: ast.withitem, parents: dict[ast.AST, ast.AST], use: _Use) -> None:
    """Record a block in which a stream is current."""
    block = parents[item]
    if not isinstance(block, ast.With):
        use.is_shared = True
        return
    function = block
    around: ast.AST = block
    while around in parents and not isinstance(around, ast.FunctionDef | ast.AsyncFunctionDef):
        around = parents[around]
    use.blocks.append((function, getattr(around, "name", "")))
    called = _called(block)
    use.waits |= bool(called & (_WAITS | {"wait"}))
    use.is_awaited |= bool(called & (_HOST_WAITS | _JOINS | {"record"}))


def _called(block: ast.With) -> set[str]:
    """Return the last names of all called functions in a block."""
    calls = [node for node in block_nodes(block) if isinstance(node, ast.Call)]
    return {ast.unparse(call.func).rpartition(".")[2] for call in calls}


def _has(method: ast.stmt, block: ast.With) -> bool:
    return method.lineno <= block.lineno <= (method.end_lineno or method.lineno)


def _created_in(block: ast.With) -> set[str]:
    """Return the variables that a block binds to the results of calls."""
    return {
        target.id
        for node in block_nodes(block)
        if isinstance(node, ast.Assign) and isinstance(node.value, ast.Call)
        for target in node.targets
        if isinstance(target, ast.Name)
    }


def _sends_from_outside(block: ast.With, made: set[str]) -> bool:
    """Return whether a block starts a collective on variables, none of which was created on its stream."""
    calls = [node for node in block_nodes(block) if isinstance(node, ast.Call)]
    given = [_variables(call.args) for call in calls if _is_collective(ast.unparse(call.func))]
    return any(names and not names & made for names in given)


def _is_collective(called: str) -> bool:
    """Return whether a call is a collective of torch, or wraps one judging by its name: `concat_all_gather`."""
    name = called.rpartition(".")[2]
    if called.startswith(("dist.", "torch.dist")):
        return name in _COLLECTIVES
    return name == called and any(f"_{collective}" in f"_{name}_" for collective in _SPOKEN)


def _computes_from_outside(block: ast.With, made: set[str], kind: ast.ClassDef) -> bool:
    """Return whether a block calls a layer on variables, none of which was created on its stream."""
    own = {step.name for step in kind.body if isinstance(step, ast.FunctionDef | ast.AsyncFunctionDef)}
    for call in block_nodes(block):
        if not isinstance(call, ast.Call):
            continue
        called = call.func.value if isinstance(call.func, ast.Subscript) else call.func  # `self.layers[0](x)`
        layer, names = own_attribute(called), _variables(call.args)
        if layer and layer not in own and names and not names & made:
            return True
    return False


def _variables(given: list[ast.expr]) -> set[str]:
    """Return the variables among the arguments of a call, directly or indexed."""
    parts = [value.value if isinstance(value, ast.Subscript) else value for value in given]
    return {part.id for part in parts if isinstance(part, ast.Name)}


def _copies_from_outside(block: ast.With) -> bool:
    """Return whether a block copies between tensors that both existed before it."""
    nodes, made = block_nodes(block), _created_in(block)
    copies = [node for node in nodes if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute)]
    for call in copies:
        if isinstance(call.func, ast.Attribute) and call.func.attr == "copy_" and call.args:
            names = {
                node.id for part in (call.func.value, *call.args) for node in walk(part) if isinstance(node, ast.Name)
            }
            if not names & made:
                return True
    return False
