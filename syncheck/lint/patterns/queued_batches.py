"""Batches that a thread loads on a side stream and passes to other threads through a queue (SYN105, SYN201)."""

import ast
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace

from syncheck.findings import Finding
from syncheck.lint.interp.functions import own_nodes
from syncheck.lint.interp.sites import SourceSites
from syncheck.lint.interp.unknown import makes_object, may_wait
from syncheck.lint.locations import lines_of
from syncheck.lint.nodes import HOST_READS, entered_stream, is_non_blocking, nodes_in, text, walk
from syncheck.lint.patterns.context import Context
from syncheck.rules import missing_record_stream, unordered_side_stream
from syncheck.rules.model import Family, Severity
from syncheck.source.expressions import last_name

Function = ast.FunctionDef | ast.AsyncFunctionDef

_PUTTING = {"put": "get", "put_nowait": "get", "append": "pop", "appendleft": "pop"}
"""Method that adds to a queue -> how the methods that take from it begin."""
_TAKING = frozenset({"get", "get_nowait", "pop", "popleft"})
_WAITS = frozenset(
    "wait_stream wait_event record record_event set_stream current_stream default_stream query elapsed_time".split()
)
"""Names in a file whose streams are ordered, in one direction at least."""
_STREAM_WAITS = frozenset({"wait", "wait_stream", "wait_event"})
_MOVES = frozenset({"to", "cuda"})
_COPIES = _MOVES | {"copy_"}
_JOINING = frozenset({"join", "task_done"})
"""Methods that wait for threads, which says nothing about GPU work."""
_IDLE = frozenset(
    """put put_nowait append appendleft extend add print range len enumerate zip isinstance next iter items keys values
    get pop popleft update tuple list dict record_stream pin_memory type is_tensor""".split()
)
"""Calls that run nothing on a GPU."""
_HOST_OBJECTS = re.compile(r"(?:threading\.)?(?:Event|Condition|Semaphore|BoundedSemaphore|Barrier)")
_FLAW = "nothing waits for stream `{stream}`, on which a thread loads what `{consumer}` takes from a queue"
_JOIN = (
    "record an event after this work, pass it on with the batch, and call `torch.cuda.current_stream().wait_event()`"
)
_RECORD = (
    "call `x.record_stream(torch.cuda.current_stream())` for each tensor where a batch is taken, or let `{stream}` "
    "wait for the stream that uses the batches"
)


def can_matter(source: str) -> bool:
    """Return whether this check may apply to a file."""
    return "Stream(" in source and "Thread" in source and (".put" in source or ".append" in source)


@dataclass(frozen=True, slots=True)
class _Block:
    """A block of work on a stream in a thread, and the function that contains it."""

    node: ast.With
    stream: ast.expr
    function: Function


@dataclass(frozen=True, slots=True)
class _Handover:
    """A call that takes a batch from the queue of a thread, and the function that contains it."""

    call: ast.Call
    function: Function


def findings(context: Context) -> Iterator[Finding]:
    """Yield the blocks in which a thread loads batches that are used or freed too early."""
    functions = _Functions(context.tree)
    loading = functions.in_threads()
    if not loading:
        return
    blocks = [block for function in loading for block in _blocks_in(function)]
    taken = _taken(loading, functions.all) if blocks else None
    if taken is None or any(_enters_stream(function) for function in functions.all if function not in loading):
        return
    lines = lines_of(context.known, {Family.RACE, Family.LIFETIME})
    waits = _Waits(context.tree, loading, functions.with_siblings([*loading, taken.function]))
    for block in blocks:
        is_known = any(line in lines for line in range(block.node.lineno, (block.node.end_lineno or 0) + 1))
        found = None if is_known or taken.call.lineno in lines else _check(block, taken, waits, context.sites)
        if found is not None:
            yield found


