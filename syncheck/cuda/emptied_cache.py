"""Reports when the program returns the allocator's free memory to the driver."""

from collections.abc import Callable
from functools import wraps

import torch

from syncheck.cuda.reporter import Reporter
from syncheck.instrument.patching import Patches


def install_emptied_cache(reporter: Reporter, patches: Patches) -> None:
    """Hook all of torch's `empty_cache()` functions.

    Source:
        torch/cuda/memory.py and torch/accelerator/memory.py, `empty_cache`.
    """
    patches.everywhere(
        {
            original: _reported(original, reporter)
            for original in (torch.cuda.empty_cache, torch.accelerator.empty_cache)
        }
    )


def _reported(original: Callable[[], None], reporter: Reporter) -> Callable[[], None]:
    @wraps(original)
    def empty_cache() -> None:
        original()
        if not reporter.callbacks_suppressed:
            with reporter.locked_monitor() as monitor:
                monitor.empty_cache(reporter.sites.here())

    return empty_cache
