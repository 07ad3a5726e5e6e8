"""Copies on a stream of an object that it keeps until a method drops them: the stream reuses their memory at once."""

import ast

from syncheck.lint.evictions import evicted_copy
from syncheck.lint.host_waits import waits_for_others
from syncheck.lint.nodes import methods_of, text, walk


def kept_copy(kind: ast.ClassDef, block: ast.With, stream: str) -> str:
    """Return where a copy of a block is kept until a method drops it; "" if none is, or a method may wait before that.

    Args:
        kind: the class.
        block: a block on a stream that never waits for another one.
        stream: the attribute of `self` with the stream.
    """
    kept = evicted_copy(kind, block)
    methods = (step for name, step in methods_of(kind).items() if name != "__init__")
    calls = (node for step in methods for node in walk(step) if isinstance(node, ast.Call))
    return "" if kept is None or any(waits_for_others(kind, call, stream) for call in calls) else text(kept.targets[0])