def _check(block: _Block, taken: _Handover, waits: "_Waits", sites: SourceSites) -> Finding | None:
    stream = text(block.stream)
    location = sites.location(sites.id_of(block.stream, block.function.name))
    use = sites.related(taken.call, taken.function.name, "the batch is taken from the queue here")
    calls = [node for statement in block.node.body for node in walk(statement) if isinstance(node, ast.Call)]
    if any(last_name(call.func) in HOST_READS or _blocks_host(call) for call in calls):
        return None
    if waits.are_missing(block):
        if not any(map(_works, calls)):
            return None
        flaw = _FLAW.format(stream=stream, consumer=taken.function.name)
        found = Finding.of(unordered_side_stream.RULE, location, flaw=flaw)
        return replace(found, related=(use,), help=_JOIN)
    if waits.protect_memory or not any(last_name(call.func) in _MOVES and is_non_blocking(call) for call in calls):
        return None
    facts = {"tensor": f"memory of stream `{stream}`", "user": "the stream that uses the batch", "verb": "reading"}
    found = Finding.of(missing_record_stream.RULE, location, **facts)
    return replace(found, related=(use,), help=_RECORD.format(stream=stream), level=Severity.WARNING)


class _Functions:
    """The functions of a file.

    Attributes:
        all: the functions, including methods and nested functions.

    Args:
        tree: the file.
    """

    def __init__(self, tree: ast.Module) -> None:
        self._tree = tree
        nodes = nodes_in(tree)
        self._classes = [node for node in nodes if isinstance(node, ast.ClassDef)]
        self._owners: dict[Function, ast.ClassDef] = {
            member: kind for kind in self._classes for member in kind.body if isinstance(member, Function)
        }
        self.all = [node for node in nodes if isinstance(node, Function)]
        self._plain = {function.name: function for function in self.all if function not in self._owners}

    def in_threads(self) -> list[Function]:
        """Return the functions that run in threads that the file starts."""
        waiting = [*self._targets()]
        for kind in self._classes:
            if any(last_name(base).endswith("Thread") for base in kind.bases):
                waiting += [member for member in kind.body if isinstance(member, Function) and member.name == "run"]
        found: list[Function] = []
        for function in waiting:  # the list grows during iteration
            if function not in found:
                found.append(function)
                waiting += self._used_in(function)
        return found

    def with_siblings(self, functions: list[Function]) -> list[Function]:
        """Return functions, and the other methods of their classes."""
        owners = {self._owners[function] for function in functions if function in self._owners}
        return [*functions, *(method for method, owner in self._owners.items() if owner in owners)]

    def _targets(self) -> Iterator[Function]:
        """Yield the functions that are passed to threads."""
        for function in self.all:
            for node in own_nodes(function):
                if isinstance(node, ast.Call) and last_name(node.func).endswith("Thread"):
                    for word in node.keywords:
                        if word.arg == "target":
                            yield from self._find(word.value, function)

    def _used_in(self, function: Function) -> Iterator[Function]:
        for node in own_nodes(function):
            if isinstance(node, ast.Name | ast.Attribute):
                yield from self._find(node, function)

    def _find(self, node: ast.expr, function: Function) -> Iterator[Function]:
        """Yield the function of the file that an expression in a function refers to."""
        if isinstance(node, ast.Name) and node.id in self._plain:
            yield self._plain[node.id]
        elif isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name) and node.value.id in {"self", "cls"}:
            kind = self._owners.get(function)
            members = self._owners if kind is None else kind.body  # a nested function uses its method's `self`
            yield from (member for member in members if isinstance(member, Function) and member.name == node.attr)


class _Waits:
    """The waits in a file whose threads load batches.

    Attributes:
        protect_memory: whether the memory of a batch may be protected from being reused while it is read.

    Args:
        tree: the file.
        loading: the functions that run in threads.
        around: these functions, the consumer, and all other methods of their classes.
    """

    def __init__(self, tree: ast.Module, loading: list[Function], around: list[Function]) -> None:
        nodes = nodes_in(tree)
        calls = [node for node in nodes if isinstance(node, ast.Call)]
        words = {node.attr for node in nodes if isinstance(node, ast.Attribute)}
        words |= {node.id for node in nodes if isinstance(node, ast.Name)}
        in_threads = [node for function in loading for node in own_nodes(function) if isinstance(node, ast.Call)]
        host = _host_objects(nodes)
        near = {node for function in around for node in walk(function)}
        others = [call for call in calls if call in near and _may_order(call, host)]
        self._synchronized = [call for call in calls if last_name(call.func) == "synchronize"]
        self._are_ordered = bool(words & _WAITS) or bool(others)
        has_host_waits = any(last_name(call.func) in HOST_READS for call in in_threads)
        self._are_ordered |= has_host_waits
        values = {node.value for node in nodes if isinstance(node, ast.Return)}
        forks = [call for call in in_threads if _may_order(call, host) and call not in values]
        forks += [call for call in others if last_name(call.func) not in _STREAM_WAITS]  # the host may wait
        words_protect = bool(words & {"record_stream", "set_stream", "query"})
        self.protect_memory = bool(words_protect or has_host_waits or forks or self._synchronized)

    def are_missing(self, block: _Block) -> bool:
        """Return whether nothing waits for the work of a block."""
        return not self._are_ordered and all(_is_before(call, block) for call in self._synchronized)


