"""Callbacks of a trainer that clock each batch, between two hooks, and wait for nothing (SYN701).

A trainer's hooks around a batch run when its forward and backward pass and the step of the optimizer are launched.
Lightning's own `ThroughputMonitor` synchronizes before it reads the clock.

Source:
    lightning/pytorch/callbacks/throughput_monitor.py, `_update`.
"""

import ast
import re
from collections.abc import Iterator, Set
from dataclasses import replace

from syncheck.findings import Finding
from syncheck.lint.interp.functions import own_nodes
from syncheck.lint.locations import lines_about
from syncheck.lint.nodes import Method, classes_in, methods_of, own_attribute, text
from syncheck.lint.patterns.context import Context
from syncheck.lint.prefilter import CLOCKS, clock_aliases
from syncheck.rules import unsynchronized_timing
from syncheck.rules.model import Severity
from syncheck.source.expressions import last_name
from syncheck.source.measured_times import is_measured

_START = re.compile(r"on_(\w*(?:batch|step))_(?:start|begin)$")
"""Hooks before a batch."""
_HELP = "add `if torch.cuda.is_available(): torch.cuda.synchronize()` before line {line}"
_STARTED = "clock started here"
_WAITING = re.compile(r"synchronize|\.item\(|\.cpu\(|\.tolist\(|barrier")
_ESTIMATING = re.compile(r"estimat|limit|progress|interrupt", re.IGNORECASE)
"""Words in the names of callbacks whose times need not be exact."""


def can_matter(source: str) -> bool:
    """Return whether this check may apply to a file."""
    return "Callback" in source and "torch" in source and "tensorflow" not in source


def findings(context: Context) -> Iterator[Finding]:
    """Yield the readings in hooks after a batch whose interval begins in the hook before it, as warnings."""
    lines = lines_about(context.known, unsynchronized_timing.RULE)
    clocks = CLOCKS | clock_aliases(context.sites.text)
    for kind in classes_in(context.tree):
        is_timed = any("Callback" in text(base) for base in kind.bases) and not _ESTIMATING.search(kind.name)
        methods = methods_of(kind) if is_timed else {}
        for begin in methods.values():
            after = methods.get(f"on_{match[1]}_end") if (match := _START.match(begin.name)) else None
            if after is None or _WAITING.search(text(begin)):
                continue
            for reading, start in _intervals(after, _starts(begin, clocks), clocks):
                location = context.sites.location(context.sites.id_of(reading, after.name))
                is_waited_for = any(_WAITING.search(text(step)) for step in after.body if step.lineno < reading.lineno)
                if reading.lineno not in lines and not is_waited_for and is_measured(location.frame, after):
                    lines.add(reading.lineno)
                    found: Finding = Finding.of(unsynchronized_timing.RULE, location, stream="the GPU")
                    related = replace(context.sites.location(context.sites.id_of(start, begin.name)), message=_STARTED)
                    advice = _HELP.format(line=reading.lineno)
                    yield replace(found, level=Severity.WARNING, help=advice, related=(related,))


def _starts(method: Method, clocks: Set[str]) -> dict[str, ast.Call]:
    """Return the attributes that a method sets to the reading of a clock, with the reading."""
    assigned = [node for node in own_nodes(method) if isinstance(node, ast.Assign)]
    return {
        own_attribute(target): node.value
        for node in assigned
        if isinstance(node.value, ast.Call) and last_name(node.value.func) in clocks
        for target in node.targets
        if own_attribute(target)
    }


def _intervals(method: Method, starts: dict[str, ast.Call], clocks: Set[str]) -> Iterator[tuple[ast.Call, ast.Call]]:
    """Yield the readings from which a method subtracts one of some earlier ones, with that one."""
    for node in own_nodes(method):
        match node:
            case ast.BinOp(left=ast.Call() as reading, op=ast.Sub(), right=right):
                if last_name(reading.func) in clocks and own_attribute(right) in starts:
                    yield reading, starts[own_attribute(right)]
            case _:
                pass
