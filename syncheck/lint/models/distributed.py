"""Collectives of torch.distributed, and of libraries that wrap them; the handles of asynchronous ones."""

import ast

from syncheck.lint.interp.evaluator import Evaluator
from syncheck.lint.interp.premises import description_of
from syncheck.lint.interp.registry import models, models_below, models_methods
from syncheck.lint.interp.values import UNKNOWN, Call, Group, Sequence, Symbol, Value, Work

_IN_DEEPSPEED = {
    "allgather_fn": "all_gather_into_tensor",
    "reduce_scatter_fn": "reduce_scatter_tensor",
    "inference_all_reduce": "all_reduce",
    "isend": "send",
    "irecv": "recv",
}
"""Names of deepspeed.comm that differ from torch's. Its `isend` is a `send`. Source: deepspeed/comm/comm.py."""


@models("torch.distributed.P2POp")
def _operation(evaluator: Evaluator, call: Call) -> Value:
    del evaluator
    return Sequence([call.get("op", 0) or UNKNOWN, call.get("tensor", 1) or UNKNOWN])


@models("torch.distributed.batch_isend_irecv")
def _batch(evaluator: Evaluator, call: Call) -> Value | None:
    """Start the operations of a list. Unknown operations are assumed to send, with one handle for all of them.

    Operations on the same tensor run at the same time.

    Source:
        torch/distributed/distributed_c10d.py, `batch_isend_irecv`: NCCL coalesces the operations into one handle.
        NCCL User Guide, "Point-to-point communication": calls in a group progress concurrently.
    """
    operations = call.get("p2p_op_list", 0)
    known = operations.items if isinstance(operations, Sequence) and not operations.is_open else [UNKNOWN]
    sent: Value | None = None
    started: list[Value] = []
    exchanged: list[tuple[str, Value]] = []
    for operation in known:
        match operation:
            case Sequence(items=[Symbol(path=path), tensor]):
                is_shared = any(other is tensor and path != kind for kind, other in exchanged)
                own: dict[str, Value] = {"group": Group()} if is_shared else {}  # it runs at the same time
                started.append(_collective(evaluator, path, Call(call.node, [tensor], own)) or UNKNOWN)
                exchanged.append((path, tensor))
            case _:
                n_before = evaluator.machine.n_relevant
                sent = sent or _call(evaluator, "isend", Call(call.node, [UNKNOWN]))
                if not _is_dropped(evaluator, call):  # an unknown operation is not worth further paths
                    evaluator.machine.n_relevant = n_before
                started.append(sent or UNKNOWN)
    if _is_unpacked_to_one(evaluator):
        evaluator.collectives.escape_all(started[:-1])
        return Sequence(started[-1:])
    return Sequence(started)


def _is_unpacked_to_one(evaluator: Evaluator) -> bool:
    """Return whether the current statement expects one handle for all operations: `(work,) = ...`."""
    match evaluator.machine.current_node:
        case ast.Assign(targets=[ast.Tuple(elts=[_]) | ast.List(elts=[_])]):
            return True
        case _:
            return False


def _is_dropped(evaluator: Evaluator, call: Call) -> bool:
    """Return whether a call's result is discarded."""
    statement = evaluator.machine.current_node
    return isinstance(statement, ast.Expr) and statement.value is call.node


@models_below("torch.distributed")
def _collective(evaluator: Evaluator, path: str, call: Call) -> Value | None:
    return _call(evaluator, path.rpartition(".")[2], call)


@models_below("deepspeed.comm")
def _collective_of_deepspeed(evaluator: Evaluator, path: str, call: Call) -> Value | None:
    name = path.rpartition(".")[2]
    return _call(evaluator, _IN_DEEPSPEED.get(name, name), call)


def _call(evaluator: Evaluator, name: str, call: Call) -> Value | None:
    is_async = call.flag("async_op")
    if is_async is None:
        is_async = _decided(evaluator, call.node)
    return evaluator.collectives.call(name, call, is_async=is_async)


def _decided(evaluator: Evaluator, node: ast.AST) -> bool | None:
    """Return the decision for an `async_op` that is a name, as for an `if` on that name; None for other expressions."""
    keywords = node.keywords if isinstance(node, ast.Call) else []
    given = next((keyword.value for keyword in keywords if keyword.arg == "async_op"), None)
    name = given.operand if isinstance(given, ast.UnaryOp) and isinstance(given.op, ast.Not) else given
    if given is None or not isinstance(name, ast.Name | ast.Attribute):
        return None
    is_async = evaluator.decide(given)
    if is_async:
        machine = evaluator.machine
        machine.of_callers["SYN60", machine.site(node)] = f"{description_of(given)} is true"
    return is_async


@models_methods(Work)
def _work_methods(evaluator: Evaluator, owner: Work, name: str, call: Call) -> Value | None:
    if name in {"wait", "synchronize"}:
        evaluator.collectives.wait(owner, call)
        return UNKNOWN
    evaluator.collectives.escape(owner)
    evaluator.machine.assume_synchronized()
    return UNKNOWN
