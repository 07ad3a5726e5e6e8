"""Code between two calls: whether it may have observed another thread."""

import sys
import textwrap
from types import ModuleType

import pytest
import torch

from syncheck.instrument import thread_isolation
from syncheck.instrument.thread_isolation import is_in_loop, is_isolated
from tests.unit.instrument.program import run

MODULE = """
import math
import threading
import time
from queue import Queue

import torch

import settings


class Box:
    value = None


class Turnstile(threading.Event):
    def wait(self, timeout=None):
        return super().wait(timeout)


def helper(value=1):
    return value


def change():
    global changed
    changed = torch.ones(2)


x = torch.ones(2, 2)
done = torch.cuda.Event()
box, items, pair = Box(), [1, 2], (1, 2)
event, queue, turnstile = threading.Event(), Queue(), Turnstile()
event.set()
turnstile.set()
worker = threading.Thread(target=helper)
twice = 1
twice = 2
changed = 1
for each in range(2):
    made_in_a_loop = 1
"""


class Event:
    """A GPU event."""

    def query(self):
        return True


@pytest.fixture(autouse=True)
def settings(monkeypatch):
    """Provide a second module for the program."""
    monkeypatch.setattr(torch.Tensor, "mark", None, raising=False)
    monkeypatch.setattr(torch.cuda, "Event", Event)
    module = ModuleType("settings")
    vars(module).update(width=4, items=[1], shared=torch.ones(2), pairs=(1, torch.ones(2)), sizes=(1, (2, 3)))
    monkeypatch.setitem(sys.modules, "settings", module)


class Marks:
    """Records the position of a frame, and at the second call checks the code in between."""

    def __init__(self, *, is_once=True):
        self.is_once = is_once
        self.first = None
        self.found = []

    def __call__(self):
        frame = sys._getframe(1)
        if self.first is None:
            self.first = frame.f_lasti
        else:
            self.found.append(is_isolated(frame, self.first, frame.f_lasti, is_once=self.is_once))
        return 1


def found(body, *, is_function=True, **options):
    """Return the result for a body that calls `mark` twice."""
    mark = Marks(**options)
    program = f"def program():\n{textwrap.indent(body, '    ')}\nprogram()\n" if is_function else body
    run(MODULE + program, mark=mark, from_outside=1)
    (answer,) = mark.found
    return answer


def between(code, *, before="", call="mark()", **options):
    """Return the result for the code between two calls."""
    return found(f"{before}\n{call}\n{code}\n{call}", **options)


BLIND = """
pass
a = 1
a = b = 2; a = a + b
a = [1, 2]
a = -x
a = x @ x
a = x[0]
a = x[0:1, 0].shape
a = x.shape[0]
a = (x + 1).sum()
a = (1 * x).T
a = torch.ones(2).sum()
a = torch.zeros(2, dtype=torch.float32)
x[0] = 1
x.grad = None
print(x.shape, end="")
a = f"{x.dtype} {1:>3}"
a = len("ab") < 3
a = math.sqrt(math.pi)
a = time.perf_counter()
a: int = 1
a = 1; a += 1
a = 1; del a
a = pair
a = settings.width
a = settings.sizes
settings.items = [1]
event.set(); event.is_set(); event.wait()
event.clear()
queue.put(1); queue.get()
queue.put_nowait(1); queue.get_nowait()
worker.start(); worker.join()
done.query()
a = threading.Thread(target=helper)
a = Queue()
a = torch.cuda.is_available
with torch.no_grad(): a = x + 1
for i in range(3): a = x + i
"""


@pytest.mark.parametrize("code", BLIND.strip().splitlines())
@pytest.mark.parametrize("is_function", [True, False])
def test_code_that_reads_no_shared_state_is_isolated(code, is_function):
    assert between(code, is_function=is_function)


SEEING = """
a = items
a = items[0]
a = [items]
print(items)
a = box.value
a = box
helper()
a = torch.tensor(helper())
a = x.add(helper()).sum()
a = x[helper()]
a = (helper() + x).T
a = f"{helper()}"
print("", end=str(helper()))
a = len(items)
a = sorted("ba")
a = settings.items
a = torch.__all__
a = settings.shared
a = settings.pairs
a = event.is_set
a = event._flag
a = queue.qsize()
a = worker.is_alive()
turnstile.wait()
a = changed
a = (1, items); b = a
a = Box()
a = Box.value
a = "b".upper()
a = lambda: 1
a = [i for i in "ab"]
a = 1 if x is None else 2
a = x is None or x
assert x is not None
if twice: a = 1
for i in range(helper()): pass
for i in items: pass
while items == []: pass
import os
"""


@pytest.mark.parametrize("code", SEEING.strip().splitlines())
@pytest.mark.parametrize("is_function", [True, False])
def test_code_that_may_read_changes_by_other_threads_is_not_isolated(code, is_function):
    assert not between(code, is_function=is_function)


def test_a_local_name_is_private_unless_it_is_shared():
    assert between("a = mine", before="mine = 1")
    assert not between("a = mine", before="mine = 1\ndef inner():\n    nonlocal mine\n    mine = 2")
    assert not between("a = mine", before="global mine\nmine = 1")


@pytest.mark.parametrize("name", ["twice", "made_in_a_loop", "from_outside"])
def test_a_module_name_not_bound_exactly_once_is_unknown_in_a_function(name):
    assert not between(f"a = {name}")
    assert between(f"a = {name}", is_function=False)


