"""Hooks on unknown modules and parameters: autograd calls them with tensors that it has just computed."""

from collections.abc import Callable

from syncheck.lint.interp.evaluator import Evaluator
from syncheck.lint.interp.machine import Machine
from syncheck.lint.interp.values import UNKNOWN, Call, Function, Partial, Sequence, Tensor, Value

Arguments = Callable[[Tensor], list[Value]]
_ARGUMENTS: dict[str, Arguments] = {
    "register_hook": lambda tensor: [tensor],
    "register_post_accumulate_grad_hook": lambda tensor: [tensor],
    "register_forward_hook": lambda tensor: [UNKNOWN, Sequence([tensor]), tensor],
    "register_forward_pre_hook": lambda tensor: [UNKNOWN, Sequence([tensor])],
    "register_full_backward_hook": lambda tensor: [UNKNOWN, Sequence([tensor]), Sequence([tensor])],
    "register_full_backward_pre_hook": lambda tensor: [UNKNOWN, Sequence([tensor])],
}
"""Registering method -> the arguments that its hook gets. Source: torch/_tensor.py, torch/nn/modules/module.py."""


def call_hook(evaluator: Evaluator, name: str, call: Call) -> None:
    """Call a hook once if the program has streams of its own. Work that it leaves running counts as complete."""
    machine, arguments = evaluator.machine, _ARGUMENTS.get(name)
    if arguments is None or not machine.stream_names or machine.ordering_only:
        return
    hook = call.get("hook", 0)
    if not isinstance(hook, Function | Partial):
        return
    tensor = _computed(machine, call)
    if name == "register_post_accumulate_grad_hook":
        tensor.grad = _computed(machine, call)
    evaluator.call(hook, Call(call.node, arguments(tensor)))
    machine.assume_synchronized()


def _computed(machine: Machine, call: Call) -> Tensor:
    """Return a tensor that the current stream is still computing."""
    stream = machine.current(machine.thread.device)
    tensor = Tensor(machine.allocate(machine.thread.device, call.node), stream=stream)
    machine.launch(stream, "autograd", [(tensor, True)], call.node)
    return tensor
