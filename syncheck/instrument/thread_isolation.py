"""Detects code that cannot have observed another thread: it reads nothing that another thread may have changed."""

import ast
import builtins
import math
import sys
import threading
import time
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from functools import lru_cache
from queue import Queue
from types import BuiltinFunctionType, CodeType, FrameType, FunctionType, ModuleType
from typing import Any

import torch

from syncheck.source.frames import locals_of
from syncheck.source.lines import position
from syncheck.source.scopes import Scopes, scopes_of
from syncheck.source.straight_line import NotStraightLineError, Position, between
from syncheck.source.text import parse_module, source_text

_BUILTINS = {
    id(function)
    for function in (print, range, int, float, bool, str, repr, id, abs, min, max, round, len, isinstance, type, divmod)
}
_MODULES = {torch, torch.cuda, torch.nn.functional, torch.linalg, torch.fft, torch.special, time, math}
"""Modules whose functions read their arguments and nothing else of the program."""
_CLASSES = (
    threading.Thread, threading.Event, threading.Lock, threading.RLock, threading.Semaphore, threading.BoundedSemaphore,
    threading.Barrier, Queue, Future, ThreadPoolExecutor,
)  # fmt: skip
_FIXED = (
    int, float, bool, str, bytes, complex, type(None), type, ModuleType, FunctionType, BuiltinFunctionType,
    torch.device, torch.dtype,
)  # fmt: skip
_PLAIN = (*_FIXED, torch.Tensor, torch.Size)
_LOOPS = (ast.For, ast.AsyncFor, ast.While, ast.ListComp, ast.SetComp, ast.DictComp, ast.GeneratorExp)
TRACKED_METHODS: dict[type, frozenset[str]] = {
    threading.Thread: frozenset({"start", "join"}),
    threading.Event: frozenset({"set", "clear", "wait", "is_set"}),
    Queue: frozenset({"put", "get", "put_nowait", "get_nowait"}),
    threading.Semaphore: frozenset({"acquire", "release"}),
    threading.BoundedSemaphore: frozenset({"acquire", "release"}),
    threading.Barrier: frozenset({"wait"}),
    Future: frozenset({"result", "exception", "done", "set_result", "set_exception"}),
    ThreadPoolExecutor: frozenset({"submit"}),
}
"""Types that order threads, with their methods that are tracked."""


def is_isolated(frame: FrameType, start: int | None, end: int | None, *, is_once: bool = False) -> bool:
    """Return whether a frame's code between two of its instructions observes nothing of other threads.

    Args:
        frame: the frame, which is running.
        start: offset of a call that has returned; None for the beginning of the code.
        end: offset of the call that is running now; None for the end of the code.
        is_once: the code has not been left in between, so that an end at or before the start implies a loop in it.
    """
    code = frame.f_code
    file = _file(code.co_filename)
    if file is None or sys.gettrace() is not None:
        return False
    try:
        body = _body(file.tree, code.co_name, code.co_firstlineno)
        is_forward = start is None or end is None or start < end
        first, last = _position(code, start), _position(code, end)
        nodes = between(body, first, last, is_forward=is_forward, is_once=is_once)
    except NotStraightLineError:
        return False
    known = {position(code, offset) for offset in (start, end) if offset is not None}
    values = _Values(frame, file)
    try:
        analysis = _Analysis(values, known)
        return all(analysis.is_isolated(node) for node in nodes)
    finally:
        values.forget()


def is_in_loop(code: CodeType, offset: int) -> bool:
    """Return whether an instruction may run more than once per execution of its code; True if unknown."""
    file = _file(code.co_filename)
    return file is None or position(code, offset)[0] in file.in_loops


def _position(code: CodeType, offset: int | None) -> Position | None:
    if offset is None:
        return None
    line, _, column, _ = position(code, offset)
    if column is None:
        raise NotStraightLineError
    return line, column


