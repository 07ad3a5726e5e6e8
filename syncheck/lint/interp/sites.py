"""Call sites for static analysis: nodes of the syntax tree."""

import ast
from collections.abc import Iterable
from dataclasses import replace

from syncheck.findings import Finding, Frame, Location
from syncheck.hb.ids import AllocationId, SiteId
from syncheck.lint.interp.arithmetic import MAX_ITERATIONS
from syncheck.lint.interp.flows import Flows
from syncheck.lint.interp.premises import Premise, Premises
from syncheck.lint.interp.values import Tensor
from syncheck.lint.prefilter import may_use_gpu
from syncheck.lint.source_file import SourceFile
from syncheck.rules.model import Rule, Severity
from syncheck.sanitizer.collector import PendingFinding
from syncheck.sanitizer.monitor import SourceLine

UNKNOWN_LOCATION = Location(Frame("<unknown>", 0))


class SourceSites:
    """Assigns ids to nodes, and converts them to locations.

    Args:
        source: the file.
        premises: the kinds of assumptions to make on the path.

    Attributes:
        premises: the assumptions, and the findings that rest on them.
        flows: what becomes of the results of operators.
        enters_streams: whether the file makes streams current, judging by its text.
        has_asynchronous_collectives: whether it starts collectives that it waits for later.
        is_gpu_name: returns whether a name stands for a GPU, judging by its other uses in the file.
        may_use_gpu: see `prefilter.may_use_gpu`.
        n_asked: how often a call site was requested. Every operation at a call site requests it.
        callers: call site of a finding -> the calls that led to it, innermost first, each with its function.
        mentions: (allocation, line) -> the expression that is a tensor of the allocation on that line.
        handovers: place of a caller's use -> the statement that returns what it uses, and code that records it.
        ignored_now: the rules that an active `syncheck.ignore` block ignores.
    """

    def __init__(self, source: SourceFile, premises: frozenset[Premise] = frozenset()) -> None:
        self.premises, self.flows = Premises(premises), Flows()
        self.path = source.path
        self.tree, self.text = source.tree, source.text
        self._source = source
        self._lines = source.lines
        self.is_gpu_name = source.gpu_names.__contains__
        self.may_use_gpu = may_use_gpu(source.text)
        self.enters_streams = source.enters_streams
        self.has_asynchronous_collectives = source.has_asynchronous_collectives
        self._has_more_iterations = source.has_ring or (source.enters_streams and "yield" in source.text)
        self._bindings = source.bindings
        self.callers: dict[SiteId, tuple[tuple[ast.AST, str], ...]] = {}
        self.mentions: dict[tuple[AllocationId, int], ast.expr] = {}
        self.handovers: dict[SiteId, tuple[SiteId, str]] = {}
        self.ignored_now: frozenset[str] = frozenset()
        self._launched_from: dict[SiteId, tuple[tuple[ast.AST, str], ...]] = {}
        self._numbers: dict[tuple[int, frozenset[str]], SiteId] = {}
        self.nodes: list[ast.AST] = []
        self.n_asked = 0
        self._functions: list[str] = []
        self._ignored: list[frozenset[str]] = []
        self._objects: set[int] = set()

    def n_iterations(self, function: str) -> int:
        """Return the number of interpreted iterations of a loop of unknown length in a function with some name.

        If the file uses slots of a ring in turn, there is one more than the slots that a constructor creates in such a
        loop, so that one of them is used again. If it may load batches ahead, there is one more, too: a batch is freed
        when the next one is used, and the stream that loads them may reuse its memory for the one after that.
        """
        return MAX_ITERATIONS + (self._has_more_iterations and function != "__init__")

    def id_of(self, node: ast.AST, function: str = "") -> SiteId:
        """Return the call site of a node. Numbers start at 1."""
        self.n_asked += 1
        key = (id(node), self.ignored_now)
        known = self._numbers.get(key)
        if known is None:
            self.nodes.append(node)
            self._functions.append(function)
            self._ignored.append(self.ignored_now)
            known = self._numbers[key] = SiteId(len(self.nodes))
        return known

    def note_launch(
        self, operator: str, site: SiteId, calls: list[tuple[ast.AST, str]], touched: Iterable[tuple[Tensor, bool]]
    ) -> None:
        """Record the calls that led to a site's latest launch, outermost first, and the tensors that it touched."""
        self.note_accesses(operator, site, touched)
        self._launched_from[site] = tuple(reversed(calls))

    def note_accesses(self, operator: str, site: SiteId, touched: Iterable[tuple[Tensor, bool]]) -> None:
        """Record the tensors that an operator reads and writes."""
        self.premises.launched(site, touched)
        self.flows.launched(operator, site, touched)

    def note_finding(self, finding: PendingFinding, calls: list[tuple[ast.AST, str]]) -> None:
        """Record the calls that led to a finding, and those that led to the launch that its fix follows."""
        self.callers.setdefault(finding.site, tuple(reversed(calls)))
        related = (site for site, _ in finding.related)
        self.premises.finding(finding.rule, finding.site, related, finding.allocation)
        if finding.fix is not None and finding.fix.after in self._launched_from:
            self.callers.setdefault(finding.fix.after, self._launched_from[finding.fix.after])

    def location(self, site: SiteId) -> Location:
        """See `Sites`."""
        if not site:
            return UNKNOWN_LOCATION
        line, column, end_line, end_column = span(self.nodes[site - 1])
        source = self._lines[line - 1] if line <= len(self._lines) else ""
        start, end = _column(source, column), self._end(end_line, end_column)
        return self._source.location(line, start, end_line, end, self._functions[site - 1])

    def related(self, node: ast.AST, function: str, message: str) -> Location:
        """Return the location of a node of a function, with a text about it, as a related one of a finding."""
        return replace(self.location(self.id_of(node, function)), message=message)

    def warning(self, rule: Rule, node: ast.AST, function: str, advice: str = "", **facts: str) -> Finding:
        """Return a finding about a node of a function as a warning.

        Args:
            rule: the rule.
            node: the node.
            function: the name of the function that contains the node.
            advice: the help of the finding; that of the rule by default.
            facts: the facts for the message of the rule.
        """
        found: Finding = Finding.of(rule, self.location(self.id_of(node, function)), **facts)
        return replace(found, level=Severity.WARNING, help=advice or found.help)

    def lines_of(self, site: SiteId) -> tuple[SourceLine, ...]:
        """See `Sites`."""
        if not site:
            return (SourceLine(UNKNOWN_LOCATION.frame.path, 0),)
        own = self._source_line(self.nodes[site - 1], self._functions[site - 1])
        return (own, *(self._source_line(node, function) for node, function in self.callers.get(site, ())))

    def _source_line(self, node: ast.AST, function: str) -> SourceLine:
        line, column, _, _ = span(node)
        source = self._lines[line - 1] if line <= len(self._lines) else ""
        return SourceLine(self.path, line, _column(source, column), function or "<module>", self._bindings.scopes)

    def _end(self, line: int, offset: int) -> int:
        return _column(self._lines[line - 1] if line <= len(self._lines) else "", offset)

    def bound(self, site: SiteId) -> str:
        """See `Sites`."""
        if not site or id(self.nodes[site - 1]) in self._objects:
            return ""
        line, column, _, _ = span(self.nodes[site - 1])
        return self._bindings.target(line, column)

    def note_object(self, node: ast.AST) -> None:
        """Record that a call returns an object of another file: what it created has other names than the object."""
        self._objects.add(id(node))

    def bound_directly(self, site: SiteId) -> str:
        """Return the name bound to the value created at a call site itself, not to something derived from it."""
        name = self.bound(site)
        if not name:
            return ""
        line, column, _, _ = span(self.nodes[site - 1])
        return "" if self._bindings.is_passed_on(line, column) else name

    def ignored(self, site: SiteId, rule: Rule) -> bool:
        """See `Sites`."""
        return rule.code in self.ignored_codes(site)

    def ignored_codes(self, site: SiteId) -> list[str]:
        """See `Sites`."""
        return sorted(self._ignored[site - 1]) if site else []


def span(node: ast.AST) -> tuple[int, int, int, int]:
    """Return (line, column, last line, end column) of a node. A method call begins on the line of the method's name.

    Source:
        CPython, Python/compile.c, `update_start_location_to_match_attr`.
    """
    line, column = getattr(node, "lineno", 1), getattr(node, "col_offset", 0)
    end_line, end_column = getattr(node, "end_lineno", None) or line, getattr(node, "end_col_offset", None) or column
    function = getattr(node, "func", None)
    if isinstance(function, ast.Attribute) and function.value.end_lineno != function.end_lineno:
        line = function.end_lineno or line
        column = (function.end_col_offset or 0) - len(function.attr)
    return line, column, end_line, end_column


def _column(source: str, offset: int) -> int:
    """Convert a zero-based UTF-8 offset to a one-based column in characters."""
    if source.isascii():
        return offset + 1
    return len(source.encode()[:offset].decode(errors="replace")) + 1
