"""What becomes of the results of operators. A race about numbers that nothing uses has no effect."""

import re
from collections.abc import Iterable

from syncheck.hb.ids import NO_ALLOCATION, AllocationId, SiteId
from syncheck.lint.interp.values import Block, Tensor

_OF_RESULTS = frozenset({"SYN101", "SYN103"})
"""The rules about operators whose results may be wrong."""
_UNUSED = "something uses the result"
_FILLING = re.compile(
    r"aten::(?:empty|zeros|ones|full|rand|randn|randint|randperm|arange|linspace|eye)(?:_like)?$"
    r"|aten::(?:zero|fill|normal|uniform|random)_$"
)
"""Operators that fill memory with constants or random numbers."""


class Flows:
    """Tracks which memory is computed from which, and what memory is freed without any other use.

    Memory is used if the host or an operator without a result reads it, such as a send or a kernel, if other code may
    hold it, or if it still exists at the end.
    """

    def __init__(self) -> None:
        self._into: dict[AllocationId, set[AllocationId]] = {}
        self._written: dict[SiteId, set[AllocationId]] = {}
        self._read: set[AllocationId] = set()
        self._freed: set[AllocationId] = set()
        self._made_up: set[AllocationId] = set()  # computed from constants and random numbers only
        self._on_data: set[SiteId] = set()

    def launched(self, operator: str, site: SiteId, touched: Iterable[tuple[Tensor, bool]]) -> None:
        """Record a launch: what it writes is computed from what it reads."""
        touched = list(touched)
        written = {tensor.block.ident for tensor, is_write in touched if is_write}
        read = {tensor.block.ident for tensor, is_write in touched if not is_write}
        if not written or NO_ALLOCATION in written:
            self._read |= read
            return
        self._written.setdefault(site, set()).update(written)
        for ident in read:
            self._into.setdefault(ident, set()).update(written)
        if read <= self._made_up if read else _FILLING.match(operator):
            self._made_up |= written
        else:
            self._made_up -= written
            self._on_data.add(site)

    def read_by_host(self, idents: Iterable[AllocationId]) -> None:
        """Record that the host uses memory, or keeps it until the program ends."""
        self._read.update(idents)

    def freed(self, block: Block) -> None:
        """Record that memory is freed."""
        if not block.escaped:
            self._freed.add(block.ident)

    def assumed_for(self, codes: set[str]) -> dict[tuple[str, SiteId], str]:
        """Return what findings assume about the results of operators: (rule code, site of the operator) -> in words.

        Only operators on constants and random numbers count, as in a benchmark.

        Args:
            codes: the rules with findings.
        """
        wanted = codes & _OF_RESULTS
        if not wanted:
            return {}
        used = self._used()
        unused = (site for site, written in self._written.items() if used.isdisjoint(written))
        sites = [site for site in unused if site not in self._on_data]
        return {(code, site): _UNUSED for code in wanted for site in sites}

    def _used(self) -> set[AllocationId]:
        """Return the memory that is used, or that something is computed from which is used."""
        sources: dict[AllocationId, list[AllocationId]] = {}
        for source, made in self._into.items():
            for ident in made:
                sources.setdefault(ident, []).append(source)
        used = self._read | (set().union(*self._written.values()) - self._freed)
        pending = list(used)
        while pending:
            more = [source for source in sources.get(pending.pop(), ()) if source not in used]
            used.update(more)
            pending += more
        return used
