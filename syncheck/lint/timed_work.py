"""Functions that measure the time of work on a GPU, even if they name none.

The work may be that of another function of the file, and the clock may be read by a timer, an object of the file.
"""

import ast
import re
from collections.abc import Collection
from functools import cached_property

from syncheck.lint import deferred
from syncheck.lint.asynchronous_code import calls_any
from syncheck.lint.files import lines_of
from syncheck.lint.gpu_parameters import measures_time, moved_parameters
from syncheck.lint.interp.scope import flat
from syncheck.lint.nodes import methods_of, own_attribute, walk
from syncheck.lint.prefilter import CLOCKS, GPU, MOVED, lines_with, may_use_gpu, reads_clock, spans_any, words_in
from syncheck.semantics.collectives import FUNCTIONS

_IN_CODE = re.compile(r"^(?!\s*#).*cuda", re.MULTILINE)
"""The word in a line that is not a comment."""
_MOVED_ATTRIBUTE = re.compile(rf"(?:self|cls)\.(\w+) *(?:=[^\n]*?)?(?:{MOVED.pattern})")
"""Text that moves an attribute to a device that may be a GPU: `self.model = Net().cuda()`, `self.model.to(device)`."""
_MOVED_GLOBAL = re.compile(rf"^(\w+) *=[^\n]*?(?:{MOVED.pattern})", re.MULTILINE)
"""Text that makes a global variable on a device that may be a GPU: `model = Net().cuda()`."""
_TRAINING = (".backward(", "optimizer.step(", "scaler.step(")
_DEEPEST = 3
"""Maximum number of calls between a function and work on a GPU."""

_Function = ast.FunctionDef | ast.AsyncFunctionDef


class TimedWork:
    """The functions of a file that may measure the time of work on a GPU.

    Args:
        tree: the file.
        source: its text.
        clocks: see `prefilter.clock_aliases`.
    """

    def __init__(self, tree: ast.Module, source: str, clocks: frozenset[str]) -> None:
        self._tree, self._source, self._clocks = tree, source, clocks
        self._is_possible = may_time(source, clocks)

    def is_measured_in(self, function: _Function) -> bool:
        """Return whether a function reads a clock, or lets a timer read it, around work on a GPU."""
        if not self._is_possible:
            return False
        if self._uses_timer(function) and (self._moves(function) or self._computes(function)):
            return True
        if not reads_clock(function, self._clocks):
            return False
        if calls_any(function, self._training):
            return True
        return measures_time(function, self._clocks) and (
            self._names_gpu(function)
            or self._computes(function)
            or ("nccl" in self._source and bool(words_in(function) & FUNCTIONS.keys()))
            or bool(moved_parameters(function, self._tree, self._source))
        )

    def _uses_timer(self, function: _Function) -> bool:
        """Return whether a function starts and stops a timer, judging by its text."""
        return self._timers is not None and len(set(self._timers.findall(self._code.get(function, "")))) > 1

    def _names_gpu(self, function: _Function) -> bool:
        """Return whether a function names a GPU, if only as a part of a word: `to_cuda(sample)`."""
        return GPU.search(self._code.get(function, "")) is not None

    def _moves(self, function: _Function) -> bool:
        """Return whether a function moves something to a GPU, judging by its text."""
        return MOVED.search(self._code.get(function, "")) is not None

    def _computes(self, function: _Function) -> bool:
        """Return whether a function calls one that works on a GPU, or a moved attribute, or passes that on."""
        if calls_any(function, self._computing):
            return True
        calls = (node for node in walk(function) if isinstance(node, ast.Call)) if self._moved else ()
        return any(own_attribute(value) in self._moved for call in calls for value in (_called(call), *call.args))

    @cached_property
    def _code(self) -> dict[_Function, str]:
        """The text of each function of the file that is not nested in another one."""
        lines = lines_of(self._source)
        functions = deferred.functions(self._tree.body)
        return {each: "".join(lines[each.lineno - 1 : each.end_lineno]) for each in functions}

    @cached_property
    def _moved(self) -> frozenset[str]:
        """The attributes that the file moves to a device that may be a GPU."""
        return frozenset(_MOVED_ATTRIBUTE.findall(self._source))

    @cached_property
    def _training(self) -> re.Pattern[str] | None:
        """A pattern for calls of the functions that train."""
        lines = lines_with(self._source, _TRAINING) if "cuda" in self._source else []
        return _pattern(
            {function.name for function in deferred.functions(self._tree.body) if spans_any(function, lines)}
        )

    @cached_property
    def _computing(self) -> re.Pattern[str] | None:
        """A pattern for calls of functions that may work on a GPU, and of the global variables that were moved to one.

        These functions move something to a GPU, call what was moved there, or call such functions.
        """
        own = _pattern(self._moved, r"\bself\.")
        found = {each.name for each, code in self._code.items() if MOVED.search(code) or (own and own.search(code))}
        found |= set(_MOVED_GLOBAL.findall(self._source))
        for _ in range(_DEEPEST - 1):
            called = _pattern(found)
            found |= {each.name for each, code in self._code.items() if called and called.search(code)}
        return _pattern(found - {"__init__"})

    @cached_property
    def _timers(self) -> re.Pattern[str] | None:
        """A pattern for calls of the methods that read a clock in classes with at least two of them."""
        lines = lines_with(self._source, [f"{name}(" for name in CLOCKS | self._clocks])
        found: set[str] = set()
        for kind in flat(self._tree.body):
            if not isinstance(kind, ast.ClassDef):
                continue
            reading = {method.name for method in methods_of(kind).values() if spans_any(method, lines)}
            found |= reading if len(reading) > 1 else set()
        names = "|".join(sorted(found - {"__init__"}))
        return re.compile(rf"\.({names})\(") if names else None


def may_time(source: str, clocks: frozenset[str]) -> bool:
    """Return whether a file may measure the time of work on a GPU; `clocks`: see `prefilter.clock_aliases`."""
    has_clock = any(f"{name}(" in source for name in CLOCKS | clocks)
    is_on_gpu = _IN_CODE.search(source) is not None if "cuda" in source else may_use_gpu(source)
    return has_clock and is_on_gpu


def _pattern(called: Collection[str], before: str = r"\b") -> re.Pattern[str] | None:
    """Return a pattern for calls of some names; None if there are none."""
    return re.compile(rf"{before}(?:{'|'.join(sorted(called))})(?:\.forward)?\(") if called else None


def _called(call: ast.Call) -> ast.expr:
    """Return what is called: the model in `self.model(x)` and `self.model.forward(x)`."""
    match call.func:
        case ast.Attribute(value=owner, attr="forward"):
            return owner
        case called:
            return called
