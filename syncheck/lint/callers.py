"""What the callers of a function do with its results, where they are not in the file."""

import ast

from syncheck.lint.interp.contents import tensors_in, works_in
from syncheck.lint.interp.interpreter import Interpreter
from syncheck.lint.interp.values import Generator, Instance, Tensor, Value


def consume(interpreter: Interpreter, result: Value, function: ast.AST) -> None:
    """Use what a function gives as a loop over batches does: on the current stream, and no longer than needed."""
    name = getattr(function, "name", "")
    if not isinstance(result, Generator | Instance) and name not in {"__next__", "next"}:
        interpreter.escape(result)
        return
    if not isinstance(result, Generator | Instance):
        _use(interpreter, result, function, name)
        return
    for item in interpreter.iterations(result):
        _use(interpreter, item, interpreter.machine.current_node, name)
        del item
    for work in works_in(result):
        interpreter.escape(work)


def _use(interpreter: Interpreter, value: Value, node: ast.AST, function: str) -> None:
    machine = interpreter.machine
    before = machine.function
    machine.function = function
    for tensor in tensors_in(value):
        if tensor.block.device is not None:
            _read(interpreter, tensor, node)
    machine.function = before


def _read(interpreter: Interpreter, tensor: Tensor, node: ast.AST) -> None:
    machine = interpreter.machine
    device = tensor.block.device
    assert device is not None  # it lies on a GPU
    machine.launch(machine.current(device), "the caller's work", [(tensor, False)], node)
