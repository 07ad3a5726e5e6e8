"""The result of `torch.cuda.cudart()`: those calls of the CUDA runtime bound by torch that are simulated."""

import ctypes
from itertools import count
from typing import Any, ClassVar

import torch

from syncheck.instrument.patching import Patches
from syncheck.sim.errors import not_simulated
from syncheck.sim.runtime import Runtime

_TEXTS = {
    0: "no error",
    1: "invalid argument",
    2: "out of memory",
    3: "initialization error",
    100: "no CUDA-capable device is detected",
    101: "invalid device ordinal",
    400: "invalid resource handle",
    600: "device not ready",
    700: "an illegal memory access was encountered",
    710: "device-side assert triggered",
    712: "part or all of the requested memory range is already mapped",
    713: "pointer does not correspond to a registered memory region",
    900: "operation not permitted when stream is capturing",
    999: "unknown error",
}
"""Error messages by error number.

Source:
    CUDA Runtime API, cudaError_t, and `cudaGetErrorString`.
"""


class CudaError(int):
    """Replacement for `cudart().cudaError`: an error number."""

    success: ClassVar["CudaError"]


CudaError.success = CudaError(0)
_INVALID_HANDLE, _IS_REGISTERED, _NOT_REGISTERED = CudaError(400), CudaError(712), CudaError(713)


class CudaRuntime:
    """Replacement for the module. Its names are CUDA's, and its functions return error numbers.

    Source:
        torch/csrc/cuda/shared/cudart.cpp.
    """

    cudaError = CudaError  # noqa: N815  torch's name

    def __init__(self, runtime: Runtime) -> None:
        self._runtime = runtime
        self._handles = count(0x6000_0000, 0x10)
        self._streams: set[int] = set()

    def cudaGetErrorString(self, error: int) -> str:  # noqa: N802  torch's name
        """Return the message of an error."""
        return _TEXTS.get(int(error), "unrecognized error code")

    def cudaProfilerStart(self) -> int:  # noqa: N802  torch's name
        """Do nothing: there is no profiler."""
        return CudaError.success

    def cudaProfilerStop(self) -> int:  # noqa: N802  torch's name
        """Do nothing: there is no profiler."""
        return CudaError.success

    def cudaStreamCreate(self, address: int) -> int:  # noqa: N802  torch's name
        """Write the handle of a new blocking stream to an address, for use with `torch.cuda.ExternalStream`."""
        handle = next(self._handles)
        self._streams.add(handle)
        ctypes.c_void_p.from_address(address).value = handle
        return CudaError.success

    def cudaStreamDestroy(self, handle: int) -> int:  # noqa: N802  torch's name
        """Release a stream. Its pending work continues."""
        if handle not in self._streams:
            return _INVALID_HANDLE
        self._streams.discard(handle)
        return CudaError.success

    def cudaHostRegister(self, address: int, size: int, flags: int) -> int:  # noqa: N802  torch's name
        """Pin existing host memory."""
        del flags
        return CudaError.success if self._runtime.memory.register_host(address, size) else _IS_REGISTERED

    def cudaHostUnregister(self, address: int) -> int:  # noqa: N802  torch's name
        """Make host memory pinned with `cudaHostRegister` pageable again."""
        return CudaError.success if self._runtime.memory.unregister_host(address) else _NOT_REGISTERED

    def cudaMemGetInfo(self, device: int) -> tuple[int, int]:  # noqa: N802  torch's name
        """Return a GPU's free and total memory."""
        return torch.cuda.mem_get_info(device)

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        return not_simulated(f"torch.cuda.cudart().{name}()")


def install_cudart(runtime: Runtime, patches: Patches) -> None:
    """Make torch's own functions use the replacement: `torch.cuda.cudart`, `check_error`, `CudaError`."""
    patches.set(torch.cuda, "_cudart", CudaRuntime(runtime))