class _File:
    """The parsed source of a file.

    Attributes:
        tree: the syntax tree.
        scopes: the scopes and their names.
        shared: names that some function declares global or nonlocal.
        in_loops: the lines inside loops.
    """

    def __init__(self, tree: ast.Module, scopes: Scopes) -> None:
        self.tree = tree
        self.scopes = scopes
        declared = [node for node in ast.walk(tree) if isinstance(node, ast.Global | ast.Nonlocal)]
        self.shared = {name for node in declared for name in node.names}
        loops = [node for node in ast.walk(tree) if isinstance(node, _LOOPS)]
        self.in_loops = {line for loop in loops for line in range(loop.lineno, (loop.end_lineno or loop.lineno) + 1)}

    def is_constant(self, name: str) -> bool:
        """Return whether a name of the module is bound exactly once."""
        lines = self.scopes.module.bindings.get(name, ())
        return name not in self.shared and len(lines) == 1 and not self.in_loops.intersection(lines)


@lru_cache(maxsize=64)
def _file(filename: str) -> _File | None:
    source = source_text(filename)
    scopes = scopes_of(source) if source else None
    return None if scopes is None else _File(parse_module(source), scopes)


@lru_cache(maxsize=1024)
def _body(tree: ast.Module, name: str, line: int) -> list[ast.stmt]:
    """Return the statements of a function, given its name and the first line of its code, or those of the module."""
    if name == "<module>":
        return tree.body
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef) and node.name == name:
            first = min([node.lineno, *(decorator.lineno for decorator in node.decorator_list)])
            if first == line:
                return node.body
    raise NotStraightLineError  # a lambda, a comprehension, a coroutine


class _Values:
    """The values of a frame's names that no other thread can bind."""

    def __init__(self, frame: FrameType, file: _File) -> None:
        self._file = file
        self._code = frame.f_code
        self._is_module = frame.f_code.co_name == "<module>"
        self._locals = locals_of(frame)
        self._globals = frame.f_globals

    def forget(self) -> None:
        """Release the values, so that none is kept alive after the program deletes it."""
        self._locals = {}

    def __getitem__(self, name: str) -> Any:
        """Return a value; raise KeyError for a name that is unbound or that another thread may bind."""
        code = self._code
        if self._is_module:
            if name in self._file.shared:
                raise KeyError(name)
        elif name in {*code.co_varnames, *code.co_cellvars, *code.co_freevars}:
            if name in self._file.shared:
                raise KeyError(name)
            return self._locals[name]
        elif name in self._globals and not self._file.is_constant(name):
            raise KeyError(name)
        return self._globals[name] if name in self._globals else vars(builtins)[name]


