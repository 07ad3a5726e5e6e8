"""Functions that time work on a GPU which they are given, and the parameters that hold it.

A parameter holds something on a GPU if all calls in the file pass such a thing, or if the function measures the memory
of the GPU and calls the parameter, or passes it on to what it calls. Only clocks treat it as one on a GPU.
"""

import ast
import re
from collections.abc import Iterator
from functools import lru_cache

from syncheck.lint import deferred
from syncheck.lint.asynchronous_code import calls_any
from syncheck.lint.file_calls import argument_of, calls_by_name
from syncheck.lint.interp.functions import own_nodes
from syncheck.lint.interp.unknown import computes
from syncheck.lint.nodes import bound_names, function_around, once, own_attribute, text, walk
from syncheck.lint.prefilter import CLOCKS, may_use_gpu, reads_clock, words_in
from syncheck.semantics.collectives import FUNCTIONS
from syncheck.source.expressions import arguments_of

_MEASURING = frozenset("max_memory_allocated reset_peak_memory_stats memory_allocated max_memory_reserved".split())
"""Functions of torch.cuda that are called where a GPU works."""
_CALLED = re.compile(r"(\w+)\(")
_IN_CODE = re.compile(r"^(?!\s*#).*cuda", re.MULTILINE)
"""The word in a line that is not a comment."""
_DEVICE = r"(?:['\"]cuda|(?:\w+\.)*_?(?:(?:torch_|cuda_)?device|dev|gpu|local_rank|(?:device|dev|gpu)_id)\b(?!\())"
_MOVED = re.compile(rf"\.cuda\(|\.to\((?:device=)?{_DEVICE}|\bdevice={_DEVICE}")
"""Text of an expression whose value is on a device that may be a GPU."""
_MOVED_ATTRIBUTE = re.compile(rf"(?:self|cls)\.(\w+) *(?:=[^\n]*?)?(?:{_MOVED.pattern})")
"""Text that moves an attribute to a device that may be a GPU: `self.model = Net().cuda()`, `self.model.to(device)`."""
_OF_THE_HOST = re.compile(r"\.cpu\(|\.numpy\(|\.item\(|\.tolist\(|\.to\((?:device=)?(?:torch\.device\()?['\"]cpu")

_Function = ast.FunctionDef | ast.AsyncFunctionDef


def may_time(source: str, clocks: frozenset[str]) -> bool:
    """Return whether a file may measure the time of work on a GPU; `clocks`: see `prefilter.clock_aliases`."""
    has_clock = any(f"{name}(" in source for name in CLOCKS | clocks)
    is_on_gpu = _IN_CODE.search(source) is not None if "cuda" in source else may_use_gpu(source)
    return has_clock and is_on_gpu


def times_gpu_work(
    function: _Function,
    tree: ast.Module,
    source: str,
    clocks: frozenset[str],
    training: re.Pattern[str] | None,
) -> bool:
    """Return whether a function reads a clock around work on a GPU, even if it names none.

    Args:
        function: the function.
        tree: the file.
        source: the text of the file.
        clocks: see `prefilter.clock_aliases`.
        training: see `helpers.training`.
    """
    if not reads_clock(function, clocks):
        return False
    if calls_any(function, training):
        return True
    if not _measures_time(function, clocks):
        return False
    if "nccl" in source and words_in(function) & FUNCTIONS.keys():
        return True
    return _uses_moved_attribute(function, source) or bool(moved_parameters(function, tree, source))


def _uses_moved_attribute(function: _Function, source: str) -> bool:
    """Return whether a method calls an attribute that its file moves to a GPU, such as a model, or passes it on."""
    moved = _moved_attributes(source)
    calls = (node for node in walk(function) if isinstance(node, ast.Call)) if moved else ()
    return any(own_attribute(value) in moved for call in calls for value in (_called(call), *call.args))


def _called(call: ast.Call) -> ast.expr:
    """Return what is called: the model in `self.model(x)` and `self.model.forward(x)`."""
    match call.func:
        case ast.Attribute(value=owner, attr="forward"):
            return owner
        case called:
            return called


@lru_cache(maxsize=4)
def _moved_attributes(source: str) -> frozenset[str]:
    """Return the attributes that a file moves to a GPU."""
    return frozenset(_MOVED_ATTRIBUTE.findall(source))


def _measures_time(function: _Function, clocks: frozenset[str]) -> bool:
    """Return whether a function may read a clock twice, or uses `timeit`, judging by its text."""
    called = _CALLED.findall(deferred.source_of(function) or text(function))
    return "timeit" in called or sum(name in CLOCKS | clocks for name in called) > 1


def moved_parameters(function: ast.AST, tree: ast.Module, source: str) -> frozenset[str]:
    """Return the parameters of a function that hold something on a GPU.

    Args:
        function: the function.
        tree: the file.
        source: the text of the file.
    """
    if not isinstance(function, _Function) or "cuda" not in source or not _measures_time(function, frozenset()):
        return frozenset()
    arguments = function.args
    positional = [argument.arg for argument in (*arguments.posonlyargs, *arguments.args)]
    given = _used_in_work(function) & {*positional, *(argument.arg for argument in arguments.kwonlyargs)}
    given -= {name for name in given if any(map(_is_moved_to_host, _bindings(name, function)))}
    if not given or words_in(function) & _MEASURING:
        return given
    is_called = source.count(f"{function.name}(") > 1
    calls = calls_by_name(tree).get(function.name, []) if is_called else []
    first = int(positional[:1] == ["self"])
    indices = {name: index - first for index, name in enumerate(positional)}
    return frozenset(
        name
        for name in given
        if calls and all(_is_moved(argument_of(call, name, indices.get(name)), call, tree) for call in calls)
    )


@once
def _used_in_work(function: ast.AST) -> frozenset[str]:
    """Return the variables that a function calls as models, and those that it passes to these."""
    calls = [node for node in own_nodes(function) if isinstance(node, ast.Call) and isinstance(node.func, ast.Name)]
    work = [call for call in calls if computes(call)]
    parts = [part for call in work for part in (call.func, *arguments_of(call))]
    return frozenset(part.id for part in parts if isinstance(part, ast.Name))


def _is_moved(value: ast.expr | None, call: ast.Call, tree: ast.Module) -> bool:
    """Return whether the argument of a call is on a device that may be a GPU, as the calling function shows."""
    if not isinstance(value, ast.Name):
        return value is not None and _MOVED.search(text(value)) is not None
    bindings = list(_bindings(value.id, function_around(tree, call.lineno), tree))
    return any(map(_MOVED.search, bindings)) and not any(map(_OF_THE_HOST.search, bindings))


def _is_moved_to_host(binding: str) -> bool:
    """Return whether a binding moves the variable itself, `model.to("cpu")`, and not a result: `model(x).cpu()`."""
    return _OF_THE_HOST.search(binding) is not None and "(" not in binding.partition(".")[0]


def _bindings(name: str, *functions: ast.AST) -> Iterator[str]:
    """Yield the source of what the innermost of some functions binds a variable to, or moves in place."""
    for function in functions:
        found = [text(value) for value in _values_of(name, function)]
        yield from found
        if found:
            return


def _values_of(name: str, function: ast.AST) -> Iterator[ast.expr]:
    for node in own_nodes(function):
        match node:
            case ast.Assign(value=value) if name in bound_names(node):
                yield value
            case ast.Expr(value=ast.Call(func=ast.Attribute(value=ast.Name(id=owner))) as value) if owner == name:
                yield value
            case _:
                pass
