"""Streams that a function orders on one side only (SYN105).

Code that makes a stream wait before a block of work, or waits for it after the block, assumes that it is not the
current stream, wherever it comes from. Then both waits are needed.
"""

import ast
import re
from collections.abc import Iterator, Set
from dataclasses import dataclass, replace

from syncheck.findings import Finding
from syncheck.lint import deferred
from syncheck.lint.file_calls import copies_values, protecting_functions, recording_functions
from syncheck.lint.interp.functions import own_nodes
from syncheck.lint.interp.host_copies import host_copy_source
from syncheck.lint.interp.sites import SourceSites
from syncheck.lint.interp.unknown import makes_object, may_wait
from syncheck.lint.kept_streams import makes_stream
from syncheck.lint.locations import lines_of
from syncheck.lint.nodes import changed_in_place, children, entered_stream, is_backward, names, text, walk
from syncheck.lint.parameters import tensors_given
from syncheck.lint.patterns import dropped_inputs, recorded_streams
from syncheck.lint.patterns.context import Context
from syncheck.lint.patterns.missing_forks import LAYERS
from syncheck.lint.patterns.unordered_fetches import fetches_computed, made_by
from syncheck.lint.prefilter import STREAM_BLOCK, words_in
from syncheck.rules import unordered_side_stream
from syncheck.rules.model import Family
from syncheck.semantics.python_api import FACTORIES
from syncheck.source.expressions import STREAM_CONTEXTS, arguments_of, last_name

WORDS = re.compile(r"\b(?:stream|StreamContext)\(")
"""Text that a file must contain for this rule to apply."""
_ORDERING = re.compile(r"wait|record|synchronize|cpu\b|tolist|item\b")
"""Text that a function must contain, too."""
_CURRENT = re.compile(r"(?:current|default)_stream")
_HOST_WAITS = frozenset({"item", "cpu", "tolist", "numpy", "graph", "capture_begin", "elapsed_time", "query"})
"""Calls after which the host, or a capture, has waited."""
_RECORDS = frozenset({"record", "record_event", "set_result", "then"})
"""Calls that record the current work, including those of futures."""
_LOADING = frozenset({"to", "cuda", "copy_", "pin_memory", "next"})
"""Calls that transfer something from the host, which requires no wait before."""
_IDLE = _LOADING | frozenset("record_stream append print range len enumerate zip isinstance add extend update".split())
"""Calls that submit no work on their arguments to the current stream."""
_OF_SIZES = FACTORIES | {"range", "len"}
_OBJECTS = frozenset({"self", "cls"})
_KEEPING = frozenset("shape size dim device dtype numel record_stream append keys is_cuda ndim del_ items".split())
"""Members of tensors and containers that submit no work."""
_NO_JOIN = "nothing waits for stream `{stream}`, whose results this function uses later"
_NO_JOIN_OWN = "nothing waits for stream `{stream}`, which is created in this function"
_NO_FORK = "stream `{stream}` never waits for the stream that computes what it uses here"
_FORK = "call `{stream}.wait_stream(torch.cuda.current_stream())` before this work"
_JOIN = "call `torch.cuda.current_stream().wait_stream({stream})` before the results are used"

_USES_OF_STREAMS = STREAM_CONTEXTS | {"wait_stream", "record_stream", "wait", "synchronize", "record"}
"""Functions that do not pass on the streams that they get."""
_MAX_NAMES = 4
"""Maximum length of a chain of names for the same stream."""

Function = ast.FunctionDef | ast.AsyncFunctionDef