class _Analysis:
    """Searches expressions for parts that may observe other threads.

    Args:
        values: the values of names.
        known: positions of calls that observe no threads or are analyzed separately.
    """

    def __init__(self, values: _Values, known: set[Any]) -> None:
        self._values = values
        self._known = known

    def is_isolated(self, node: ast.AST) -> bool:
        """Return whether a statement or an expression observes nothing of other threads."""
        if isinstance(node, ast.Call):
            return self._is_known_call(node) and all(map(self.is_isolated, _arguments(node)))
        if isinstance(node, ast.Name):
            return not isinstance(node.ctx, ast.Load) or self._is_plain(node)
        if isinstance(node, ast.Attribute | ast.Subscript):
            return self._is_known_member(node) and all(map(self.is_isolated, ast.iter_child_nodes(node)))
        return isinstance(node, _TRANSPARENT) and all(map(self.is_isolated, ast.iter_child_nodes(node)))

    def _is_known_member(self, node: ast.Attribute | ast.Subscript) -> bool:
        """Return whether an attribute or item is only assigned, or belongs to a tensor or a module."""
        if not isinstance(node.ctx, ast.Load) or self._is_tensor(node.value):
            return True
        owner, value = self._value(node.value), self._value(node)
        return _is(owner, ModuleType) and _is_plain_value(value) and (owner in _MODULES or _is_fixed(value))

    def _is_plain(self, node: ast.Name) -> bool:
        try:
            return _is_plain_value(self._values[node.id])
        except KeyError:
            return False

    def _value(self, node: ast.expr) -> Any:
        """Return the value of a name or of a module's attribute; None if it is unknown."""
        try:
            if isinstance(node, ast.Name):
                return self._values[node.id]
            if isinstance(node, ast.Attribute) and _is(module := self._value(node.value), ModuleType):
                return vars(module).get(node.attr)
        except KeyError:
            return None
        return None

    def _is_tensor(self, node: ast.expr) -> bool:
        """Return whether an expression evaluates to a tensor, or to a part of one."""
        match node:
            case ast.Attribute(value=value) | ast.Subscript(value=value) | ast.Call(func=ast.Attribute(value=value)):
                owner = self._value(value)
                return self._is_tensor(value) or (_is(owner, ModuleType) and owner in _MODULES)
            case ast.BinOp(left=left, right=right):
                return self._is_tensor(left) or self._is_tensor(right)
            case _:
                return _is(self._value(node), torch.Tensor)

    def _is_known_call(self, node: ast.Call) -> bool:
        if (node.lineno, node.end_lineno, node.col_offset, node.end_col_offset) in self._known:
            return self._is_known_owner(node.func)
        function = self._value(node.func)
        is_class = any(function is known for known in _CLASSES)
        if isinstance(node.func, ast.Attribute):
            owner = self._value(node.func.value)
            if _is(owner, ModuleType):
                return owner in _MODULES or is_class
            return self._is_tensor(node.func.value) or _is_tracked_method(owner, node.func.attr)
        return id(function) in _BUILTINS or is_class

    def _is_known_owner(self, function: ast.expr) -> bool:
        """Return whether evaluating the function of a known call observes nothing of other threads."""
        if isinstance(function, ast.Name):
            return True
        if not isinstance(function, ast.Attribute):
            return False
        owner = self._value(function.value)
        return owner is not None or self._is_tensor(function.value)


_TRANSPARENT = (
    ast.Expr, ast.Assign, ast.AnnAssign, ast.AugAssign, ast.Delete, ast.BinOp, ast.UnaryOp, ast.Compare, ast.Tuple,
    ast.List, ast.JoinedStr, ast.FormattedValue, ast.Slice, ast.keyword, ast.Constant, ast.Pass, ast.Global,
    ast.Nonlocal, ast.expr_context, ast.operator, ast.unaryop, ast.cmpop,
)  # fmt: skip
"""Syntax nodes that read nothing except through their children."""


def _arguments(node: ast.Call) -> Iterator[ast.AST]:
    yield from node.args
    yield from (keyword.value for keyword in node.keywords)
    if isinstance(node.func, ast.Attribute) and not isinstance(node.func.value, ast.Name | ast.Attribute):
        yield node.func.value


def _is(value: Any, kinds: type | tuple[type, ...]) -> bool:
    """Return whether a value is an instance, without evaluating `__class__`, which lazy proxies forward or reject."""
    return issubclass(type(value), kinds)


def _is_tracked_method(owner: Any, method: str) -> bool:
    if _is(owner, _stream_types()):
        return True
    return any(
        _is(owner, known) and method in methods and getattr(type(owner), method) is getattr(known, method)
        for known, methods in TRACKED_METHODS.items()
    )


def _stream_types() -> tuple[type, ...]:
    """Return the current types of streams and events; the simulator replaces them."""
    return torch.Stream, torch.Event, torch.cuda.Stream, torch.cuda.Event


def _is_fixed(value: Any) -> bool:
    """Return whether a value cannot have been created by a thread; any thread may set an attribute of a module."""
    return all(map(_is_fixed, tuple.__iter__(value))) if _is(value, tuple) else _is(value, _FIXED)


def _is_plain_value(value: Any) -> bool:
    """Return whether a value is the same for all threads at all times, or orders whatever it transports."""
    if _is(value, tuple):
        return all(map(_is_plain_value, tuple.__iter__(value)))
    return _is(value, (*_PLAIN, *_stream_types(), *TRACKED_METHODS))
