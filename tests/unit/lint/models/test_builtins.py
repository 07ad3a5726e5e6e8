"""Models of built-in functions and similar ones."""

import pytest

from syncheck.lint.interp.control_flow import Raised
from syncheck.lint.models import builtins as model
from tests.unit.lint.program import calls_of, constant, follow

X = "x = torch.ones(4, device='cuda')\n"


@pytest.mark.parametrize(
    ("expression", "value"),
    [
        ("len([1, 2])", 2), ("len({})", 0), ("len([*unknown])", "unknown"), ("len(f())", "unknown"),
        ("range(3)", [0, 1, 2]), ("range(1, 6, 2)", [1, 3, 5]),
        ("range(n)", [0, 1, 2, "..."]), ("range(4, n)", [4, 5, 6, "..."]), ("range(n, 4)", ["..."]),
        ("range(1, n, 2)", [1, 3, 5, "..."]), ("range(4, n, -1)", ["..."]), ("range(1, n, k)", ["..."]),
        ("range(1, 2, 0)", "unknown"),
        ("list(zip([1, 2], [3]))", [[1, 3]]), ("list(enumerate([5, 6]))", [[0, 5], [1, 6]]),
        ("list(reversed([1, 2]))", [2, 1]), ("reversed(n)", "unknown"), ("list(map(lambda i: i + 1, [1, 2]))", [2, 3]),
        ("dict(a=1)", {"a": 1}), ("dict([(1, 2)])", {1: 2, "...": "..."}), ("int(3)", 3), ("int('3')", "unknown"),
        ("tuple([1])", [1]), ("list()", []), ("getattr(a, 'b')", 7), ("getattr(a, name)", "unknown"),
        ("next(iter([1]))", 1), ("next(iter([]), 5)", 5), ("isinstance(a, A)", "unknown"), ("set([1, 2])", [1, 2]),
        ("isinstance([1], torch.Tensor)", False), ("isinstance({1}, (list, tuple))", "unknown"),
        ("isinstance([1], dict)", False), ("isinstance([1], (list, A))", "unknown"),
        ("isinstance({}, dict)", "unknown"),
        ("isinstance({}, torch.Tensor)", False), ("isinstance(torch.ones(2), (list, tuple))", False),
        ("isinstance(torch.ones(2), torch.Tensor)", True), ("isinstance(torch.ones(2), (dict, torch.Tensor))", True),
        ("isinstance(torch.ones(2).numpy(), torch.Tensor)", "unknown"),
        ("isinstance(torch.ones(4).split(2), (list, tuple))", "unknown"),
        ("isinstance(torch.ones(4).sort(), torch.Tensor)", "unknown"),
        ("isinstance(None, torch.Tensor)", False), ("isinstance('a', str)", "unknown"),
        ("isinstance(n, torch.Tensor)", "unknown"),
        ("sorted([2, 1])", [2, 1]), ("sorted(n)", ["..."]), ("sorted()", "unknown"),
    ],
)  # fmt: skip
def test_known_results_are_computed(expression, value):
    assert constant(expression, "class A: pass\na = A()\na.b = 7\n") == value


def test_long_ranges_are_truncated():
    assert len(constant("range(1000)")) == model._MAX_NUMBERS


def test_next_on_an_empty_iterator_ends_the_path():
    with pytest.raises(Raised):
        follow("next(iter([]))")


@pytest.mark.parametrize("name", ["print", "str", "float", "bool", "int", "repr"])
def test_printing_or_converting_a_tensor_reads_it(name):
    assert calls_of(f"{name}(x)", X) == ["launch cuda:0 item r1", "sync cuda:0"]
    assert calls_of(f"{name}([x])", X) == ["launch cuda:0 item r1", "sync cuda:0"]


@pytest.mark.parametrize("name", ["any", "all"])
def test_any_and_all_read_each_item(name):
    assert calls_of(f"{name}([x, x])", X) == ["launch cuda:0 item r1", "sync cuda:0"] * 2


def test_tensors_are_summed_one_by_one():
    assert [made for made in calls_of("y = sum([x, x, x])", X) if made.startswith("launch")] == [
        "launch cuda:0 add r1 w2", "launch cuda:0 add r2 r1 w3", "launch cuda:0 add r3 r1 w4",
    ]  # fmt: skip


def test_setattr_sets_attributes_of_program_objects():
    assert constant("a.b", "class A: pass\na = A()\nsetattr(a, 'b', 3)") == 3


def test_infinite_iterators_are_consumed_lazily():
    assert constant("[next(c), next(c), next(c)]", "import itertools\nc = itertools.cycle([1, 2])") == [1, 2, 1]
    assert constant("[next(c), next(c)]", "import itertools\nc = itertools.count()") == [0, 1]
    assert constant("c", "import itertools\nc = itertools.cycle(f())") == "unknown"


@pytest.mark.parametrize(
    ("made", "value"),
    [
        ("queue.Queue()", []), ("collections.deque([1])", [1]), ("collections.OrderedDict()", {}),
        ("collections.defaultdict(list)", {"...": "..."}),
    ],
)  # fmt: skip
def test_containers_of_the_standard_library(made, value):
    assert constant(made, "import queue, collections") == value