@pytest.mark.parametrize("call", ["mark()", "print(mark())", "a = mark() + 1", "torch.add(x, mark())", "x.add(mark())"])
def test_harmless_code_around_the_calls_is_isolated(call):
    assert found(f"mark()\n{call}")


@pytest.mark.parametrize(("between", "is_isolated"), [("x + 1", True), ("helper()", False)])
def test_the_rest_of_a_statement_lies_between_two_calls_in_it(between, is_isolated):
    assert found(f"a = mark(), {between}, mark()") is is_isolated


@pytest.mark.parametrize("call", ["helper(mark())", "a = items, mark()", "a = [mark() for _ in range(1)]"])
def test_code_around_the_calls_may_read_shared_state(call):
    assert not found(f"mark()\n{call}")


@pytest.mark.parametrize(
    ("call", "is_known"),
    [("x.mark()", True), ("x.T.mark()", True), ("box.mark()", True), ("box.box.mark()", False), ("made[0]()", False)],
)
def test_the_receiver_of_a_call_must_be_known(call, is_known):
    before = "box.mark = torch.Tensor.mark = mark\nbox.box, made = box, [mark]"
    assert between("pass", before=before, call=call) is is_known


def test_a_loop_is_followed_around():
    loop = "for i in range(2):\n    mark()\n    a = x + 1"
    assert found(loop)
    assert not found(loop.replace("x + 1", "helper()"))
    assert not found("for i in range(2):\n    mark()\n    a = x + 1\n    if items: continue")


def test_a_loop_in_a_function_that_may_run_again_is_not_isolated():
    loop = "for i in range(2):\n    mark()\n    a = x + 1"
    assert not found(loop, is_once=False)


# -- the whole path into a function or out of it


def is_path_isolated(source, start=None, end=None):
    """Return the result for the path from the start of a function to a call, or from the call to the end."""
    frames = []
    run(source, mark=lambda: frames.append((sys._getframe(1), sys._getframe(1).f_lasti)))
    ((frame, offset),) = frames
    return is_isolated(frame, start and offset, end and offset)


FUNCTION = """
def around(value=1):
    {before}
    mark()
    {after}
around()
"""


def test_the_start_of_a_function_is_checked_up_to_a_call():
    assert is_path_isolated(FUNCTION.format(before="a = 1", after="print(print.__name__)"), end=True)
    assert not is_path_isolated(FUNCTION.format(before="print(print.__name__)", after="a = 1"), end=True)


def test_the_end_of_a_function_is_checked_from_a_call_on():
    assert is_path_isolated(FUNCTION.format(before="a = [print()]", after="a = 1"), start=True)
    assert not is_path_isolated(FUNCTION.format(before="a = 1", after="print(print.__name__)"), start=True)


@pytest.mark.parametrize(
    "source",
    ["(lambda: mark())()", "[mark() for _ in range(1)]", "class A:\n    mark()", "exec('mark()')"],
    ids=["lambda", "comprehension", "class", "text without a file"],
)
def test_code_of_unknown_shape_is_not_isolated(source):
    is_a_module_in_3_12 = source.startswith("[") and sys.version_info >= (3, 12)
    assert is_a_module_in_3_12 or not is_path_isolated(source, end=True)


def test_the_right_one_of_functions_with_equal_names_is_checked():
    twins = "def f():\n    print(print.__name__)\n    mark()\nother = f\n\n@(lambda f: f)\ndef f():\n    mark()\nf()"
    assert is_path_isolated(twins, end=True)
    assert not is_path_isolated(twins.removesuffix("f()") + "other()", end=True)


def test_a_traced_thread_is_not_isolated(monkeypatch):
    monkeypatch.setattr(sys, "gettrace", lambda: print)
    assert not between("pass")


def test_code_without_column_positions_is_not_isolated(monkeypatch):
    monkeypatch.setattr(thread_isolation, "position", lambda code, offset: (1, 1, None, None))
    assert not between("pass")


def test_a_module_keeps_its_names():
    marks = Marks()
    assert run("a = 1\nmark()\nmark()\n", mark=marks)["a"] == 1
    assert marks.found == [True]


def test_a_frame_does_not_keep_deleted_values_alive():
    import weakref

    def program(mark):
        mark()
        value = type("Big", (), {})()
        gone = weakref.ref(value)
        mark()
        del value
        return gone()

    assert program(Marks()) is None


# -- loops


def offsets(function):
    """Return a mapping from line to whether its instructions may run more than once."""
    import dis

    code = function.__code__
    return {i.positions.lineno: is_in_loop(code, i.offset) for i in dis.get_instructions(code) if i.positions.lineno}


def test_instructions_in_loops_may_run_again():
    source = """
        def f():
            a = 1
            for i in a:
                b = 1
            while a:
                c = 1
            return [
                i for i in b
            ]
    """
    found = offsets(run(source)["f"])
    assert {line: is_in for line, is_in in found.items() if line > 2} == {
        3: False, 4: True, 5: True, 6: True, 7: True, 8: True, 9: True,
    }  # fmt: skip


def test_all_instructions_may_run_again_if_the_source_is_unknown():
    namespace = {}
    exec("def f():\n    return 1", namespace)
    assert set(offsets(namespace["f"]).values()) == {True}
