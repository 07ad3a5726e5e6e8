"""A run that checks one block after another on the same simulated GPUs."""

from syncheck.config.options import Options
from syncheck.filters.policy import Policy
from syncheck.findings import Report
from syncheck.run.run import MakeBackend, Run
from syncheck.sanitizer.collector import Checkpoint, OnFinding
from syncheck.sanitizer.session import Session


class KeptRun(Run):
    """A run whose GPUs outlive the blocks that it checks: each block can use the tensors and streams of earlier ones.

    Nothing is patched between blocks. As work there is not seen, each block begins with all earlier work complete.

    Args:
        options: the settings of the first block.
        policy: filters the findings of the first block.
        backend_name: description of the backend.
        make_backend: creates the backend, whose `watching` can be entered again.

    Attributes:
        n_devices: number of simulated GPUs.
        was_complete: whether the whole of the latest block was checked. Otherwise, its GPUs may be in any state.
    """

    def __init__(self, options: Options, policy: Policy, backend_name: str, make_backend: MakeBackend) -> None:
        self._codes = options.selected()
        self.n_devices, self.was_complete = options.devices, True
        self._at_begin: Checkpoint = {}
        self._n_known_sites = 0
        super().__init__(options, self._new_session, policy, lambda *_: 0, backend_name, make_backend)

    def _new_session(self, backend: str, on_finding: OnFinding) -> Session:
        return Session(lambda rule: rule.code in self._codes, backend, on_finding)

    def begin(self, options: Options, policy: Policy) -> None:
        """Begin a block.

        Args:
            options: its settings; the GPUs are those of the first block.
            policy: filters its findings.

        Raises:
            ConfigError: a rule name does not exist.
        """
        self._codes = options.selected()
        self._options, self._policy = options, policy
        with self.backend.lock:
            self.backend.flush_calls()
            self._at_begin = self.session.restart()
            self.backend.start_program()
        self._n_known_sites = len(self.sites)

    def report(self, since: Checkpoint | None = None) -> Report:
        """Return the findings of the block, or those since a checkpoint in it."""
        if since is not None:
            return super().report(since)
        with self.backend.lock:
            self.backend.flush_calls()
            self.session.add_final(self.sites)
        report = super().report(self._at_begin)
        self.was_complete = not report.incomplete
        return report

    def lines(self) -> set[tuple[str, int]]:
        """Return (displayed path, line) of the block's call sites."""
        return self.sites.lines(self._n_known_sites)
