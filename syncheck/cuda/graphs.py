"""CUDA graphs: a capture records what its operators touch, a replay touches all of it at once."""

from functools import wraps
from threading import get_ident
from typing import TYPE_CHECKING, Any

import torch

from syncheck.cuda import devices
from syncheck.instrument.patching import Patches

if TYPE_CHECKING:
    from syncheck.cuda.backend import Cuda

_IDENT = "_syncheck_graph"


def _ident(cuda: "Cuda", graph: Any) -> int:
    """Return a graph's id; 0 if it was captured before this check began."""
    owner, ident, _ = getattr(graph, _IDENT, (None, 0, 0))
    return int(ident) if owner is cuda.token else 0


def install_graphs(cuda: "Cuda", patches: Patches) -> None:
    """Hook the methods of torch.cuda.CUDAGraph."""
    kind = torch.cuda.CUDAGraph
    begin, end, replay = kind.capture_begin, kind.capture_end, kind.replay

    @wraps(begin)
    def capture_begin(graph: Any, *args: Any, **kwargs: Any) -> Any:
        result = begin(graph, *args, **kwargs)
        if not cuda.callbacks_suppressed:
            ident = cuda.next_id("graph")
            setattr(graph, _IDENT, (cuda.token, ident, devices.current_device()))
            cuda.captures.append(get_ident())
            with cuda.locked_monitor() as monitor:
                monitor.capture_begin(ident, cuda.streams.current(devices.current_device()), cuda.site())
        return result

    @wraps(end)
    def capture_end(graph: Any) -> Any:
        ident = _ident(cuda, graph)
        if ident and not cuda.callbacks_suppressed and cuda.captures:
            cuda.captures.remove(get_ident()) if get_ident() in cuda.captures else cuda.captures.pop()
            with cuda.locked_monitor() as monitor:
                monitor.capture_end(ident)
        return end(graph)

    @wraps(replay)
    def replayed(graph: Any) -> Any:
        result = replay(graph)
        ident = _ident(cuda, graph)
        if cuda.callbacks_suppressed:
            return result
        if not ident:
            cuda.monitor.incomplete("a CUDA graph was replayed that was captured before the check began")
            return result
        with cuda.locked_monitor() as monitor:
            device = getattr(graph, _IDENT)[2]  # it runs where it was captured, whatever device is current
            named = monitor.replay(ident, cuda.streams.current(device), cuda.site())
        cuda.after_call(named)
        return result

    patches.set(kind, "capture_begin", capture_begin)
    patches.set(kind, "capture_end", capture_end)
    patches.set(kind, "replay", replayed)
