"""Premises: assumptions beyond what the linter knows. Each finding on such a path states what it rests on."""

import ast
from collections.abc import Iterable
from enum import StrEnum

from syncheck.hb.ids import AllocationId, SiteId
from syncheck.lint.interp.values import Block, Tensor
from syncheck.rules import graph_result_overwritten, unsynchronized_timing
from syncheck.rules.model import Rule

_LONGEST = 40
_NOTHING = frozenset[str]()


class Premise(StrEnum):
    """A kind of assumption."""

    DEVICE = "device"
    """Tensors that a function gets, and those created on an unknown device, are on a GPU."""
    CODE = "code"
    """Unknown code uses tensors immediately and does not wait, unless its name says that it does."""
    BRANCH = "branch"
    """A branch that waits has not run where the path skips it."""


class Premises:
    """The premises of one path, and the findings that rest on them.

    Attributes:
        found: (rule code, call site) of a finding -> the premises that it rests on.
        about_code: the premises about unknown code.
        about_networks: those about networks, judging by their names.
        about_models: the premises about whole models, of which little is known.
        about_parameters: those about functions that a function gets and calls on a side stream. A clock may rely on
            them, because that stream is there for the work to be measured.

    Args:
        kinds: the kinds of assumptions to make; none by default.
    """

    def __init__(self, kinds: frozenset[Premise] = frozenset()) -> None:
        self.found: dict[tuple[str, SiteId], tuple[str, ...]] = {}
        self.about_code, self.about_networks, self.about_models = set[str](), set[str](), set[str]()
        self.about_parameters = set[str]()
        self._kinds = kinds
        self._made: list[str] = []  # about code and branches, in the order in which the path makes them
        self._of: dict[AllocationId, frozenset[str]] = {}  # about the devices of tensors
        self._at: dict[SiteId, frozenset[str]] = {}  # about the devices of the tensors used at a call site
        self._n_before: dict[SiteId, int] = {}  # call site -> number of premises made before its latest launch
        self._kept: list[Block] = []

    def has(self, kind: Premise) -> bool:
        """Return whether assumptions of a kind are made."""
        return kind in self._kinds

    def make(self, kind: Premise, text: str) -> bool:
        """Make an assumption that holds from now on, if its kind is enabled; return whether it is."""
        if kind not in self._kinds:
            return False
        self._made.append(text)
        return True

    def skip(self, node: ast.If, *, value: bool) -> bool:
        """Assume, if that is enabled, that a condition has only ever had one value; return whether it is."""
        return self.has(Premise.BRANCH) and self.make(Premise.BRANCH, true(node.test) if value else untrue(node.test))

    def assume_of_code(self, text: str, *, is_network: bool = False) -> None:
        """Make an assumption about unknown code that holds from now on; `text`: the assumption in words."""
        self.about_code.add(text)
        if is_network:
            self.about_networks.add(text)
        self._made.append(text)

    def assume_on_gpu(self, tensor: Tensor, text: str) -> None:
        """Assume that a tensor is on a GPU; `text`: the assumption in words."""
        if tensor.block.ident:
            self._of[tensor.block.ident] = frozenset((text,))

    def keep(self, tensors: Iterable[Tensor]) -> None:
        """Keep tensors alive until the end of the path: other code may hold them."""
        self._kept += [tensor.block for tensor in tensors]

    def launched(self, site: SiteId, touched: Iterable[tuple[Tensor, bool]]) -> None:
        """Record a launch: what an operator writes rests on the premises of what it reads."""
        if not self._kinds and not self._of and not self._made:
            return
        touched = list(touched)
        texts = _NOTHING.union(*(self._of.get(tensor.block.ident, _NOTHING) for tensor, _ in touched))
        self._n_before[site] = len(self._made)
        self._at[site] = texts
        for tensor, is_write in touched:
            if is_write and tensor.block.ident and texts:
                self._of[tensor.block.ident] = texts

    def finding(self, rule: Rule, site: SiteId, related: Iterable[SiteId], allocation: AllocationId) -> None:
        """Record the premises of a finding: those of its tensors, and those made since the first of its call sites."""
        if not self._kinds and not self._of and not self._made:
            return
        sites = [site, *related]
        texts = self._of.get(allocation, _NOTHING).union(*(self._at.get(other, _NOTHING) for other in sites))
        first = min((self._n_before[other] for other in sites if other in self._n_before), default=0)
        since = self._made[first:] or ([] if texts else self._made)
        if rule is graph_result_overwritten.RULE:  # which no wait prevents
            since = [text for text in since if text not in self.about_code]
        if rule is unsynchronized_timing.RULE:
            texts, since = texts - self.about_parameters, [t for t in since if t not in self.about_parameters]
        self.found.setdefault((rule.code, site), tuple(dict.fromkeys([*sorted(texts), *since])))


def description_of(node: ast.AST) -> str:
    """Return the source of an expression, truncated if it is long."""
    text = " ".join(ast.unparse(node).split())
    return f"`{text}`" if len(text) <= _LONGEST else f"`{text[: _LONGEST - 4]} ...`"


def untrue(test: ast.expr) -> str:
    """Return, in words, that a condition does not hold."""
    match test:
        case ast.UnaryOp(op=ast.Not(), operand=inner):
            return true(inner)
        case ast.Compare(left=left, ops=[ast.IsNot()], comparators=[ast.Constant(value=None)]):
            return f"{description_of(left)} is None"
        case ast.Compare(left=left, ops=[ast.Is()], comparators=[ast.Constant(value=None)]):
            return f"{description_of(left)} is not None"
        case _:
            return f"{description_of(test)} is false"


def true(test: ast.expr) -> str:
    """Return, in words, that a condition holds."""
    match test:
        case ast.UnaryOp(op=ast.Not(), operand=inner):
            return untrue(inner)
        case ast.Compare(left=left, ops=[ast.IsNot() | ast.Is() as how], comparators=[ast.Constant(value=None)]):
            return f"{description_of(left)} is {'not ' if isinstance(how, ast.IsNot) else ''}None"
        case _:
            return f"{description_of(test)} is true"
