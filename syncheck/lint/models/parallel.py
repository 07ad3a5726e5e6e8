"""Communication helpers of libraries. They run on the current stream; the host waits only where noted below.

Source:
    huggingface/accelerate, 16cb6eb80dd9: src/accelerate/utils/operations.py (`_gpu_gather`, `_gpu_broadcast`, `reduce`,
    `pad_across_processes`), src/accelerate/accelerator.py, src/accelerate/state.py (`wait_for_everyone`)
    NVIDIA/Megatron-LM, d98e8a64ddf3: megatron/core/tensor_parallel/mappings.py, megatron/core/parallel_state.py
    facebookresearch/fairscale, 146f16024165: fairscale/nn/model_parallel/mappings.py and initialize.py
    horovod/horovod, 2626dc87a3a8: horovod/torch/optimizer.py (`step`), horovod/torch/mpi_ops.py (`synchronize`)
    bytedance/byteps, f5df52fe2794: byteps/torch/__init__.py (`step`), byteps/torch/ops.py (`synchronize`)
"""

from collections.abc import Callable
from functools import cache, partial

from syncheck.lint.interp.evaluator import Evaluator
from syncheck.lint.interp.registry import models
from syncheck.lint.interp.unknown import derived
from syncheck.lint.interp.values import (
    UNKNOWN,
    Call,
    Constant,
    Group,
    Mapping,
    NativeObject,
    Sequence,
    Tensor,
    Value,
)

Helper = Callable[[Evaluator, Tensor, Call], Value]
"""Runs a helper on one tensor."""


def _of_each(evaluator: Evaluator, run: Helper, given: Value, call: Call) -> Value:
    """Run a helper on each tensor of a structure, and return the results in the same structure."""
    match given:
        case Tensor():
            return run(evaluator, given, call) if given.block.device is not None else UNKNOWN
        case Sequence(items=items, is_open=is_open):
            return Sequence([_of_each(evaluator, run, item, call) for item in items], is_open)
        case Mapping(items=known, is_open=is_open):
            return Mapping({key: _of_each(evaluator, run, item, call) for key, item in known.items()}, is_open)
        case _:
            return derived(given)


def _made(operator: str) -> Helper:
    """Return a helper that creates a new tensor."""
    return lambda evaluator, tensor, call: evaluator.operators.run(operator, [tensor], Call(call.node, []))


def _in_place(operator: str) -> Helper:
    """Return a helper that modifies a tensor and returns it."""

    def run(evaluator: Evaluator, tensor: Tensor, call: Call) -> Value:
        machine = evaluator.machine
        machine.launch(
            machine.current(tensor.block.device or 0), operator, [(tensor, False), (tensor, True)], call.node
        )
        return evaluator.operators.alias(tensor, tensor.part)

    return run


def _unchanged(evaluator: Evaluator, tensor: Tensor, call: Call) -> Value:
    """Return the tensor unchanged: only the backward pass of this helper has an effect."""
    del call
    return evaluator.operators.alias(tensor, tensor.part)


def _padded(evaluator: Evaluator, tensor: Tensor, call: Call) -> Value:
    """Pad a tensor. The host reads the gathered sizes first."""
    machine = evaluator.machine
    machine.sync_stream(machine.current(tensor.block.device or 0), call.node, explicit=False)
    return evaluator.operators.run("aten::constant_pad_nd", [tensor], Call(call.node, []))


GATHER, REDUCE, SCATTER = (
    _made(f"c10d::{name}") for name in ("_allgather_base_", "allreduce_", "_reduce_scatter_base_")
)
EXCHANGE, SPLIT = _made("c10d::alltoall_base_"), _made("aten::clone")
REDUCE_IN_PLACE, BROADCAST_IN_PLACE = _in_place("c10d::allreduce_"), _in_place("c10d::broadcast_")

_IN_ACCELERATE = {
    "gather": GATHER,
    "reduce": REDUCE,
    "broadcast": BROADCAST_IN_PLACE,
    "pad_across_processes": _padded,
}
_IN_MEGATRON = {
    "_reduce": REDUCE_IN_PLACE,
    "_split_along_last_dim": SPLIT,
    "_split_along_first_dim": SPLIT,
    "_gather_along_last_dim": GATHER,
    "_gather_along_first_dim": GATHER,
    "_reduce_scatter_along_last_dim": SCATTER,
    "_reduce_scatter_along_first_dim": SCATTER,
    "copy_to_tensor_model_parallel_region": _unchanged,
    "reduce_from_tensor_model_parallel_region": REDUCE_IN_PLACE,
    "scatter_to_tensor_model_parallel_region": SPLIT,
    "gather_from_tensor_model_parallel_region": GATHER,
    "scatter_to_sequence_parallel_region": SPLIT,
    "gather_from_sequence_parallel_region": GATHER,
    "reduce_scatter_to_sequence_parallel_region": SCATTER,
    "all_gather_last_dim_from_tensor_parallel_region": GATHER,
    "reduce_scatter_last_dim_to_tensor_parallel_region": SCATTER,
    "all_to_all_sp2hp": EXCHANGE,
    "all_to_all_hp2sp": EXCHANGE,
}
_IN_FAIRSCALE = {
    "_split": SPLIT,
    "_gather": GATHER,
    "copy_to_model_parallel_region": _unchanged,
    "reduce_from_model_parallel_region": REDUCE_IN_PLACE,
    "scatter_to_model_parallel_region": SPLIT,
    "gather_from_model_parallel_region": GATHER,
}
_GROUPS_OF_MEGATRON = """model_parallel tensor_model_parallel pipeline_model_parallel data_parallel context_parallel
embedding position_embedding amax_reduction tensor_and_data_parallel tensor_and_context_parallel expert_model_parallel
expert_tensor_parallel expert_tensor_and_model_parallel expert_tensor_model_pipeline_parallel
expert_data_parallel""".split()
_GROUPS_OF_FAIRSCALE = "model_parallel data_parallel pipeline_parallel context_parallel".split()


