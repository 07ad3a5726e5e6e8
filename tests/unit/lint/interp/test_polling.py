"""Loops that may end because work is complete."""

import ast

import pytest

from syncheck.lint.interp.polling import may_poll, polled
from syncheck.lint.nodes import text


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


@pytest.mark.parametrize(
    ("loop", "expected"),
    [
        ("while not event.query(): pass", "event"),
        ("while not self.events[0].query():\n    await asyncio.sleep(0)", "self.events[0]"),
        ("while event.query() is False: time.sleep(1)", "event"),
        ("while event.query(): pass", None),
        ("while not event.query() and n < 4: pass", None),
        ("while not event.query(): work()", None),
        ("while not event.done(): pass", None),
        ("while True: pass", None),
        ("while not event.query(): pass\nelse: work()", None),
    ],
)
def test_a_loop_that_only_passes_the_time_waits_for_what_it_asks(loop, expected):
    found = polled(body("async def f():\n    " + loop.replace("\n", "\n    "))[0].body[0])
    assert (found if found is None else text(found)) == expected
