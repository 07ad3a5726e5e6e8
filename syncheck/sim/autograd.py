"""Backward passes on the streams of the forward pass, with the stream waits that the autograd engine inserts.

Source:
    torch/csrc/autograd/engine.cpp: a node runs on the stream of its forward op. Its input buffer waits for the streams
    that produced its gradients. At the end, the streams of the leaves, and of the nodes whose gradients were requested,
    are joined with the caller's current streams (`exec_post_processing`), and then callbacks are called.
    A node's stream is the stream that was current when the node was created: torch/csrc/autograd/input_metadata.cpp.
"""

import threading
import weakref
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from types import CodeType, FrameType
from typing import Any

import torch

from syncheck.filters import ignore_block
from syncheck.hb.ids import BY_TORCH, UNKNOWN_SITE, Accesses, SiteId, StreamId
from syncheck.instrument.plan import tensors_in
from syncheck.instrument.torch_internals import current_node, engine, next_sequence_number, sequence_number
from syncheck.sim.backward_pass import BackwardPass, ThreadGradients
from syncheck.sim.nodes import ThreadLog, is_leaf, is_leaf_tensor, leads_to, made_by, node_of, note_leaves, note_streams
from syncheck.sim.runtime import Runtime

_ENGINE: CodeType = engine().__code__
"""Code of the function that runs all backward passes started from Python."""


