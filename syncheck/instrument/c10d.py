"""The parts of torch.distributed that syncheck uses; each is None in a build without it.

`import torch` imports these modules itself, so importing them here costs nothing.
"""

from typing import Any

import torch

ProcessGroup: Any = None
Reducer: Any = None
Work: Any = None
c10d: Any = None
is_finished: Any = None
"""The original `Work.is_completed` and, below, `Work.wait`, independent of any replacements."""
wait_for: Any = None
_make_finished: Any = None

if torch.distributed.is_available():
    from torch._C import _distributed_c10d as _compiled
    from torch.distributed import distributed_c10d as _module

    ProcessGroup, Reducer, Work, c10d = _compiled.ProcessGroup, _compiled.Reducer, _compiled.Work, _module
    is_finished, wait_for = Work.is_completed, Work.wait
    _make_finished = vars(_compiled)["_create_work_from_future"]


def finished_work(value: Any) -> Any:
    """Return a work handle of a completed collective.

    Args:
        value: its result, which becomes the result of the handle's future.

    Source:
        torch/csrc/distributed/c10d/init.cpp, `_create_work_from_future`.
    """
    future: Any = torch.futures.Future()
    future.set_result(value)
    return _make_finished(future)
