"""Accesses and signatures of torch.distributed's collectives, which their schemas do not describe.

The signature of a collective is what the ranks of its group must agree on.
"""

import threading
from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import wraps
from math import prod
from typing import Any

import torch

from syncheck.findings import Location
from syncheck.hb.ids import NO_EVENT, EventId, SiteId
from syncheck.instrument.c10d import ProcessGroup, c10d
from syncheck.instrument.patching import Patches
from syncheck.instrument.plan import Argument, Plan, dtype_name, tensors_in, tensors_of
from syncheck.instrument.plan import plan_of as plan_of_schema
from syncheck.instrument.torch_internals import schema_of
from syncheck.ranks import rendezvous, watchdog, writer
from syncheck.ranks.signature import Group, Signature
from syncheck.semantics.collectives import EQUAL_ARGUMENTS, GROUP_METHODS, READING, ROOTED, WRITING, collective_name

_SHOWN = 4
"""The most tensors of a list that are shown individually."""


def plan_of(func: Any) -> Plan | None:
    """Return the plan of an operator of torch.distributed; None for any other operator."""
    schema = schema_of(func)
    namespace, _, base = schema.name.partition("::")
    if namespace != "c10d":
        return None
    arguments = []
    for index, argument in enumerate(schema.arguments):
        kind = str(argument.type)
        if "Tensor" not in kind or argument.name == "sparse_indices":
            continue
        is_output = argument.name.startswith("output")
        writes = is_output or (base in WRITING and argument.name == "tensors")
        reads = argument.name.startswith("input") or base in READING or writes
        if reads or writes:
            arguments.append(Argument(index, argument.name, "List" in kind or "[]" in kind, writes, reads))
    return replace(plan_of_schema(func), tensors=tuple(arguments), touches=True, writes_outputs=False)


def touched(
    func: Any, plan: Plan, args: tuple[Any, ...], kwargs: dict[str, Any]
) -> list[tuple[torch.Tensor, Argument]]:
    """Return the tensors that a collective touches on this rank, each with its argument."""
    tensors = tensors_of(plan, args, kwargs)
    if plan.base not in ROOTED:
        return tensors
    _, me = _group(func, args, kwargs)
    is_root = me == argument(func, "root_rank", args, kwargs)
    if me < 0 or is_root is ROOTED[plan.base]:
        return tensors
    return [(tensor, its._replace(is_write=False)) for tensor, its in tensors]


