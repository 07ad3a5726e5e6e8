"""SYN807 in source: a training loop empties the allocator's cache on every iteration."""

import re

import libcst as cst

from syncheck.lint.rules.base import LintRule
from syncheck.lint.rules.loops import BACKENDS, always_made, receivers
from syncheck.rules import empty_cache_in_loop

_CALL = re.compile(rf"(torch\.)?({BACKENDS})\.empty_cache\(\)")
_CONSEQUENCE = "what it gives back is asked of the driver again in the next one, which waits for the device"


class EmptyCacheInLoop(LintRule):
    """`empty_cache()` is called in a loop that calls `backward()`, whatever happens in the loop."""

    rule = empty_cache_in_loop.RULE
    looks_at_classes = False

    def visit_For(self, node: cst.For) -> None:
        """Look at a loop."""
        self._loop(node)

    def visit_While(self, node: cst.While) -> None:
        """Look at a loop."""
        self._loop(node)

    def _loop(self, loop: cst.For | cst.While) -> None:
        for call in always_made(loop.body) if any(receivers(loop, "backward")) else ():
            if _CALL.fullmatch(self.code(call)):
                self.report(call, consequence=_CONSEQUENCE)
