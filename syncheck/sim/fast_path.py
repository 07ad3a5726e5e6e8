"""Fast path of `Dispatcher.run` for operators that run immediately on tensors of one GPU or of the host alone.

The effect is the same, but with fewer lookups: each tensor is looked up once, and operators are identified by object.
"""

from _thread import get_ident
from types import FrameType
from typing import Any

import torch

from syncheck.hb.ids import Access, SiteId, StreamId
from syncheck.instrument.plan import Plan, tensors_in, tensors_of, unique
from syncheck.instrument.torch_internals import (
    current_node,
    direct_call,
    has_storage,
    schema_of,
    storage_key,
    storage_key_of,
    untyped_storage,
)
from syncheck.semantics.copies import HOST_DEVICE
from syncheck.semantics.operators import HOST_OUTPUTS, ROWS
from syncheck.sim.autograd import Backward
from syncheck.sim.compute import Compute, is_cpu_limitation
from syncheck.sim.cuda_kernels import GPU_ONLY
from syncheck.sim.launches import Launches
from syncheck.sim.memory import ENOUGH, parts_of_sparse
from syncheck.sim.placement import Placement
from syncheck.sim.runtime import Runtime
from syncheck.source.frames import frame_at

NOT_QUALIFIED = object()
"""Returned in place of a result for an operator that does not qualify and has not run."""
_NONE, _PINNED = -2, -3
"""Pseudo-devices: no tensors; several devices, or memory that needs a full lookup."""
_EMPTY = -1
"""Stands for the view of an empty tensor."""
_CALLS = 2
"""Number of syncheck's calls between the frame that runs an operator and `FastPath.run`."""
_PLAIN = frozenset({torch.Tensor, torch.nn.Parameter})
_PLACING = frozenset({"device", "generator", "layout"})


def _enter_node(run: Any, stream: StreamId) -> None:
    """Do the same as `Backward.enter_node` for the only stream, with fewer steps."""
    node = current_node()
    if node is not run.node:
        run.n_nodes += 1
        run.node = node
        run.used.clear()
    if node is not None:
        run.used.add(stream)


class Shortcut:
    """The part of an operator's plan that the fast path needs.

    Attributes:
        call: runs the operator.
        call_plainly: runs it without keyword arguments. Its result is undefined if the operator returns nothing.
        func: the operator. The reference keeps its id valid, by which shortcuts are found.
        arguments: (position, whether it is a list, whether it is written) of each tensor argument. The last is None for
            an argument that is not accessed.
        harmless: names of non-tensor arguments that do not affect placement.
        plan: the operator's full plan.
        returns: whether it returns anything.
        runs_on_gpus: whether the fast path also handles it on GPUs.
        is_view: whether it returns memory that it was given and accesses none.
        is_plain_view: whether its first argument is also the only tensor that a view is taken of.
        is_addition: whether it may be the autograd engine's accumulation of gradients.
        is_marker: whether it is a profiler operator without tensors.
    """

    __slots__ = (
        "arguments", "call", "call_plainly", "func", "harmless", "is_addition", "is_marker", "is_plain_view", "is_view",
        "plan", "returns", "runs_on_gpus",
    )  # fmt: skip

    def __init__(self, func: Any, plan: Plan) -> None:
        self.func = func
        self.plan = plan
        self.call = func._op  # what OpOverload.__call__ calls; saves one Python frame
        self.call_plainly = direct_call(func)
        self.arguments = tuple(
            (a.position, a.is_list, a.is_write if plan.touches and (a.is_read or a.is_write) else None)
            for a in plan.tensors
        )
        schema = schema_of(func)
        named = {a.name for a in schema.arguments if "Tensor" not in str(a.type)}
        self.harmless = frozenset(named - _PLACING)
        self.runs_on_gpus = not (
            plan.random
            or plan.may_wait
            or plan.effect is not None
            or plan.base in ROWS
            or plan.base in HOST_OUTPUTS
            or plan.name in GPU_ONLY
        )
        self.returns = bool(schema.returns)
        aliases = [r.alias_info for r in schema.returns]
        self.is_view = not plan.touches and bool(aliases) and all(a is not None and not a.is_write for a in aliases)
        self.is_plain_view = self.is_view and self.runs_on_gpus and self.arguments == ((0, False, None),)
        self.is_addition = plan.base in {"add", "add_"}
        self.is_marker = func.namespace == "profiler"


