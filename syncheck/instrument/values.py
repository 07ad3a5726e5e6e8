"""Values of tensors, and the observations of one run of a program, for comparison with another run."""

import ctypes
import random
import sys
import zlib
from typing import Protocol

import torch

from syncheck.findings import Location
from syncheck.hb.ids import SiteId
from syncheck.instrument.torch_internals import data_ptr, tolist
from syncheck.witness.record import Record, Request, Values

_SHOWN = 256
"""The most values kept per tensor, to show the first that differ."""
_MAX = 20_000
"""The most observations of the host that are kept."""


class Sites(Protocol):
    """Turns call sites into locations."""

    def location(self, ident: SiteId) -> Location:
        """Return the location of a call site."""
        ...


class Observed:
    """The observations of one run.

    Args:
        request: what to record; None to record nothing.
        sites: the program's call sites.
    """

    def __init__(self, request: Request | None, sites: Sites) -> None:
        self.request = request
        self._sites = sites
        self.record = Record()

    def record_host_read(self, tensor: torch.Tensor, site: SiteId) -> None:
        """Record the values of a host tensor that the host receives."""
        if self.request is not None and len(self.record.host) < _MAX:
            self.record.host.append(values_of(tensor, self.location(site)))

    def location(self, site: SiteId) -> str:
        """Return path and line of a call site."""
        frame = self._sites.location(site).frame
        return f"{frame.path}:{frame.line}"


def values_of(tensor: torch.Tensor, location: str = "") -> Values:
    """Return the values of a host tensor; `location`: the line that it belongs to."""
    flat = tensor.detach().reshape(-1).contiguous()
    n_bytes = flat.numel() * flat.element_size()
    checksum = zlib.crc32((ctypes.c_char * n_bytes).from_address(data_ptr(flat))) if n_bytes else 0
    return Values(checksum, tuple(map(_text, tolist(flat[:_SHOWN]))), flat.numel(), location)


def _text(value: object) -> str:
    return f"{value:.6g}" if isinstance(value, float) else str(value)


def seed_generators() -> None:
    """Seed the random number generators, so that each run starts with the same random numbers."""
    torch.default_generator.manual_seed(0)
    random.seed(0)
    numpy = sys.modules.get("numpy")
    if numpy is not None:
        numpy.random.seed(0)
