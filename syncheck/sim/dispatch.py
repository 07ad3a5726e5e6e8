"""Central dispatch: every operator runs on the CPU and is reported on the virtual stream of its tensors' device."""

from collections.abc import Callable
from contextlib import suppress
from functools import partial
from typing import Any

import torch
from torch.utils._pytree import tree_map

from syncheck.hb.ids import Access, StreamId
from syncheck.instrument.library import Library, bound_to
from syncheck.instrument.plan import Plan, plan_of, tensors_in, tensors_of
from syncheck.instrument.tensor_facts import TorchFacts
from syncheck.instrument.torch_internals import call_with_numbers, fake_mode, schema_of
from syncheck.semantics.collectives import NAMESPACES
from syncheck.semantics.copies import HOST_DEVICE
from syncheck.semantics.library import operator as described_operator
from syncheck.semantics.operators import ALLOCATING, HOST_OUTPUTS, ROWS, SIZE_ONLY
from syncheck.semantics.waits import HostWait, copies_number, host_wait
from syncheck.sim.autograd import Backward
from syncheck.sim.compute import Compute
from syncheck.sim.copies import Copies, RunPlain
from syncheck.sim.deferral import Deferral
from syncheck.sim.device_kind import is_gpu
from syncheck.sim.distributed import Distributed
from syncheck.sim.fast_path import FastPath
from syncheck.sim.graph_recorder import GraphRecorder
from syncheck.sim.launches import Launches, OperatorCall, TensorArguments
from syncheck.sim.memory import layout_of, parts_of_sparse
from syncheck.sim.placement import Placement
from syncheck.sim.rows import blocks_of, selection_of
from syncheck.sim.runtime import Runtime

_HOST = torch.device("cpu")
_LIKE = ALLOCATING | SIZE_ONLY


