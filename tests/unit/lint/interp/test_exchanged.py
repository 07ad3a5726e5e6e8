"""Variables that asynchronous collectives use."""

import ast

import pytest

from syncheck.lint.interp.exchanged import exchanged_variables


def found(source):
    return sorted(exchanged_variables(ast.parse(source)))


@pytest.mark.parametrize(
    ("call", "names"),
    [
        ("dist.all_reduce(x, async_op=True)", ["x"]), ("dist.irecv(x, 0)", ["x"]), ("dist.isend(tensor=x)", ["x"]),
        ("dist.all_gather_into_tensor(out, x, async_op=flag)", ["out", "x"]),
        ("dist.all_reduce(self.x[:4].view(-1), async_op=True)", ["self.x"]), ("dist.all_reduce(x)", []),
        ("dist.all_reduce(f(), async_op=True)", []), ("dist.all_reduce(*x, async_op=True)", []),
        ("dist.broadcast_object_list(x)", []), ("other(x, async_op=True)", []),
    ],
)  # fmt: skip
def test_tensors_of_calls_that_return_before_the_collective_ends(call, names):
    assert found(call) == names


def test_the_functions_that_make_them():
    used = "dist.isend(self.out[i], 1)\n"
    assert found(used + "self.out = self._buffers()") == ["_buffers()", "self.out"]
    assert found(used + "self.out = [make() for _ in range(2)] if rank else []") == ["make()", "self.out"]
    assert found(used + "self.out = {p: make() for p in peers}") == ["make()", "self.out"]


def test_what_they_are_views_of_counts_too():
    assert found("send = self.buffer[:n]\nother = self.y\ndist.isend(send, 1)") == ["self.buffer", "send"]


@pytest.mark.parametrize(
    ("function", "call", "names"),
    [
        ("def send(out, x): return dist.all_gather_into_tensor(out, x, async_op=True)", "send(a, b)", ["a", "b"]),
        ("def send(self, x): return dist.all_reduce(x, async_op=True)", "self.send(a[0])", ["a"]),
        ("def send(n, x): return dist.all_reduce(x, async_op=True)", "send(a, x=b)", ["b"]),
        ("def send(x): return dist.all_reduce(x)", "send(a)", []),
        ("def send(x): return dist.all_reduce(x, async_op=True)", "send(*a)", []),
    ],
)
def test_arguments_of_a_function_that_starts_a_collective(function, call, names):
    assert [name for name in found(f"{function}\n{call}") if name not in {"out", "x"}] == names


def test_an_attribute_of_an_object_is_one_that_its_constructor_assigns():
    assert found("dist.all_reduce(bucket.grad, async_op=True)") == ["self.grad"]
