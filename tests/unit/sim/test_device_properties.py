"""Properties that `torch.cuda` reports for a virtual device."""

import pytest
import torch

from syncheck.sim.device_properties import NAME, DeviceProperties
from syncheck.sim.virtual_gpus import TOTAL_MEMORY


def test_each_device_has_its_own_identity():
    assert DeviceProperties(0).uuid != DeviceProperties(1).uuid
    assert len(str(DeviceProperties(0).uuid)) == 36
    assert len(DeviceProperties(0).uuid.bytes) == 16
    assert DeviceProperties(1).pci_bus_id == 1
    assert f"total_memory={TOTAL_MEMORY >> 20}MB" in repr(DeviceProperties(0))


def test_properties_are_available_through_torch(gpus):
    properties = torch.cuda.get_device_properties(1)
    assert (properties.name, properties.uuid) == (NAME, DeviceProperties(1).uuid)
    assert properties is torch.cuda.get_device_properties("cuda:1")
    assert (properties.major, properties.minor) == torch.cuda.get_device_capability()
    assert torch.cuda.get_device_name() == NAME
    with pytest.raises(RuntimeError, match="invalid device ordinal"):
        torch.cuda.get_device_name(7)