def _register(modules: tuple[str, ...], name: str, run: Helper, parameter: str = "input_", position: int = 0) -> None:
    def helper(evaluator: Evaluator, call: Call) -> Value:
        return _of_each(evaluator, run, call.get(parameter, position) or UNKNOWN, call)

    models(*(f"{module}.{name}" for module in modules))(helper)


@cache
def _group(path: str, arguments: str) -> Group:
    del path, arguments
    return Group()


def _register_group(modules: tuple[str, ...], name: str) -> None:
    def getter(evaluator: Evaluator, call: Call) -> Value:
        del evaluator
        return _group(f"{modules[0]}.{name}", _flags(call))

    models(*(f"{module}.get_{name}_group" for module in modules))(getter)


def _flags(call: Call) -> str:
    """Return, as text, the arguments by which a function selects a group."""
    given = {str(number): value for number, value in enumerate(call.args)} | call.kwargs
    given.pop("check_initialized", None)
    return ", ".join(f"{name}={_plain(value)}" for name, value in sorted(given.items()))


def _plain(value: Value) -> str:
    return repr(value.value) if isinstance(value, Constant) else "?"


def _wait_for_everyone(evaluator: Evaluator, call: Call) -> Value:
    """Run a barrier, which makes the host wait."""
    return evaluator.collectives.call("barrier", Call(call.node, []), is_async=False) or UNKNOWN


@models("accelerate.Accelerator", "accelerate.accelerator.Accelerator")
def _accelerator(evaluator: Evaluator, call: Call) -> Value:
    """Create the object with these methods. `gather_for_metrics` gathers, and drops surplus samples."""
    del call

    def method(run: Helper, parameter: str) -> Callable[[Call], Value | None]:
        return lambda call: _of_each(evaluator, run, call.get(parameter, 0) or UNKNOWN, call)

    return NativeObject(
        {
            "gather": method(GATHER, "tensor"),
            "gather_for_metrics": method(GATHER, "input_data"),
            "reduce": method(REDUCE, "tensor"),
            "pad_across_processes": method(_padded, "tensor"),
            "wait_for_everyone": partial(_wait_for_everyone, evaluator),
        }
    )


@models("horovod.torch.DistributedOptimizer", "byteps.torch.DistributedOptimizer")
def _distributed_optimizer(evaluator: Evaluator, call: Call) -> Value:
    """Create an optimizer whose step makes the host wait for the gradients of all ranks."""
    del call

    def wait(call: Call) -> Value:
        del call
        evaluator.machine.read_unknown()
        return UNKNOWN

    return NativeObject({"step": wait, "synchronize": wait})


_ACCELERATE = ("accelerate.utils", "accelerate.utils.operations")
_MEGATRON = ("megatron.core.tensor_parallel", "megatron.core.tensor_parallel.mappings")
_FAIRSCALE = ("fairscale.nn.model_parallel", "fairscale.nn.model_parallel.mappings")
for _name, _run in _IN_ACCELERATE.items():
    _register(_ACCELERATE, _name, _run, "tensor")
models("accelerate.utils.wait_for_everyone", "accelerate.utils.other.wait_for_everyone")(_wait_for_everyone)
for _name, _run in _IN_MEGATRON.items():
    _register(_MEGATRON, _name, _run)
_register(_MEGATRON, "all_to_all", EXCHANGE, "input_", 1)
for _name, _run in _IN_FAIRSCALE.items():
    _register(_FAIRSCALE, _name, _run)
_register(_FAIRSCALE, "_reduce", REDUCE_IN_PLACE, "input_", 1)
for _name in _GROUPS_OF_MEGATRON:
    _register_group(("megatron.core.parallel_state", "megatron.core.mpu"), _name)
for _name in _GROUPS_OF_FAIRSCALE:
    _register_group(("fairscale.nn.model_parallel", "fairscale.nn.model_parallel.initialize"), _name)