def argument(func: Any, name: str, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """Return an argument of an operator by name; None if the operator has no such argument."""
    for index, known in enumerate(schema_of(func).arguments):
        if known.name == name:
            return args[index] if index < len(args) else kwargs.get(name, known.default_value)
    return None


def returns_handle(operator: str) -> bool:
    """Return whether the running operator gives the program a handle, or a tensor that acts as one."""
    return operator.startswith("_c10d_functional::") or (calls.depth > 0 and operator.startswith("c10d::"))


class Calls(threading.local):
    """The `ProcessGroup` method that runs in a thread.

    Attributes:
        depth: number of nested method calls; 0 if C++ code issues the collective.
        reduce: the requested reduce operation; "" if there is none. Operators carry it as an opaque object.
        event: the event that the backend recorded at the end of this thread's latest collective; 0 if there is none.
    """

    depth = 0
    reduce = ""
    event = NO_EVENT


calls = Calls()


def hook_group_methods(patches: Patches, on_handle: Callable[[Any, EventId], None] = lambda *_: None) -> None:
    """Hook the methods of process groups, which return work handles to Python.

    Args:
        patches: performs the replacements.
        on_handle: called with each handle and the event at the end of its collective.
    """
    for name in GROUP_METHODS:
        if hasattr(ProcessGroup, name):
            patches.set(ProcessGroup, name, _wrap(getattr(ProcessGroup, name), on_handle))


def _wrap(function: Callable[..., Any], on_handle: Callable[[Any, EventId], None]) -> Callable[..., Any]:
    @wraps(function)
    def call(*args: Any, **kwargs: Any) -> Any:
        before = calls.reduce
        calls.depth += 1
        calls.event = NO_EVENT
        calls.reduce = next((name for value in (*args[1:], *kwargs.values()) if (name := _reduce_name(value))), "")
        try:
            work = function(*args, **kwargs)
        finally:
            calls.depth -= 1
            calls.reduce = before
        if work is not None and calls.event:
            on_handle(work, calls.event)
        return work

    return call


def _reduce_name(value: Any) -> str:
    """Return, for example, "sum" for `ReduceOp.SUM` or options that contain it; "" for any other value."""
    operation = getattr(value, "reduceOp", value)
    operation = getattr(operation, "op", operation)
    text = str(operation) if type(operation).__name__ in {"RedOpType", "ReduceOp"} else ""
    return text.rpartition(".")[2].lower()


def join_job() -> None:
    """Join the job's records after the default process group has been created, unless its ranks share a process."""
    member = rendezvous.active
    if member is not None and c10d.get_backend() not in _IN_PROCESS_BACKENDS:
        member.join(c10d._get_default_store(), c10d.get_rank(), c10d.get_world_size())


def hook_init_process_group(patches: Patches) -> None:
    """Call `join_job` after each call of `init_process_group`."""
    original = c10d.init_process_group

    @wraps(original)
    def init_process_group(*args: Any, **kwargs: Any) -> None:
        with watchdog.waiting("init_process_group"):
            original(*args, **kwargs)
        join_job()

    patches.everywhere({original: init_process_group})


_IN_PROCESS_BACKENDS = frozenset({"fake", "threaded"})
"""Backends whose ranks are not separate processes."""


# -- signatures

_known: dict[tuple[Any, ...], tuple[Group, Signature]] = {}
_groups: dict[tuple[str, bool], tuple[Any, Group]] = {}


def issue(
    func: Any, args: tuple[Any, ...], kwargs: dict[str, Any], site: SiteId, location: Callable[[SiteId], Location]
) -> str:
    """Record a collective that is about to run, for comparison with the other ranks.

    Args:
        func: an operator of `c10d` or `_c10d_functional`.
        args: positional arguments.
        kwargs: keyword arguments.
        site: the call site.
        location: converts a call site to a location.

    Returns:
        The name of its group in the records; "" if the collective is not recorded.
    """
    recorder = writer.current()
    found = _describe(func, args, kwargs) if recorder is not None else None
    if recorder is None or found is None:
        return ""
    recorder.issue(*found, site, location)
    return found[0].name


def group_name(func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> str:
    """Return the name of a collective's group; "" if it is unknown."""
    group, _ = _group(func, args, kwargs)
    return group.name if group is not None else ""


def _describe(func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> tuple[Group, Signature] | None:
    base = schema_of(func).name.partition("::")[2]
    group, me = _group(func, args, kwargs)
    if group is None or len(group.ranks) < 2 or base in {"monitored_barrier_", "check_for_nan", "recv_any_source_"}:
        return None
    if base in {"send", "recv_"}:
        return _describe_message(func, base, group, me, args, kwargs)
    name = collective_name(schema_of(func).name)
    if base in {"alltoall_base_", "alltoall_", "all_to_all_single"}:
        return group, _describe_exchange(func, base, name, len(group.ranks), me, args, kwargs)
    is_functional = func.namespace == "_c10d_functional"
    tensors = list(
        _flatten(args[0] if is_functional else argument(func, EQUAL_ARGUMENTS.get(base, "tensors"), args, kwargs))
    )
    root = argument(func, "root_rank", args, kwargs)
    root = argument(func, "src", args, kwargs) if root is None and base.startswith("broadcast") else root
    reduce_op = argument(func, "reduce_op", args, kwargs)
    # the operation of a call from C++ code cannot be read
    reduce = reduce_op if isinstance(reduce_op, str) else calls.reduce
    key = (name, group, _shapes(tensors), root, reduce)
    known = _known.get(key)
    if known is None:
        signature = Signature(name, _describe_tensors(tensors), reduce, -1 if root is None else int(root))
        known = _known[key] = group, signature
    return known


def _shapes(tensors: list[torch.Tensor]) -> tuple[Any, ...]:
    return tuple((tensor.shape, tensor.dtype) for tensor in tensors)


def _describe_message(
    func: Any, base: str, group: Group, me: int, args: tuple[Any, ...], kwargs: dict[str, Any]
) -> tuple[Group, Signature]:
    """Return the same signature for both ends of a message: messages from one rank to another are matched by order."""
    other = int(argument(func, "dst" if base == "send" else "src", args, kwargs))
    sender, receiver = (me, other) if base == "send" else (other, me)
    ends = (group.ranks[sender], group.ranks[receiver])
    numbers = ", ".join(
        f"{t.numel()} {dtype_name(t.dtype)}" for t in tensors_in(argument(func, "tensors", args, kwargs))
    )
    return Group(f"{group.name}: from rank {ends[0]} to rank {ends[1]}", ends), Signature("send or receive", numbers)


def _describe_exchange(
    func: Any, base: str, name: str, size: int, me: int, args: tuple[Any, ...], kwargs: dict[str, Any]
) -> Signature:
    """Return the signature of an all-to-all: what one rank sends, the other must expect."""
    if base == "alltoall_":
        keys = ("input_tensors", "output_tensors")
        sent, received = (list(_flatten(argument(func, key, args, kwargs))) for key in keys)
        sizes = [t.numel() for t in sent], [t.numel() for t in received]
        kinds = sorted({dtype_name(t.dtype) for t in (*sent, *received)})
        return Signature(name, ", ".join(kinds), pairs=_pairs(me, *sizes))
    source = argument(func, "input", args, kwargs)
    target = argument(func, "output", args, kwargs)
    splits = [list(argument(func, f"{key}_split_sizes", args, kwargs) or ()) for key in ("input", "output")]
    if not any(splits):
        return Signature(name, _describe_tensors([source]))
    target = source if target is None else target
    even = [source.shape[0] // size] * size, [target.shape[0] // size] * size
    row = prod(source.shape[1:])
    sent_rows, got_rows = ([int(n) for n in rows] or same for rows, same in zip(splits, even, strict=True))
    pairs = _pairs(me, [n * row for n in sent_rows], [n * row for n in got_rows])
    return Signature(name, dtype_name(source.dtype), pairs=pairs)


def _pairs(me: int, sent: list[int], received: list[int]) -> tuple[tuple[int, int, int], ...]:
    """Return (sender, receiver, number of elements) for all messages of a rank."""
    outward = [(me, other, number) for other, number in enumerate(sent) if other != me]
    return (*outward, *((other, me, number) for other, number in enumerate(received) if other != me))


def process_group(func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """Return the process group among a collective's arguments; None if there is none."""
    found = argument(func, "process_group", args, kwargs)
    found = argument(func, "group_name", args, kwargs) if found is None else found
    if isinstance(found, str):
        resolve: Any = vars(c10d)["_resolve_process_group"]  # torch offers no public name
        return resolve(found)
    return ProcessGroup.unbox(found) if isinstance(found, torch.ScriptObject) else found


def _group(func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> tuple[Group | None, int]:
    """Return a collective's group, and this rank's index in it; (None, -1) if the group is unknown."""
    found = process_group(func, args, kwargs)
    if found is None:
        return None, -1
    members = c10d._world.pg_group_ranks.get(found)
    if members is None:
        return None, -1
    key = str(found.group_name), _is_on_cpu_backend(found, args)
    known = _groups.get(key)
    if known is None or known[0] is not members:
        ranks = tuple(sorted(members, key=members.__getitem__))
        name = f"{key[0]} on the CPU" if key[1] else key[0]
        known = _groups[key] = members, Group(name, ranks)
    return known[1], found.rank()


def _is_on_cpu_backend(group: Any, args: tuple[Any, ...]) -> bool:
    """Return whether a collective works on host tensors in a group that has a separate backend for GPU tensors.

    The collectives of a group's two backends are unordered, so the ranks need to agree only on the order in each.
    """
    backends = {pair.partition(":")[2] for pair in str(c10d._world.pg_backend_config.get(group)).split(",")}
    if len(backends) < 2:
        return False
    first = next((tensor for value in args for tensor in _flatten(value)), None)
    return first is not None and first.device.type == "cpu"


def _flatten(value: Any) -> Iterator[torch.Tensor]:
    if isinstance(value, torch.Tensor):
        yield value
    elif isinstance(value, list | tuple):
        for entry in value:
            yield from _flatten(entry)


def _describe_tensors(tensors: list[torch.Tensor]) -> str:
    """Describe the types and shapes of tensors."""
    shown = [f"{dtype_name(t.dtype)} {list(t.shape)}" for t in tensors]
    if len(shown) <= _SHOWN:
        return ", ".join(shown)
    if len(set(shown)) == 1:
        return f"{len(shown)} tensors {shown[0]}"
    total = sum(tensor.numel() for tensor in tensors)
    return f"{len(shown)} tensors of {total} elements: {', '.join(shown[:_SHOWN])}, ... {_fingerprint(shown)}"


def _fingerprint(texts: list[str]) -> str:
    """Return a short hash of a long list."""
    return f"#{Signature('', '|'.join(texts)).digest & 0xFFFF:04x}"
