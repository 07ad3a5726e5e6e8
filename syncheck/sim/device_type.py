"""`torch.device` that accepts a bare index as a virtual GPU, as in a CUDA build."""

import copyreg
from functools import wraps
from typing import Any

import torch
from torch.jit import annotations
from torch.overrides import handle_torch_function, has_torch_function_unary

from syncheck.instrument.patching import Patches
from syncheck.sim.device_kind import gpu

_Device = torch.device


class _DeviceType(type):
    """Metaclass of the replacement for `torch.device`, whose calls return instances of torch's own class."""

    def __instancecheck__(cls, value: object) -> bool:
        return isinstance(value, _Device)

    def __eq__(cls, other: object) -> bool:
        return other is cls or other is _Device

    def __hash__(cls) -> int:
        return hash(_Device)

    def __call__(cls, *args: Any, **kwargs: Any) -> torch.device:
        if has_torch_function_unary(None):  # a mode is active
            return handle_torch_function(cls, (), *args, **kwargs)
        if len(args) == 1 and type(args[0]) is int and not kwargs:
            return gpu(args[0])
        return _Device(*args, **kwargs)


def install_device_type(patches: Patches) -> None:
    """Replace `torch.device`.

    Source:
        torch/csrc/Device.cpp and utils/python_arg_parser.cpp: an integer is an index of the current accelerator.
        torch/jit/annotations.py, `try_ann_to_type`: checks whether an annotation is `torch.device`. Annotations in
        modules imported earlier are torch's own class.
    """
    original = annotations.try_ann_to_type

    @wraps(original)
    def try_ann_to_type(annotation: Any, *args: Any, **kwargs: Any) -> Any:
        return original(stand_in if annotation is _Device else annotation, *args, **kwargs)  # type: ignore[no-untyped-call]  # torch leaves it untyped

    stand_in = _DeviceType("device", (), {"__module__": "torch", "__doc__": _Device.__doc__})
    patches.set(torch, "device", stand_in)
    patches.everywhere({original: try_ann_to_type})
    copyreg.pickle(_Device, lambda device: (stand_in, (str(device),)))
    patches.on_undo(lambda: copyreg.dispatch_table.pop(_Device, None) and None)
