"""Eager creation of a collective's NCCL communicator."""

from types import SimpleNamespace

import pytest
import torch

from syncheck.cuda.communicators import connect


class Group:
    """Process group with a backend that records each connection."""

    def __init__(self, is_initialized, bound_device_id=None):
        self.connected = []
        self.backend = SimpleNamespace(
            bound_device_id=bound_device_id,
            _is_initialized=lambda: is_initialized,
            eager_connect_single_device=self.connected.append,
        )

    def _get_backend(self, device):
        return self.backend


def test_the_communicator_is_created_before_the_first_collective():
    group = Group(is_initialized=False)
    connect("c10d::allreduce_", group, 1)
    assert group.connected == [torch.device("cuda", 1)]


@pytest.mark.parametrize(
    ("name", "group"),
    [
        ("c10d::allreduce_", Group(is_initialized=True)),
        ("c10d::allreduce_", Group(False, torch.device("cuda", 0))),  # created with the group
        ("c10d::send", Group(is_initialized=False)),  # uses a communicator of two ranks
    ],
)
def test_no_communicator_is_created_when_none_is_needed(name, group):
    connect(name, group, 0)
    assert group.connected == []


def test_a_backend_without_communicators_is_ignored():
    connect("c10d::allreduce_", SimpleNamespace(_get_backend=lambda device: SimpleNamespace()), 0)
