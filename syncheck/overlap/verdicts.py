"""The result of the analysis in a few sentences."""

from collections.abc import Callable, Iterator, Sequence

from syncheck.overlap.analysis import Analysis, Cost
from syncheck.overlap.model import BETWEEN_DEVICES, Need
from syncheck.overlap.report import STREAM_ORDER, EdgeLine, PairLine

_LITTLE_OVERLAP = 0.25
"""Fraction of the smaller device's work: two devices that overlap less than this take turns."""
_HALF = 0.5
_GAIN = 1.05
_MAX_PAIRS = 6


def verdicts(
    analysis: Analysis,
    pairs: Sequence[PairLine],
    edges: Sequence[EdgeLine],
    describe_need: Callable[[Need | None], str],
    describe_device: Callable[[int], str],
) -> tuple[str, ...]:
    """Return sentences on why the work does not overlap, or that it does."""
    return tuple(
        dict.fromkeys(
            [
                *_one_stream(analysis, edges),
                *_costly(edges),
                *_pair_verdicts(pairs),
                *_taking_turns(analysis, describe_need, describe_device),
                *_host_bound(analysis),
            ]
        )
    )


def _one_stream(analysis: Analysis, edges: Sequence[EdgeLine]) -> Iterator[str]:
    if len(analysis.streams) == 1:
        order = next((edge for edge in edges if edge.kind == STREAM_ORDER), None)
        found = "all work is on one stream"
        yield (
            f"{found}, which runs operations one after another even where they are independent"
            if order is not None
            else f"{found}, and each operation depends on the previous one"
        )


def _costly(edges: Sequence[EdgeLine]) -> Iterator[str]:
    """Yield the edge whose change gains the most, if it gains anything, and the change to make."""
    others = (edge for edge in edges if edge.kind != STREAM_ORDER and edge.advice)
    edge = max(others, key=lambda edge: edge.speed_up, default=None)
    if edge is not None and edge.speed_up >= _GAIN:
        at = f"{edge.location.frame.path}:{edge.location.frame.line}"
        gain = f"without this wait, the program could be up to {edge.speed_up:.2f} times as fast"
        yield f"{edge.text} ({at}); {gain}: {edge.advice}"


def _pair_verdicts(pairs: Sequence[PairLine]) -> Iterator[str]:
    shown = sorted((pair for pair in pairs if not pair.is_devices), key=lambda pair: -pair.free)
    return map(_pair_verdict, shown[:_MAX_PAIRS])


def _pair_verdict(pair: PairLine) -> str:
    names = f"{pair.first} and {pair.second}"
    if pair.free:
        measured = f" (measured: {duration(pair.measured)})" if pair.measured >= 0 else ""
        return (
            f"{names} have {duration(pair.free)} of work that is free to overlap, "
            f"of which {duration(pair.overlapped)} overlaps{measured}"
        )
    blocking_edges = "; ".join(
        f"{text} ({location.frame.path}:{location.frame.line})" for text, location in pair.blocking_edges
    )
    return f"no work on {names} is free to overlap" + (f": {blocking_edges}" if blocking_edges else "")


def _taking_turns(
    analysis: Analysis, describe_need: Callable[[Need | None], str], describe_device: Callable[[int], str]
) -> Iterator[str]:
    """Report devices that take turns because one needs the result of the other."""
    work = {use.device: use.work for use in analysis.devices}
    for pair in analysis.device_pairs:
        less = min(work[pair.first], work[pair.second])
        between = _needed_between(analysis, pair.first, pair.second)
        takes_turns = pair.overlapped < _LITTLE_OVERLAP * less and pair.free < _HALF * less
        if between and takes_turns and all(cost.makespan * _GAIN > analysis.makespan for cost in between):
            yield (
                f"{describe_device(pair.first)} and {describe_device(pair.second)} take turns: the copy between them "
                f"is {describe_need(between[0].need)}. Reordering does not help: split the batch into "
                "micro-batches so that one GPU works on one part while the other works on the next"
            )


def _needed_between(analysis: Analysis, first: int, second: int) -> list[Cost]:
    """Return the needed copies between two devices, earliest first."""
    streams = analysis.graph.streams
    return [
        cost
        for cost in sorted(analysis.costs, key=lambda cost: cost.need.op if cost.need else 0)
        if cost.kind in BETWEEN_DEVICES and cost.need is not None
        if {streams[cost.waiter].device, streams[cost.source].device} == {first, second}
    ]


def _host_bound(analysis: Analysis) -> Iterator[str]:
    if analysis.launching > _HALF * analysis.makespan:
        yield (
            f"for {duration(analysis.launching)} of {duration(analysis.makespan)}, the GPUs wait for the host to "
            "launch work: the operators are too short to overlap. Give each more work, or capture them in a CUDA graph"
        )


def duration(nanoseconds: float) -> str:
    """Return a time formatted for people."""
    value, units = nanoseconds / 1e3, ("us", "ms")
    for unit in units:
        if value < 1000:
            return f"{value:.3g} {unit}"
        value /= 1000
    return f"{value:.3g} s"
