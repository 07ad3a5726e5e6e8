"""Backward passes: their call sites, and when to listen to torch's callbacks during one."""

from functools import wraps
from itertools import count
from typing import Any

from torch.utils import checkpoint

from syncheck.cuda.gpu_trace import GpuTrace
from syncheck.cuda.host import HostMemory
from syncheck.cuda.launches import Launches
from syncheck.cuda.memory import Memory
from syncheck.cuda.reporter import Reporter
from syncheck.cuda.streams import Streams
from syncheck.hb.ids import SiteId
from syncheck.instrument.patching import Patches
from syncheck.instrument.torch_internals import engine

_FIRST_PASSES = 2
"""Backward passes that are always listened to, because C++ code may create a stream of its own in them."""


def install_backward(
    reporter: Reporter,
    streams: Streams,
    memory: Memory,
    host: HostMemory,
    launches: Launches,
    gpu_trace: GpuTrace,
    patches: Patches,
) -> None:
    """Track where backward() was called: the engine's threads have no Python frames."""
    original = engine()
    traced = gpu_trace.around(original)
    running: list[SiteId] = []  # call sites of the running calls, over all threads
    passes = count()

    @wraps(original)
    def run(*args: Any, **kwargs: Any) -> Any:
        site = reporter.sites.here()
        if not running:
            launches.gradients.begin(memory.next_ident())
        running.append(site)
        reporter.backward_site = running[0]
        try:
            if streams.sole_stream < 0 or host.buffers or next(passes) < _FIRST_PASSES:
                return traced(*args, **kwargs)
            return gpu_trace.defer(original, *args, **kwargs)
        finally:
            running.remove(site)
            reporter.backward_site = running[0] if running else SiteId(0)

    patches.everywhere({original: run})
    _recompute_to_the_end(patches)


def _recompute_to_the_end(patches: Patches) -> None:
    """Make checkpointing recompute a region to its end; early stopping raises an exception inside a C++ function.

    Such an exception does not survive the callbacks of the GPU trace, which are enabled in a backward pass.

    Source:
        torch/utils/checkpoint.py, `set_checkpoint_early_stop`.
    """
    if hasattr(checkpoint, "_enable_checkpoint_early_stop"):
        patches.set(checkpoint, "_enable_checkpoint_early_stop", False)
