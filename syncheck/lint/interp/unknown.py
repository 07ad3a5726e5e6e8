"""Code that is not known: what its name says, whether it may wait, and what it may leave running."""

import ast
import re
from functools import lru_cache

from syncheck.lint import nodes
from syncheck.lint.interp.contents import tensors_in
from syncheck.lint.interp.values import (
    DERIVED,
    Attribute,
    Function,
    Mapping,
    Native,
    Partial,
    Sequence,
    Tensor,
    Value,
)

_WORDS = re.compile(r"[A-Z]?[a-z]+|[A-Z]+(?![a-z])")
_WAITING = frozenset(
    """sync synchronize synchronise synchronized synchronizes wait waits barrier join flush finish finalize finalise
    drain block""".split()
)
_NOT_WAITING = re.compile(r"^os\.path\.|block_|_block|(^|[._])no_?sync|to_?sync\b")
_COMPUTING = frozenset(
    """model net network module layer encoder decoder backbone criterion forward backward fwd bwd kernel attention attn
    matmul gemm mm conv unet vae transformer discriminator loss""".split()
)
_FUNCTIONS = frozenset("f fn func function op step".split())
"""Names of what a benchmark is given to run."""
_HOST_ONLY = frozenset(
    """print info debug warning error log append add update write extend insert format isinstance len save dump put push
    remove register len shape size numel dim item tolist numpy cpu""".split()
)
_CODE = (Function, Partial, Native)
_HOLDING_TENSORS = frozenset({Attribute, Mapping, Sequence, Tensor})
"""Kinds of values in which a tensor is looked for."""
_FLAGS = frozenset("barrier barriers flag flags signal signals semaphore semaphores lock locks".split())
"""Words of tensors that kernels wait for."""
_KEEPING = frozenset(
    """then register add set hook hooks callback callbacks sort sorted map filter partial jit compile wraps submit
    append""".split()
)
"""Words of functions that keep what they are given for later."""

_GPUS = frozenset({"device", "cuda", "gpu"})
_MOVING = frozenset({"to", "move", "send", "copy", "put", "transfer", "upload"})
_BACK = frozenset({"cpu", "host", "from", "is", "has", "get"})


@lru_cache(maxsize=4096)
def words_of(name: str) -> frozenset[str]:
    """Return the words of a name, in lower case: those of "device_supports_nonBlocking"."""
    return frozenset(word.lower() for word in _WORDS.findall(name))


@lru_cache(maxsize=4096)
def may_wait(path: str) -> bool:
    """Return whether a name says that a function waits for something."""
    name = path.rpartition(".")[2]
    if _NOT_WAITING.search(path):
        return name.startswith("block_until")
    return bool(words_of(name) & _WAITING)


@lru_cache(maxsize=4096)
def says_moved(name: str) -> bool:
    """Return whether a function moves what it is given to a GPU, by its name: `move_batch_to_device`."""
    words = words_of(name)
    return bool(words & _GPUS and words & _MOVING) and not words & _BACK


def may_order(body: list[ast.stmt]) -> bool:
    """Return whether the words of some statements say that they wait for something."""
    return any(_names_wait(statement) for statement in body)


@nodes.once
def _names_wait(statement: ast.AST) -> bool:
    calls = (node for node in nodes.walk(statement) if isinstance(node, ast.Call))
    return any(may_wait(called_name(call)) for call in calls)


def takes_code(values: list[Value], node: ast.AST) -> bool:
    """Return whether a function is given one that it may call, and wait for: `do_bench(lambda: f(x))`."""
    has_code = any(isinstance(value, _CODE) for value in values)
    return has_code and not words_of(called_name(node)) & _KEEPING


def takes_flag(node: ast.AST) -> bool:
    """Return whether a call is given what its code may wait for, by its name: a flag that a kernel reads."""
    given = [*node.args, *(keyword.value for keyword in node.keywords)] if isinstance(node, ast.Call) else []
    return any(words_of(nodes.text(value)) & _FLAGS for value in given)


def makes_object(node: ast.AST) -> bool:
    """Return whether what is called is a class, by its name: `Batch(output)`."""
    return called_name(node)[:1].isupper()


def may_be_tensor(value: Value | None) -> bool:
    """Return whether something may be a tensor on a GPU: unknown code has made it from one."""
    while isinstance(value, Attribute):
        value = value.owner
    return value is DERIVED


def is_on_gpu(value: Value) -> bool:
    """Return whether a value is, or may be, a tensor on a GPU, or holds one."""
    if value.__class__ is Value:
        return value is DERIVED
    if value.__class__ not in _HOLDING_TENSORS:
        return False
    return may_be_tensor(value) or any(tensor.block.device is not None for tensor in tensors_in(value))


def called_name(node: ast.AST) -> str:
    """Return the last name of what a call calls; "" for a call that has none."""
    function = node.func if isinstance(node, ast.Call) else None
    if isinstance(function, ast.Attribute):
        owner = function.value
        if function.attr == "step":  # of an optimizer; a scheduler's does nothing there
            words = words_of(nodes.text(owner))
            return "step" if words & {"optimizer", "optim", "opt", "scaler"} else ""
        return function.attr
    if isinstance(function, ast.Subscript):
        function = function.value
    return function.id if isinstance(function, ast.Name) else ""


def computes(node: ast.AST) -> bool:
    """Return whether the name of what is called says that it computes, and no more."""
    name = called_name(node)
    return name in _FUNCTIONS or bool(words_of(name) & _COMPUTING)


def is_on_host(node: ast.AST) -> bool:
    """Return whether the name of what is called says that nothing runs on a GPU."""
    return bool(words_of(called_name(node)) & _HOST_ONLY)
