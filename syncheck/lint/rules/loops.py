"""Base class and helpers of the rules on loops."""

import re
from collections.abc import Iterator

import libcst as cst
from libcst.helpers import get_full_name_for_node

from syncheck.lint.rules.base import SyntacticRule, is_definition, nodes_below, own_nodes
from syncheck.sanitizer.iteration_counter import HOT

BACKENDS = "cuda|xpu|npu|accelerator"
"""Modules of torch with the functions of `torch.cuda`, as part of a regular expression."""

_COUNTED = re.compile(r"range\((\d+)\)")
_EPOCH = re.compile(r"(?<!per_)epoch", re.IGNORECASE)


class LoopRule(SyntacticRule):
    """A rule that checks each loop of a function."""

    looks_at_classes = False

    def is_hot(self, loop: cst.For | cst.While) -> bool:
        """Return whether a loop may have many iterations. A loop over epochs, judging by its words, does not count."""
        if isinstance(loop, cst.While):
            return True
        if any(_EPOCH.search(self.code(part)) for part in (loop.target, loop.iter)):
            return False
        counted = _COUNTED.fullmatch(self.code(loop.iter))
        return counted is None or int(counted[1]) >= HOT

    def look(self) -> None:
        """Check all loops, except those in a block whose waits are intended."""
        for node in _without_intended_waits(self._definition.wrapper.module):
            if isinstance(node, cst.For | cst.While):
                self.check_loop(node)

    def check_loop(self, loop: cst.For | cst.While) -> None:
        """Check a loop."""
        raise NotImplementedError


def _without_intended_waits(node: cst.CSTNode) -> Iterator[cst.CSTNode]:
    """Yield the nodes below a node, except those in a block whose waits are intended.

    A function that is defined in such a block may run elsewhere.
    """
    for inner in nodes_below(node, lambda inner: not allows_syncs(inner)):
        yield inner
        if allows_syncs(inner):
            for definition in filter(is_definition, own_nodes(inner)):
                yield from _without_intended_waits(definition)


def receivers(loop: cst.CSTNode, method: str) -> Iterator[cst.BaseExpression]:
    """Yield the expressions that a method is called on in a loop."""
    for node in own_nodes(loop):
        if isinstance(node, cst.Call) and isinstance(node.func, cst.Attribute) and node.func.attr.value == method:
            yield node.func.value


def always_made(body: cst.BaseSuite) -> Iterator[cst.Call]:
    """Yield the calls made in every iteration: those in no conditional statement or expression and no inner loop.

    Guards such as `if x is None: continue` are passed, except for one that counts: `if step % 100: continue`.
    """
    for statement in statements(body):
        if isinstance(statement, cst.If) and _skips_most(statement):
            return
        if isinstance(statement, cst.With):
            if not allows_syncs(statement):
                yield from always_made(statement.body)
        elif isinstance(statement, cst.Expr | cst.Assign | cst.AugAssign | cst.AnnAssign):
            yield from (node for node in _always_evaluated(statement) if isinstance(node, cst.Call))


def _skips_most(branch: cst.If) -> bool:
    """Return whether a branch ends most iterations of a loop: every one but each n-th."""
    counts = any(isinstance(node, cst.Modulo) for node in own_nodes(branch.test))
    return counts and any(isinstance(node, cst.Continue | cst.Break | cst.Return) for node in own_nodes(branch.body))


def _always_evaluated(statement: cst.CSTNode) -> Iterator[cst.CSTNode]:
    """Yield the nodes of a statement that are evaluated each time it runs."""
    conditional: set[cst.CSTNode] = set()
    for node in own_nodes(statement):
        if node in conditional:
            conditional.update(node.children)
            continue
        match node:
            case cst.IfExp():
                conditional.update((node.body, node.orelse))
            case cst.BooleanOperation():
                conditional.add(node.right)
            case cst.ListComp() | cst.SetComp() | cst.DictComp() | cst.GeneratorExp() if node.for_in.ifs:
                conditional.update(node.children)
        yield node


def statements(body: cst.BaseSuite) -> Iterator[cst.CSTNode]:
    """Yield the statements of a block one by one, even if they share a line."""
    for statement in body.body:
        if isinstance(statement, cst.SimpleStatementLine):
            yield from statement.body
        else:
            yield statement


def allows_syncs(node: cst.CSTNode) -> bool:
    """Return whether a node is a `with syncheck.allow_sync(...):` block."""
    contexts = [item.item for item in node.items] if isinstance(node, cst.With) else []
    return any(
        isinstance(context, cst.Call) and get_full_name_for_node(context.func) in {"allow_sync", "syncheck.allow_sync"}
        for context in contexts
    )


def expression_of(statement: cst.CSTNode) -> cst.BaseExpression | None:
    """Return the expression of an expression statement from `statements`; None for any other statement."""
    return statement.value if isinstance(statement, cst.Expr) else None
