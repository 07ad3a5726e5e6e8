"""The values of tensors, and what is seen of them in one run of a program, so that two runs can be compared."""

import ctypes
import random
import sys
import zlib
from typing import Protocol

import torch

from syncheck.findings import Place
from syncheck.hb.ids import SiteId
from syncheck.instrument.torch_internals import data_ptr, tolist
from syncheck.witness.record import Record, Request, Values

_SHOWN = 256
"""Values of a tensor that are kept, so that the first that differ can be shown."""
_MOST = 20_000
"""Observations of the host that are kept."""


class Places(Protocol):
    """Turns call sites into places."""

    def place(self, ident: SiteId) -> Place:
        """Return the place of a call site."""
        ...


class Observed:
    """What is seen in one run.

    Args:
        request: what is to be recorded; None for nothing.
        sites: the program's call sites.
    """

    def __init__(self, request: Request | None, sites: Places) -> None:
        self.request = request
        self._sites = sites
        self.record = Record()

    def host_reads(self, tensor: torch.Tensor, site: SiteId) -> None:
        """The host gets values: those of a tensor of its own memory."""
        if self.request is not None and len(self.record.host) < _MOST:
            self.record.host.append(values_of(tensor, self.place(site)))

    def place(self, site: SiteId) -> str:
        """Return the line of a call site."""
        frame = self._sites.place(site).frame
        return f"{frame.path}:{frame.line}"


def values_of(tensor: torch.Tensor, place: str = "") -> Values:
    """Return the values of a tensor of the host; `place`: the line that it belongs to."""
    flat = tensor.detach().reshape(-1).contiguous()
    n_bytes = flat.numel() * flat.element_size()
    checksum = zlib.crc32((ctypes.c_char * n_bytes).from_address(data_ptr(flat))) if n_bytes else 0
    return Values(checksum, tuple(map(_text, tolist(flat[:_SHOWN]))), flat.numel(), place)


def _text(value: object) -> str:
    return f"{value:.6g}" if isinstance(value, float) else str(value)


def seed_generators() -> None:
    """Let the program begin with the same random numbers in each run, as long as it asks for no others."""
    torch.default_generator.manual_seed(0)
    random.seed(0)
    numpy = sys.modules.get("numpy")
    if numpy is not None:
        numpy.random.seed(0)
