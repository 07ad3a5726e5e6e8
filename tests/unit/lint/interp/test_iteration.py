"""Iteration over values."""

import pytest

from tests.unit.lint.program import calls_of, constant

COUNT = "n = 0\nfor item in {}:\n    n += 1"


@pytest.mark.parametrize(
    ("source", "n"),
    [
        ("[1, 2]", 2), ("{'a': 1}", 1), ("()", 0), ("(i for i in [1, 2])", 2),
        ("range(12)", 12), ("range(13)", 3),  # of a long loop the first iterations are enough to find problems
        ("unknown", 3), ("[1, *unknown]", 3), ("[1, 2, 3, 4, *unknown]", 4),
    ],
)  # fmt: skip
def test_short_loops_run_to_their_end_and_others_a_few_iterations(source, n):
    assert constant("n", COUNT.format(source)) == n


@pytest.mark.parametrize(
    ("source", "items"),
    [
        ("[1, 2]", [1, 2]), ("{'a': 1, 'b': 2}", ["a", "b"]), ("(i + 1 for i in [1, 2])", [2, 3]),
        ("unknown", ["..."]), ("[1, *unknown]", [1, "..."]),
    ],
)  # fmt: skip
def test_values_are_converted_to_lists(source, items):
    assert constant(f"list({source})") == items


def test_a_generator_of_the_program_runs_lazily():
    source = """
def numbers():
    yield 1
    x = torch.ones(4, device="cuda")
    yield 2
g = numbers()
a = next(g)
"""
    assert calls_of(source) == []
    assert calls_of("b = next(g)", source)[-1] == "launch cuda:0 ones w1"
    assert constant("[a, b]", source + "b = next(g)") == [1, 2]


def test_an_iterator_is_exhausted():
    assert constant("[list(a), list(a)]", "a = iter([1, 2])\nnext(a)") == [[2], []]


def test_rows_of_a_tensor_share_its_memory():
    assert (
        calls_of("for row in x:\n    row.add_(1)", "x = torch.ones(4, device='cuda')\n")
        == ["launch cuda:0 add_ w1"] * 3
    )


def test_objects_of_the_program_are_iterated_by_their_methods():
    by_generator = "class A:\n    def __iter__(self):\n        yield 1\n        yield 2\n"
    assert constant("list(A())", by_generator) == [1, 2]
    by_next = """
class A:
    def __init__(self): self.n = 0
    def __iter__(self): return self
    def __next__(self):
        if self.n == 2:
            raise StopIteration
        self.n += 1
        return self.n
n = 0
for n in A():
    pass
"""
    assert constant("n", by_next) == 2


def test_a_tensor_of_an_iteration_dies_in_the_next_one():
    source = "for _ in range(2):\n    x = torch.empty(4, device='cuda')\n"
    assert calls_of(source) == ["allocate 1 on cuda:0", "allocate 2 on cuda:0", "free 1"]


@pytest.mark.parametrize(
    ("index", "expected"), [("n % 2", 3), ("n % len(slots)", 4), ("n % self.depth", 4), ("'%s' % self.n", 3)]
)
def test_a_loop_that_may_use_a_ring_comes_back_to_its_first_slot(index, expected):
    assert constant("n", f"n = 0\nfor item in unknown:\n    n += 1\ndef f(self, slots): return {index}") == expected
