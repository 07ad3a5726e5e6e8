"""SYN801 in source: a training loop reads its loss in every iteration."""

import re
from functools import cached_property

import libcst as cst

from syncheck.lint.rules.loops import LoopRule, always_made, receivers
from syncheck.rules import host_sync_in_loop

_READS = frozenset({"item", "tolist", "cpu"})
_ON_A_GPU = re.compile(r"(?<![a-z])(cuda|xpu|npu|nccl|accelerators?|deepspeed)(?![a-z])", re.IGNORECASE)
"""Words in programs that use a GPU. A tutorial that runs on the host contains none of them."""


class HostSyncInLoop(LoopRule):
    """The host unconditionally reads the value that a loop over batches calls `backward()` on."""

    rule = host_sync_in_loop.RULE

    def check_loop(self, loop: cst.For | cst.While) -> None:
        """Check a loop. Only the first read is reported, because the same change fixes the others."""
        if not self._uses_gpu or not self.is_hot(loop):
            return
        losses = {self.code(value) for value in receivers(loop, "backward")}
        for call in always_made(loop.body) if losses else ():
            method = call.func
            if isinstance(method, cst.Attribute) and method.attr.value in _READS and self.code(method.value) in losses:
                self.report(call, call=f"`{self.code(call)}`")
                return

    @cached_property
    def _uses_gpu(self) -> bool:
        return _ON_A_GPU.search(self._source.text) is not None
