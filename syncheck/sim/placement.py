"""Selection of an operator's device: the single device of its tensors, or torch's error if they are on several."""

import threading
import weakref
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from typing import Any

import torch

from syncheck.instrument.plan import Plan, tensors_in
from syncheck.instrument.torch_internals import C, current_node, storage_key, storage_key_of
from syncheck.semantics.copies import HOST_DEVICE
from syncheck.semantics.operators import ACCEPT_ANY_DEVICE, ACCEPT_HOST_TENSORS, INDEXING, NEED_SAME_DEVICE, TAKE_NUMBER
from syncheck.sim.autograd import Backward
from syncheck.sim.device_kind import gpu, is_gpu
from syncheck.sim.errors import misplaced_index, mixed_devices
from syncheck.sim.launches import TensorArguments
from syncheck.sim.runtime import Runtime

CPU = torch.device("cpu")
_ASSIGNING = TAKE_NUMBER & INDEXING
_MASKED = 3
"""Number of tensors in an assignment with a mask."""
raw_device: Any = C.TensorBase.device.__get__


class Placement:
    """Decides where operators run, and places tensors that torch's C++ code creates with the options of a GPU tensor.

    Attributes:
        last_device: the device of the latest operator with tensors.
    """

    def __init__(self, runtime: Runtime, backward: Backward) -> None:
        self._runtime = runtime
        self._backward = backward
        self._memory = runtime.memory
        self._gpus = runtime.gpus
        self._made: dict[int, weakref.ref[torch.UntypedStorage]] = {}
        self._creating = threading.local()
        self.last_device = HOST_DEVICE

    def place(self, plan: Plan, tensors: TensorArguments, kwargs: dict[str, Any]) -> tuple[int, bool, dict[str, Any]]:
        """Return an operator's device, whether its result is pinned, and the keyword arguments for the CPU."""
        device = self.device_of(plan, tensors)
        if not kwargs:
            return device, False, kwargs
        wanted = kwargs.get("device")
        pinned = bool(kwargs.get("pin_memory"))
        if pinned:
            kwargs = {k: v for k, v in kwargs.items() if k != "pin_memory"}
        if pinned and (is_gpu(wanted) if wanted is not None else device != HOST_DEVICE):
            # source: aten/src/ATen/native/cuda/TensorFactories.cu, `empty_cuda`
            raise RuntimeError("Only dense CPU tensors can be pinned")
        if wanted is not None and is_gpu(wanted):
            return self._runtime.index_of(wanted), False, {**kwargs, "device": CPU}
        if not (tensors or pinned) and _is_created_by_torch(plan, kwargs):
            return getattr(self._creating, "device", HOST_DEVICE), False, kwargs
        return device, pinned, kwargs

    def device_of(self, plan: Plan, tensors: TensorArguments) -> int:
        """Return the device of an operator's tensors. Zero-dimensional tensors may be on the CPU."""
        found = HOST_DEVICE
        host = clash = False
        for tensor, _ in tensors:
            device = self._memory.device(tensor)
            if device == HOST_DEVICE:
                host = host or _restricts_device(plan, tensor)
            elif found == HOST_DEVICE:
                found = device
            elif device != found:
                clash = True
        if (clash or (host and found != HOST_DEVICE)) and plan.base not in ACCEPT_ANY_DEVICE:
            found = self._resolve_devices(plan, tensors, found, clash=clash)
        if tensors:
            self.last_device = found
        return found

    def note_host(self) -> bool:
        """Record an operator on plain host memory. Return False, recording nothing, if it needs a full lookup."""
        if self._made or self._memory.host_regions:
            return False
        self.last_device = HOST_DEVICE
        return True

    # -- tensors created by C++ code

    def note_results(self, plan: Plan, tensors: TensorArguments, kwargs: dict[str, Any], result: Any) -> None:
        """After an operator ran on the host, remember results that C++ code created with the options of a tensor."""
        if tensors:
            if not self._made or not all(self._is_made(tensor) for tensor, _ in tensors):
                return
        elif not _is_created_by_torch(plan, kwargs):
            return
        outputs = tensors_in(result)
        if current_node() is not None and self.last_device != HOST_DEVICE:
            self._place_gradients(outputs)
        for tensor in outputs:
            try:
                storage = tensor.untyped_storage()
            except (NotImplementedError, RuntimeError):  # sparse tensors have no storage
                continue
            key = storage_key(storage)
            self._made[key] = weakref.ref(storage, partial(self._forget, key))

    @contextmanager
    def creating_on(self, device: int) -> Iterator[None]:
        """Place tensors that C++ code creates in this thread on a device during a block."""
        before = getattr(self._creating, "device", HOST_DEVICE)
        self._creating.device = device
        try:
            yield
        finally:
            self._creating.device = before

    def _forget(self, key: int, reference: object) -> None:
        if self._made.get(key) is reference:
            del self._made[key]

    def _is_made(self, tensor: torch.Tensor) -> bool:
        try:
            return storage_key_of(tensor) in self._made
        except (NotImplementedError, RuntimeError):  # sparse tensors have no storage
            return False

    def _place_gradients(self, outputs: list[torch.Tensor]) -> None:
        """Place tensors that the engine creates for a node on the node's device, by default the last one used."""
        known = self._backward.device_of_node()
        device = self.last_device if known is None else known
        if device == HOST_DEVICE:
            return
        for tensor in outputs:
            self._memory.place(tensor, device, self._gpus.site())

    def adopt_target(self, tensor: torch.Tensor, device: int) -> bool:
        """Place the target of a copy on its source's device if C++ code created it with the options of a tensor."""
        if not self._made or not self._is_made(tensor) or self._memory.of(tensor) is not None:
            return False
        self._memory.place(tensor, device, self._gpus.site())
        return True

    def _resolve_devices(self, plan: Plan, tensors: TensorArguments, found: int, *, clash: bool) -> int:
        """Resolve several devices: move tensors created by C++ code to the others' device, or raise torch's error."""
        if not clash and plan.base in ACCEPT_HOST_TENSORS:
            if plan.base in INDEXING:
                self._check_indexing(plan, tensors, found)
            elif self._memory.device(tensors[0][0]) == HOST_DEVICE:
                raise mixed_devices(str(gpu(found)), "cpu")
            return found
        created_by_torch = [tensor for tensor, _ in tensors if self._is_made(tensor)]
        certain = {self._memory.device(t) for t, _ in tensors if not self._is_made(t) and self._decides(plan, t)}
        if not created_by_torch or len(certain) != 1:
            raise self._mixed_devices(plan, tensors, found)
        device = certain.pop()
        for tensor in created_by_torch:
            self._memory.place(tensor, device, self._gpus.site())
        return device

    def read_elsewhere(self, plan: Plan, tensors: TensorArguments) -> torch.Tensor | None:
        """Return a GPU tensor that the host reads for an operator on a host tensor: a number, or a mask for one.

        Source:
            aten/src/ATen/native/TensorAdvancedIndexing.cpp, `canDispatchToMaskedFill`, for the mask.
        """
        if plan.base not in TAKE_NUMBER or len(tensors) < 2 or self._memory.device(tensors[0][0]) != HOST_DEVICE:
            return None
        value = tensors[-1][0]
        if self._memory.device(value) != HOST_DEVICE:
            return None if value.dim() else value
        mask = tensors[1][0]
        is_assigned = len(tensors) == _MASKED and plan.base in _ASSIGNING and value.numel() == 1
        return mask if is_assigned and mask.dtype == torch.bool and self._memory.device(mask) != HOST_DEVICE else None

    def _check_indexing(self, plan: Plan, tensors: TensorArguments, found: int) -> None:
        """Raise torch's error if an index or a value is on another device than the indexed tensor."""
        target, *others = (self._memory.device(tensor) for tensor, _ in tensors)
        value = tensors[-1][0] if plan.base in _ASSIGNING else None
        indices = others if value is None else others[:-1]
        if target == HOST_DEVICE:
            is_value = all(device == HOST_DEVICE for device in indices)
            raise mixed_devices(str(gpu(found)), "cpu") if is_value else misplaced_index("cpu")
        if value is not None and value.numel() > 1 and others[-1] == HOST_DEVICE:
            raise mixed_devices(str(gpu(found)), "cpu")

    def _decides(self, plan: Plan, tensor: torch.Tensor) -> bool:
        return self._memory.device(tensor) != HOST_DEVICE or _restricts_device(plan, tensor)

    def _mixed_devices(self, plan: Plan, tensors: TensorArguments, found: int) -> RuntimeError:
        devices = [self._memory.device(t) for t, _ in tensors if self._decides(plan, t)]
        other = next(device for device in devices if device != found)
        if plan.base in INDEXING:
            return misplaced_index(str(gpu(found)))
        return mixed_devices(str(gpu(found)), "cpu" if other == HOST_DEVICE else str(gpu(other)))


def _is_created_by_torch(plan: Plan, kwargs: dict[str, Any]) -> bool:
    """Return whether an operator without tensors was called by C++ code with the options of a tensor.

    Python calls always pass `pin_memory`. C++ code that copies the options of a tensor does not.

    Source:
        torch/csrc/autograd/python_torch_functions_manual.cpp and its generated siblings; c10::TensorOptions.
    """
    return plan.has_device and "pin_memory" not in kwargs


def _restricts_device(plan: Plan, tensor: torch.Tensor) -> bool:
    """Return whether a host tensor is more than a number. A number can be combined with tensors of any device."""
    return (bool(tensor.dim()) or plan.base in NEED_SAME_DEVICE) and raw_device(tensor).type == "cpu"
