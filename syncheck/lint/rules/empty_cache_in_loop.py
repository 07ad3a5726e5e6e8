"""SYN807 in source: a training loop empties the allocator's cache in every iteration."""

import re

import libcst as cst

from syncheck.lint.rules.loops import BACKENDS, LoopRule, always_made, receivers
from syncheck.rules import empty_cache_in_loop

_CALL = re.compile(rf"(torch\.)?({BACKENDS})\.empty_cache\(\)")


class EmptyCacheInLoop(LoopRule):
    """`empty_cache()` is called unconditionally in a loop over batches that calls `backward()`."""

    rule = empty_cache_in_loop.RULE

    def check_loop(self, loop: cst.For | cst.While) -> None:
        """Check a loop."""
        trains = self.is_hot(loop) and any(receivers(loop, "backward"))
        for call in always_made(loop.body) if trains else ():
            if _CALL.fullmatch(self.code(call)):
                self.report(call)
