"""SYN801 in source: a training loop reads its loss on every iteration."""

import libcst as cst

from syncheck.lint.rules.loops import LoopRule, always_made, receivers
from syncheck.rules import host_sync_in_loop

_READS = frozenset({"item", "tolist", "cpu"})


class HostSyncInLoop(LoopRule):
    """The value that a loop calls `backward()` on is read by the host, whatever happens in the loop."""

    rule = host_sync_in_loop.RULE

    def check_loop(self, loop: cst.For | cst.While) -> None:
        """Look at a loop."""
        losses = {self.code(value) for value in receivers(loop, "backward")}
        for call in always_made(loop.body) if losses else ():
            method = call.func
            if isinstance(method, cst.Attribute) and method.attr.value in _READS and self.code(method.value) in losses:
                self.report(call, call=f"`{self.code(call)}`")
