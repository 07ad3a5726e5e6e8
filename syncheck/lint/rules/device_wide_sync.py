"""SYN806 in source: a loop waits for the whole device right after it has recorded a timing event."""

import itertools
import re
from collections.abc import Iterator

import libcst as cst

from syncheck.lint.rules.base import is_definition, nodes_below, own_nodes
from syncheck.lint.rules.loops import BACKENDS, LoopRule, allows_syncs, expression_of, statements
from syncheck.rules import device_wide_sync

_WAIT = re.compile(rf"(torch\.)?({BACKENDS})\.synchronize\(\)")


class DeviceWideSync(LoopRule):
    """`torch.cuda.synchronize()` follows the record of a timing event, where waiting for the event is enough."""

    rule = device_wide_sync.RULE

    def __init__(self, *args: object) -> None:
        super().__init__(*args)  # type: ignore[arg-type]  # the arguments of the base class
        self._reported: set[cst.CSTNode] = set()

    def check_loop(self, loop: cst.For | cst.While) -> None:
        """Check a loop."""
        timed = {self.code(event) for event in _timed(loop)}
        for block in _blocks(loop) if timed else ():
            for first, second in itertools.pairwise(statements(block.body)):
                event, wait = _recorded(first), expression_of(second)
                if event is None or wait is None or self.code(event) not in timed:
                    continue
                if _WAIT.fullmatch(self.code(wait)) and wait not in self._reported:  # for an outer loop
                    self._reported.add(wait)
                    self.report(wait, alternative=f"`{self.code(event)}.synchronize()`")


def _blocks(loop: cst.For | cst.While) -> Iterator[cst.For | cst.While | cst.With | cst.If]:
    """Yield a loop and the blocks in it, except those whose waits are intended."""
    yield loop
    for node in nodes_below(loop, lambda inner: not (is_definition(inner) or allows_syncs(inner))):
        if isinstance(node, cst.With | cst.If) and not allows_syncs(node):
            yield node


def _timed(loop: cst.CSTNode) -> Iterator[cst.BaseExpression]:
    """Yield the events whose elapsed times the loop reads."""
    for node in own_nodes(loop):
        if (
            isinstance(node, cst.Call)
            and isinstance(node.func, cst.Attribute)
            and node.func.attr.value == "elapsed_time"
        ):
            yield node.func.value
            yield from (argument.value for argument in node.args)


def _recorded(statement: cst.CSTNode) -> cst.BaseExpression | None:
    """Return the event that a statement records, if any."""
    call = expression_of(statement)
    if isinstance(call, cst.Call) and isinstance(call.func, cst.Attribute) and call.func.attr.value == "record":
        return call.func.value
    return None