class Dispatcher:
    """Runs operators and reports their accesses.

    Attributes:
        deferral: runs operators under a schedule; None if each runs immediately.
        fast_path: fast path for most operators, if each runs immediately.
        parts: operator -> function that runs its component operators, filled on demand; None for one that is run as a
            whole.
    """

    def __init__(
        self,
        runtime: Runtime,
        backward: Backward,
        launches: Launches,
        placement: Placement,
        compute: Compute,
        recorder: GraphRecorder,
        copies: Copies,
        distributed: Distributed,
        library: Library,
    ) -> None:
        self._runtime = runtime
        self.deferral: Deferral | None = None
        self.parts: dict[Any, Callable[[tuple[Any, ...], dict[str, Any]], Any] | None] = {}
        self._library = library
        self._gpus = runtime.gpus
        self._memory = runtime.memory
        self._backward = backward
        self._launches = launches
        self._placement = placement
        self._compute = compute
        self._recorder = recorder
        self._copies = copies
        self._distributed = distributed
        self._facts = TorchFacts(self._is_on_device)
        self.fast_path = FastPath(runtime, backward, launches, placement, compute)
        self._plans: dict[Any, Plan] = {}

    def runs_undecomposed(self, func: Any) -> bool:
        """Return whether an operator is run as a whole: it copies or communicates tensors, or syncheck describes it."""
        name = schema_of(func).name
        namespace, _, base = name.partition("::")
        return namespace in NAMESPACES or base in self._copies.specials or described_operator(name) is not None

    def add_to_fast_path(self, func: Any) -> None:
        """Add an operator that is run as a whole to the fast path, if it qualifies."""
        plan = plan_of(func)
        if self.deferral is None and plan.base not in self._copies.specials:
            self.fast_path.add(func, plan)

    def run(self, func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """Run one operator on the CPU and report the work that its virtual device would do."""
        plan = self._plans.get(func)
        if plan is None:
            if func.namespace in NAMESPACES:
                return self._run_collective(func, args, kwargs)
            plan = self._plans[func] = plan_of(func)
        if self.deferral is not None:
            self._distributed.before_use(tensors_in((args, *kwargs.values())))
        if plan.off is not None and plan.is_off(args, kwargs):
            plan = plan.off
        special = self._copies.specials.get(plan.base)
        if special is None:
            result = self._run_plain(func, plan, args, kwargs)
        else:
            result = special(func, plan, args, kwargs)
            if isinstance(result, RunPlain):
                result = self._run_plain(func, plan, result.args, result.kwargs)
        self._backward.note_results(result)
        return result

    def recorded(self, func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> dict[str, Any]:
        """Return the keyword arguments with which a tracer records an operator: those of a real GPU."""
        wanted, tensors = kwargs.get("device"), tensors_in(args)
        device = self._memory.device(tensors[0]) if tensors else HOST_DEVICE
        if wanted is None or device == HOST_DEVICE or not self._copies.is_own_device(func, wanted):
            return kwargs
        return {**kwargs, "device": self._runtime.torch_devices[device]}

    def _run_collective(self, func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """Run a collective."""
        plan = self._distributed.plan(func)
        if plan is None:
            self._run_pending(func)
            return self._distributed.functional.run(func, args, kwargs)
        if not self._distributed.can_be_delayed(plan):
            self._run_pending(func)
        return self._distributed.run(func, plan, args, kwargs)

    def _run_pending(self, func: Any) -> None:
        """Run all pending work before a collective that cannot be delayed."""
        if self.deferral is not None and not schema_of(func).name.endswith("wait_tensor"):
            self._distributed.begin_pending(schema_of(func).name)
            self.deferral.run_all_pending(str(func))

    def _run_plain(self, func: Any, plan: Plan, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """Run an operator that is not a copy."""
        tensors = tensors_of(plan, args, kwargs)
        while (read := self._placement.read_elsewhere(plan, tensors)) is not None:
            copied = self._copies.transfer(read, HOST_DEVICE, non_blocking=False)
            args, kwargs = tree_map(partial(_replaced, read, copied), (args, kwargs))
            tensors = tensors_of(plan, args, kwargs)
        if self._is_made_on_host(func, plan, tensors, kwargs):
            tensors = []
        device, pinned, on_cpu = self._placement.place(plan, tensors, kwargs)
        if device != HOST_DEVICE:
            return self._run_on_device(func, plan, tensors, args, on_cpu, device)
        if plan.touches:
            self._launches.host_access(plan.name, tensors)
        result = func(*args, **on_cpu) if tensors else call_with_numbers(func, args, on_cpu)
        if pinned:
            for tensor in tensors_in(result):
                self._memory.tag_pinned(tensor.untyped_storage())
                if self.deferral is not None:
                    self._note_pinned(self.deferral, plan, tensor)
        else:
            self._placement.note_results(plan, tensors, kwargs, result)
        return result

    def _is_made_on_host(self, func: Any, plan: Plan, tensors: TensorArguments, kwargs: dict[str, Any]) -> bool:
        """Return whether a graph creates a host tensor from the size and the dtype of a GPU tensor."""
        wanted = kwargs.get("device")
        if wanted is None or wanted.type != "cpu" or plan.base not in _LIKE or not tensors:
            return False
        is_on_gpu = self._memory.device(tensors[0][0]) != HOST_DEVICE
        return is_on_gpu and not self._copies.is_own_device(func, wanted)

    def _note_pinned(self, deferral: Deferral, plan: Plan, tensor: torch.Tensor) -> None:
        tag = self._memory.of(tensor)
        if tag is not None:
            tag.layout = layout_of(tensor)
        if plan.base in ALLOCATING:
            deferral.reused.fill(tensor)

    # -- on a device

    def _run_on_device(
        self,
        func: Any,
        plan: Plan,
        tensors: TensorArguments,
        args: tuple[Any, ...],
        kwargs: dict[str, Any],
        device: int,
    ) -> Any:
        runtime, gpus = self._runtime, self._gpus
        self._enter(plan, tensors, device)
        stream = gpus.current_stream(device)
        capturing = gpus.guarded.capturing(stream)
        wait = self._host_wait(plan, args, kwargs, capturing=capturing) if plan.may_wait else HostWait.NEVER
        if plan.random:
            args, kwargs = self._compute.with_generator(plan, args, kwargs, device)
        if plan.has_device:
            args, kwargs = tree_map(_on_host, (args, kwargs))
        if capturing:
            result = self._recorder.run(OperatorCall(func, plan, tensors, args, kwargs, device))
        elif self.deferral is None or fake_mode() is not None:  # fake tensors have no memory
            result = self._compute.run(func, plan, args, kwargs, device)
        else:
            call = OperatorCall(func, plan, tensors, args, kwargs, device)
            result = self.deferral.run(call, host_waits=wait is not HostWait.NEVER)
        self._note_resized(tensors, kwargs)
        accesses = self._rows(plan, args, kwargs, device, capturing=capturing) if plan.base in ROWS else None
        accesses = self._accesses(plan, tensors, accesses)
        if wait is HostWait.BEFORE:  # the host reads a size or a number before the kernel is launched
            self._report(plan, [access for access in accesses if not access[2]], device, stream)
            runtime.wait_in_operator(stream)
        outputs = self._outputs(plan, result, device)
        effect = plan.effect
        if effect is not None:
            self._library.report(effect, bound_to(effect, args, kwargs), result)
            return result
        self._report(plan, accesses + outputs, device, stream)
        if wait is HostWait.AFTER:
            runtime.wait_in_operator(stream)
        return result

    def _host_wait(self, plan: Plan, args: tuple[Any, ...], kwargs: dict[str, Any], *, capturing: bool) -> HostWait:
        """Return when the host waits in an operator. During a capture, raise CUDA's error if it does."""
        wait = host_wait(plan.base, args, kwargs, self._facts)
        if wait is HostWait.NEVER and copies_number(plan.base, args, self._facts):
            wait = HostWait.BEFORE
            if capturing:
                self._runtime.reject_in_capture("copying a number for an indexed assignment on the GPU")
        if capturing and wait is not HostWait.NEVER:
            self._runtime.reject_in_capture(plan.name)
        return wait

    def _enter(self, plan: Plan, tensors: TensorArguments, device: int) -> None:
        """Update the streams of a backward pass."""
        backward = self._backward
        backward.enter_node(device)
        if plan.base in {"add", "add_"}:
            backward.wait_for_other_gradients(device)
        for tensor, _ in tensors:
            backward.note_leaf(tensor)

    def _is_on_device(self, tensor: torch.Tensor) -> bool:
        tag = self._memory.of(tensor)
        return tag is not None and tag.device != HOST_DEVICE

    def _rows(
        self, plan: Plan, args: tuple[Any, ...], kwargs: dict[str, Any], device: int, *, capturing: bool
    ) -> list[Access] | None:
        """Return the accesses to the first tensor of an indexing operator, or None if it accesses the whole tensor.

        During a capture the rows are unknown, because the index may have other values in a replay.
        """
        tag = self._memory.of(args[0]) if args and isinstance(args[0], torch.Tensor) else None
        if tag is None:
            return None
        are_known = not capturing and (self.deferral is None or not self.deferral.has_pending_work(device))
        with self._runtime.unmonitored():
            selection = selection_of(plan.base, args[0], args, kwargs)
            blocks = blocks_of(args[0], selection) if selection is not None and are_known else None
        if selection is None:
            return None
        is_write = plan.tensors[0].is_write
        if blocks is None:
            return [(tag.ident, self._memory.view(args[0], is_partial=True), is_write)] if args[0].numel() else []
        return [(tag.ident, self._memory.view_of_block(args[0], block), is_write) for block in blocks]

    def _accesses(self, plan: Plan, tensors: TensorArguments, first: list[Access] | None) -> list[Access]:
        """Return the accesses to an operator's tensors. `first`: those to the first tensor, if already computed."""
        if not plan.touches:
            return []
        accesses: list[Access] = list(first or ())
        for tensor, argument in tensors if first is None else tensors[1:]:
            if (argument.is_write or argument.is_read) and tensor.numel():
                self._memory.add_access(accesses, tensor, is_write=argument.is_write)
        return accesses

    def _outputs(self, plan: Plan, result: Any, device: int) -> list[Access]:
        """Place new results on the device, and return the writes that initialize them."""
        accesses: list[Access] = []
        on_host = HOST_OUTPUTS.get(plan.base)
        for position, tensor in enumerate(tensors_in(result)):
            if position == on_host:
                continue
            try:
                storage = tensor.untyped_storage()
            except (NotImplementedError, RuntimeError):
                accesses += [a for part in parts_of_sparse(tensor) for a in self._outputs(plan, part, device)]
                continue
            tag = self._memory.of_storage(storage)
            if tag is None:
                tag = self._memory.tag(storage, device, self._gpus.site())
                if self.deferral is not None:
                    tag.layout = layout_of(tensor)
                if plan.writes_outputs and tensor.numel():
                    accesses.append((tag.ident, self._memory.view(tensor), True))
            elif tag.n_bytes != storage.nbytes():
                self._memory.resized(storage, self._gpus.site())
        return accesses

    def _note_resized(self, tensors: TensorArguments, kwargs: dict[str, Any]) -> None:
        """Give new memory to an output that was resized, such as `out=torch.empty(0)`, before the write is reported."""
        for tensor, argument in tensors if kwargs else ():
            if argument.is_write and argument.name in kwargs:
                with suppress(NotImplementedError, RuntimeError):  # a sparse tensor has no storage
                    self._memory.resized(tensor.untyped_storage(), self._gpus.site())

    def _report(self, plan: Plan, accesses: list[Access], device: int, stream: StreamId) -> None:
        if plan.touches and accesses:
            self._launches.launch(stream, plan.name, accesses, self._gpus.context(device, device))


def _replaced(old: torch.Tensor, new: torch.Tensor, value: Any) -> Any:
    """Return a value, or another tensor in place of one."""
    return new if value is old else value


def _on_host(value: Any) -> Any:
    """Return the CPU for a virtual GPU, which operators of FSDP2 take as an argument; return other values unchanged."""
    return _HOST if isinstance(value, torch.device) and is_gpu(value) else value
