"""Pinned host memory whose address is known outside of torch."""

import torch

from syncheck.semantics.copies import HOST_DEVICE
from syncheck.sim.host_regions import HostRegion, HostRegions, checksum


def test_a_storage_in_a_region_gets_a_tag_of_its_allocation():
    whole = torch.ones(4)
    part = torch.from_numpy(whole.numpy()[1:])
    regions = HostRegions()
    assert not regions
    regions.add(HostRegion(whole.data_ptr(), 16, 7))
    assert regions
    tag = regions.new_tag(part.untyped_storage())
    assert (tag.ident, tag.device, tag.n_bytes, tag.shared_from) == (7, HOST_DEVICE, 12, 4)
    assert tag.pinned
    assert regions.new_tag(torch.ones(4).untyped_storage()) is None


def test_a_region_ends_with_its_allocation():
    first, second = HostRegion(64, 16, 7), HostRegion(128, 16, 8, is_registered=True)
    regions = HostRegions()
    regions.add(first)
    regions.add(second)
    regions.end(7)
    regions.end(9)
    assert (regions.starting_at(64), regions.starting_at(128)) == (None, second)


def test_a_storage_without_memory_has_no_tag():
    regions = HostRegions()
    regions.add(HostRegion(64, 16, 7))
    inner = torch.nested.nested_tensor([torch.ones(2, 3), torch.ones(4, 3)], layout=torch.jagged)
    assert regions.new_tag(inner.untyped_storage()) is None


def test_a_checksum_depends_on_the_bytes():
    x = torch.ones(4)
    before = checksum(x.untyped_storage())
    x[0] = 5
    assert checksum(x.untyped_storage()) != before
