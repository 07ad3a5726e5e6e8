"""Loops that may end because work is complete."""

import ast

import pytest

from syncheck.lint.interp.polling import may_poll


def body(text):
    return ast.parse(text).body


@pytest.mark.parametrize(
    ("loop", "expected"),
    [
        ("while len(batch) < n: batch.append(f())", False),
        ("while not self.stopping or pending is not None: pending = launched", False),
        ("while left > 0: left -= 1", False),
        ("while self.left: self.other = f()", False),
        ("while not event.query(): pass", True),
        ("while not done: done = event.query()", True),
        ("while self.busy: self.busy = poll()", True),
        ("while True: f()", True),
        ("while True:\n    if event.query(): break", True),
        ("while True:\n    if done: return\n    done = poll()", True),
        ("while True:\n    try: item = next(it)\n    except StopIteration: break\n    f(item)", False),
        ("while True:\n    try: item = next(it)\n    except Empty: break\n    f(item)", True),
        ("while True:\n    for item in items:\n        if item.ready(): break", True),
        ("while True:\n    with lock:\n        if not pending: break\n    f()", False),
        ("while True:\n    for item in items:\n        if item.ready(): break\n    if i == n: break", False),
        ("while True:\n    item = next(it, None)\n    if item is None: break", False),
        ("while not self.ready: pass", True),
        ("while not self.ready: time.sleep(0.1)", True),
    ],
)
def test_a_loop_may_end_because_work_is_complete(loop, expected):
    assert may_poll(body(loop)[0]) is expected
