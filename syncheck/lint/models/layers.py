"""Layers, parameters and optimizers of torch."""

import ast
import re

from syncheck.lint.interp.contents import tensors_in
from syncheck.lint.interp.contexts import setting
from syncheck.lint.interp.evaluator import Evaluator
from syncheck.lint.interp.machine import Machine
from syncheck.lint.interp.registry import models, models_in, models_methods
from syncheck.lint.interp.unknown import called_name, gets_moved
from syncheck.lint.interp.values import (
    DERIVED,
    MOVED,
    NONE,
    UNKNOWN,
    Call,
    Constant,
    Context,
    Function,
    Instance,
    Module,
    Optimizer,
    Sequence,
    Tensor,
    Value,
    truth,
)
from syncheck.lint.models.hooks import may_wait_in
from syncheck.lint.models.tensors import call_torch_function
from syncheck.lint.nodes import names
from syncheck.lint.prefilter import uses_gpu
from syncheck.source.expressions import last_name

_WITH_GLOO = re.compile(r"""init_process_group\(\s*(?:backend *= *)?['"]gloo['"]""")
_MOVING = frozenset({"to", "cuda", "cpu"})
_KEEPING = frozenset("eval train half bfloat16 float requires_grad_ double share_memory".split())
"""Methods that return the layer itself."""
_OF_OTHERS = frozenset(
    """Sequential Module ModuleDict DataParallel DistributedDataParallel AdaptiveLogSoftmaxWithLoss CTCLoss
    Transformer TransformerEncoder TransformerDecoder""".split()
)
"""Layers that may call other code, or whose `forward` may wait for the GPU."""


@models_in("torch.nn")
def _layer(evaluator: Evaluator, path: str, call: Call) -> Value | None:
    name = path.rpartition(".")[2]
    if not name[:1].isupper():
        return call_torch_function(evaluator, path, call)
    device = evaluator.operators.device_in(call.get("device") or Constant("cpu"))
    if isinstance(device, Value):
        return UNKNOWN
    weight = evaluator.operators.make("aten::uniform_", Call(call.node, []), device)
    if isinstance(weight, Tensor):
        weight.is_leaf, weight.leaves = True, (weight,)
        return Module(weight, is_single=name not in _OF_OTHERS)
    return UNKNOWN


@models("torch.nn.utils.clip_grad_norm_", "torch.nn.utils.clip_grad_value_", "torch.nn.utils.clip_grad_norm")
def _clip(evaluator: Evaluator, call: Call) -> Value:
    """Scale gradients. The host does not wait; the norm is on the device of the gradients.

    Source: torch/nn/utils/clip_grad.py; `error_if_nonfinite` is false by default.
    """
    if call.flag("error_if_nonfinite") is not False:
        evaluator.machine.read_unknown()
    return DERIVED


@models("torch.autocast", "torch.amp.autocast")
def _autocast(evaluator: Evaluator, call: Call) -> Value:
    """Return a context in which unknown networks run on a GPU, if it is one for GPUs."""
    device = call.get("device_type", 0)
    is_gpu = isinstance(device, Constant) and device.value == "cuda"
    return _gpu_autocast(evaluator, call) if is_gpu else Context(lambda: NONE, lambda: None, is_portable=True)


@models("torch.cuda.amp.autocast")
def _gpu_autocast(evaluator: Evaluator, call: Call) -> Value:
    """Return a context in which unknown networks run on a GPU. Entering and leaving it waits for nothing."""
    del call
    return setting(evaluator.machine.recent, "is_autocast", value=True)


@models("torch.nn.Parameter")
def _parameter(evaluator: Evaluator, call: Call) -> Value:
    del evaluator
    data = call.get("data", 0)
    if isinstance(data, Tensor) and truth(call.get("requires_grad", 1) or Constant(True)) is not False:
        data.is_leaf, data.leaves = True, (data,)
    return data or UNKNOWN


@models_in("torch.optim")
def _new_optimizer(evaluator: Evaluator, path: str, call: Call) -> Value | None:
    del path
    if not call.args:
        return None
    given = evaluator.listed(call.args[0])
    known = tensors_in(given)
    return UNKNOWN if not known and (given.is_open or gets_moved(given.items)) else Optimizer(known)


@models("deepspeed.initialize")
def _engine_and_more(evaluator: Evaluator, call: Call) -> Value:
    """Return the engine, which has moved the model to its device, the optimizer, the loader and the scheduler.

    Source: deepspeed/__init__.py, `initialize`; deepspeed/runtime/engine.py, `_configure_distributed_model`.
    """
    del evaluator, call
    return Sequence([MOVED, UNKNOWN, UNKNOWN, UNKNOWN])


