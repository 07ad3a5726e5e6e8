"""The functions of `torch.cuda` (or `torch.xpu`) and of `torch.accelerator` for virtual devices."""

import os
from collections.abc import Callable
from functools import wraps
from typing import Any

import torch
import torch.cuda.gds
import torch.cuda.nccl

from syncheck.hb.ids import StreamOrigin
from syncheck.instrument.patching import Patches
from syncheck.instrument.torch_internals import C
from syncheck.sim.cuda_memory import CudaMemory, MemPool
from syncheck.sim.cudart import install_cudart
from syncheck.sim.device_kind import CUDA, explicit_index, gpu, module, simulated
from syncheck.sim.device_properties import device_capability, device_properties
from syncheck.sim.errors import not_simulated
from syncheck.sim.events import CudaEvent, SimulatedEvent
from syncheck.sim.graphs import AcceleratorGraph, CUDAGraph
from syncheck.sim.launches import Launches
from syncheck.sim.random import Generator, Random
from syncheck.sim.runtime import Runtime
from syncheck.sim.streams import CudaStream, ExternalStream, SimulatedStream, StreamContext

CUDA_VERSION = "12.8"
"""Value of `torch.version.cuda` if torch was built without CUDA. Programs parse it."""


class CudaApi:
    """Creates the replacements, which have torch's names."""

    def __init__(self, runtime: Runtime, launches: Launches, random: Random) -> None:
        self._runtime = runtime
        self._launches = launches
        self._random_numbers = random
        self._gpus = runtime.gpus
        self.memory = CudaMemory(runtime)

    # -- devices

    def _basic(self) -> dict[str, Callable[..., Any]]:
        runtime, gpus = self._runtime, self._gpus

        def set_device(device: Any) -> None:
            if device is None or (isinstance(device, int) and device < 0):
                return
            index = runtime.index_of(device)
            gpus.thread.device = index
            gpus.thread.set_explicitly = True

        def exchange(index: int) -> int:
            before = gpus.thread.device
            if index >= 0:
                gpus.thread.device = runtime.index_of(int(index))
                gpus.thread.set_explicitly = True
            return before

        def is_available() -> bool:
            if os.environ.get("PYTORCH_NVML_BASED_CUDA_CHECK") != "1":
                runtime.makes_forks_bad = True  # torch/cuda/__init__.py, `is_available`
            return True

        return {
            "is_available": is_available,
            "device_count": lambda: len(gpus.devices),
            "init": runtime.check_process,
            "_lazy_init": runtime.check_process,
            "_lazy_call": lambda call, **_: None if runtime.is_in_bad_fork else call(),
            "is_initialized": lambda: runtime.is_initialized,
            "_is_in_bad_fork": lambda: runtime.is_in_bad_fork,
            "current_device": self._current_device,
            "set_device": set_device,
            "_exchange_device": exchange,
            "_maybe_exchange_device": exchange,
            "synchronize": runtime.synchronize,
            "ipc_collect": lambda: None,
            "_get_device_index": self._device_index,
            "_sleep": self._sleep,
        }

    def _properties(self) -> dict[str, Callable[..., Any]]:
        gpus, runtime = self._gpus, self._runtime
        return {
            "get_device_name": lambda device=None: device_properties(runtime.index_of(device)).name,
            "get_device_capability": lambda device=None: device_capability(runtime.index_of(device)),
            "get_device_properties": lambda device=None: device_properties(runtime.index_of(device)),
            "can_device_access_peer": self._peers,
            "get_arch_list": lambda: ["sm_90"],
            "get_gencode_flags": lambda: "",
            "is_bf16_supported": lambda including_emulation=True: True,
            "is_tf32_supported": lambda: True,
            "get_sync_debug_mode": lambda: int(runtime.sync_debug.level),
            "set_sync_debug_mode": runtime.sync_debug.choose,
            "utilization": lambda *_, **__: 0,
            "is_current_stream_capturing": lambda: gpus.monitor.capturing(gpus.current_stream(gpus.thread.device)),
        }

    def _current_device(self) -> int:
        self._runtime.check_process()
        self._gpus.thread.implicit_device = True
        return self._gpus.thread.device

    def _peers(self, device: Any, peer_device: Any) -> bool:
        return self._runtime.index_of(device) != self._runtime.index_of(peer_device)

    def _sleep(self, cycles: int) -> None:
        del cycles
        runtime, gpus = self._runtime, self._gpus
        runtime.enter()
        device = gpus.thread.device
        gpus.thread.implicit_device = True
        self._launches.launch(gpus.current_stream(device), "torch.cuda._sleep", [])

    def _device_index(self, device: Any, optional: bool = False, allow_cpu: bool = False) -> int:
        if isinstance(device, torch.device | str) and allow_cpu and torch.device(device).type == "cpu":
            return -1
        if device is None and not optional:
            raise ValueError(f"Expected a torch.device with a specified index or an integer, but got:{device}")
        index = explicit_index(device)
        return self._runtime.index_of(None) if index is None else index

    # -- streams

    def _streams(self) -> dict[str, Callable[..., Any]]:
        runtime, gpus = self._runtime, self._gpus

        def current_stream(device: Any = None) -> Any:
            runtime.enter()
            index = runtime.index_of(device)
            return CudaStream.of(runtime, gpus.current_stream(index), StreamOrigin.CURRENT)

        def default_stream(device: Any = None) -> Any:
            index = runtime.index_of(device)
            return CudaStream.of(runtime, gpus.devices[index].default_stream, StreamOrigin.DEFAULT)

        def set_stream(stream: Any) -> None:
            if stream is not None:
                runtime.enter()
                gpus.set_stream(stream.ident)

        def external(handle: int, device: Any = None) -> Any:
            stream = gpus.external_stream(runtime.index_of(device), handle, gpus.site())
            return CudaStream.of(runtime, stream)

        return {
            "current_stream": current_stream,
            "default_stream": default_stream,
            "set_stream": set_stream,
            "stream": StreamContext,
            "get_stream_from_external": external,
        }

    # -- random numbers

    def _random(self) -> dict[str, Callable[..., Any]]:
        runtime, random = self._runtime, self._random_numbers

        def generator(device: Any = None) -> Any:
            return random.generator(runtime.index_of(device))

        def uninitialized(device: Any = None) -> Any:
            """Return a generator without initializing CUDA: torch would queue the call (`_lazy_call`)."""
            index = explicit_index(device)
            return random.generator(self._gpus.thread.device if index is None else index)

        def seed_all(seed: int) -> None:
            for one in random.defaults:
                one.manual_seed(int(seed))

        def random_seed_all() -> None:
            seed_all(uninitialized().seed())

        def states() -> list[Any]:
            runtime.check_process()
            return [one.get_state() for one in random.defaults]

        return {
            "get_rng_state": lambda device=None: generator(device).get_state(),
            "set_rng_state": lambda state, device=None: uninitialized(device).set_state(state.cpu()) and None,
            "get_rng_state_all": states,
            "set_rng_state_all": lambda states: (
                [g.set_state(s.cpu()) for g, s in zip(random.defaults, states, strict=False)] and None
            ),
            "manual_seed": lambda seed: uninitialized().manual_seed(int(seed)) and None,
            "manual_seed_all": seed_all,
            "seed": lambda: uninitialized().seed() and None,
            "seed_all": random_seed_all,
            "initial_seed": lambda: generator().initial_seed(),
        }

    def functions(self) -> dict[str, Callable[..., Any]]:
        """Return all functions of `torch.cuda` that are simulated, by name."""
        return self._basic() | self._properties() | self._streams() | self.memory.functions() | self._random()

    def accelerator(self) -> dict[str, Callable[..., Any]]:
        """Return the functions of `torch.accelerator`, by name."""
        functions = self.functions()
        kept = set(torch.accelerator.__all__) & functions.keys()
        return {name: functions[name] for name in kept} | {
            "current_accelerator": lambda check_available=False: gpu(),
            "current_device_index": self._current_device,
            "current_device_idx": self._current_device,
            "set_device_index": functions["set_device"],
            "set_device_idx": functions["set_device"],
            "get_memory_info": functions["mem_get_info"],
            "memory_stats": module().memory_stats,
            "empty_host_cache": lambda: None,
            "get_device_capability": lambda device=None: {"supported_dtypes": set(_DTYPES)},
        }


