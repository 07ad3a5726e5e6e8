"""Device properties of virtual GPUs."""

import uuid
from functools import cache
from typing import Any

from syncheck.sim.device_kind import CUDA, simulated
from syncheck.sim.virtual_gpus import TOTAL_MEMORY

NAME = "Simulated GPU"


class DeviceProperties:
    """Result of `torch.cuda.get_device_properties`, with the figures of a common data center GPU."""

    def __init__(self, index: int) -> None:
        self.name = NAME
        self.major, self.minor = 9, 0
        self.total_memory = TOTAL_MEMORY
        self.multi_processor_count = 132
        self.warp_size = 32
        self.max_threads_per_multi_processor = 2048
        self.max_threads_per_block = 1024
        self.regs_per_multiprocessor = 65536
        self.shared_memory_per_block = 49152
        self.shared_memory_per_block_optin = 232448
        self.shared_memory_per_multiprocessor = 233472
        self.L2_cache_size = 50 << 20
        self.is_integrated = self.is_multi_gpu_board = 0
        self.gcnArchName = NAME
        self.uuid = uuid.uuid5(uuid.NAMESPACE_DNS, f"gpu-{index}.simulated")
        self.pci_bus_id, self.pci_device_id, self.pci_domain_id = index, 0, 0
        self.clock_rate, self.memory_clock_rate, self.memory_bus_width = 1_980_000, 2_619_000, 5120
        self.platform_name = self.type = self.driver_version = self.vendor = NAME  # from here on: attributes of XPUs
        self.max_compute_units = self.gpu_eu_count = 512
        self.max_work_group_size, self.max_num_sub_groups, self.sub_group_sizes = 1024, 64, [16, 32]
        self.has_fp16 = self.has_fp64 = self.has_atomic64 = True

    def __repr__(self) -> str:
        size = self.total_memory >> 20
        return (
            f"_CudaDeviceProperties(name='{NAME}', major=9, minor=0, total_memory={size}MB, multi_processor_count=132)"
        )


def device_capability(index: int) -> tuple[int, int] | dict[str, Any]:
    """Return the result of `get_device_capability`. For XPUs, it contains the properties by name."""
    return (9, 0) if simulated() is CUDA else dict(vars(device_properties(index)))


@cache
def device_properties(index: int) -> DeviceProperties:
    """Return the result of `torch.cuda.get_device_properties`: always the same object for a device."""
    return DeviceProperties(index)
