"""Expressions: their values, and the GPU work they cause."""

import pytest

from syncheck.lint.interp.values import Partial, Symbol
from tests.unit.lint.program import calls_of, constant, follow, value_of

X = "x = torch.ones(4, device='cuda')\n"


@pytest.mark.parametrize(
    ("expression", "value"),
    [
        ("1 + 2 * 3", 7), ("-(2)", -2), ("not 0", True), ("'a' 'b'", "ab"), ("f'{1}-{2}'", "1-2"),
        ("[1, *(2, 3)]", [1, 2, 3]), ("{'a': 1, **{'b': 2}}", {"a": 1, "b": 2}), ("{1: 2}[1]", 2),
        ("[1, 2, 3][1:]", [2, 3]), ("[i * 2 for i in (1, 2, 3) if i > 1]", [4, 6]), ("[1] * 3", [1, 1, 1]),
        ("[1] + [2]", [1, 2]), ("{k: k + 1 for k in (1, 2)}", {1: 2, 2: 3}), ("1 if True else 2", 1),
        ("1 < 2", True), ("None is None", True), ("[] is not None", True), ("0 or 3", 3), ("1 and 0", 0),
        ("(lambda a, b=2: a + b)(1)", 3), ("[(i, j) for i in (1, 2) for j in (3,)]", [[1, 3], [2, 3]]),
        ("[*unknown]", ["..."]), ("f'{unknown}'", "unknown"), ("unknown + 1", "unknown"), ("1 < 2 < 3", "unknown"),
        ("unknown or 3", "unknown"), ("3 or unknown", 3), ("not unknown", "unknown"),
        ("{unknown: 1}", {"[unknown]": 1, "...": "..."}),
        ("1 / 0", "unknown"), ("[1][5]", "unknown"), ("{}['a']", "unknown"), ("(yield_ := 4)", 4), ("... is ...", True),
    ],
)  # fmt: skip
def test_known_values_are_computed(expression, value):
    assert constant(expression) == value


@pytest.mark.parametrize(
    ("expression", "operator"),
    [
        ("x + x", "add r1 w2"), ("1 - x", "sub r1 w2"), ("x @ x", "mm r1 w2"), ("-x", "neg r1 w2"),
        ("x > 0", "gt r1 w2"), ("x ** 2", "pow r1 w2"), ("~x", "bitwise_not r1 w2"),
    ],
)  # fmt: skip
def test_tensor_operators_run_on_the_tensors_device(expression, operator):
    assert calls_of(expression, X) == ["allocate 2 on cuda:0", f"launch cuda:0 {operator}", "free 2"]


@pytest.mark.parametrize("expression", ["x[0]", "x.T", "x[1:, None]", "x.data", "x[...]"])
def test_views_and_aliases_launch_nothing(expression):
    assert calls_of(f"y = {expression}", X) == []


@pytest.mark.parametrize(
    ("expression", "waits"),
    [
        ("not x", True),
        ("f'{x}'", True),
        ("x and 1", True),
        ("1 and x", False),
        ("1 if x else 2", True),
        ("x is None", False),
    ],
)
def test_the_host_reads_a_tensor_used_as_a_condition_or_printed(expression, waits):
    assert ("sync cuda:0" in calls_of(expression, X)) is waits


def test_indexing_with_a_mask_waits_and_creates_a_tensor():
    assert "sync cuda:0" in calls_of("y = x[x > 0]", X)
    assert "sync cuda:0" in calls_of("y = x[[0, 1]]", X)  # the list is copied to the GPU
    i = "i = torch.arange(3, device='cuda')\n"
    assert calls_of("y = x[i]", X + i) == ["allocate 3 on cuda:0", "launch cuda:0 index r1 r2 w3"]


def test_arguments_are_evaluated_once_and_in_order():
    before = X + "def f(*args, **kwargs): return args\n"
    assert calls_of("f(x.sin_(), *[x.cos_()], k=x.tan_())", before) == [
        f"launch cuda:0 {name}_ w1" for name in ("sin", "cos", "tan")
    ]


def test_unbound_names_are_builtins():
    assert value_of("print").path == "builtins.print"
    assert value_of("torch.cuda.Stream").path == "torch.cuda.Stream"
    assert isinstance(value_of("a.b", "import a"), Symbol)


def test_methods_are_bound_to_their_objects():
    source = """
class A:
    size = 3
    def plain(self, n): return self.size + n
    @property
    def twice(self): return self.size * 2
    @staticmethod
    def static(n): return n
a = A()
"""
    assert constant("[a.plain(1), a.twice, a.static(5), A.size]", source) == [4, 6, 5, 3]
    assert isinstance(value_of("a.plain", source), Partial)


def test_a_cached_property_is_computed_once():
    source = """
from functools import cached_property
class A:
    @cached_property
    def stream(self): return torch.cuda.Stream()
a = A()
"""
    program = follow(source + "s = a.stream\nt = a.stream")
    assert program.scope.names["s"] is program.scope.names["t"]


def test_clock_readings_are_subtracted_in_any_unit():
    before = "import time\na = time.time()\nb = time.time()\n"
    assert calls_of("b - a", before) == ["clock_difference"]
    assert calls_of("b * 1000 - a * 1000", before) == ["clock_difference"]
    assert calls_of("b - 1", before) == []
    assert constant("b * 1000", before) == "clockreading"


def test_augmented_assignment_changes_lists_in_place():
    assert constant("[a, b]", "a = b = [1]\na += [2]") == [[1, 2], [1, 2]]
    assert constant("a", "a = [1]\na += unknown") == [1, "..."]
    assert constant("a", "a = 1\na -= 3") == -2


def test_an_expression_without_a_rule_evaluates_its_parts():
    assert "launch cuda:0 sin_ w1" in calls_of("async def f():\n    await x.sin_()\nf()", X)
    assert value_of("x", X).block.device == 0


@pytest.mark.parametrize(
    ("other", "device"),
    [("Options()", "cuda"), ("nullcontext()", None)],
)
def test_an_object_that_a_caller_may_leave_out_has_its_default(other, device):
    """Another default says nothing about an object that is there."""
    names = follow(f"""
        class Options:
            def __init__(self, device="cuda"): self.device = device
        given = Options(unknown)
        taken = given or {other}
    """).scope.names
    found = names["taken"].attributes["device"]
    assert getattr(found, "value", None) == device
    assert (names["taken"] is names["given"]) == (device is None)
