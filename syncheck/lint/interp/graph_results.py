"""Results of a CUDA graph that the program keeps while later replays overwrite them (SYN906)."""

import ast
from collections.abc import Callable, Iterable
from dataclasses import replace

from syncheck.hb.ids import NO_VIEW, SiteId
from syncheck.lint.interp.contents import tensors_in
from syncheck.lint.interp.replays import Replays
from syncheck.lint.interp.values import Graph, Sequence, Tensor, Value
from syncheck.rules import graph_result_overwritten
from syncheck.sanitizer.collector import Collector, PendingFinding
from syncheck.sanitizer.messages import TensorRef, Text


class GraphResults:
    """Tracks after which replay the program took a result: as a view, an item of a container or a returned value.

    A result counts as kept only if the program takes one at the same call site after another replay: a view that is
    created once is meant to show the result of each replay.

    Args:
        collector: collects the findings.
    """

    def __init__(self, collector: Collector) -> None:
        self._collector = collector
        self._capturing: Replays | None = None
        self._has_replays = False

    def begin(self, graph: Graph) -> None:
        """Note that the capture of a graph begins."""
        self._capturing = graph.replays

    def end(self) -> None:
        """Note the end of the capture."""
        self._capturing = None

    def replayed(self, graph: Graph, site: SiteId) -> None:
        """Note that a graph was replayed."""
        graph.replays.count += 1
        graph.replays.latest = site
        self._has_replays = True

    def launched(self, touched: Iterable[tuple[Tensor, bool]], site: SiteId) -> None:
        """Note a launch: a capture writes results, and other work may read results that were overwritten."""
        for tensor, is_write in touched:
            if self._capturing is not None and is_write:
                tensor.block.replays = self._capturing
            elif self._capturing is None and not is_write and _is_overwritten(tensor):
                self._report(tensor, site)

    def taken(self, value: Value, site: Callable[[], SiteId]) -> Value:
        """Return a value that the program takes at a call site; results of graphs become those of the latest replay."""
        if not self._has_replays:
            return value
        if isinstance(value, Tensor):
            return taken_from(value, replace(value), site()) if _is_result(value) and value.taken is None else value
        if isinstance(value, Sequence) and any(map(_is_result, value.items)):
            return Sequence([self.taken(item, site) for item in value.items], value.is_open)
        return value

    def added(self, owner: Value, item: Value, site: Callable[[], SiteId], node: ast.expr | None = None) -> None:
        """Note that an item was added to a container, which may hold results of earlier replays.

        Args:
            owner: the container.
            item: the item.
            site: returns the call site.
            node: the expression of the item, if there is one.
        """
        is_unknown = isinstance(owner, Sequence) and owner.limit < 0
        for new in () if is_unknown else tensors_in(item):
            held = (tensor for tensor in tensors_in(owner) if tensor.block is new.block) if new.taken else ()
            found = next(filter(_is_overwritten, held), None)
            if found is not None:
                text = ast.unparse(node) if node is not None and isinstance(item, Tensor) else ""
                self._report(found, site(), (f"keep a copy: `{text}.clone()`",) if text else ())

    def _report(self, tensor: Tensor, site: SiteId, advice: Text = ()) -> None:
        replays, ident = tensor.block.replays, tensor.block.ident
        if replays is None or replays.is_picked or tensor.taken is None or tensor.taken[0] in replays.reported:
            return
        taken, _ = tensor.taken
        replays.reported.add(taken)
        related: list[tuple[SiteId, Text]] = [(taken, ("taken here",))] if taken != site else []
        pending = PendingFinding(
            graph_result_overwritten.RULE,
            site,
            {"tensor": (TensorRef(ident, NO_VIEW) if ident and advice else "a tensor",)},
            [*related, (replays.latest, ("the replay that overwrites it",))],
            advice or ("keep a copy of the result, with `.clone()`, before the next replay",),
            allocation=ident,
        )
        self._collector.add(pending)


def taken_from(tensor: Tensor, alias: Tensor, site: SiteId) -> Tensor:
    """Return a new tensor over the memory of another, after noting when it was taken, if it is a graph's result."""
    replays = tensor.block.replays
    if replays is not None and replays.count:
        alias.taken = (site, replays.count)
        if _is_overwritten(tensor):
            alias.taken = tensor.taken
        else:
            replays.taken[site] = replays.count
    return alias


def _is_overwritten(tensor: Tensor) -> bool:
    """Return whether a tensor is a result of a replay before the latest one, of several taken at one call site."""
    replays = tensor.block.replays
    if replays is None or tensor.taken is None:
        return False
    site, count = tensor.taken
    return count < replays.count and replays.taken[site] > count


def _is_result(value: Value) -> bool:
    """Return whether a value is a result of a graph that has been replayed."""
    return isinstance(value, Tensor) and value.block.replays is not None and value.block.replays.count > 0
