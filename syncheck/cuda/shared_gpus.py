"""Whether other programs hold memory of a GPU: they may use it while this one is measured."""

from collections.abc import Iterable, Iterator

import torch

_OWN_BYTES = 2 << 30
"""What the CUDA context and the libraries of this program take beside torch's allocator, at most."""
_GIB = 1 << 30


def shared(devices: Iterable[int]) -> Iterator[str]:
    """Yield, in words, which of some GPUs other programs hold memory of.

    Source:
        CUDA Runtime API, `cudaMemGetInfo`: what is free counts the memory of all programs.
    """
    for device in devices:
        try:
            free, total = torch.cuda.mem_get_info(device)
        except RuntimeError:  # the program has left the GPU in an error
            continue
        others = total - free - torch.cuda.memory_reserved(device)
        if others > _OWN_BYTES:
            yield (
                f"something else holds {others / _GIB:.0f} GiB of cuda:{device}: if another program uses it, too, "
                "measured times are too long"
            )
