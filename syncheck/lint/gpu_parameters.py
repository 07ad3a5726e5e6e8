"""Parameters of functions that time work on a GPU, and that hold something there.

A parameter holds something on a GPU if all calls in the file pass such a thing, or if the function measures the memory
of the GPU and calls the parameter, or passes it on to what it calls. Only clocks treat it as one on a GPU.
"""

import ast
import re
from collections.abc import Iterator

from syncheck.lint import deferred
from syncheck.lint.file_calls import argument_of, calls_by_name
from syncheck.lint.interp.functions import own_nodes
from syncheck.lint.interp.unknown import computes
from syncheck.lint.nodes import bound_names, function_around, once, text
from syncheck.lint.prefilter import CLOCKS, MOVED, words_in
from syncheck.source.expressions import arguments_of

_MEASURING = frozenset("max_memory_allocated reset_peak_memory_stats memory_allocated max_memory_reserved".split())
"""Functions of torch.cuda that are called where a GPU works."""
_CALLED = re.compile(r"(\w+)\(")
_OF_THE_HOST = re.compile(r"\.cpu\(|\.numpy\(|\.item\(|\.tolist\(|\.to\((?:device=)?(?:torch\.device\()?['\"]cpu")

_Function = ast.FunctionDef | ast.AsyncFunctionDef


def measures_time(function: _Function, clocks: frozenset[str]) -> bool:
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
    if not isinstance(function, _Function) or "cuda" not in source or not measures_time(function, frozenset()):
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
        return value is not None and MOVED.search(text(value)) is not None
    bindings = list(_bindings(value.id, function_around(tree, call.lineno), tree))
    return any(map(MOVED.search, bindings)) and not any(map(_OF_THE_HOST.search, bindings))


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
