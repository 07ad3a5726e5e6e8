"""Collectives of torch.distributed, modeled after NCCL: they run on a stream of their group or on the current stream.

Source:
    torch/csrc/distributed/c10d/ProcessGroupNCCL.cpp: `collective` (`asyncOp`), `WorkNCCL::synchronizeStream`,
    `barrier`, `stashed_for_allocator_safety_`
"""

import ast
import re
from collections.abc import Iterable

from syncheck.hb.clock import HOST
from syncheck.hb.ids import NO_VIEW, UNKNOWN_SITE, AllocationId, EventId, NamedKind, StreamId, WaitCall
from syncheck.lint.interp.contents import handles_in, tensors_in
from syncheck.lint.interp.machine import Machine, TensorAccess
from syncheck.lint.interp.parts import N_BYTES
from syncheck.lint.interp.values import NONE, UNKNOWN, UNKNOWN_STREAM, Block, Call, Group, Tensor, Value, Work, truth
from syncheck.lint.nodes import bound_names, text
from syncheck.semantics.collectives import FUNCTIONS, POINT_TO_POINT, Collective, collective_name
from syncheck.source.words import words_of

_FEWEST_WITH_GROUP = 3
"""Minimum number of positional arguments that may include the group. Source: torch/distributed/distributed_c10d.py."""

_ORDERING = frozenset({"wait_stream", "wait_event"})
"""Methods of streams, in which the host does not wait."""
_ALIASES = {"_all_gather_base": "all_gather_into_tensor", "_reduce_scatter_base": "reduce_scatter_tensor"}
"""Deprecated names. Source: torch/distributed/distributed_c10d.py."""
_HANDLES = frozenset("work works handle handles req reqs request requests future fut op".split())
"""Words in the names of handles of collectives."""


_GLOO = re.compile(r"""['"]gloo['"]""")
_ELSEWHERE = "the file that starts it does not wait for it"


