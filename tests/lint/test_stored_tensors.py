"""Tensors that other code holds are not freed when a variable is deleted."""

import pytest

from syncheck.lint.engine import lint_source
from syncheck.lint.files import Text

STORED = """import torch
import torch.nn as nn
def f(obj, x, config):
    side = torch.cuda.Stream()
    y = x.cuda() * 2
    side.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(side):
        total = y.sum()
    {store}
    del y
    w = torch.ones(1024, device="cuda")
    torch.cuda.current_stream().wait_stream(side)
    return total, w, {kept}
"""


def codes(store, kept="obj"):
    found = lint_source("a.py", Text(STORED.format(store=store, kept=kept))).findings
    return [finding.rule.code for finding in found]


@pytest.mark.parametrize(
    ("store", "kept"),
    [
        ("obj.y = y", "obj"), ("obj['y'] = y", "obj"), ("obj.parts[x] = (y, 1)", "obj"),
        ("setattr(obj, 'y', y)", "obj"),
        ("obj |= {'y': y}", "obj"), ("kept = {}; kept |= {'y': y}", "kept"), ("kept = {'a': 1} | {'y': y}", "kept"),
        ("first, *kept = 1, y", "kept"), ("kept, *others = y, 1", "kept"), ("kept = dict(zip(['y'], [y]))", "kept"),
        ("kept = dict(enumerate([y]))", "kept"), ("kept = (t for t in [y])", "kept"),
        ("kept = []; kept.extend(t for t in (y,))", "kept"), ("kept = None or y", "kept"),
        ("kept = y if x is not None else None", "kept"), ("kept = x is not None and y", "kept"),
        ("obj.register_buffer('y', y)", "obj"), ("obj.queue.put(y)", "obj"), ("globals()['_y'] = y", "obj"),
    ],
)  # fmt: skip
def test_a_stored_tensor_stays_alive(store, kept):
    assert codes(store, kept) == []


@pytest.mark.parametrize("store", ["pass", "obj.name = 'y'", "z = [y]; del z", "obj.log(x)"])
def test_a_tensor_that_nothing_holds_is_freed(store):
    assert codes(store) == ["SYN201"]


def test_a_class_method_gets_the_class():
    source = STORED.format(store="Kept.add(y)", kept="Kept")
    kind = "class Kept:\n    items = []\n    @classmethod\n    def add(cls, t):\n        cls.items.append(t)\n"
    assert lint_source("a.py", Text(source + kind)).findings == ()
