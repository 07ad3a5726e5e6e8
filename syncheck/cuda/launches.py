"""Reports launches, together with the ordering that torch itself adds around them."""

import threading
from collections.abc import Sequence
from typing import Any

import torch

from syncheck.cuda.callback_order import Callback, Kind
from syncheck.cuda.memory import Memory
from syncheck.cuda.reporter import Reporter
from syncheck.cuda.streams import Streams
from syncheck.cuda.thread_contexts import ThreadContexts
from syncheck.hb.ids import NO_ALLOCATION, Access, Accesses, StreamId, WaitCall
from syncheck.instrument.gradients import Gradients
from syncheck.instrument.namer import Namer
from syncheck.instrument.plan import unique
from syncheck.instrument.torch_internals import current_node, sequence_number

_ENTERED_IN_NODE = "_syncheck_entered_in_node"


class _InNode(threading.local):
    """State of the calling thread; `entered`: (device, previous stream) per context entered in the current node."""

    def __init__(self) -> None:
        self.entered: list[tuple[int, StreamId]] = []


class Launches:
    """Reports launches.

    Attributes:
        gradients: gradients that cross streams in the running backward pass.
    """

    def __init__(
        self, reporter: Reporter, streams: Streams, threads: ThreadContexts, memory: Memory, namer: Namer
    ) -> None:
        self._reporter = reporter
        self._streams = streams
        self._threads = threads
        self._memory = memory
        self._namer = namer
        self.gradients = Gradients()
        self._in_node = _InNode()
        reporter.on_findings = self.name_findings

    def launch(
        self,
        operator: str,
        stream: StreamId,
        device: int,
        accesses: list[Access],
        tensors: list[torch.Tensor],
        other: int = -1,
    ) -> None:
        """Report one launch.

        Args:
            operator: the operator's name.
            stream: the stream that it runs on.
            device: the stream's device.
            accesses: what it reads and writes; if empty, the launch is not reported.
            tensors: its arguments and results, for findings.
            other: a second device involved; negative if there is none.
        """
        if not accesses:
            return
        reporter = self._reporter
        self._streams.used(stream)
        with reporter.locked_monitor(tensors) as monitor:
            if reporter.backward_site:
                self.protect_gradients(stream, accesses)
            site = reporter.site()
            self._memory.used(stream, accesses)
            context = self._threads.context(stream, device, other, site) if self._threads.n_checked_contexts else None
            monitor.launch(stream, operator, unique(accesses), site, context)

    def launch_empty(self, operator: str, stream: StreamId, device: int) -> None:
        """Report a launch that touches no memory of the program."""
        reporter = self._reporter
        with reporter.locked_monitor() as monitor:
            site = reporter.site()
            context = self._threads.context(stream, device, -1, site) if self._threads.n_checked_contexts else None
            monitor.launch(stream, operator, (), site, context)

    def protect_gradients(self, stream: StreamId, accesses: Accesses) -> None:
        """Protect gradients that cross streams, before an operator of a backward pass is reported."""
        node = current_node()
        if node is not None:
            device = self._streams.device_of(stream)
            node_stream = next((before for other, before in self._in_node.entered if other == device), stream)
            self.gradients.protect(self._reporter.monitor, sequence_number(node), node_stream, stream, accesses)

    def entering(self, owner: Any, stream: Any) -> None:
        """Store the node's stream if a context is about to change the current stream in a backward pass."""
        if self._reporter.backward_site and stream is not None and current_node() is not None:
            device = stream.device_index
            self._in_node.entered.append((device, self._streams.current(device)))
            owner.__dict__[_ENTERED_IN_NODE] = owner.__dict__.get(_ENTERED_IN_NODE, 0) + 1

    def left(self, owner: Any) -> None:
        """Drop the stored stream of a context that has ended."""
        if owner.__dict__.get(_ENTERED_IN_NODE):
            owner.__dict__[_ENTERED_IN_NODE] -= 1
            if self._in_node.entered:  # otherwise it was entered in an earlier check
                self._in_node.entered.pop()

    def replay_callbacks(self, callbacks: list[Callback]) -> None:
        """Report the callbacks that occurred while an operator ran."""
        if not callbacks:
            return
        with self._reporter.locked_monitor() as monitor:
            site = self._reporter.site()
            for callback in callbacks:
                match callback.kind:
                    case Kind.RECORD:
                        monitor.record(callback.event, callback.stream, site)
                    case Kind.WAIT:
                        monitor.wait(callback.event, callback.stream, site, WaitCall.TORCH)
                    case Kind.SYNC_STREAM:
                        monitor.sync_stream(callback.stream, site, explicit=False)
                    case Kind.SYNC_EVENT:
                        monitor.sync_event(callback.event, site)
                    case Kind.SYNC_DEVICE:
                        monitor.sync_device(callback.stream, site)

    def name_findings(self, tensors: Sequence[torch.Tensor]) -> None:
        """Name the tensors of new findings, and describe those that are among the given tensors."""
        findings = self._reporter.findings.take()
        self._memory.owners.clear()  # the following operators may name the tensors of the findings
        allocations = {finding.allocation for finding in findings}
        for tensor in tensors:
            allocation = self._memory.allocation_of(tensor) if tensor.is_cuda else NO_ALLOCATION
            if allocation in allocations and allocation:
                self._reporter.monitor.describe_allocation(allocation, self._memory.exact_view(tensor))
        self._namer.name_findings(findings)