def install_cuda(runtime: Runtime, launches: Launches, random: Random, patches: Patches) -> None:
    """Replace classes and functions wherever torch's modules refer to them, and the C functions behind them."""
    api = CudaApi(runtime, launches, random)
    owner, name_of_all = module(), f"torch.{simulated().name}"
    replacements: dict[Any, Any] = dict(_GENERAL_CLASSES) | {torch.Generator: Generator}
    replacements |= {getattr(owner, name): value for name, value in _CLASSES.items() if hasattr(owner, name)}
    functions = api.functions() | {name: not_simulated(f"{name_of_all}.{name}()") for name in UNSUPPORTED}
    for name, function in functions.items():
        original = getattr(owner, name, None)
        if original is not None:
            replacements[original] = _named(function, name, original)
    patches.everywhere(replacements)
    for name, function in api.accelerator().items():
        if hasattr(torch.accelerator, name):
            patches.set(torch.accelerator, name, _named(function, name, getattr(torch.accelerator, name)))
    if hasattr(torch.accelerator, "Graph"):  # since torch 2.13
        patches.set(torch.accelerator, "Graph", AcceleratorGraph)
    _install_low_level(runtime, api.functions(), patches)
    for name, function in api.memory.low_level().items():
        patches.set(C, name.replace("_cuda_", f"_{simulated().name}_"), function)
    patches.set(owner, "default_generators", random.defaults)
    if simulated() is CUDA:
        _install_cuda_alone(runtime, patches)
    else:
        _hide_cuda(patches)


def _install_cuda_alone(runtime: Runtime, patches: Patches) -> None:
    """Replace what exists only for CUDA."""
    _install_unsupported_modules(patches)
    install_cudart(runtime, patches)
    if torch.version.cuda is None:  # otherwise keep the build's own: torchvision compares it with its own build
        patches.set(torch.version, "cuda", CUDA_VERSION)
    patches.set(torch.backends.cuda, "is_built", lambda: True)
    patches.set(torch.backends.cudnn, "is_available", lambda: True)
    patches.set(torch.backends.cudnn, "version", lambda: _CUDNN)
    patches.set(torch.cuda.graph, "default_capture_stream", None)


