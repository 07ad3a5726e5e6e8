"""SYN605 in source: a collective of all ranks is called under a condition that is true on only one rank."""

import re

import libcst as cst

from syncheck.lint.rules.base import SyntacticRule, own_nodes
from syncheck.rules import rank_dependent_collective
from syncheck.semantics.collectives import FUNCTIONS, POINT_TO_POINT

_RANK = re.compile(r"(^|[._])(rank|get_rank\([^)]*\))$")
_MAIN = re.compile(r"(^|[._])is_(main|master|world|rank)_(process|zero|rank)(_zero)?(\(\))?$")
_IN_TEXT = re.compile(
    r"rank(\([^)]*\))?([\s\\]|#.*\n)*==|is_(main|master|world|rank)_(process|zero|rank)"  # like _RANK and _MAIN
)
_GROUP_AT = {
    "barrier": 0, "monitored_barrier": 0, "reduce": 3, "gather": 3, "scatter": 3, "reduce_scatter": 3,
    "reduce_scatter_tensor": 3, "all_to_all_single": 4, "gather_object": 3, "scatter_object_list": 3,
}  # fmt: skip
"""Position of `group` in collectives in which it is not the third argument.

Source: torch/distributed/distributed_c10d.py.
"""
_BY_ALL = frozenset(
    name for name, found in FUNCTIONS.items() if found.operator.partition("::")[2] not in POINT_TO_POINT | {"barrier"}
)
_CALL = re.compile(rf"\b({'|'.join(sorted(_BY_ALL, key=len, reverse=True))})\s*\(")
_ADVICE = "move the call out of the branch, or create a group of the ranks that take part"
_LEAVES = cst.Return | cst.Raise | cst.Continue | cst.Break


class RankDependentCollective(SyntacticRule):
    """A collective is called under `if rank == 0:`, and the function has no other call of it for the other ranks."""

    rule = rank_dependent_collective.RULE
    looks_at_classes = False

    @classmethod
    def may_find(cls, text: str) -> bool:
        """Return whether a text contains what may be a condition on a rank, followed by a call of a collective."""
        condition = _IN_TEXT.search(text)
        return condition is not None and _CALL.search(text, condition.end()) is not None

    def look(self) -> None:
        """Check all conditions, function by function."""
        module = self._definition.wrapper.module
        self._look_in(module, self._collectives(module))

    def _look_in(self, scope: cst.CSTNode, collectives: list[str]) -> None:
        """Check the conditions in a function or a script. `collectives`: the names of the collectives that it calls."""
        for node in own_nodes(scope):
            if isinstance(node, cst.If):
                self._condition(node, collectives)
            elif isinstance(node, cst.FunctionDef):
                self._look_in(node, self._collectives(node))
            elif isinstance(node, cst.ClassDef):
                self._look_in(node, collectives)

    def _condition(self, node: cst.If, collectives: list[str]) -> None:
        if node.orelse is not None or not self._is_about_rank(node.test) or _leaves(node):
            return
        for inner in own_nodes(node.body):
            name = self._collective(inner)
            if name and collectives.count(name) == 1:
                self.report(inner, help=_ADVICE, collective=f"`{name}`")

    def _collectives(self, scope: cst.CSTNode) -> list[str]:
        return [name for node in own_nodes(scope) if (name := self._collective(node))]

    def _collective(self, node: cst.CSTNode) -> str:
        """Return the name of the all-rank collective that a node calls; "" if it calls none."""
        if not isinstance(node, cst.Call):
            return ""
        if any(argument.keyword is not None and argument.keyword.value == "group" for argument in node.args):
            return ""
        module, _, name = self.full_name(node).rpartition(".")
        if len([argument for argument in node.args if argument.keyword is None]) > _GROUP_AT.get(name, 2):
            return ""
        return name if module == "torch.distributed" and name in _BY_ALL else ""

    def _is_about_rank(self, test: cst.BaseExpression) -> bool:
        if isinstance(test, cst.Comparison):
            if len(test.comparisons) != 1 or not isinstance(test.comparisons[0].operator, cst.Equal):
                return False
            is_constant = isinstance(test.comparisons[0].comparator, cst.Integer | cst.SimpleString)
            return is_constant and bool(_RANK.search(self.code(test.left)))
        return isinstance(test, cst.Name | cst.Attribute | cst.Call) and bool(_MAIN.search(self.code(test)))


def _leaves(node: cst.If) -> bool:
    """Return whether a branch ends by leaving the current block, loop or function."""
    last = node.body.body[-1] if node.body.body else None
    inner = last.body[-1] if isinstance(last, cst.SimpleStatementLine) else last
    return isinstance(inner, _LEAVES)
