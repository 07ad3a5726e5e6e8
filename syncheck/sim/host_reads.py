"""Host accesses to tensors: numpy, lists, printing, pointers, DLPack."""

from collections.abc import Callable
from functools import partial
from typing import Any

import torch
import torch.utils.dlpack

from syncheck.instrument.methods import replace_method, replace_property
from syncheck.instrument.patching import Patches
from syncheck.instrument.torch_internals import SPARSE, C
from syncheck.sim.device_kind import is_on_gpu
from syncheck.sim.errors import NotSimulatedError
from syncheck.sim.launches import Launches
from syncheck.sim.runtime import Runtime


class HostReads:
    """Replaces the methods of torch.Tensor that expose values or addresses outside of torch."""

    def __init__(self, runtime: Runtime, launches: Launches, patches: Patches) -> None:
        self._runtime = runtime
        self._launches = launches
        self._memory = runtime.memory
        self._patches = patches

    def install(self) -> None:
        """Install all replacements."""
        methods: dict[str, Callable[..., Any]] = {
            "numpy": self._numpy,
            "tolist": self._tolist,
            "__reduce_ex__": self._reduce,
            "__repr__": self._repr,
            "data_ptr": self._data_ptr,
            "__dlpack__": self._dlpack,
        }
        for name, function in methods.items():
            replace_method(self._patches, name, partial(partial, function))
        original = torch.Tensor.__cuda_array_interface__
        replace_property(self._patches, "__cuda_array_interface__", partial(_cuda_array_interface, original))
        export = partial(self._dlpack, C._to_dlpack)
        for module in (torch, torch.utils.dlpack):
            self._patches.set(module, "to_dlpack", export)

    def _export(self, tensor: torch.Tensor, call: str) -> None:
        tag = self._memory.mark_exported(tensor)
        if tag is not None and tensor.numel():
            self._memory.flush()
            gpus = self._runtime.gpus
            access = [(tag.ident, self._memory.view(tensor), False)]
            gpus.monitor.host_access(call, access, gpus.site(), escape=True)
            self._runtime.name_findings()

    def _numpy(self, original: Any, tensor: torch.Tensor, *, force: bool = False) -> Any:
        if is_on_gpu(tensor):
            if force:
                return tensor.detach().cpu().resolve_conj().resolve_neg().numpy()
            raise TypeError(
                f"can't convert {tensor.device} device type tensor to numpy. Use Tensor.cpu() to copy the tensor "
                "to host memory first."
            )
        result = original(tensor, force=force) if force else original(tensor)
        self._export(tensor, "Tensor.numpy()")
        return result

    def _reduce(self, original: Any, tensor: torch.Tensor, protocol: Any) -> Any:
        if not is_on_gpu(tensor) and tensor.layout is torch.strided:
            self._launches.host_read("pickling", tensor)
        return original(tensor, protocol)

    def _tolist(self, original: Any, tensor: torch.Tensor) -> Any:
        if is_on_gpu(tensor):
            tensor = tensor.detach().cpu()
        else:
            self._launches.host_read("Tensor.tolist()", tensor)
        return original(tensor)

    def _repr(self, original: Any, tensor: torch.Tensor, **kwargs: Any) -> Any:
        if is_on_gpu(tensor) and tensor.layout not in SPARSE:
            tensor.detach().cpu()  # printing copies to the host
        elif tensor.device.type == "cpu":
            self._launches.host_read("printing", tensor)
        return original(tensor, **kwargs)

    def _data_ptr(self, original: Any, tensor: torch.Tensor) -> Any:
        self._memory.mark_exported(tensor)
        return original(tensor)

    def _dlpack(self, original: Any, tensor: torch.Tensor, *args: Any, **kwargs: Any) -> Any:
        if is_on_gpu(tensor):
            raise NotSimulatedError("DLPack export of a GPU tensor", "its data is in host memory")
        self._export(tensor, "Tensor.__dlpack__()")
        return original(tensor, *args, **kwargs)


def _cuda_array_interface(original: Any, tensor: torch.Tensor) -> Any:
    """Raise torch's error for a tensor without this interface; otherwise, `NotSimulatedError`."""
    original.__get__(tensor)
    raise NotSimulatedError("Tensor.__cuda_array_interface__", "its data is in host memory")
