"""Storages with virtual devices, for code that copies, resizes, saves or loads below the level of tensors."""

from collections.abc import Callable
from contextlib import nullcontext
from typing import Any

import torch

from syncheck.instrument.patching import Patches
from syncheck.instrument.torch_internals import storage_key
from syncheck.semantics.copies import HOST_DEVICE
from syncheck.sim.copies import Copies
from syncheck.sim.device_kind import gpu, is_gpu, simulated
from syncheck.sim.retained_storages import byte_tensor_of, overwrite
from syncheck.sim.runtime import Runtime

_Storage = torch.UntypedStorage


class StorageShim:
    """Replaces the members of torch.UntypedStorage that depend on devices. TypedStorage is built on them."""

    def __init__(self, runtime: Runtime, copies: Copies, patches: Patches) -> None:
        self._runtime = runtime
        self._copies = copies
        self._memory = runtime.memory
        self._patches = patches
        self._raw_device = _Storage.device  # an attribute of the C type
        self._raw_cpu: Any = _Storage.cpu

    def install(self) -> None:
        """Install all replacements."""
        is_shared = _Storage.is_shared
        members: dict[str, Any] = {
            "device": property(self.device),
            f"is_{simulated().name}": property(lambda s: is_gpu(self.device(s))),
            "get_device": lambda s: self.device(s).index if is_gpu(self.device(s)) else -1,
            "to": lambda s, *, device, non_blocking=False: self._to(s, device, non_blocking=non_blocking),
            simulated().name: lambda s, device=None, non_blocking=False: self.move(
                s, self._runtime.index_of(device), non_blocking=non_blocking
            ),
            "cpu": lambda s: self.move(s, HOST_DEVICE),
            "clone": _function(self.clone),
            "__deepcopy__": _function(self._deepcopy),
            "is_pinned": lambda s, device=None: self._is_pinned(s),
            "is_shared": lambda s: is_gpu(self.device(s)) or is_shared(s),  # source: torch/csrc/StorageSharing.cpp
            "pin_memory": lambda s, device=None: self._pin(s),
            "__new__": staticmethod(self._new(_Storage.__new__)),
        }
        for name, member in members.items():
            self._patches.set(_Storage, name, member)
        resize = _Storage.resize_

        def resize_(storage: Any, size: int) -> Any:
            deferral = self._runtime.deferral
            with nullcontext() if deferral is None else deferral.resizing(storage, size):
                resize(storage, size)
            self._runtime.enter()
            self._memory.resized(storage, self._runtime.gpus.site())
            return storage

        self._patches.set(_Storage, "resize_", resize_)

    def device(self, storage: Any) -> torch.device:
        """Return a storage's virtual device, or torch's own answer if it has none."""
        tag = self._memory.of_storage(storage)
        if tag is not None and tag.device != HOST_DEVICE:
            return gpu(tag.device)
        return self._raw_device.__get__(storage)

    def _new(self, original: Any) -> Any:
        """Return a `__new__` that accepts a virtual device."""

        def new(cls: Any, *args: Any, device: Any = None, **kwargs: Any) -> Any:
            wanted = None if device is None else torch.device(device)
            if wanted is None or not is_gpu(wanted):
                result = original(cls, *args, **kwargs, **({} if device is None else {"device": device}))
            else:
                result = original(cls, *args, **kwargs)
                self._memory.tag(result, self._runtime.index_of(wanted), self._runtime.gpus.site())
            has_only_size = bool(args) and isinstance(args[0], int)
            if has_only_size and self._runtime.deferral is not None and self._raw_device.__get__(result).type == "cpu":
                with self._runtime.unmonitored():
                    overwrite(byte_tensor_of(result), torch.float32)
            return result

        return new

    def _to(self, storage: Any, device: Any, *, non_blocking: bool) -> Any:
        wanted = torch.device(device)
        target = HOST_DEVICE if wanted.type == "cpu" else self._runtime.index_of(wanted)
        return self.move(storage, target, non_blocking=non_blocking)

    def move(self, storage: Any, target: int, *, non_blocking: bool = False) -> Any:
        """Return a copy of a storage on another device, or the storage itself if it is already there."""
        found = self.device(storage)
        if found.type == "meta":
            return self._raw_cpu(storage)  # raises, as torch does: there is no data
        if (found.index if is_gpu(found) else HOST_DEVICE) == target:
            return storage
        moved = self._copies.transfer(self._tensor(storage), target, non_blocking=non_blocking)
        return moved.untyped_storage()

    def clone(self, storage: Any) -> Any:
        """Return a copy on the same device."""
        return self._tensor(storage).clone().untyped_storage()

    def _deepcopy(self, storage: Any, memo: dict[int, Any]) -> Any:
        known = memo.setdefault("torch", {})  # type: ignore[call-overload]  # torch's own key, torch/storage.py
        if storage_key(storage) not in known:
            known[storage_key(storage)] = self.clone(storage)
        return known[storage_key(storage)]

    def _is_pinned(self, storage: Any) -> bool:
        tag = self._memory.of_storage(storage)
        return tag is not None and tag.pinned

    def _pin(self, storage: Any) -> Any:
        return self._copies.pin(self._tensor(storage)).untyped_storage()

    def _tensor(self, storage: Any) -> torch.Tensor:
        with self._runtime.unmonitored():
            return torch.empty(0, dtype=torch.uint8).set_(storage)


def _function(method: Callable[..., Any]) -> Callable[..., Any]:
    """Return a plain function, which a class binds to its instances. A bound method would stay bound to the shim."""

    def function(*args: Any) -> Any:
        return method(*args)

    return function
