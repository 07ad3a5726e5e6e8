"""Statements in execution order."""

import pytest

from syncheck.lint.interp.control_flow import Raised
from tests.unit.lint.program import calls_of, constant, follow

X = "x = torch.ones(4, device='cuda')\n"


def sin(name="sin"):
    return f"launch cuda:0 {name}_ w1"


# -- branches


@pytest.mark.parametrize(
    ("test", "calls"), [("True", [sin()]), ("0", [sin("cos")]), ("not []", [sin()]), ("'a' == 'b'", [sin("cos")])]
)
def test_a_known_condition_decides(test, calls):
    assert calls_of(f"if {test}:\n    x.sin_()\nelse:\n    x.cos_()", X) == calls


@pytest.mark.parametrize(("flipped", "calls"), [(frozenset(), [sin()]), (frozenset({0}), [sin("cos")])])
def test_an_unknown_condition_is_decided_by_the_path(flipped, calls):
    assert calls_of("if unknown:\n    x.sin_()\nelse:\n    x.cos_()", X, flipped=flipped) == calls


def test_a_branch_that_is_not_taken_still_orders():
    source = "if unknown:\n    x.sin_()\nelse:\n    x.cos_()\n    torch.cuda.synchronize()\n"
    assert calls_of(source, X) == ["sync device 0", sin()]


def test_a_branch_that_is_not_taken_does_not_change_the_current_stream():
    source = "if unknown:\n    pass\nelse:\n    torch.cuda.set_stream(torch.cuda.Stream())\nx.sin_()\n"
    assert calls_of(source, X) == [sin()]


def test_a_tensor_used_as_a_condition_makes_the_host_wait():
    assert calls_of("if x:\n    pass", X) == ["launch cuda:0 item r1", "sync cuda:0"]
    assert calls_of("assert x", X) == ["launch cuda:0 item r1", "sync cuda:0"]
    assert calls_of("while x:\n    break", X) == ["launch cuda:0 item r1", "sync cuda:0"]


def test_a_completion_query_is_assumed_to_succeed_by_default():
    before = "e = torch.cuda.Event()\n"
    assert calls_of("if e.query():\n    pass", before) == ["all complete"]


@pytest.mark.parametrize(
    ("test", "calls"),
    [
        ("e.query()", ["all complete"]), ("not e.query()", []), ("s.query()", ["all complete"]),
        ("e.query() is False", []), ("e.query() and f()", ["all complete"]), ("database.query()", []),
    ],
)  # fmt: skip
def test_a_branch_for_incomplete_work_leaves_it_running(test, calls):
    before = "e = torch.cuda.Event()\ns = torch.cuda.Stream()\n"
    assert calls_of(f"if {test}:\n    pass", before) == calls


def test_the_first_case_of_a_match_runs_by_default_and_the_others_order():
    source = "match unknown:\n    case 1:\n        x.sin_()\n    case _:\n        torch.cuda.synchronize()"
    assert calls_of(source, X) == ["sync device 0", sin()]


# -- loops


def test_loops_run_their_body_and_else_clause():
    assert calls_of("for _ in range(2):\n    x.sin_()\nelse:\n    x.cos_()", X) == [sin(), sin(), sin("cos")]
    assert calls_of("for _ in range(2):\n    x.sin_()\n    break\nelse:\n    x.cos_()", X) == [sin()]


def test_after_a_loop_with_an_unknown_end_all_work_may_be_complete():
    assert calls_of("while unknown():\n    x.sin_()", X) == [sin()] * 3 + ["all complete"]
    assert calls_of("while unknown:\n    x.sin_()", X) == [sin()] * 3
    assert calls_of("while True:\n    x.sin_()", X) == [sin()] * 3 + ["all complete"]
    assert calls_of("n = 2\nwhile n:\n    x.sin_()\n    n -= 1", X) == [sin()] * 2


# -- errors


def test_an_error_runs_its_handler_and_the_finally_clause():
    source = "try:\n    x.sin_()\n    raise E\n    x.cos_()\nexcept E:\n    x.tan_()\nfinally:\n    x.exp_()"
    assert calls_of(source, X) == [sin(), sin("tan"), sin("exp")]


def test_without_an_error_handlers_only_order():
    source = "try:\n    x.sin_()\nexcept E:\n    x.cos_()\n    torch.cuda.synchronize()\nelse:\n    x.tan_()"
    assert calls_of(source, X) == [sin(), sin("tan"), "sync device 0"]


def test_an_unhandled_error_propagates():
    with pytest.raises(Raised):
        follow("try:\n    raise E\nfinally:\n    pass")


# -- contexts


def test_a_with_statement_enters_in_order_and_exits_in_reverse():
    before = """
log = []
class C:
    def __init__(self, name): self.name = name
    def __enter__(self):
        log.append(self.name)
        return self.name
    def __exit__(self, *_): log.append(self.name + "!")
"""
    assert constant("[log, a]", before + "with C('a') as a, C('b'):\n    log.append('in')") == [
        ["a", "b", "in", "b!", "a!"], "a",
    ]  # fmt: skip
    assert constant("log", before + "try:\n    with C('a'):\n        raise E\nexcept E: pass") == ["a", "a!"]


# -- definitions


def test_names_are_imported():
    source = "import torch.cuda as c\nfrom torch.cuda import Stream as S, Event\nimport os.path\nfrom . import z"
    assert [follow(source).scope.names[name].path for name in ("c", "S", "Event", "os", "z")] == [
        "torch.cuda", "torch.cuda.Stream", "torch.cuda.Event", "os", ".z",
    ]  # fmt: skip


def test_functions_see_enclosing_names_and_change_declared_ones():
    source = """
a = 1
b = 1
def f():
    global a
    a = 2
    b = 2
    def g():
        nonlocal b
        b = 3
    g()
    return b
r = f()
"""
    assert constant("[a, b, r]", source) == [2, 1, 3]


def test_methods_do_not_see_the_names_of_their_class():
    assert constant("A().f()", "n = 1\nclass A:\n    n = 2\n    def f(self): return n") == 1


def test_a_class_with_an_unknown_metaclass_or_a_finalizer_is_unknown():
    assert constant("A", "class A(metaclass=Meta):\n    pass") == "unknown"
    assert constant("A", "class A:\n    def __del__(self): pass") == "unknown"
    assert constant("A", "from abc import ABCMeta\nclass A(metaclass=ABCMeta):\n    pass") == "class"


def test_subclass_hooks_of_a_base_run():
    source = "found = []\nclass B:\n    def __init_subclass__(cls): found.append(1)\nclass C(B): pass"
    assert constant("found", source) == [1]


def test_a_function_returns_its_value_or_none():
    assert constant("[f(1), f(0)]", "def f(a):\n    if a:\n        return a") == [1, None]


def test_the_values_of_yield_expressions_are_unknown():
    assert constant("list(f())", "def f():\n    a = yield 1\n    yield a\n    yield from [2, 3]") == [
        1,
        "unknown",
        2,
        3,
    ]
