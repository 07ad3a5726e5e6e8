"""Copies that an object keeps in a container and drops again."""

import ast
import textwrap

import pytest

from syncheck.lint.evictions import evicted_copy, is_move

LOAD = "self.kept[k] = x.to(self.device, non_blocking=True)"
DROP = "self.kept.pop(k)"


def is_evicted(work, drop):
    """Return the result for a class with a block that does some work, and a second method that drops items."""
    run = "def run(self, k, x):\n    with torch.cuda.stream(self.s):\n" + textwrap.indent(work, " " * 8)
    other = "def other(self, k):\n" + textwrap.indent(drop, "    ")
    kind = ast.parse("class A:\n" + textwrap.indent(f"{run}\n{other}", "    ")).body[0]
    return evicted_copy(kind, kind.body[0].body[0]) is not None


@pytest.mark.parametrize(
    "work",
    [
        LOAD,
        "self.kept[k] = x.cuda(non_blocking=True)",
        "self.kept[k][0] = x.cuda(non_blocking=True)",
        "self.kept[k] = [part.cuda(non_blocking=True) for part in x]",
        "y = x.cuda(non_blocking=True)\nself.kept[k] = y",
        "y = x.cuda(non_blocking=True)\nself.kept[k] = (y, k)",
        "if k:\n    " + LOAD,
        "y = x.cuda(non_blocking=True)\nz = unpack(y)\nself.kept[k] = (z, 1)",
    ],
)
def test_a_block_that_fills_a_container_with_copies_is_recognized(work):
    assert is_evicted(work, DROP)


@pytest.mark.parametrize(
    "work",
    [
        "self.kept[k] = x.cuda()",  # waits
        "self.kept[k] = x.pin(non_blocking=True)",
        "z = unpack(x)\ny = x.cuda(non_blocking=True)\nself.kept[k] = z",
        "self.kept[k] = cuda(x, non_blocking=True)",
        "self.kept[k] = x",
        "y = x.cuda(non_blocking=True)\nself.kept[k] = x",
        "self.kept = x.cuda(non_blocking=True)",  # not a container
        "kept[k] = x.cuda(non_blocking=True)",
        "other.kept[k] = x.cuda(non_blocking=True)",  # of another object than the one that drops it
        "other.kept = x.cuda(non_blocking=True)",
        "x.cuda(non_blocking=True)",
        "f = lambda: [x.cuda(non_blocking=True)]",
    ],
)
def test_other_blocks_keep_no_copies(work):
    assert not is_evicted(work, DROP)


@pytest.mark.parametrize(
    "drop",
    [
        DROP,
        "del self.kept[k]",
        "del self.kept[k][0]",
        "self.kept.popitem()",
        "self.kept.popleft()",
        "self.kept.clear()",
        "self.kept[k].clear()",
        "if k:\n    y = f(self.kept.pop(k))",
    ],
)
def test_a_method_that_drops_items_is_recognized(drop):
    assert is_evicted(LOAD, drop)


@pytest.mark.parametrize(
    "drop",
    ["pass", "self.other.pop(k)", "other.kept.pop(k)", "kept.pop(k)", "del self.kept", "self.kept.get(k)", "pop(k)"],
)
def test_without_dropped_items_the_copies_stay(drop):
    assert not is_evicted(LOAD, drop)


@pytest.mark.parametrize(
    ("work", "drop", "expected"),
    [
        ("k.kept['w'] = x.cuda(non_blocking=True)", "k.kept.clear()", True),
        ("k.kept['w'] = x.cuda(non_blocking=True)", "del k.kept['w']", True),
        ("k.kept['w'] = x.cuda(non_blocking=True)", "k.kept = None", False),
        ("k.full = x.cuda(non_blocking=True)", "k.full = None", True),
        ("k.full = x.cuda(non_blocking=True)", "del k.full", True),
        ("k.full = x.cuda(non_blocking=True)", "k.full = k.shard", False),
        ("k.full = x.cuda(non_blocking=True)", "k.other = None", False),
        ("k.data = x.cuda(non_blocking=True)", "k.data = self.shards[k]", True),
        ("k.data = x.cuda(non_blocking=True)", "k.data = torch.empty(0)", False),
        ("self.full = x.cuda(non_blocking=True)", "self.full = None", False),  # a loader at its end
        ("k.full = x.cuda(non_blocking=True)\nk.full = None", "pass", False),
    ],
)
def test_what_another_object_has_may_be_dropped(work, drop, expected):
    assert is_evicted(work, drop) is expected


def test_expressions_that_are_not_attributes_of_the_object_do_not_match_each_other():
    assert not is_evicted("kept[k] = x.cuda(non_blocking=True)", "kept.pop(k)")


@pytest.mark.parametrize(
    ("call", "expected"),
    [
        ("x.cuda(non_blocking=True)", True), ("x.cuda()", False), ("to_device(x)", True), ("to_device()", False),
        ("utils.batch_to_gpu(x, d)", True), ("self.moveToCuda(x)", True), ("device(x)", False),
        ("device_to_host(x)", False), ("to[0](x)", False), ("x.device", False),
    ],
)  # fmt: skip
def test_moves_are_recognized_by_an_option_or_a_name(call, expected):
    assert is_move(ast.parse(call, mode="eval").body) is expected
