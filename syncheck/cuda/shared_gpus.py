"""Detects other programs that hold memory of a GPU and may use it while this program is measured."""

from collections.abc import Iterable, Iterator

import torch

_OWN_BYTES = 2 << 30
"""An upper bound on the memory of this program's CUDA context and libraries, outside of torch's allocator."""
_GIB = 1 << 30


def shared(devices: Iterable[int]) -> Iterator[str]:
    """Yield a message for each of the given GPUs on which other programs hold memory.

    Source:
        CUDA Runtime API, `cudaMemGetInfo`: the free memory accounts for all programs.
    """
    for device in devices:
        try:
            free, total = torch.cuda.mem_get_info(device)
        except RuntimeError:  # the program has left the GPU in an error state
            continue
        others = total - free - torch.cuda.memory_reserved(device)
        if others > _OWN_BYTES:
            yield (
                f"another program may be using cuda:{device}, as {others / _GIB:.0f} GiB of it are taken: the measured "
                "times may be too long"
            )
