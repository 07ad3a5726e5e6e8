"""Collectives of torch.distributed, and the handles of asynchronous ones."""

from syncheck.lint.interp.evaluator import Evaluator
from syncheck.lint.interp.registry import models_below, models_methods
from syncheck.lint.interp.values import UNKNOWN, Call, Value, Work


@models_below("torch.distributed")
def _collective(evaluator: Evaluator, path: str, call: Call) -> Value | None:
    return evaluator.collectives.call(path.rpartition(".")[2], call)


@models_methods(Work)
def _work_methods(evaluator: Evaluator, owner: Work, name: str, call: Call) -> Value | None:
    if name in {"wait", "synchronize"}:
        evaluator.collectives.wait(owner, call)
        return UNKNOWN
    evaluator.collectives.escape(owner)
    evaluator.machine.assume_synchronized()
    return UNKNOWN