@dataclass(frozen=True, slots=True)
class _Waits:
    """The calls in a function that order one stream against others, by line.

    Attributes:
        forks: the stream waits for others.
        joins: others may wait for the stream or for an event.
        is_joined: whether the current stream waits for it by name.
        hosts: the host may wait.
        records: the work of the stream is recorded in an event, whether or not anything waits for it.
        is_shared: whether the stream is passed to other code.
    """

    forks: list[int]
    joins: list[int]
    is_joined: bool
    hosts: list[int]
    records: list[int]
    is_shared: bool

    def without(self, lines: Set[int]) -> "_Waits":
        """Return the waits without those of the host on some lines."""
        return replace(self, hosts=[line for line in self.hosts if line not in lines])

    @property
    def are_forks_only(self) -> bool:
        """Return whether the stream waits for others, and nothing waits for it, records it or gets it."""
        return self.have_no_join and not self.records

    @property
    def have_no_join(self) -> bool:
        """Return whether the stream waits for others, and nothing waits for it or gets it."""
        return bool(self.forks) and not (self.joins or self.hosts or self.is_shared)


def can_matter(text: str) -> bool:
    """Return whether this rule may apply to a file."""
    # The words come first: most files have none, and the pattern alone is 20 times as slow.
    return ("stream(" in text or "StreamContext(" in text) and WORDS.search(text) is not None


def findings(context: Context) -> Iterator[Finding]:
    """Yield the blocks of work on a stream for which one of the two waits is missing."""
    lines = lines_of(context.known, frozenset(Family) - {Family.HOST, Family.LIFETIME})
    for outer in context.functions:
        source = deferred.source_of(outer)
        if not (_is_meant(words_in(outer)) if source is None else _has_words(source)):
            continue
        is_recorded = recorded_streams.WORD in (words_in(outer) if source is None else source)
        for function in (node for node in walk(outer) if isinstance(node, Function)):
            yield from _FunctionChecker(function, context.sites).findings(lines)
            if is_recorded:
                yield from recorded_streams.findings(function, context.sites)


def _is_meant(words: set[str]) -> bool:
    """Return whether this rule may apply to a function that contains some names."""
    return STREAM_BLOCK in words and any(_ORDERING.match(word) for word in words)


def _has_words(source: str) -> bool:
    """Return whether this rule may apply to a function that has not been parsed."""
    return bool(WORDS.search(source) and _ORDERING.search(source))