def _hide_cuda(patches: Patches) -> None:
    """Report that there is no CUDA GPU, because GPUs of another kind are simulated."""
    patches.set(torch.cuda, "is_available", lambda: False)
    patches.set(torch.cuda, "device_count", lambda: 0)


def _install_unsupported_modules(patches: Patches) -> None:
    for owner, names in _UNSUPPORTED_MODULES.items():
        for name in names:
            if hasattr(owner, name):
                patches.set(owner, name, not_simulated(f"{owner.__name__}.{name}()"))
    for name in _UNSUPPORTED_MEMORY:
        patches.set(torch.cuda.memory, name, not_simulated(f"torch.cuda.memory.{name}()"))
    patches.set(torch.cuda.nccl, "version", lambda: _NCCL)


def _install_low_level(runtime: Runtime, functions: dict[str, Callable[..., Any]], patches: Patches) -> None:
    """Replace C functions that programs and torch's own modules call directly."""
    gpus, exchange = runtime.gpus, functions["_exchange_device"]
    prefix = f"_{simulated().name}_"
    for name, function in {
        "_get_accelerator": lambda check=None: gpu(),
        "_accelerator_getAccelerator": gpu,
        "_accelerator_exchangeDevice": exchange,
        "_accelerator_maybeExchangeDevice": exchange,
        "_host_emptyCache": lambda: None,
        "_cuda_setStream": _low_level_set_stream(runtime),
        "_cuda_getDevice": lambda: gpus.thread.device,
        "_cuda_setDevice": functions["set_device"],
        "_cuda_exchangeDevice": exchange,
        "_cuda_maybeExchangeDevice": exchange,
        "_cuda_getDeviceCount": lambda: len(gpus.devices),
        "_cuda_canDeviceAccessPeer": functions["can_device_access_peer"],
        "_cuda_isInBadFork": lambda: runtime.is_in_bad_fork,
        "_cuda_isCurrentStreamCapturing": functions["is_current_stream_capturing"],
        "_cuda_getCurrentRawStream": lambda device: gpus.handle_of(gpus.current_stream(device)),
        "_cuda_synchronize": runtime.synchronize,
        "_activate_gpu_trace": runtime.gpu_trace.activate,
        "_cuda_sleep": functions["_sleep"],
        "_cuda_set_sync_debug_mode": functions["set_sync_debug_mode"],
        "_cuda_get_sync_debug_mode": functions["get_sync_debug_mode"],
        "_cuda_setMemoryFraction": functions["set_per_process_memory_fraction"],
        "_cuda_getMemoryFraction": functions["get_per_process_memory_fraction"],
    }.items():
        patches.set(C, name.replace("_cuda_", prefix), function)
    patches.set(module(), "_initialized", True)


def _named(function: Callable[..., Any], name: str, original: Any) -> Any:
    if isinstance(function, type):
        return function

    @wraps(function)
    def renamed(*args: Any, **kwargs: Any) -> Any:
        return function(*args, **kwargs)

    renamed.__name__ = name
    renamed.__doc__ = getattr(original, "__doc__", None)
    return renamed


def _low_level_set_stream(runtime: Runtime) -> Callable[..., None]:
    def set_stream(stream_id: int, device_index: int, device_type: int) -> None:
        del device_type
        gpus = runtime.gpus
        gpus.set_stream(gpus.external_stream(device_index, stream_id, gpus.site()))

    return set_stream


UNSUPPORTED = """caching_allocator_disabled
change_current_allocator CUDAPluggableAllocator GreenContext temperature power_draw clock_rate current_blas_handle
current_solver_handle""".split()
"""Functions and classes of `torch.cuda` that are meaningless without a GPU."""
_UNSUPPORTED_MODULES: dict[Any, list[str]] = {
    torch.cuda.nccl: "unique_id init_rank all_reduce reduce broadcast all_gather reduce_scatter".split(),
    torch.cuda.gds: "gds_register_buffer gds_deregister_buffer GdsFile".split(),
}
_CUDNN = 91002
"""Version of cuDNN that simulated GPUs report. None of its kernels run."""
_NCCL = (2, 27, 5)
"""Version of NCCL that simulated GPUs report."""
_UNSUPPORTED_MEMORY = ["_allocation_traceback"]
_GENERAL_CLASSES = {torch.Stream: SimulatedStream, torch.Event: SimulatedEvent}
_CLASSES = {
    "Stream": CudaStream,
    "ExternalStream": ExternalStream,
    "Event": CudaEvent,
    "StreamContext": StreamContext,
    "CUDAGraph": CUDAGraph,
    "XPUGraph": CUDAGraph,
    "MemPool": MemPool,
}
"""Class names of `torch.cuda` and `torch.xpu` -> replacements."""
_DTYPES = [value for value in vars(torch).values() if isinstance(value, torch.dtype)]