def _host_objects(nodes: list[ast.AST]) -> set[str]:
    """Return the names of variables and attributes bound to objects of `threading` that threads wait for."""
    imported = {
        alias.asname or alias.name
        for node in nodes
        if isinstance(node, ast.ImportFrom) and node.module in {"threading", "multiprocessing"}
        for alias in node.names
    }
    found: set[str] = set()
    for node in nodes:
        if isinstance(node, ast.Assign) and isinstance(node.value, ast.Call):
            called = text(node.value.func)
            if _HOST_OBJECTS.fullmatch(called) and (called.startswith("threading.") or called in imported):
                found |= {last_name(target) for target in node.targets}
    return found


def _may_order(call: ast.Call, host: set[str]) -> bool:
    """Return whether a call may wait for GPU work, except for `synchronize`, judging by its name."""
    name = last_name(call.func)
    if name in _JOINING or name == "synchronize" or not may_wait(name):
        return False
    return not (isinstance(call.func, ast.Attribute) and last_name(call.func.value) in host)


def _is_before(call: ast.Call, block: _Block) -> bool:
    """Return whether a call precedes a block in each call of its function, and so does not wait for the block."""
    nodes = list(own_nodes(block.function))
    if call not in nodes or call.lineno >= block.node.lineno:
        return False
    loops = (node for node in nodes if isinstance(node, ast.For | ast.AsyncFor | ast.While))
    last = block.node.end_lineno or block.node.lineno
    return not any(loop.lineno <= call.lineno and last <= (loop.end_lineno or last) for loop in loops)


def _blocks_in(function: Function) -> Iterator[_Block]:
    """Yield the blocks of a function that make a stream current."""
    for node in own_nodes(function):
        stream = _stream_of(node) if isinstance(node, ast.With) else None
        if isinstance(node, ast.With) and stream is not None:
            yield _Block(node, stream, function)


def _enters_stream(function: Function) -> bool:
    """Return whether a function makes a stream current. A consumer may do so to be ordered with the thread."""
    return next(_blocks_in(function), None) is not None


def _stream_of(block: ast.With) -> ast.expr | None:
    for item in block.items:
        stream = entered_stream(item.context_expr)
        if stream is not None:
            return stream
    return None


def _taken(loading: list[Function], functions: Iterable[Function]) -> _Handover | None:
    """Return where another function takes, and passes on, what a thread has put into a queue."""
    filled = {
        (last_name(node.func.value), _PUTTING[node.func.attr])
        for function in loading
        for node in own_nodes(function)
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr in _PUTTING
    }
    for function in functions:
        nodes = [] if function in loading else list(own_nodes(function))
        for node in nodes:
            if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
                how = node.func.attr
                pair = (last_name(node.func.value), how[:3])
                if how in _TAKING and pair in filled and any(map(_passes_on, nodes)):
                    return _Handover(node, function)
    return None


def _passes_on(node: ast.AST) -> bool:
    """Return whether a function returns or yields something at a node."""
    value = node.value if isinstance(node, ast.Return | ast.Yield) else None
    return value is not None and not isinstance(value, ast.Constant)


def _works(call: ast.Call) -> bool:
    """Return whether a call may run something on a GPU."""
    name = last_name(call.func)
    if name in _COPIES:
        return True
    return bool(name) and name not in _IDLE and not makes_object(call)


def _blocks_host(call: ast.Call) -> bool:
    """Return whether a call is a blocking copy, after which the host has waited for the stream."""
    if last_name(call.func) not in _COPIES or is_non_blocking(call):
        return False
    return not any(isinstance(value, ast.Constant) and value.value is True for value in call.args[1:])