class _FunctionChecker:
    """Checks one function.

    Args:
        function: the function.
        sites: the call sites.
    """

    def __init__(self, function: Function, sites: SourceSites) -> None:
        self._function = function
        self._sites = sites
        self._nodes = list(own_nodes(function))
        self._parents = {child: node for node in self._nodes for child in children(node)}
        shared = (node for node in self._nodes if isinstance(node, ast.Global | ast.Nonlocal))
        self._shared = {name for node in shared for name in node.names}
        self._bound: dict[str, list[ast.expr | None]] = {}
        for node in self._nodes:
            if isinstance(node, ast.Name) and not isinstance(node.ctx, ast.Load):
                parent = self._parents.get(node)
                value = parent.value if isinstance(parent, ast.Assign) and node in parent.targets else None
                self._bound.setdefault(node.id, []).append(value)

    def findings(self, lines: set[int]) -> Iterator[Finding]:
        """Yield the missing waits; `lines`: the lines with other findings."""
        found = ((block, self._of(block)) for block in self._nodes if isinstance(block, ast.With))
        contexts = {block: context for block, context in found if context is not None}
        inner = [node for node in self._nodes if isinstance(node, Function | ast.Lambda)]
        for block, context in contexts.items():
            stream = self._words(context)
            if any(_mentions(node, stream) for node in inner):
                continue  # it is unknown when the nested function is called
            if lines & set(range(block.lineno, (block.end_lineno or block.lineno) + 1)):
                continue
            others = [other for other, its in contexts.items() if self._words(its) == stream]
            waits = self._waits(stream, others)
            flaw = self._flaw(block, stream, others, waits)
            if flaw:
                location = self._sites.location(self._sites.id_of(context, self._function.name))
                finding = Finding.of(unordered_side_stream.RULE, location, flaw=flaw.format(stream=text(context)))
                yield replace(finding, help=(_FORK if flaw == _NO_FORK else _JOIN).format(stream=text(context)))
            elif waits.without(dropped_inputs.other_branches(self._nodes, block)).have_no_join:
                yield from dropped_inputs.findings(
                    self._function, block, stream, self._sites, is_recorded=bool(waits.records)
                )

    def _of(self, block: ast.With) -> ast.expr | None:
        """Return the stream that a block makes current, if it has a name."""
        for item in block.items:
            stream = entered_stream(item.context_expr)
            if stream is not None:
                return stream if isinstance(stream, ast.Name | ast.Attribute) and not self._is_current(stream) else None
        return None

    def _flaw(self, block: ast.With, stream: str, blocks: list[ast.With], waits: _Waits) -> str:
        """Return a message about the wait that a block lacks; "" if it lacks none, or that is unknown."""
        end = block.end_lineno or block.lineno
        if waits.is_shared:
            return ""
        if waits.are_forks_only:
            if self._is_made_here(stream):
                return _NO_JOIN_OWN if self._works(block) and _leaves_results(block) else ""
            return _NO_JOIN if self._uses_later(block, blocks) else ""
        if not waits.forks and self._is_made_here(stream) and fetches_computed(self._nodes, block, blocks, waits.hosts):
            return _NO_FORK
        if waits.forks or any(line < end for line in waits.hosts):
            return ""
        is_flaw = waits.is_joined and self._works(block) and self._reads_made_before(block, stream, blocks)
        if not is_flaw and (waits.is_joined or waits.records):
            is_flaw = self._is_kept(stream) and self._fetches(block)
        return _NO_FORK if is_flaw else ""

    # -- names

    def _words(self, node: ast.expr) -> str:
        """Return the source of a stream, after resolving names that stand for it."""
        for _ in range(_MAX_NAMES):
            values = self._bound.get(node.id, []) if isinstance(node, ast.Name) else []
            if len(values) != 1 or not isinstance(values[0], ast.Name | ast.Attribute):
                break
            node = values[0]
        return text(node)

    def _is_current(self, node: ast.expr) -> bool:
        """Return whether an expression is the current stream, directly or through a variable."""
        values = self._bound.get(node.id, []) if isinstance(node, ast.Name) else []
        return any(_CURRENT.search(text(value)) for value in (node, *values) if value is not None)

    def _is_made_here(self, stream: str) -> bool:
        bound = self._bound.get(stream, [])
        values = [value for value in bound if not (isinstance(value, ast.Constant) and value.value is None)]
        return bool(values) and stream not in self._shared and all(map(makes_stream, values))

    def _is_kept(self, stream: str) -> bool:
        """Return whether a stream belongs to an object, and no function in the file makes it wait for others."""
        owner, _, name = stream.rpartition(".")
        return owner in _OBJECTS and not re.search(rf"\b{name}\.wait_(?:stream|event)\(", self._sites.text)

    # -- waits

    def _waits(self, stream: str, blocks: list[ast.With]) -> _Waits:
        inside = {node for block in blocks for statement in block.body for node in walk(statement)}
        found: dict[str, list[int]] = {kind: [] for kind in ("fork", "join", "by name", "host", "record", "shared")}
        for node in self._nodes:
            if isinstance(node, ast.Call):
                kind = self._kind(node, stream, is_inside=node in inside)
                found.setdefault(kind, []).append(node.lineno)
            elif isinstance(node, ast.Name | ast.Attribute) and self._is_given_away(node, stream):
                found["shared"].append(node.lineno)
        joins = found["join"] + found["by name"]
        return _Waits(
            found["fork"], joins, bool(found["by name"]), found["host"], found["record"], bool(found["shared"])
        )

    def _kind(self, call: ast.Call, stream: str, *, is_inside: bool) -> str:
        """Return how a call affects the order of a stream."""
        name, owner = last_name(call.func), call.func.value if isinstance(call.func, ast.Attribute) else None
        given = [*call.args, *(word.value for word in call.keywords if word.arg in {"stream", "event"})]
        first = given[0] if given else None
        if owner is not None and name in {"wait_stream", "wait_event"}:
            if self._words(owner) == stream or (is_inside and self._is_current(owner)):
                return "fork"
            is_named = name == "wait_stream" and first is not None and self._words(first) == stream
            if is_named:
                return "by name" if self._is_current(owner) else "join"
            return "" if name == "wait_stream" and first is not None and self._is_current(first) else "join"
        if owner is not None and name == "wait":
            return "fork" if is_inside or (first is not None and self._words(first) == stream) else "join"
        if name in _RECORDS or (is_inside and name in recording_functions(self._sites.tree)):
            is_of_other = owner is not None and not is_inside and self._is_of_other(name, owner, first, stream)
            return "" if is_of_other else "record"
        waits = name in _HOST_WAITS or may_wait(name) or ("cpu" in text(call) and name == "to") or copies_values(call)
        return "host" if waits else ""

    def _is_of_other(self, name: str, owner: ast.expr, given: ast.expr | None, stream: str) -> bool:
        """Return whether a call outside the blocks of a stream records an event on another stream."""
        if name == "record_event":
            return self._words(owner) != stream
        on_current = given is None or self._is_current(given)
        return name == "record" and (on_current or (isinstance(given, ast.Attribute) and self._words(given) != stream))

    def _is_given_away(self, node: ast.Name | ast.Attribute, stream: str) -> bool:
        """Return whether a reference to a stream passes it to other code."""
        if not isinstance(node.ctx, ast.Load) or self._words(node) != stream:
            return False
        parent = self._parents.get(node)
        if isinstance(parent, ast.Attribute):
            return parent.attr not in {"wait_stream", "wait_event", "record_event", "synchronize", "device"}
        if isinstance(parent, ast.Call):
            return last_name(parent.func) not in _USES_OF_STREAMS | protecting_functions(self._sites.tree)
        return isinstance(parent, ast.Return | ast.Yield | ast.Tuple | ast.List | ast.Dict | ast.keyword)

    # -- contents of blocks

    def _is_of_layer(self) -> bool:
        """Return whether the function is a method of a layer."""
        kinds = (node for node in self._sites.tree.body if isinstance(node, ast.ClassDef))
        return any(self._function in kind.body and LAYERS & {text(base) for base in kind.bases} for kind in kinds)

    def _works(self, block: ast.With) -> bool:
        """Return whether a block calls something that may run work on a GPU, and transfers nothing."""
        calls = [node for statement in block.body for node in walk(statement) if isinstance(node, ast.Call)]
        called = {last_name(call.func) for call in calls}
        return not called & _LOADING and any(
            last_name(call.func) not in _IDLE
            and not makes_object(call)
            and isinstance(call.func, ast.Name | ast.Attribute)
            for call in calls
        )

    def _fetches(self, block: ast.With) -> bool:
        """Return whether a block copies something that it has not created to the host, without waiting for the copy.

        A copy whose result is dropped is of a module, and only training computes the parameters of a module.
        """
        nodes = [node for statement in block.body for node in walk(statement)]
        made = {name for node in nodes for name in made_by(node)}
        statements = (node.value for node in nodes if isinstance(node, ast.Expr) and isinstance(node.value, ast.Call))
        moved = set() if self._trains() else {call for call in statements if last_name(call.func) == "to"}
        return any(
            not names(source) & made
            for node in nodes
            if (source := host_copy_source(node)) is not None and node not in moved
        )

    def _trains(self) -> bool:
        """Return whether the file contains a training step."""
        return ".step(" in self._sites.text or ".backward(" in self._sites.text

    def _uses_later(self, block: ast.With, blocks: list[ast.With]) -> bool:
        """Return whether a function later works on the results of a block, outside blocks on the same stream."""
        end = block.end_lineno or block.lineno
        inside = {node for each in blocks for node in walk(each)}
        within = [node for statement in block.body for node in walk(statement)]
        made = {name for node in within for name in made_by(node)}
        changed = {text(target) for node in within if isinstance(target := changed_in_place(node), ast.Attribute)}
        later = [node for node in self._nodes if getattr(node, "lineno", 0) > end and node not in inside]
        if any(isinstance(n, ast.Attribute) and text(n) in changed and self._is_worked_on(n) for n in later):
            return True
        after = [node for node in later if isinstance(node, ast.Name)]
        if is_backward(self._function) and any(made & names(node) for node in later if isinstance(node, ast.Return)):
            return True
        again = {node.id: node.lineno for node in reversed(after) if not isinstance(node.ctx, ast.Load)}
        return any(
            node.id in made and node.lineno <= again.get(node.id, node.lineno) and self._is_worked_on(node)
            for node in after
        )

    def _is_worked_on(self, node: ast.Name | ast.Attribute) -> bool:
        parent = self._parents.get(node)
        match parent:
            case ast.BinOp() | ast.AugAssign():
                return True
            case ast.Call():
                return last_name(parent.func) not in _IDLE and not makes_object(parent)
            case ast.Attribute():
                return parent.attr not in _KEEPING and isinstance(self._parents.get(parent), ast.Call)
            case _:
                return False

    def _bound_outside(self, block: ast.With) -> set[str]:
        """Return the parameters of the function, and the names that it binds before a block."""
        given = self._function.args
        parameters = (*given.posonlyargs, *given.args, *given.kwonlyargs, given.vararg, given.kwarg)
        before = (node for node in self._nodes if isinstance(node, ast.Name) and node.lineno < block.lineno)
        bound = {node.id for node in before if not isinstance(node.ctx, ast.Load)}
        return bound | {parameter.arg for parameter in parameters if parameter is not None} - {"self", "cls"}

    def _reads_made_before(self, block: ast.With, stream: str, blocks: list[ast.With]) -> bool:
        """Return whether a block reads what the current stream may still be computing.

        For a stream of an object, only values computed in this function count, and what a layer of a network gets from
        the layer before it.
        """
        if self._is_made_here(stream):
            return bool(_given_to_calls(block) & self._bound_outside(block))
        if stream.rpartition(".")[0] not in _OBJECTS:
            return False
        inside = {node for each in blocks for node in walk(each)}
        before = (node for node in self._nodes if isinstance(node, ast.Assign) and node not in inside)
        made = {name for node in before if node.lineno < block.lineno for name in made_by(node)}
        if self._is_kept(stream) and self._is_of_layer():
            made |= {argument.arg for argument in tensors_given(self._function)} & _given_to_calls(block)
        return any(made & names(statement) for statement in block.body)


def _leaves_results(block: ast.With) -> bool:
    """Return whether a block binds a name to a result, and does not leave the function."""
    nodes = [node for statement in block.body for node in walk(statement)]
    ends = any(isinstance(node, ast.Return | ast.Yield) for node in nodes)
    return not ends and any(isinstance(node, ast.Assign | ast.AugAssign) for node in nodes)


def _given_to_calls(block: ast.With) -> set[str]:
    """Return the variables that calls in a block get or call, directly or indexed, except for sizes of new tensors."""
    inside = [node for statement in block.body for node in walk(statement)]
    calls = [node for node in inside if isinstance(node, ast.Call) and last_name(node.func) not in _OF_SIZES]
    given = [part for call in calls for part in (call.func, *arguments_of(call))]
    parts = [part.value if isinstance(part, ast.Starred | ast.Subscript) else part for part in given]
    return {part.id for part in parts if isinstance(part, ast.Name)}


def _mentions(function: ast.AST, stream: str) -> bool:
    """Return whether a function mentions a stream, or an attribute of the same name."""
    last = stream.rpartition(".")[2]
    named = (getattr(node, "attr", "") or getattr(node, "id", "") for node in walk(function))
    return last in named