class Collectives:
    """Runs collectives on a machine.

    Attributes:
        have_started: whether any collective has returned a handle.
        held: event -> stream, of collectives whose handles only local variables hold.
    """

    def __init__(self, machine: Machine) -> None:
        self._machine = machine
        self.have_started = False
        self.held: dict[EventId, StreamId] = {}
        self._streams: dict[tuple[Group | str | None, int], StreamId] = {}
        self._kept: dict[EventId, list[Tensor]] = {}
        self._coalescing = 0

    def by_keyword(self, name: str, call: Call) -> Value | None:
        """Start a collective by a method of an unknown object, if it has its name and gets `async_op=True`.

        Such a method may also return the result, so the result must be dropped or have the name of a handle.
        """
        statement = self._machine.current_node
        is_dropped = isinstance(statement, ast.Expr) and statement.value is call.node
        bound = bound_names(statement) if isinstance(statement, ast.Assign) else set()
        is_handle = is_dropped or any(words_of(variable) & _HANDLES for variable in bound)
        is_started = name in FUNCTIONS and call.flag("async_op") is True and is_handle
        return self.call(name, call, is_async=True) if is_started else None

    def call(self, name: str, call: Call, *, is_async: bool | None) -> Value | None:
        """Call a function of torch.distributed; return None for a function that is not modeled.

        Args:
            name: the function.
            call: the call.
            is_async: whether the call requests a handle; None if unknown.
        """
        if name == "new_group":
            return Group()
        collective = FUNCTIONS.get(_ALIASES.get(name, name))
        if collective is None:
            return None
        used = [
            (tensor, is_write)
            for parameters, is_write in ((collective.writes, True), (collective.reads, False))
            for position, keyword in parameters
            for tensor in tensors_in(call.get(keyword, position))
        ]
        if is_async is None and not collective.always_asynchronous:
            for tensor, _ in used:
                tensor.block.escaped = True
            return UNKNOWN
        is_started = is_async or collective.always_asynchronous
        return self._start(collective, used, call) if is_started else self._run(collective, used, call)

    def _run(self, collective: Collective, used: list[TensorAccess], call: Call) -> Value:
        """Run a collective on the current stream. A barrier makes the host wait for that stream."""
        machine = self._machine
        device = _device_of(used)
        if device is None and used:
            machine.touch_host(collective.operator, used, call.node)
            return UNKNOWN
        stream = machine.current(machine.device if device is None else device)
        if collective_name(collective.operator) == "barrier":
            machine.sync_stream(stream, call.node, explicit=True)
            own = self._streams.get((_group(call), machine.device if device is None else device))
            if own:  # a barrier is a collective, too: it follows all collectives that its group has started
                machine.session.sync_stream(own, machine.site(call.node), explicit=False)
        else:
            machine.launch(stream, collective.operator, used, call.node)
            if not used:  # the tensors may be on a GPU
                machine.guesses[machine.site(call.node)] = True
        return UNKNOWN

    def _start(self, collective: Collective, used: list[TensorAccess], call: Call) -> Work:
        """Start a collective on the stream of its group."""
        machine = self._machine
        machine.n_relevant += 1
        self.have_started = True
        if machine.ordering_only or self._coalescing:
            return Work(None)
        device = _device_of(used)
        for tensor, _ in used:
            follow_on_host(machine, tensor.block)
        index = machine.thread.device if device is None else device
        if machine.current(index) == UNKNOWN_STREAM:  # it follows that stream
            return Work(None)
        stream, session, site = self._stream(_group(call), index), machine.session, machine.site(call.node)
        machine.join(stream, machine.current(index))
        machine.sites.note_accesses(collective.operator, site, used)
        session.launch(stream, collective.operator, machine.accesses(used), site)
        session.collective(stream, collective.operator, site)
        event = EventId(machine.next_ident())
        session.event(event, UNKNOWN_SITE, timing=False)
        session.record(event, stream, site)
        if machine.imported.running is not None:
            machine.of_callers["SYN603", site] = _ELSEWHERE
        work = Work(event, index, on_host=device is None)
        self.held[event] = stream
        if collective.operator.partition("::")[2] in POINT_TO_POINT:
            for allocation, view, _ in machine.accesses(used):
                session.record_stream(allocation, view, stream, UNKNOWN_SITE)
        else:
            self._kept[event] = [tensor for tensor, _ in used]
        return work

    def _stream(self, group: Group | str | None, device: int) -> StreamId:
        known = self._streams.get((group, device))
        if known is None:
            known = self._streams[group, device] = self._machine.add_stream(device)
            self._machine.session.name(NamedKind.STREAM, known, "nccl")
        return known

    # -- coalescing: the collectives of a block are waited for as a whole, and are not tracked

    def begin_coalescing(self) -> Value:
        """Begin a coalescing block."""
        self._coalescing += 1
        return UNKNOWN

    def end_coalescing(self) -> None:
        """End a coalescing block."""
        self._coalescing -= 1

    # -- handles

    def wait(self, work: Work, call: Call) -> None:
        """Make the current stream wait for a collective; with a timeout, for host tensors or by gloo, also the host."""
        if work.event is None:
            return
        self._kept.pop(work.event, None)
        self.store(work)
        session, site = self._machine.session, self._machine.site(call.node)
        current = self._machine.current(work.device)
        if current:
            session.wait(work.event, current, site, WaitCall.TORCH)
        is_timed = truth(call.get("timeout", 0) or NONE) is not False
        if not current or work.on_host or is_timed or _uses_only_gloo(self._machine.sites.text):
            session.sync_event(work.event, site)

    def escape(self, work: Work) -> None:
        """Assume that a collective is waited for, because unknown code has its handle."""
        if work.event is not None:
            self._kept.pop(work.event, None)
            self.store(work)
            self._machine.session.sync_event(work.event, UNKNOWN_SITE)

    def escape_all(self, values: Iterable[Value | None]) -> None:
        """Assume that the collectives whose handles some values hold are waited for in code that is not interpreted."""
        for value in list(values):
            for work in handles_in(value):
                self.escape(work)

    def assume_synchronized(self, called: str, *, can_wait: bool) -> None:
        """Assume that unknown code waits.

        Args:
            called: its name.
            can_wait: whether it also waits for collectives whose handles it cannot have.
        """
        machine = self._machine
        if called.rpartition(".")[2] in _ORDERING and not machine.is_capturing():
            self._order_streams()
        elif can_wait or not self.held:
            machine.assume_synchronized()
        else:
            busy = set(self.held.values())
            for stream in map(StreamId, range(1, len(machine.streams))):
                if stream not in busy:
                    machine.session.sync_stream(stream, UNKNOWN_SITE, explicit=False)

    def _order_streams(self) -> None:
        """Let every stream wait for all others. The host waits for none."""
        first, *others = map(StreamId, range(1, len(self._machine.streams)))
        for other in others:
            self._machine.join(first, other)
        for other in others:
            self._machine.join(other, first)

    def store(self, work: Work) -> None:
        """Note that other code may access a handle and wait with it."""
        if work.event is not None:
            self.held.pop(work.event, None)


def _device_of(used: list[TensorAccess]) -> int | None:
    """Return the device of a collective's tensors; None if they are in host memory, or there are none."""
    return next((tensor.block.device for tensor, _ in used if tensor.block.device is not None), None)


def _uses_only_gloo(text: str) -> bool:
    """Return whether a file creates groups of gloo only, whose handles block the host until the collective is over.

    Source:
        torch/csrc/distributed/c10d/Work.cpp, `Work::wait`, which only the backends with streams override.
    """
    return "init_process_group(" in text and "nccl" not in text and _GLOO.search(text) is not None


def _group(call: Call) -> Group | str | None:
    """Return the process group of a collective; None for the default group, or if unknown.

    Only a keyword argument counts, because the position of the parameter varies. A call that names the group that
    it returns is known by its text: `get_group(Mode.TENSOR)`.
    """
    group = call.kwargs.get("group", NONE if len(call.args) < _FEWEST_WITH_GROUP else UNKNOWN)
    if isinstance(group, Group) or not isinstance(call.node, ast.Call):
        return group if isinstance(group, Group) else None
    match next((keyword.value for keyword in call.node.keywords if keyword.arg == "group"), None):
        case ast.Call(args=[ast.Constant() | ast.Attribute()], keywords=[]) as chosen:
            return text(chosen)
        case _:
            return None


def follow_on_host(machine: Machine, block: Block) -> None:
    """Track a block of pageable memory from now on, because a collective uses it."""
    if not block.ident and block.device is None and not block.escaped:
        block.ident = AllocationId(machine.next_ident())
        machine.session.allocate(block.ident, HOST, N_BYTES, 0, UNKNOWN_SITE)
        machine.session.describe_allocation(block.ident, NO_VIEW)
