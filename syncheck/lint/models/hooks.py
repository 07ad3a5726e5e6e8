"""Hooks on unknown modules and parameters: autograd calls them with tensors that it has just computed."""

import ast
from collections.abc import Callable

from syncheck.hb.ids import NamedKind
from syncheck.lint.interp import side_work
from syncheck.lint.interp.contents import function_of
from syncheck.lint.interp.evaluator import Evaluator
from syncheck.lint.interp.machine import Machine
from syncheck.lint.interp.registry import models
from syncheck.lint.interp.unknown import called_name, waits_in
from syncheck.lint.interp.values import NONE, UNKNOWN, Call, Context, Function, Partial, Sequence, Tensor, Value
from syncheck.lint.nodes import Method, functions_in, nodes_in, once, text, walk
from syncheck.source.expressions import last_name

_SAVED = "torch.autograd.graph.saved_tensors_hooks"
AROUND_FORWARD = frozenset({"register_forward_hook", "register_forward_pre_hook"})
"""Methods of a layer that register what runs around its `forward`."""
_MAX_DEPTH = 2
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


def may_wait_in(machine: Machine, hook: Value | None) -> bool:
    """Return whether a hook may wait for something, itself or in functions of the file with the names of its calls.

    Hooks that are not functions of the program may.
    """
    function = function_of(hook) if hook is not None else None
    if not isinstance(function, Method | ast.Lambda):
        return True
    reached: list[ast.AST] = [function]
    for _ in range(_MAX_DEPTH):
        if any(map(waits_in, reached)):
            return True
        called = {last_name(node.func) for each in reached for node in walk(each) if isinstance(node, ast.Call)}
        reached = [each for each in functions_in(machine.sites.tree) if each.name in called]
    return any(map(waits_in, reached))


def is_called_later(machine: Machine, name: str, call: Call) -> bool:
    """Return whether a call only registers a hook that is interpreted later in any case."""
    return name in _ARGUMENTS and function_of(call.get("hook", 0) or UNKNOWN) in machine.called_later


def call_hook(evaluator: Evaluator, name: str, call: Call) -> None:
    """Call a hook once if the program has streams of its own. Work that it leaves running counts as complete."""
    machine = evaluator.machine
    is_relevant = name in _ARGUMENTS and machine.stream_names and not machine.ordering_only
    is_relevant = is_relevant and not ("grad" in name and _may_run_on_stream(machine.sites.tree))
    if is_relevant and _run_hook(evaluator, name, call):
        machine.assume_synchronized()
        machine.hooks.append(call)


@once
def _may_run_on_stream(tree: ast.Module) -> bool:
    """Return whether a file runs a backward pass in a block that makes a stream current.

    Autograd calls a hook on the stream of the forward operation, and adds up the gradients there.
    Source: https://docs.pytorch.org/docs/2.13/notes/cuda.html#stream-semantics-of-backward-passes
    """
    return any(
        isinstance(node, ast.With)
        and any("stream" in text(item.context_expr) for item in node.items)
        and any(isinstance(inner, ast.Call) and last_name(inner.func) == "backward" for inner in walk(node))
        for node in nodes_in(tree)
    )


def run_hooks(evaluator: Evaluator) -> None:
    """Call each registered hook again, as another backward pass does."""
    for call in list(evaluator.machine.hooks):
        _run_hook(evaluator, called_name(call.node), call)


def _run_hook(evaluator: Evaluator, name: str, call: Call) -> bool:
    """Call the hook that a call registers; return whether it is known."""
    hook = call.get("hook", 0)
    if not isinstance(hook, Function | Partial):
        return False
    tensor = _computed(evaluator.machine, call)
    if name == "register_post_accumulate_grad_hook":
        tensor.grad = _computed(evaluator.machine, call)
    evaluator.call(hook, Call(call.node, _ARGUMENTS[name](tensor)))
    return True


@models(_SAVED, f"{_SAVED}.__init__")
def _saved_tensors_hooks(evaluator: Evaluator, call: Call) -> Value:
    """Save one tensor, free it, and use what replaces it. Work that the hooks leave running counts as complete."""
    machine, pack, unpack = evaluator.machine, call.get("pack_hook", 0), call.get("unpack_hook", 1)
    if isinstance(pack, Function | Partial) and machine.stream_names and not machine.ordering_only:
        saved = _computed(machine, call)
        machine.session.name(NamedKind.ALLOCATION, saved.block.ident, _parameter_of(pack))
        packed = evaluator.call(pack, Call(call.node, [saved]))
        del saved
        _computed(machine, call)  # may get the memory of the first
        if isinstance(unpack, Function | Partial):
            restored = evaluator.call(unpack, Call(call.node, [packed]))
            side_work.use(machine, [restored], call.node)
        machine.assume_synchronized()
    return Context(lambda: NONE, lambda: None, is_portable=True)


def _parameter_of(hook: Function | Partial) -> str:
    """Return the name of the parameter that gets the tensor; "" if it is unknown."""
    function = hook.function if isinstance(hook, Partial) else hook
    parameters = function.node.args.args if isinstance(function, Function) else []
    return parameters[-1].arg if parameters else ""


def _computed(machine: Machine, call: Call) -> Tensor:
    """Return a tensor that the current stream is still computing."""
    stream = machine.current(machine.thread.device)
    tensor = Tensor(machine.allocate(machine.thread.device, call.node), stream=stream, is_single=True)
    machine.launch(stream, "autograd", [(tensor, True)], call.node)
    return tensor
