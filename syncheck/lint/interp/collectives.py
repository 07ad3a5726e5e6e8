"""Collectives of torch.distributed: what an asynchronous one uses until it is waited for."""

import ast
import weakref
from dataclasses import dataclass

from syncheck.lint.interp.machine import Access, Machine
from syncheck.lint.interp.values import NONE, UNKNOWN, Call, Constant, Group, Value, Work, tensors_in
from syncheck.rules import collective_buffer_modified, collective_result_before_wait, dropped_work
from syncheck.rules.model import Rule
from syncheck.sanitizer.collector import PendingFinding
from syncheck.sanitizer.messages import TensorRef, Text

# Which arguments a collective writes and which it reads, by position and name.
# Source: torch/distributed/distributed_c10d.py.
_WRITES: dict[str, tuple[tuple[int, str], ...]] = {
    "all_reduce": ((0, "tensor"),),
    "broadcast": ((0, "tensor"),),
    "reduce": ((0, "tensor"),),
    "all_gather": ((0, "tensor_list"),),
    "all_gather_into_tensor": ((0, "output_tensor"),),
    "reduce_scatter": ((0, "output"),),
    "reduce_scatter_tensor": ((0, "output"),),
    "all_to_all": ((0, "output_tensor_list"),),
    "all_to_all_single": ((0, "output"),),
    "gather": ((1, "gather_list"),),
    "scatter": ((0, "tensor"),),
    "irecv": ((0, "tensor"),),
}
_READS: dict[str, tuple[tuple[int, str], ...]] = {
    "all_gather": ((1, "tensor"),),
    "all_gather_into_tensor": ((1, "input_tensor"),),
    "reduce_scatter": ((1, "input_list"),),
    "reduce_scatter_tensor": ((1, "input"),),
    "all_to_all": ((1, "input_tensor_list"),),
    "all_to_all_single": ((1, "input"),),
    "gather": ((0, "tensor"),),
    "scatter": ((1, "scatter_list"),),
    "isend": ((0, "tensor"),),
}
_ALWAYS_ASYNCHRONOUS = frozenset({"isend", "irecv"})
COLLECTIVES = frozenset(_WRITES) | frozenset(_READS) | {"barrier"}


@dataclass(slots=True)
class _State:
    """Whether others may wait for a collective."""

    escaped: bool = False


@dataclass(slots=True)
class Pending:
    """A collective that runs.

    Attributes:
        work: its handle, as long as the program keeps it.
        used: its tensors, and whether it writes them.
        site: the call.
        group: its process group, NONE for that of all ranks; UNKNOWN where it may be any.
    """

    work: "weakref.ref[Work]"
    state: _State
    name: str
    used: list[Access]
    site: int
    group: Value


class Collectives:
    """Follows asynchronous collectives."""

    def __init__(self, machine: Machine) -> None:
        self._machine = machine
        self._pending: list[Pending] = []
        self._coalescing = 0
        machine.watch = self.touched
        machine.synced = self._pending.clear

    def call(self, name: str, call: Call) -> Value | None:
        """Call a function of torch.distributed; None for one that is not followed."""
        if name == "new_group":
            return Group()
        if name not in COLLECTIVES:
            return None
        is_async = name in _ALWAYS_ASYNCHRONOUS or call.flag("async_op")
        used: list[Access] = []
        for table, is_write in ((_WRITES, True), (_READS, False)):
            for position, keyword in table.get(name, ()):
                used += [(tensor, is_write) for tensor in tensors_in(call.get(keyword, position))]
        self.touched(used, call.node)
        if is_async is None:
            for tensor, _ in used:
                tensor.block.escaped = True
            return UNKNOWN
        return self._start(name, used, call) if is_async else UNKNOWN

    def _start(self, name: str, used: list[Access], call: Call) -> Work:
        state = _State()
        self._machine.n_relevant += 1
        work = Work(lambda: setattr(state, "escaped", True))
        if not self._machine.ordering_only and not self._coalescing:
            site = self._machine.site(call.node)
            self._pending.append(Pending(weakref.ref(work), state, name, used, site, _group(call)))
        return work

    def begin_coalescing(self) -> Value:
        """What begins now is waited for as a whole."""
        self._coalescing += 1
        return UNKNOWN

    def end_coalescing(self) -> None:
        """See `begin_coalescing`."""
        self._coalescing -= 1

    def waited(self, work: Work) -> None:
        """The current stream waits for a collective, and for those that began before it on the same stream."""
        found = next((number for number, entry in enumerate(self._pending) if entry.work() is work), -1)
        if found >= 0:
            group = self._pending[found].group
            self._pending[: found + 1] = [entry for entry in self._pending[:found] if _differ(entry.group, group)]

    def dropped(self, work: Work) -> None:
        """A statement throws a handle away, or gives it a name that is never used."""
        entry = next((entry for entry in self._pending if entry.work() is work), None)
        if entry is not None and not entry.state.escaped:
            self._pending.remove(entry)
            self._add(dropped_work.RULE, entry.site, {}, entry, ("keep the handle, and call its `wait()`",))

    def touched(self, touched: list[Access], node: ast.AST) -> None:
        """An operator touches tensors: none of them may be in use by a collective."""
        if not self._pending or self._machine.ordering_only:
            return
        for entry in list(self._pending):
            if not entry.state.escaped:
                self._check(entry, [access for access in touched if not access[0].block.escaped], node)

    def _check(self, entry: Pending, touched: list[Access], node: ast.AST) -> None:
        for tensor, is_write in touched:
            uses = [writes for used, writes in entry.used if used.block is tensor.block]
            if not any(writes or is_write for writes in uses):
                continue
            advice: Text = ("call `wait()` on its handle before {line}",)
            site = self._machine.site(node)
            if is_write:
                facts: dict[str, Text] = {"tensor": (TensorRef(tensor.block.ident, -1),)}
                self._add(collective_buffer_modified.RULE, site, facts, entry, advice)
            else:
                self._add(collective_result_before_wait.RULE, site, {}, entry, advice)
            self._machine.named.append(tensor.block.ident)
            self._pending.remove(entry)
            return

    def _add(self, rule: Rule, site: int, facts: dict[str, Text], entry: Pending, advice: Text) -> None:
        related: list[tuple[int, Text]] = [] if entry.site == site else [(entry.site, ("it was started here",))]
        facts = facts | {"collective": (f"`{entry.name}`",)}
        self._machine.session.collector.add(PendingFinding(rule, site, facts, related, advice))


def _group(call: Call) -> Value:
    """Return the process group of a collective: positions differ, so only a name tells."""
    group = call.kwargs.get("group", NONE if len(call.args) < _FEWEST_WITH_GROUP else UNKNOWN)
    return NONE if isinstance(group, Constant) and group.value is None else group


_FEWEST_WITH_GROUP = 3
"""Arguments by position of which one may be the group. Source: torch/distributed/distributed_c10d.py."""


def _differ(one: Value, other: Value) -> bool:
    """Tell whether two groups are known to be different ones, so that their collectives are not ordered."""
    return one is not other and all(group is NONE or isinstance(group, Group) for group in (one, other))


RULES = (collective_result_before_wait.RULE, collective_buffer_modified.RULE, dropped_work.RULE)
"""The rules that are found here and by no session."""
