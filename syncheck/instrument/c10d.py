"""The parts of torch.distributed that syncheck uses; each is None in a build without it.

`import torch` imports these modules itself, so that they cost nothing here.
"""

from typing import Any

import torch

ProcessGroup: Any = None
Reducer: Any = None
Work: Any = None
c10d: Any = None

if torch.distributed.is_available():
    from torch._C import _distributed_c10d as _compiled
    from torch.distributed import distributed_c10d as _module

    ProcessGroup, Reducer, Work, c10d = _compiled.ProcessGroup, _compiled.Reducer, _compiled.Work, _module