@models("deepspeed.init_inference")
def _inference_engine(evaluator: Evaluator, call: Call) -> Value:
    """Return the engine, which has moved the model to its device. Source: deepspeed/inference/engine.py."""
    del evaluator, call
    return MOVED


@models_methods(Module)
def _layer_methods(evaluator: Evaluator, owner: Module, name: str, call: Call) -> Value | None:
    if name in _MOVING:
        return evaluator.transfers.move_net(owner, call, name)
    if name.startswith("register_") and may_wait_in(evaluator.machine, call.get("hook", 0)):
        owner.weight = None
    if name in _KEEPING:
        return owner
    if name in {"parameters", "buffers"}:
        return _parameters([owner])
    if name in {"named_parameters", "named_buffers"}:
        return Sequence([Sequence([UNKNOWN, owner.weight])] if owner.weight is not None else [])
    weight = owner.weight
    if name == "load_state_dict" and weight is not None and weight.block.device is None:
        evaluator.machine.read_unknown()  # what it copies may come from a GPU
    if name == "zero_grad" and weight is not None and not evaluator.machine.ordering_only:
        weight.grad = None
    return NONE if name == "zero_grad" else UNKNOWN


@models_methods(Optimizer)
def _optimizer_methods(evaluator: Evaluator, owner: Optimizer, name: str, call: Call) -> Value | None:
    if name.startswith("register_") and may_wait_in(evaluator.machine, call.get("hook", 0)):
        owner.may_wait = True
    elif name == "zero_grad":
        for parameter in owner.parameters if not evaluator.machine.ordering_only else ():
            if not parameter.is_argument:  # the backward pass of other code makes another gradient
                parameter.grad = None
    elif name == "step":
        _step(evaluator.machine, owner, call)
    return UNKNOWN


def _step(machine: Machine, optimizer: Optimizer, call: Call) -> None:
    """Update the parameters of an optimizer."""
    if optimizer.may_wait:
        machine.assume_synchronized()
    for parameter in optimizer.parameters:
        device = parameter.block.device
        if parameter.grad is not None and device is not None:
            touched = [(parameter.grad, False), (parameter, True)]
            machine.launch(machine.current(device), "aten::_foreach_add_", touched, call.node)


@models(
    "torch.compile", "torch.jit.script", "torch.jit.trace", "torch.jit.freeze", "torch.jit.optimize_for_inference",
    "torch.nn.parallel.DistributedDataParallel", "torch.distributed.fsdp.FullyShardedDataParallel",
    "torch.distributed.fsdp.fully_shard", "torch.nn.SyncBatchNorm.convert_sync_batchnorm",
    "torch.nn.utils.weight_norm", "torch.nn.utils.spectral_norm", "torch.nn.utils.parametrizations.weight_norm",
    "torch.nn.utils.parametrizations.spectral_norm", "torch.nn.utils.parametrizations.orthogonal",
)  # fmt: skip
def _wrapped(evaluator: Evaluator, call: Call) -> Value | None:
    """Return the network or function itself, which runs the same operators on its caller's stream."""
    del evaluator
    inner = call.get("module", 0) or call.get("model", 0) or call.get("obj", 0) or call.get("func", 0)
    is_network = isinstance(inner, Module) or (isinstance(inner, Instance) and inner.kind.is_net) or inner is MOVED
    return inner if is_network or isinstance(inner, Function) else None


@models("torch.autograd.backward")
def _backward(evaluator: Evaluator, call: Call) -> Value:
    """Run the backward pass of each known tensor. Source: torch/autograd/__init__.py, `backward`."""
    known = _on_gpu(call.get("tensors", 0))
    for tensor in known:
        evaluator.call_method(tensor, "backward", Call(call.node, []))
    if not known:
        train_unknown(evaluator, "backward", call)
    return NONE


@models("torch.autograd.grad")
def _gradients(evaluator: Evaluator, call: Call) -> Value:
    """Return gradients, without keeping them in the leaves. Source: torch/autograd/__init__.py, `grad`."""
    machine, known = evaluator.machine, _on_gpu(call.get("outputs", 0))
    for tensor in known:
        machine.launch(machine.current(tensor.block.device or 0), "aten::backward", [(tensor, False)], call.node)
    if not known:
        train_unknown(evaluator, "backward", call)
    return DERIVED if known else UNKNOWN


