"""Copies to the host of what another stream has just computed."""

import ast
import textwrap

import pytest

from syncheck.lint.interp.functions import own_nodes
from syncheck.lint.patterns.unordered_fetches import fetches_computed, made_by

FUNCTION = """
def run(model, x, pinned):
    {before}
    {between}
    with torch.cuda.stream(side):
        {work}
"""
COPY = "pinned.copy_(y, non_blocking=True)"


def is_found(before="y = model(x)", work=COPY, between="pass", hosts=()):
    source = FUNCTION.format(before=before, work=work, between=between)
    function = ast.parse(textwrap.dedent(source)).body[0]
    nodes = list(own_nodes(function))
    blocks = [node for node in nodes if isinstance(node, ast.With)]
    return fetches_computed(nodes, blocks[-1], blocks, hosts)


def test_a_copy_of_a_result_is_found():
    assert is_found()
    assert is_found(work="y = y[0].to('cpu', non_blocking=True)")
    assert is_found(before="y = model(x)[0]")
    assert is_found(before="y, z = model(x)")
    assert is_found(work="z = decode(y).cpu()")
    assert is_found(work="print(y.item(), y.to('cpu'))")


def test_a_copy_of_what_the_block_computes_from_a_result_is_found():
    assert is_found(work="z = y.float()\n        z = z + 1\n        pinned.copy_(z.clamp(0, 1), non_blocking=True)")
    assert not is_found(work="z = model(x)\n        pinned.copy_(z, non_blocking=True)")


@pytest.mark.parametrize(
    "before",
    [
        "y = x",
        "y = q.get()",
        "y = next(q)",
        "y = x.to('cuda')",
        "y = q.get()[0]",
        "y = read_array(x)",
        "z = model(x)",
        "pass",
    ],
)
def test_what_this_function_did_not_compute_is_not_found(before):
    assert not is_found(before=before)


@pytest.mark.parametrize("work", ["pinned.copy_(y)", "y.copy_(pinned, non_blocking=True)", "z = y + 1", "y.to('cuda')"])
def test_only_a_copy_to_the_host_counts(work):
    assert not is_found(work=work)


def test_an_index_and_data_of_the_host_are_not_pending():
    assert not is_found(before="i = x * 2", work="pinned[i].copy_(w[i : i + 2], non_blocking=True)")
    assert not is_found(work="pinned.copy_(torch.from_numpy(y), non_blocking=True)")
    assert not is_found(between="n = float(y)")


def test_what_a_block_on_the_same_stream_computes_is_ordered():
    assert not is_found(before="with torch.cuda.stream(side): y = model(x)")


def test_the_host_may_wait_between_result_and_copy():
    assert not is_found(hosts=[4])
    assert is_found(hosts=[2, 9])


def test_a_replay_computes_the_attributes_of_its_object():
    copy = "pinned.copy_(self.out[0], non_blocking=True)"
    assert is_found(before="self.graph.replay()", work=copy)
    assert not is_found(before="self.graph.reset()", work=copy)
    assert not is_found(before="self.graph.replay()", work="pinned.copy_(x, non_blocking=True)")


def test_which_variables_hold_computed_values():
    statements = ast.parse("a = f()\nb = a + 1\nc = f()[0]\nd = a\ne, g = f()\nself.x = f()").body
    assert [made_by(node) for node in statements] == [{"a"}, {"b"}, {"c"}, set(), {"e", "g"}, set()]