class FastPath:
    """Runs operators on the fast path.

    Attributes:
        shortcuts: id of an operator -> its shortcut, for operators that may qualify.
    """

    def __init__(
        self, runtime: Runtime, backward: Backward, launches: Launches, placement: Placement, compute: Compute
    ) -> None:
        self.shortcuts: dict[int, Shortcut] = {}
        self._gpus = runtime.gpus
        self._captured = runtime.gpus.guarded.captured
        self._memory = runtime.memory
        self._tags = runtime.memory.tags
        self._alone = runtime.memory.alone
        self._backward = backward
        self._launches = launches
        self._placement = placement
        self._compute = compute
        self._views = runtime.memory.views

    def add(self, func: Any, plan: Plan) -> None:
        """Add an operator with its plan, if it qualifies for the fast path."""
        if func.namespace in {"aten", "profiler"} and plan.off is None:
            self.shortcuts[id(func)] = Shortcut(func, plan)

    def run(  # noqa: C901, PLR0911, PLR0912, PLR0915  the hot path: another call costs more than a branch
        self, shortcut: Shortcut, args: tuple[Any, ...], kwargs: dict[str, Any] | None
    ) -> Any:
        """Run an operator and return its result, or return NOT_QUALIFIED without running it if it does not qualify."""
        if kwargs and (kwargs.get("pin_memory") or not shortcut.harmless.issuperset(kwargs)):
            return NOT_QUALIFIED
        tags, views, alone, backward = self._tags, self._views, self._alone, self._backward
        if shortcut.is_plain_view and alone.stream and not kwargs and alone.thread == get_ident():
            tensor = args[0]
            if type(tensor) in _PLAIN and has_storage(tensor):
                tag = tags.get(storage_key_of(tensor))
                if tag is not None and tag.device != HOST_DEVICE:
                    self._placement.last_device = tag.device
                    if backward.alone_run is not None:
                        _enter_node(backward.alone_run, alone.stream)
                    return shortcut.call_plainly(*args)
        accesses: list[Access] = []
        device = _NONE
        n_args = len(args)
        try:
            for position, is_list, is_write in shortcut.arguments:
                if position >= n_args:
                    break
                value = args[position]
                if value is None:
                    continue
                tensors = value if type(value) is list else (value,)
                for tensor in tensors:
                    if type(tensor) not in _PLAIN:
                        if is_list or isinstance(tensor, torch.Tensor):
                            return NOT_QUALIFIED
                        continue
                    tag = tags.get(storage_key_of(tensor))
                    if tag is None:
                        here = HOST_DEVICE
                    else:
                        here = tag.device
                        if here == HOST_DEVICE:
                            return NOT_QUALIFIED  # pinned memory
                        if is_write is not None:
                            key = (tensor.storage_offset(), tensor.shape, tensor.stride(), tensor.dtype)
                            view: Any = views.get(key)
                            if view is None:
                                view = self._new_view(tensor)
                            if view != _EMPTY:
                                accesses.append((tag.ident, view, is_write))
                    if here != device != _NONE:
                        return NOT_QUALIFIED
                    device = here
        except (NotImplementedError, RuntimeError):  # no storage, or no sizes
            return NOT_QUALIFIED
        if device < 0:
            if device == HOST_DEVICE:
                if not self._placement.note_host():
                    return NOT_QUALIFIED
            elif not shortcut.is_marker:
                return NOT_QUALIFIED
            if kwargs:
                return shortcut.call(*args, **kwargs)
            result = shortcut.call_plainly(*args)
            return result if shortcut.returns else None
        if not alone.stream or alone.thread != get_ident():
            return self._run_on_gpu(shortcut, args, kwargs or {}, device, accesses)
        run = backward.alone_run
        if run is not None:
            _enter_node(run, alone.stream)
        if not shortcut.runs_on_gpus:
            return NOT_QUALIFIED
        self._placement.last_device = device
        try:
            result = shortcut.call(*args, **kwargs) if kwargs else shortcut.call_plainly(*args)
        except RuntimeError as error:
            if not is_cpu_limitation(error):
                raise
            result = self._compute.retry_in_wider_type(error, shortcut.func, shortcut.plan, args, kwargs or {}, device)
        if shortcut.is_view:
            return result
        if not alone.stream:  # the program has changed its state inside the operator
            frame = frame_at(_CALLS)
            self._report(shortcut.plan, result, device, self._gpus.current_stream(device), accesses, frame)
            return result
        site = self._gpus.site_of(frame_at(_CALLS)) if run is None else backward.site(frame_at(_CALLS))
        plan = shortcut.plan
        if not shortcut.returns:
            result = None
        elif type(result) is torch.Tensor:
            self._place(plan, result, device, site, accesses)
        else:
            for tensor in tensors_in(result):
                self._place(plan, tensor, device, site, accesses)
        if accesses and plan.touches:
            later = self._memory.later
            if len(accesses) > 1:
                accesses = unique(accesses)
            later.append(("launch", (alone.stream, plan.name, accesses, site)))
            if len(later) >= ENOUGH:
                self._memory.flush()
        return result

    # -- arguments

    def _new_view(self, tensor: torch.Tensor) -> int:
        return self._memory.view(tensor) if tensor.numel() else _EMPTY

    # -- on a GPU

    def _run_on_gpu(
        self, shortcut: Shortcut, args: tuple[Any, ...], kwargs: dict[str, Any], device: int, accesses: list[Access]
    ) -> Any:
        backward = self._backward
        is_in_backward = backward.local.run is not None
        if is_in_backward:
            backward.enter_node(device)
        stream = self._gpus.current_stream(device)
        if not shortcut.runs_on_gpus or stream in self._captured.streams:
            return NOT_QUALIFIED
        self._placement.last_device = device
        if is_in_backward or backward.has_changed:
            self._follow(shortcut, args, kwargs, device)
        try:
            result = shortcut.call(*args, **kwargs)
        except RuntimeError as error:
            if not is_cpu_limitation(error):
                raise
            result = self._compute.retry_in_wider_type(error, shortcut.func, shortcut.plan, args, kwargs, device)
        if not shortcut.is_view:
            self._report(shortcut.plan, result, device, stream, accesses, frame_at(_CALLS + 1))
        if backward.has_several_threads or backward.local.log is None:
            backward.note_results(result)
        return result

    def _follow(self, shortcut: Shortcut, args: tuple[Any, ...], kwargs: dict[str, Any], device: int) -> None:
        """Update the autograd state before an operator runs."""
        if shortcut.is_addition:
            self._backward.wait_for_other_gradients(device)
        if self._backward.records_leaves:
            for tensor, _ in tensors_of(shortcut.plan, args, kwargs):
                self._backward.note_leaf(tensor)

    def _report(
        self, plan: Plan, result: Any, device: int, stream: StreamId, accesses: list[Access], frame: FrameType
    ) -> None:
        """Place new results on the device, and report the launch."""
        gpus = self._gpus
        site = self._backward.site(frame)
        thread = gpus.thread
        context = gpus.context(device, device) if thread.contexts or thread.expected_stream else None
        for tensor in (result,) if isinstance(result, torch.Tensor) else tensors_in(result):
            self._place(plan, tensor, device, site, accesses)
        if accesses and plan.touches:
            self._launches.launch(stream, plan.name, accesses, context, site)

    def _place(self, plan: Plan, tensor: torch.Tensor, device: int, site: SiteId, accesses: list[Access]) -> None:
        """Place a result on the device if it is new, and add the write that initializes it."""
        try:
            storage = untyped_storage(tensor)
        except (NotImplementedError, RuntimeError):
            for part in parts_of_sparse(tensor):
                self._place(plan, part, device, site, accesses)
            return
        key = storage_key(storage)
        tag = self._tags.get(key)
        if tag is None:
            memory = self._memory
            is_alone = self._alone.stream and self._alone.thread == get_ident()
            tag = memory.tag_alone(storage, key, device, site) if is_alone else memory.tag(storage, device, site)
            view: Any = self._view(tensor) if plan.writes_outputs else _EMPTY
            if view != _EMPTY:
                accesses.append((tag.ident, view, True))
        elif tag.n_bytes != storage.nbytes():
            self._memory.resized(storage, site)

    def _view(self, tensor: torch.Tensor) -> int:
        """Return the view of the whole of a new result."""
        if tensor.is_nested:
            return self._new_view(tensor)
        key = (tensor.storage_offset(), tensor.shape, tensor.stride(), tensor.dtype)
        known = self._views.get(key)
        return self._new_view(tensor) if known is None else known
