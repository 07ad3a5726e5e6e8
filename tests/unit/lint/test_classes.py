"""Analysis of whole classes: which methods are followed, and in which order."""

import ast
import textwrap

import pytest

from syncheck.findings import Finding, Frame, Location
from syncheck.lint.classes import between_methods, callers_first, order
from syncheck.rules.catalogue import find

WORK = "self.x = x.cuda(non_blocking=True)"
WAIT = "self.stream.synchronize()"


BODIES = {"a": f"{WORK}; return x", "b": "self.a(); self.c()", "c": WORK}


def steps(**methods):
    """Return the names of a class's methods in the order they are followed; each is given by its body."""
    source = "class A:\n" + "".join(f"    def {name}(self):\n        {body}\n" for name, body in methods.items())
    return names(source)


def names(source):
    (kind,) = ast.parse(textwrap.dedent(source)).body
    return [method.name for method in order(kind)]


def test_methods_run_in_source_order_and_twice():
    assert steps(b=WORK, a="pass") == ["b", "a", "b", "a"]


def test_methods_that_clear_come_last_in_each_round():
    assert steps(reset="pass", put=WORK, flush="pass", get="pass") == 2 * ["put", "get", "reset", "flush"]


def test_waiting_methods_come_after_each_other_method():
    assert steps(wait=WAIT, put=WORK, reset="pass") == 2 * ["put", "wait", "reset", "wait"]


BLOCK = """
class A:
    def put(self):
        self.x = x.cuda(non_blocking=True)
    @contextlib.contextmanager
    def swapped(self):
        {wait}
        yield
    def get(self):
        return self.x
    def _join(self):
        self.stream.synchronize()
"""


@pytest.mark.parametrize("wait", ["self._join()", "self.stream.synchronize(); self.y.copy_(self.x)"])
def test_other_methods_do_not_rely_on_a_context_manager_that_waits(wait):
    assert names(BLOCK.format(wait=wait)) == 2 * ["swapped", "put", "get"]


def test_a_context_manager_that_does_not_wait_keeps_its_place():
    assert names(BLOCK.format(wait="self.y = self.x")) == 2 * ["put", "swapped", "get"]


@pytest.mark.parametrize("name", ["step", "forward", "__call__"])
def test_a_method_that_programs_call_in_loops_runs_twice_in_a_row(name):
    work = f"self.wait(); {WORK}"
    called = steps(**{name: work, "wait": WAIT})
    assert [each for each in called if each != "wait"] == 4 * [name]
    assert called[-2:] == [name, name]


def test_such_a_method_is_not_repeated_if_the_caller_may_wait_in_between():
    assert steps(step=WORK, wait=WAIT) == 2 * ["step", "wait"]


def test_a_closing_method_is_called_once_at_the_end_even_if_it_waits():
    assert steps(close=WAIT, put=WORK) == ["put", "put", "close"]


@pytest.mark.parametrize(
    ("body", "only_waits"),
    [
        ("self.stream.synchronize()", True), ("s.wait_stream(self.stream)", True), ("self.work.wait()", True),
        ("s.wait_event(self.done)", True), ("self.stream.query()", False), ("pass", False),
        ("s.wait_event(e); y.add_(x)", False),
        ("s.wait_stream(t); y.copy_(x)", False), ("s.synchronize(); x.to(d, non_blocking=True)", False),
        ("dist.all_reduce(x, async_op=True); s.synchronize()", False), ("with s: s.synchronize()", False),
    ],
)  # fmt: skip
def test_a_method_that_starts_or_enters_something_does_more_than_wait(body, only_waits):
    assert steps(join=body, put=WORK) == 2 * (["put", "join"] if only_waits else ["join", "put"])


def test_a_class_whose_methods_start_nothing_is_not_followed():
    assert steps(a="self.x = 1", b="return self.x") == []


def test_an_anchor_in_a_private_method_counts():
    assert steps(_go=WORK, a="self._go()", b="return self.x") == ["a", "b", "a", "b"]


def test_a_single_constructor_leaves_nothing_for_another_method():
    assert steps(_b=WORK, __init__="pass") == []


def test_a_single_method_leaves_something_for_its_next_call():
    assert steps(a=WORK, _b="pass", __init__="pass") == ["a", "a"]


def test_methods_called_only_by_the_constructor_are_not_called_again():
    assert (
        steps(__init__="self.make()\n        self.load()", make=WORK, load=WORK, run="self.load()")
        == ["load", "run"] * 2
    )


