"""Every operator passes here: it runs on the CPU and is logged on the virtual stream of its tensors' device."""

import re
from typing import TYPE_CHECKING, Any

import torch
from torch._subclasses.fake_tensor import FakeTensor
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_map

from syncheck.instrument.plan import Plan, plan_of, tensors_in, tensors_of, unique
from syncheck.instrument.waiting import Wait, wait_of
from syncheck.sim.errors import NotSimulatedError, out_of_memory
from syncheck.sim.placement import Placement, TensorArguments
from syncheck.sim.virtual_gpus import HOST_DEVICE

if TYPE_CHECKING:
    from syncheck.sim.simulator import Simulator

Accesses = list[tuple[int, int, bool]]

# Results that are in host memory, by position. Source: aten/src/ATen/native/PackedSequence.cpp, `batch_sizes_t`.
_PLAIN = torch.Tensor.__torch_dispatch__
_TAKEN: set[type] = {torch.Tensor, torch.nn.Parameter}
"""Classes of tensors that are what they look like."""
_HOST_OUTPUTS = {"_pack_padded_sequence": 1, "_pad_packed_sequence": 1}


_HOST = torch.device("cpu")


class SimulatorMode(TorchDispatchMode):  # type: ignore[no-untyped-call]  # torch leaves it untyped
    """Logs and runs operators; entered in every thread of the program."""

    supports_higher_order_operators = True

    def __init__(self, simulator: "Simulator") -> None:
        super().__init__()  # type: ignore[no-untyped-call]  # torch leaves it untyped
        self._simulator = simulator

    @classmethod
    def _should_skip_dynamo(cls) -> bool:
        """Leave `__torch_dispatch__` as it is: torch.compile does not run, and the wrapper costs time at each call.

        Source:
            torch/utils/_python_dispatch.py, `TorchDispatchMode.__init_subclass__`.
        """
        return False

    def __torch_dispatch__(
        self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        """Run one operator; a tensor that is made of others takes it apart itself, and its parts come here again."""
        if isinstance(func, torch._ops.HigherOrderOperator):  # noqa: SLF001  torch has no public name
            return self._take_apart(func, args, kwargs or {})
        if not _TAKEN.issuperset(types):
            if any(issubclass(kind, FakeTensor) for kind in types):
                return func(*args, **(kwargs or {}))  # it has no memory
            if any(kind.__torch_dispatch__ is not _PLAIN for kind in types):
                return NotImplemented
            _TAKEN.update(types)
        return self._simulator.dispatcher.run(func, args, kwargs or {})

    def _take_apart(self, func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """Run an operator that is made of others, so that its parts come here.

        Source:
            torch/_higher_order_ops: each has an implementation in terms of operators; those of `cond` and `while_loop`
            want no mode around them.
        """
        if func.name() in {"cond", "while_loop"}:
            decide, *others = (self._entering(value) if callable(value) else value for value in args)
            return func(self._decided(decide), *others, **kwargs)
        parts = func.py_kernels.get(torch._C.DispatchKey.CompositeExplicitAutograd, func)  # noqa: SLF001
        with self:
            return parts(*args, **kwargs)

    def _entering(self, function: Any) -> Any:
        def run(*args: Any, **kwargs: Any) -> Any:
            with self:
                return function(*args, **kwargs)

        return run

    def _decided(self, value: Any) -> Any:
        """Let the host read a condition; that of a loop, each time that it is asked."""
        if callable(value):
            return lambda *args: self._decided(value(*args))
        with self:
            return bool(value)


class Dispatcher:
    """Runs operators and tells the monitor of their accesses."""

    def __init__(self, simulator: "Simulator") -> None:
        self._simulator = simulator
        self._gpus = simulator.gpus
        self._memory = simulator.memory
        self.placement = Placement(simulator)
        self._plans: dict[Any, Plan] = {}

    def run(self, func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """Run one operator on the CPU, with everything that its virtual device would do."""
        plan = self._plans.get(func)
        if plan is None:
            if func.namespace == "c10d" and (collective := self._simulator.distributed.plan(func)) is not None:
                return self._simulator.distributed.run(func, collective, args, kwargs)
            if func.namespace == "_c10d_functional":
                return self._simulator.distributed.run_functional(func, args, kwargs)
            plan = self._plans[func] = plan_of(func)
        special = self._simulator.copies.specials.get(plan.base)
        result = special(func, plan, args, kwargs) if special is not None else self.run_plain(func, plan, args, kwargs)
        self._simulator.backward.note_made(result)
        return result

    def run_plain(self, func: Any, plan: Plan, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """Run an operator that is not a copy."""
        tensors = tensors_of(plan, args, kwargs)
        device, pinned, on_cpu = self.placement.place(plan, tensors, kwargs)
        if device != HOST_DEVICE:
            return self._run_on_device(func, plan, tensors, args, on_cpu, device)
        result = self._run_on_host(func, plan, tensors, args, on_cpu)
        if pinned:
            for tensor in tensors_in(result):
                self._memory.tag(tensor.untyped_storage(), HOST_DEVICE, 0, pinned=True)
        else:
            self.placement.note_made(plan, tensors, kwargs, result)
        return result

    # -- on the host

    def _run_on_host(
        self, func: Any, plan: Plan, tensors: TensorArguments, args: tuple[Any, ...], kwargs: dict[str, Any]
    ) -> Any:
        if plan.touches:
            self.host_touch(plan.name, tensors)
        return func(*args, **kwargs)

    def host_touch(self, operator: str, tensors: TensorArguments) -> None:
        """Tell the monitor that the host reads or writes tensors, where a stream may be using them."""
        accesses: Accesses = []
        for tensor, argument in tensors:
            if self._memory.of(tensor) is not None and tensor.numel():
                self._add(accesses, tensor, is_write=argument.is_write)
        if accesses:
            self._memory.flush()
            site = self._gpus.site()
            named = self._gpus.monitor.host_access(operator, accesses, site)
            self._simulator.after_call(named)

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
        simulator, gpus = self._simulator, self._gpus
        simulator.backward.enter_node(device)
        if plan.base in {"add", "add_"}:
            simulator.backward.wait_for_other_gradients(device)
        for tensor, _ in tensors:
            simulator.backward.note_leaf(tensor)
        stream = gpus.current_stream(device)
        capturing = gpus.monitor.capturing(stream)
        wait = wait_of(plan, args, kwargs, self._is_on_device)
        if capturing and wait is not Wait.NEVER:
            simulator.refuse_in_capture(plan.name)
        args, kwargs = self._with_generator(plan, args, kwargs, device)
        if plan.has_device:
            args, kwargs = tree_map(_on_host, (args, kwargs))
        if capturing:
            result = simulator.recorder.run(func, plan, tensors, args, kwargs)
        else:
            result = self.compute(func, plan, args, kwargs, device)
        accesses = self._accesses(plan, tensors)
        if wait is Wait.BEFORE:  # the host learns a size or a number, then the kernel is launched
            self._log(plan, [access for access in accesses if not access[2]], device, stream)
            gpus.monitor.sync_stream(stream, gpus.site(), explicit=False)
        accesses += self._outputs(plan, result, device)
        self._log(plan, accesses, device, stream)
        if wait is Wait.AFTER:
            gpus.monitor.sync_stream(stream, gpus.site(), explicit=False)
        return result

    def _is_on_device(self, tensor: torch.Tensor) -> bool:
        tag = self._memory.of(tensor)
        return tag is not None and tag.device != HOST_DEVICE

    def compute(self, func: Any, plan: Plan, args: tuple[Any, ...], kwargs: dict[str, Any], device: int) -> Any:
        """Compute an operator on the CPU; random ones without a generator draw from the device's own."""
        try:
            if plan.random and not plan.has_generator:
                with self._simulator.random.drawing_from(device):
                    return func(*args, **kwargs)
            return func(*args, **kwargs)
        except NotImplementedError as error:
            raise NotSimulatedError(
                f"the operator {plan.name}", "the CPU build of torch has no kernel for it"
            ) from error
        except RuntimeError as error:
            size = re.search(r"can't allocate memory: you tried to allocate (\d+) bytes", str(error))
            if size is None:
                raise
            raise out_of_memory(device, int(size[1])) from error

    def _with_generator(
        self, plan: Plan, args: tuple[Any, ...], kwargs: dict[str, Any], device: int
    ) -> tuple[tuple[Any, ...], dict[str, Any]]:
        if plan.random and plan.has_generator and kwargs.get("generator") is None:
            kwargs = {**kwargs, "generator": self._simulator.random.generator(device)}
        return args, kwargs

    def _accesses(self, plan: Plan, tensors: TensorArguments) -> Accesses:
        if not plan.touches:
            return []
        accesses: Accesses = []
        for tensor, argument in tensors:
            if (argument.is_write or argument.is_read) and tensor.numel():
                self._add(accesses, tensor, is_write=argument.is_write)
        return accesses

    def _add(self, accesses: Accesses, tensor: torch.Tensor, *, is_write: bool) -> None:
        if tensor.layout is not torch.strided:
            for part in sparse_parts(tensor):
                self._add(accesses, part, is_write=is_write)
            return
        tag = self._memory.of(tensor)
        if tag is not None and tensor.numel():
            accesses.append((tag.ident, self._memory.view(tensor), is_write))

    def _outputs(self, plan: Plan, result: Any, device: int) -> Accesses:
        """Place new results on the device, and return the writes that fill them."""
        accesses: Accesses = []
        on_host = _HOST_OUTPUTS.get(plan.base)
        for position, tensor in enumerate(tensors_in(result)):
            if position == on_host:
                continue
            try:
                storage = tensor.untyped_storage()
            except (NotImplementedError, RuntimeError):
                accesses += self._sparse_output(plan, tensor, device)
                continue
            tag = self._memory.of_storage(storage)
            if tag is None:
                tag = self._memory.tag(storage, device, self._gpus.site())
                if plan.writes_outputs and tensor.numel():
                    accesses.append((tag.ident, self._memory.view(tensor), True))
            elif tag.n_bytes != storage.nbytes():
                self._memory.resized(storage, self._gpus.site())
        return accesses

    def _sparse_output(self, plan: Plan, tensor: torch.Tensor, device: int) -> Accesses:
        parts = sparse_parts(tensor)
        return [access for part in parts for access in self._outputs(plan, part, device)]

    def _log(self, plan: Plan, accesses: Accesses, device: int, stream: int) -> None:
        if not plan.touches or not accesses:
            return
        self.launch(stream, plan.name, accesses, self._gpus.mismatch(device, device))

    def launch(self, stream: int, operator: str, accesses: Accesses, context: int = 0) -> None:
        """Tell the monitor of one launch."""
        self._memory.flush()
        gpus = self._gpus
        if self._simulator.distributed.ddp_pending:
            self._simulator.distributed.join_ddp_pending(ident for ident, _, _ in accesses)
        site = gpus.site()
        if context and self._simulator.backward.is_running:
            context = 0  # nodes run on the streams of their forward, whatever the caller has entered
        if gpus.thread.inherited is not None:
            gpus.check_inherited(stream, site)
            context = -gpus.thread.expected_stream or context
        self._simulator.backward.protect_gradients(stream, accesses)
        named = gpus.monitor.launch(stream, operator, unique(accesses), site, context)
        self._simulator.after_call(named)


def sparse_parts(tensor: torch.Tensor) -> list[torch.Tensor]:
    """Return the dense tensors that make up a sparse one."""
    if tensor.layout == torch.sparse_coo:
        return [tensor._indices(), tensor._values()]  # noqa: SLF001  torch's names for uncoalesced parts
    raise NotSimulatedError(f"a tensor of layout {tensor.layout}", "use dense tensors, or run on a real GPU")


def _on_host(value: Any) -> Any:
    """Return the device that stands for a virtual GPU; anything else as it is. FSDP2's operators take one."""
    return _HOST if isinstance(value, torch.device) and value.type == "cuda" else value
