"""Finds results of CUDA graphs that a program collects, although each replay overwrites them.

The program has done nothing unordered then, so no access shows it. What shows it is the number of references to a
result, as tensors and as Python references: if it has grown from replay to replay, and a container holds several of
them, then each stands for another replay.
"""

import gc
import sys
import weakref
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any

import torch

from syncheck.hb.ids import AllocationId, GraphId, SiteId
from syncheck.instrument.living_tensors import living_tensors
from syncheck.instrument.torch_internals import disable_dispatch_modes, storage_owners
from syncheck.sanitizer.monitor import Monitor

_MAX_SEARCHES = 4
"""Maximum number of searches for the containers of one result: each visits all objects of the program."""
_MAX_ALL_SEARCHES = 64
"""Maximum number of searches of a run."""
_CONTAINERS = frozenset({list, deque, set, tuple, dict})


@dataclass(slots=True)
class _Result:
    """A result of a graph.

    Attributes:
        storage: its memory.
        tensors: the tensors that were it at the first replay.
        n_references: number of references to it at the latest replay.
        n_held: number of references in containers at the latest replay; -1 if it was not determined.
        n_searches: number of searches for containers since the last finding.
        reported: the call sites of replays with a finding.
    """

    allocation: AllocationId
    storage: "weakref.ref[torch.UntypedStorage]"
    tensors: "list[weakref.ref[torch.Tensor]]"
    n_references: int = -1
    n_held: int = -1
    n_searches: int = 0
    reported: set[SiteId] = field(default_factory=set)

    def has_grown(self) -> bool:
        """Count the references; return whether there are more than at the replay before."""
        storage = self.storage()
        before = self.n_references
        self.n_references = storage_owners(storage) if storage is not None else 0
        for reference in self.tensors:
            tensor = reference()
            if tensor is not None:
                self.n_references += sys.getrefcount(tensor)
        return 0 <= before < self.n_references


class KeptResults:
    """Watches the results of the graphs that a program replays.

    Args:
        allocation_of: returns the allocation of a tensor.
    """

    def __init__(self, allocation_of: Callable[[torch.Tensor], AllocationId]) -> None:
        self._allocation_of = allocation_of
        self._watched: dict[GraphId, list[_Result]] = {}
        self._n_searches = 0

    def replayed(self, graph: GraphId, monitor: Monitor, site: SiteId) -> None:
        """Report the results that the program has collected over the latest replays; `site`: that of the last one."""
        watched = self._watched.get(graph)
        if watched is None:
            watched = self._watched[graph] = list(self._results(monitor.results(graph)))
        for result in watched:
            before, result.n_held = result.n_held, -1
            if result.has_grown() and site not in result.reported and self._may_search(result):
                result.n_held, has_several = self._held(result.allocation)
                if has_several and 0 <= before < result.n_held:
                    result.reported.add(site)
                    result.n_searches = 0
                    monitor.result_kept(graph, result.allocation, site)

    def _results(self, owned: Iterable[AllocationId]) -> Iterator[_Result]:
        """Yield the results among the allocations of a capture: those that are tensors now."""
        tensors: dict[AllocationId, list[torch.Tensor]] = {allocation: [] for allocation in owned}
        with disable_dispatch_modes():
            for tensor in living_tensors() if tensors else ():
                found = tensors.get(self._allocation_of(tensor))
                if found is not None:
                    found.append(tensor)
        for allocation, same in tensors.items():
            if same:
                yield _Result(allocation, weakref.ref(same[0].untyped_storage()), list(map(weakref.ref, same)))

    def _may_search(self, result: _Result) -> bool:
        result.n_searches += 1
        self._n_searches += 1
        return result.n_searches <= _MAX_SEARCHES and self._n_searches <= _MAX_ALL_SEARCHES

    def _held(self, allocation: AllocationId) -> tuple[int, bool]:
        """Return the number of references to a result in containers, and whether one of these holds several.

        An item of a container may be a container itself, such as a tuple with the result.
        """
        with disable_dispatch_modes():
            tensors: list[Any] = [tensor for tensor in living_tensors() if self._allocation_of(tensor) == allocation]
        inner = _containers_of(tensors)
        outer = _containers_of(inner) if inner else []
        counts = [*(_n_of(tensors, each) for each in inner), *(_n_of(inner, each) for each in outer)]
        return sum(counts), max(counts, default=0) > 1


def _containers_of(objects: list[Any]) -> list[Any]:
    """Return the containers that hold some objects, without the list itself."""
    return [found for found in gc.get_referrers(*objects) if type(found) in _CONTAINERS and found is not objects]


def _n_of(objects: list[Any], container: Any) -> int:
    """Return how many items of a container are among some objects. Variables and attributes are no items."""
    known = set(map(id, objects))
    items = list(container)
    if isinstance(container, dict):
        items = [item for key, item in container.copy().items() if not (isinstance(key, str) and key.isidentifier())]
    return sum(id(item) in known for item in items)
