"""What `torch.cuda` says of a virtual device."""

import uuid
from functools import cache

from syncheck.sim.virtual_gpus import TOTAL_MEMORY

NAME = "Simulated GPU"


class DeviceProperties:
    """What `torch.cuda.get_device_properties` returns; the figures are those of a common data-centre GPU."""

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

    def __repr__(self) -> str:
        size = self.total_memory >> 20
        return (
            f"_CudaDeviceProperties(name='{NAME}', major=9, minor=0, total_memory={size}MB, multi_processor_count=132)"
        )


@cache
def device_properties(index: int) -> DeviceProperties:
    """Return what `torch.cuda.get_device_properties` returns of a device: always the same object."""
    return DeviceProperties(index)
