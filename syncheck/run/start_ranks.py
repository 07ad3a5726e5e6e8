"""Start of ranks on this machine with torchrun's own agent."""

import logging
import os
import subprocess
import sys
import uuid

from torch.distributed import TCPStore  # type: ignore[attr-defined]  # torch does not list it
from torch.distributed.elastic.multiprocessing.api import DefaultLogsSpecs, SignalException, Std
from torch.distributed.elastic.multiprocessing.errors import ChildFailedError
from torch.distributed.elastic.rendezvous import RendezvousInfo, RendezvousParameters, rendezvous_handler_registry
from torch.distributed.elastic.rendezvous.static_tcp_rendezvous import StaticTCPRendezvous
from torch.distributed.launcher.api import LaunchConfig, elastic_launch

_HOST = "localhost"
_TIMEOUT_SECONDS = 600


class _OnThisMachine(StaticTCPRendezvous):
    """torchrun's rendezvous of one node, at a free port that its store chooses.

    The backend "c10d", which chooses a port, too, inspects the stack 18 times, which takes 0.8 s.

    Source:
        torch/distributed/elastic/rendezvous/dynamic_rendezvous.py, `get_method_name`.
    """

    def __init__(self, parameters: RendezvousParameters) -> None:
        super().__init__(_HOST, 0, rank=0, world_size=1, run_id=parameters.run_id, timeout=_TIMEOUT_SECONDS)
        self._backend = parameters.backend

    def get_backend(self) -> str:
        return self._backend

    def next_rendezvous(self) -> RendezvousInfo:
        self._store = TCPStore(_HOST, 0, 1, True, self.timeout, multi_tenant=True)
        self.master_port = self._store.port
        return super().next_rendezvous()


def start_ranks(number: int, command: list[str], more: dict[str, str], folder: str | None = None) -> int:
    """Run `python COMMAND` in several ranks until all have ended; return the exit status of the first that failed.

    Args:
        number: number of ranks.
        command: the arguments of the interpreter.
        more: additional environment variables.
        folder: folder for one output file per rank; None to write to the output of this process.
    """
    flags = subprocess._args_from_interpreter_flags()  # type: ignore[attr-defined]  # noqa: SLF001  as multiprocessing does
    run_id = uuid.uuid4().hex
    rendezvous_handler_registry.register(run_id, _OnThisMachine)  # a name can be registered only once
    config = LaunchConfig(
        min_nodes=1, max_nodes=1, nproc_per_node=number, run_id=run_id, rdzv_backend=run_id,
        rdzv_endpoint=_HOST, max_restarts=0, monitor_interval=0.1,
        logs_specs=DefaultLogsSpecs(folder, redirects=Std.OUT if folder else Std.NONE),
    )  # fmt: skip
    os.environ.setdefault("OMP_NUM_THREADS", "1")  # as torchrun does for more than one
    os.environ.update(more)
    logging.getLogger("torch.distributed.elastic").setLevel(
        logging.CRITICAL
    )  # the report contains the same information
    try:
        elastic_launch(config, sys.executable)(*flags, *command)
    except ChildFailedError as error:
        first = min(error.failures.values(), key=lambda failure: failure.timestamp)
        return first.exitcode if first.exitcode > 0 else 128 - first.exitcode
    except SignalException as error:
        return 128 + int(error.sigval)
    return 0