def test_methods_that_return_something_to_others_come_last_in_another_order():
    methods = {name: ast.parse(f"def {name}(self):\n    {body}").body[0] for name, body in BODIES.items()}
    a, b, c = methods.values()
    assert callers_first([a, b, c, a, b, c]) == [b, c, b, c, a, a]
    assert callers_first([b, c, b, c]) == []


def test_methods_registered_as_hooks_are_called_too():
    made = "self.a = [p.register_post_accumulate_grad_hook(self._send) for p in ps]; self.b = f(self._other)"
    assert steps(__init__=made, _send=WORK, _other=WORK, run="pass") == ["_send", "run"] * 2


def test_a_method_that_calls_another_does_more_than_wait():
    assert steps(__init__="pass", _load=WORK, get="self.side.synchronize()\n        self._load()") == ["get", "get"]


@pytest.mark.parametrize(("count", "expected"), [(24, 48), (25, 0)])
def test_a_class_with_too_many_methods_is_not_followed(count, expected):
    assert len(steps(**{f"m{number}": WORK for number in range(count)})) == expected


@pytest.mark.parametrize("name", ["__call__", "__iter__", "__next__", "__enter__", "__exit__"])
def test_special_methods_that_python_calls_are_followed(name):
    assert name in steps(**{name: WORK, "other": "pass"})


@pytest.mark.parametrize("name", ["__init__", "_private", "__len__"])
def test_other_names_with_underscores_are_not_followed(name):
    assert steps(**{name: WORK, "a": "pass", "b": "pass"}) == ["a", "b", "a", "b"]


@pytest.mark.parametrize(
    ("head", "is_followed"),
    [
        ("def a(self)", True), ("async def a(self)", True), ("def a(self, x)", True),
        ("@torch.no_grad()\ndef a(self)", True),
        ("@staticmethod\ndef a(x)", False), ("@staticmethod\ndef a(self)", False), ("@classmethod\ndef a(self)", False),
        ("@property\ndef a(self)", False), ("@cached_property\ndef a(self)", False),
        ("@abstractmethod\ndef a(self)", False), ("def a(cls)", False), ("def a()", False),
    ],
)  # fmt: skip
def test_only_instance_methods_are_followed(head, is_followed):
    method = textwrap.indent(f"{head}: {WORK}", "    ")
    source = f"class A:\n    kind = 1\n{method}\n    def b(self): pass\n    def c(self): pass\n"
    assert names(source) == 2 * (["a", "b", "c"] if is_followed else ["b", "c"])


# -- findings that span several methods


def finding(code="SYN101", line=10, functions=("A.put", "A.get")):
    first, *others = (Location(Frame("a.py", line + 5 * n, function=name)) for n, name in enumerate(functions))
    return Finding(find(code), first, "", related=tuple(others))


@pytest.mark.parametrize(
    "code", ["SYN101", "SYN102", "SYN103", "SYN104", "SYN201", "SYN301", "SYN302", "SYN601", "SYN602"]
)
def test_a_finding_across_two_methods_depends_on_their_call_order(code):
    (found,) = between_methods([finding(code)], [])
    assert (found.rule.code, found.level.value) == (code, "warning")


@pytest.mark.parametrize("functions", [("A.put",), ("A.put", "A.put")])
def test_a_finding_within_one_method_is_left_out_if_known(functions):
    assert list(between_methods([finding(functions=functions)], [finding("SYN102", functions=functions)])) == []


def test_a_finding_within_one_method_of_a_new_object_is_a_warning():
    (found,) = between_methods([finding(functions=("A.put",))], [])
    assert found.level.value == "warning"


def test_only_copies_to_the_host_from_the_constructor_are_reported():
    made = ("A.put", "__init__")
    assert list(between_methods([finding(functions=made)], [])) == []
    assert list(between_methods([finding("SYN301", functions=made)], [])) != []
    assert list(between_methods([finding("SYN301", functions=("__init__", "to_numpy"))], [])) == []


def test_rules_that_do_not_concern_shared_state_are_left_out():
    assert list(between_methods([finding("SYN701")], [])) == []


def test_an_already_known_finding_is_not_repeated():
    assert list(between_methods([finding()], [finding()])) == []
    assert list(between_methods([finding()], [finding("SYN102")])) != []
    assert list(between_methods([finding()], [finding(line=11)])) != []
