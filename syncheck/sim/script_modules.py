"""TorchScript modules loaded onto a virtual GPU: C++ loads them into host memory, then their tensors are moved."""

from collections.abc import Callable, Iterator
from functools import wraps
from typing import Any

import torch

from syncheck.instrument.patching import Patches
from syncheck.instrument.torch_internals import C
from syncheck.sim.device_kind import is_gpu


def install_script_modules(patches: Patches) -> None:
    """Replace the functions behind `torch.jit.load`. Without a `map_location`, tensors keep the file's devices."""
    for name in ("import_ir_module", "import_ir_module_from_buffer"):
        patches.set(C, name, _placing(getattr(C, name)))


def _placing(load: Callable[..., Any]) -> Callable[..., Any]:
    @wraps(load)
    def load_and_place(unit: Any, source: Any, map_location: Any = None, *rest: Any) -> Any:
        if map_location is None or not is_gpu(map_location):
            return load(unit, source, map_location, *rest)
        loaded = load(unit, source, torch.device("cpu"), *rest)
        for tensor in tensors_of_script(loaded):
            tensor.data = tensor.detach().to(map_location)
        return loaded

    return load_and_place


def tensors_of_script(module: Any) -> Iterator[torch.Tensor]:
    """Yield the tensors of a C++ module: parameters, buffers, and the constants of its methods.

    Source:
        torch/csrc/jit/api/module.h: buffers are all tensor attributes that are not parameters.
        torch/csrc/jit/ir/constants.cpp: a tensor is a node's attribute "value" of the kind "t".
    """
    for tensors in (C.ParameterDict(module), C.BufferDict(module)):
        yield from dict(tensors.items()).values()
    for method in module._method_names():
        for node in module._get_method(method).graph.findAllNodes("prim::Constant"):
            if node.hasAttribute("value") and node.kindOf("value") == "t":
                yield node.t("value")
    for part in dict(C.ModuleDict(module).items()).values():
        yield from tensors_of_script(part)