class Backward:
    """Tracks autograd nodes and the streams they run on.

    Attributes:
        local: state of the calling thread.
        has_changed: whether the current stream has been changed.
        has_several_threads: whether more than one thread has run operators.
        alone_run: the current call of backward() or grad() in the thread of `Memory.alone`; None outside of one.
    """

    def __init__(self, runtime: Runtime) -> None:
        self._gpus = runtime.gpus
        self._alone = runtime.memory.alone
        runtime.gpus.on_change = self.streams_changed
        runtime.before_call.append(self.sync_current_node)
        self.local = ThreadGradients()
        self.has_changed = self.has_several_threads = False
        self._logs: list[ThreadLog] = []
        self.alone_run: BackwardPass | None = None

    # -- forward: record streams

    def streams_changed(self) -> None:
        """Record that the current streams have changed."""
        if not self.has_changed:
            self.has_changed = True
            self._alone.end()
            note_leaves({})
        self._note_streams()

    def _note_streams(self) -> None:
        """Record the current streams for the nodes that the thread creates from now on."""
        log = self._log
        number = next_sequence_number()
        streams = dict(self._gpus.thread.streams)
        if log.numbers and log.numbers[-1] == number:
            log.streams[-1] = streams
        elif not log.streams or log.streams[-1] != streams:
            log.numbers.append(number)
            log.streams.append(streams)

    @property
    def _log(self) -> ThreadLog:
        log = self.local.log
        if log is None:
            log = self.local.log = ThreadLog()
            self._logs.append(log)
            self.has_several_threads = len(self._logs) > 1
            if self.has_several_threads:
                self._alone.end()
        return log

    def note_results(self, result: Any) -> None:
        """Record the results of an operator so that each thread tags its own nodes, if several threads create nodes.

        Source:
            torch/utils/__init__.py, `swap_tensors`, rejects tensors with weak references, so results without nodes get
            none.
        """
        log = self._log
        if self.has_several_threads and self.local.run is None:
            log.tag_nodes()
            if torch.is_grad_enabled():
                log.made += [weakref.ref(tensor) for tensor in tensors_in(result)]

    @property
    def records_leaves(self) -> bool:
        """Return whether `note_leaf` has anything to record. In a backward pass, only a node may create nodes."""
        return self.has_changed and (self.local.run is None or torch.is_grad_enabled())

    def note_leaf(self, tensor: torch.Tensor) -> Any:
        """Record the streams that were current when a leaf's AccumulateGrad node was created, and return the node.

        It is created when the leaf is first used in a graph. Nodes created before the first stream change have already
        been recorded by then.

        Source:
            torch/csrc/autograd/variable.cpp, `grad_accumulator`: created at first use, kept while a graph holds it.
        """
        if not (self.records_leaves and torch.is_grad_enabled() and is_leaf_tensor(tensor)):
            return None
        return note_streams(tensor, dict(self._gpus.thread.streams))

    def note_inputs(self, inputs: Iterable[Any]) -> list[Any]:
        """Record the streams of the leaves that a custom autograd.Function gets, and return their nodes.

        A leaf without another graph has its node only while something refers to it, so the caller keeps the nodes until
        the function has been called.

        Source:
            torch/csrc/autograd/python_function.cpp, `THPFunction_apply`: their nodes are created before `forward`.
        """
        return [self.note_leaf(value) for value in inputs if isinstance(value, torch.Tensor)]

    def note_function(self, outputs: Any, device: Callable[[torch.Tensor], int]) -> None:
        """Record the device of a custom autograd.Function's outputs, where missing gradients are created."""
        for output in outputs if isinstance(outputs, tuple) else (outputs,):
            node = made_by(output) if isinstance(output, torch.Tensor) else None
            if node is not None:
                node.metadata.setdefault("syncheck device", device(output))

    # -- backward

    def device_of_node(self) -> int | None:
        """Return the output device of the running node if it belongs to a custom function, otherwise None."""
        node: Any = current_node()
        return None if node is None else node.metadata.get("syncheck device")

    @property
    def _is_on_default_streams(self) -> bool:
        """Return whether all nodes so far were created on default streams, so that no stream has to wait for gradients.

        This cannot change for existing nodes: a node created later on another stream receives its gradients later.
        """
        return not (self.has_changed or self.has_several_threads)

    def site(self, frame: FrameType) -> SiteId:
        """Return the call site of an operator, where `frame` is the frame of the engine or the program that runs it.

        The engine's frame and its callers do not change during a pass, so the site is looked up only once.
        """
        run = self.local.run
        if run is None or frame.f_code is not _ENGINE or ignore_block.running:
            return self._gpus.site()
        if run.site is None:
            run.site = self._gpus.site()
        return run.site

    @property
    def is_running(self) -> bool:
        """Return whether this thread is inside backward() or grad()."""
        return self.local.run is not None

    @contextmanager
    def running(self, inputs: Sequence[Any], roots: Iterable[tuple[Any, int]] = ()) -> Iterator[None]:
        """Bracket one call of backward() or grad(), possibly inside a node of another, as in checkpointing.

        Args:
            inputs: the values whose gradients were requested, if not all.
            roots: each value that the pass starts from, with the device of its gradient; only read if streams matter.
        """
        outer = self.local.run
        run = self._begin(outer, inputs, roots)
        self._set_run(run)
        try:
            yield
        finally:
            self._end(run)
            self._set_run(outer)
            if outer is not None:
                outer.n_nodes = run.n_nodes
            self._gpus.thread.device = run.saved_device
            if self._log.streams:  # hooks may have changed the current streams; new nodes are created on the caller's
                self.streams_changed()

    def _begin(
        self, outer: BackwardPass | None, inputs: Sequence[Any], roots: Iterable[tuple[Any, int]]
    ) -> BackwardPass:
        """Return the state of a new pass, inside a node of another one if `outer` is not None; see `running`."""
        if outer is not None:
            self.sync_current_node()  # the node that contains the call has perhaps launched nothing so far
        gpus = self._gpus
        state = gpus.thread
        caller = {device.index: gpus.current_stream(device.index) for device in gpus.devices}
        for log in self._logs:
            log.tag_nodes()
        captured = {node for value in inputs if (node := node_of(value)) is not None} or None
        run = BackwardPass(caller, dict(state.streams), state.device, log=self._log, captured=captured)
        if not self._is_on_default_streams:
            run.note_roots(roots)
        if outer is None:
            run.gradients.begin(gpus.next_allocation())
        else:
            run.gradients, run.n_nodes = outer.gradients, outer.n_nodes
        return run

    def _set_run(self, run: BackwardPass | None) -> None:
        """Set the calling thread's running pass."""
        self.local.run = run
        if threading.get_ident() == self._alone.thread:
            self.alone_run = run

    def call_at_end(self, callback: Callable[[], Any]) -> Any:
        """Run a callback queued for the end of a backward pass, after joining the leaves."""
        run = self.local.run
        if run is not None:
            self._end(run)
        return callback()

    def _end(self, run: BackwardPass) -> None:
        """After all nodes have run, restore the caller's current streams and join the leaves with them."""
        if run.has_ended:
            return
        run.has_ended = True
        if self._is_on_default_streams:
            run.node = None
            return
        self._leave_node(run)
        run.node = None
        self._gpus.thread.streams = dict(run.saved)
        self._join_leaves(run)

    def _join_leaves(self, run: BackwardPass) -> None:
        while run.arrived:  # nodes that launched nothing
            silent = max(run.arrived, key=sequence_number)
            if run.captured is None or silent in run.captured or any(leads_to(silent, n) for n in run.captured):
                self._propagate(run, silent)
            else:
                del run.arrived[silent]
        for leaf in list(run.arrived_leaves):
            if run.captured is None or leaf in run.captured:
                self._propagate(run, leaf)
        for stream in sorted(run.leaves):
            target = run.caller[self._gpus.device_of(stream)]
            if target != stream:
                self._gpus.monitor.wait_stream(target, stream, UNKNOWN_SITE, BY_TORCH)

    def sync_current_node(self) -> None:
        """Make the streams of the running autograd node current."""
        run = self.local.run
        if run is None:
            return
        node = current_node()
        if node is run.node:
            return
        run.n_nodes += 1
        if self._is_on_default_streams:
            run.node = node
            run.used.clear()
            return
        self._leave_node(run)
        self._propagate_through(run, node)
        run.node = node
        state = self._gpus.thread
        if node is None:
            state.streams = dict(run.saved)
            return
        run.node_streams = self._streams_of(run, node)
        state.streams = dict(run.node_streams)
        if self.has_changed:
            self._note_streams()  # for the nodes that it creates, as with `create_graph` or in checkpointing
        self._wait_for_gradients(run, node, run.node_streams)

    def _wait_for_gradients(self, run: BackwardPass, node: Any, node_streams: dict[int, StreamId]) -> None:
        """Make a node's streams wait for the streams that produced its gradients, by default for the caller's."""
        arrived = (run.arrived_leaves if is_leaf(node) else run.arrived).pop(node, None)
        for device in {self._gpus.device_of(s) for s in arrived or ()} | set(node_streams):
            waiting = node_streams.get(device, self._gpus.devices[device].default_stream)
            for stream in sorted(arrived or {run.caller[device]}):
                if stream != waiting and self._gpus.device_of(stream) == device:
                    self._gpus.monitor.wait_stream(waiting, stream, UNKNOWN_SITE, BY_TORCH)

    def _propagate_through(self, run: BackwardPass, node: Any) -> None:
        """Pass gradients through earlier nodes that launched nothing and whose execution was therefore not observed."""
        for silent in list(run.arrived):
            if silent is not node and silent in run.arrived and leads_to(silent, node):
                self._propagate(run, silent)
                self._propagate_through(run, node)

    def _propagate(self, run: BackwardPass, node: Any) -> None:
        """Handle a node that launched nothing: its streams wait all the same."""
        node_streams = self._streams_of(run, node)
        arrived = (run.arrived_leaves if is_leaf(node) else run.arrived).get(node, set())
        devices = {self._gpus.device_of(stream) for stream in arrived}
        self._wait_for_gradients(run, node, node_streams)
        produced = {node_streams.get(device, self._gpus.devices[device].default_stream) for device in devices}
        self._note_produced(run, node, produced)

    def enter_node(self, device: int) -> None:
        """Update the current stream before an operator runs on a device."""
        run = self.local.run
        if run is None:
            return
        self.sync_current_node()
        if run.node is not None:
            # use the node's own stream even while a hook of the program has made another stream current
            stream = run.node_streams.get(device, self._gpus.devices[device].default_stream)
            run.used.add(stream)
            if not self._is_on_default_streams and is_leaf(run.node):
                run.leaves.add(stream)

    def wait_for_other_gradients(self, device: int) -> None:
        """Wait for earlier gradients before an addition, because it may be the engine accumulating a gradient.

        Source:
            torch/csrc/autograd/input_buffer.cpp, `InputBuffer::add`: it waits for both producers.
        """
        run = self.local.run
        if run is None or run.node is None or self._is_on_default_streams:
            return
        current = self._gpus.current_stream(device)
        for follower, _ in run.node.next_functions:
            arrived = run.arrived_leaves if follower is not None and is_leaf(follower) else run.arrived
            for stream in sorted(arrived.get(follower, ())):
                if stream != current and self._gpus.device_of(stream) == device:
                    self._gpus.monitor.wait_stream(current, stream, UNKNOWN_SITE, BY_TORCH)

    def protect_gradients(self, stream: StreamId, accesses: Accesses) -> None:
        """Protect gradients produced by other nodes for the stream of an operator that is about to run."""
        if (run := self.local.run) is not None and run.node is not None:
            device = self._gpus.device_of(stream)
            node_stream = run.node_streams.get(device, self._gpus.devices[device].default_stream)
            run.gradients.protect(self._gpus.monitor, run.n_nodes, node_stream, stream, accesses)

    def _leave_node(self, run: BackwardPass) -> None:
        node = run.node
        if node is None:
            return
        produced, run.used = run.used, set()
        if not produced:
            streams = self._streams_of(run, node)
            produced = {streams.get(d.index, d.default_stream) for d in self._gpus.devices}
        self._note_produced(run, node, produced)

    def _note_produced(self, run: BackwardPass, node: Any, streams: set[StreamId]) -> None:
        """Record the streams on which a node has produced gradients."""
        if is_leaf(node) or (run.captured is not None and node in run.captured):
            run.leaves |= streams
        for follower, _ in node.next_functions:
            if follower is None:
                continue
            if is_leaf(follower):
                run.note_use(follower, node, self._streams_of(run, node))
            arrived = run.arrived_leaves if is_leaf(follower) else run.arrived
            arrived.setdefault(follower, set()).update(streams)

    def _streams_of(self, run: BackwardPass, node: Any) -> dict[int, StreamId]:
        """Return the streams that were current when a node was created.

        An untagged node (that of a view) was created by the same thread as the node before it.
        """
        if is_leaf(node):
            return run.streams_of_leaf(node)
        run.log = node.metadata.get("syncheck log") or run.log or self._log
        return run.log.at(sequence_number(node))


class Engine:
    """Wrapper of torch's engine that intercepts the callbacks queued by programs."""

    def __init__(self, original: Any, backward: Backward) -> None:
        self._original = original
        self._backward = backward

    def queue_callback(self, callback: Callable[[], Any]) -> None:
        """Queue a function to be called at the end of the running backward pass."""
        self._original.queue_callback(lambda: self._backward.call_at_end(callback))

    def __getattr__(self, name: str) -> Any:
        return getattr(self._original, name)