def _on_gpu(value: Value | None) -> list[Tensor]:
    return [tensor for tensor in tensors_in(value) if tensor.block.device is not None]


def train_unknown(evaluator: Evaluator, name: str, call: Call) -> None:
    """Leave work running if a call is a backward pass or the step of an optimizer, in a file that uses GPUs."""
    machine, node = evaluator.machine, call.node
    is_step = name == "step" and called_name(node) == name
    if name == "step" and _is_engine(node, machine.sites.text):
        machine.read_unknown()
        return
    if not (name == "backward" or is_step) or not isinstance(node, ast.Call) or not uses_gpu(machine.sites.text):
        return
    machine.guess(node)
    machine.recent.is_of_unknown = True
    if not is_step and isinstance(node.func, ast.Attribute):
        given = node.args or [node.func.value]
        machine.recent.losses.update(*(names(value) for value in given))
        machine.recent.losses.discard("self")


def reduces_on_host(text: str) -> bool:
    """Return whether the backward passes of a file end with a reduction of gloo, for which the host waits.

    Source:
        torch/csrc/distributed/c10d/reducer.cpp, `finalize_backward`: `bucket.future_work->wait()`. This blocks the host
        unless the backend's work ends on a stream, as that of NCCL.
    """
    return "DistributedDataParallel" in text and "nccl" not in text and _WITH_GLOO.search(text) is not None


def _is_engine(step: ast.AST, text: str) -> bool:
    """Return whether a call of `step` is that of DeepSpeed's engine, judging by names. The host waits in it.

    Source:
        deepspeed/runtime/engine.py, `step`; deepspeed/utils/timer.py, `ThroughputTimer.stop`: `synchronized` is true by
        default.
    """
    match step:
        case ast.Call(func=ast.Attribute(value=owner)) if "deepspeed.initialize(" in text:
            return not re.search("opt|sched|scaler", last_name(owner), re.IGNORECASE)
        case _:
            return False


@models("torch.nn.ModuleList")
def _module_list(evaluator: Evaluator, call: Call) -> Value | None:
    """Return the layers. The methods of `torch.nn.Module` are those of `call_list_method`."""
    given = call.get("modules", 0)
    return Sequence([]) if given is None else evaluator.listed(given)


def call_list_method(evaluator: Evaluator, owner: Sequence, name: str, call: Call) -> Value | None:
    """Call a method of `torch.nn.Module` on a list of layers; return None for a method that is not modeled."""
    return owner if name in _KEEPING else _call_on_layers(evaluator, owner, name, call)


def _call_on_layers(evaluator: Evaluator, owner: Value, name: str, call: Call) -> Value | None:
    """Move the layers of a network or a list, or return their parameters; return None for any other method."""
    if name in _MOVING:
        for layer in _layers_in(owner):
            evaluator.transfers.move_net(layer, call, name)
        return owner
    return _parameters(_layers_in(owner)) if name in {"parameters", "buffers"} else None


def _parameters(layers: list[Module]) -> Sequence:
    """Return the parameters of some layers. One stands for all of a layer, so there may be more."""
    known: list[Value] = [layer.weight for layer in layers if layer.weight is not None]
    return Sequence(known, is_open=bool(known))


def _layers_in(owner: Value) -> list[Module]:
    """Return the layers of a network or a list, also those of networks in it."""
    found: list[Module] = []
    waiting, seen = [owner], set[int]()
    while waiting:
        part = waiting.pop(0)
        if id(part) in seen:
            continue
        seen.add(id(part))
        match part:
            case Module():
                found.append(part)
            case Sequence(items=items):
                waiting += items
            case Instance() if part is owner or part.kind.is_net:
                waiting += part.attributes.values()
            case _:
                pass
    return found


def call_module_method(evaluator: Evaluator, owner: Instance, name: str, call: Call) -> Value | None:
    """Call a method of `torch.nn.Module` on an object of the program; return None for a method that is not modeled."""
    if name in _KEEPING - {"double", "share_memory"}:
        return owner
    found = _call_on_layers(evaluator, owner, name, call)
    if found is not None:
        return found
    if name in {"register_buffer", "register_parameter"}:
        text = call.get("name", 0)
        if isinstance(text, Constant) and len(call.args) > 1:
            owner.attributes[str(text.value)] = call.args[1]
        return NONE
    return UNKNOWN if name in {"zero_grad", "state_dict", "__init__", "join", "no_sync"} else None
