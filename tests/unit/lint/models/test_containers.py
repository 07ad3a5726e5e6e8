"""Models of lists, queues, dictionaries and generators."""

import pytest

from tests.unit.lint.program import constant, follow


@pytest.mark.parametrize(
    ("call", "items"),
    [
        ("l.append(3)", [1, 2, 3]), ("l.put(3)", [1, 2, 3]), ("l.appendleft(0)", [0, 1, 2]),
        ("l.extend([3, 4])", [1, 2, 3, 4]),
        ("l.pop()", [1]), ("l.pop(0)", [2]), ("l.popleft()", [2]), ("l.get()", [2]), ("l.pop(5)", [1, 2]),
        ("l.clear()", []), ("l.sort()", ["..."]), ("l.insert(0, 5)", ["..."]), ("l.extend(f())", ["..."]),
        ("l.index(1)", [1, 2]), ("l.qsize()", [1, 2]), ("l.copy().append(3)", [1, 2]), ("l.unknown()", [1, 2]),
    ],
)  # fmt: skip
def test_lists_and_queues_are_modified(call, items):
    assert constant("l", f"l = [1, 2]\n{call}") == items


def test_a_full_deque_drops_the_item_at_the_other_end():
    made = "import collections\nd = collections.deque([1, 2], maxlen=2)\n"
    assert constant("d", f"{made}d.append(3)") == [2, 3]
    assert constant("d", f"{made}d.appendleft(0)") == [0, 1]
    assert constant("d", "import collections\nd = collections.deque([1, 2], maxlen=unknown)\nd.append(3)") == [1, 2, 3]
    assert constant("d", "import collections\nd = collections.deque([1, 2], None)\nd.append(3)") == [1, 2, 3]


@pytest.mark.parametrize(
    ("call", "value"),
    [
        ("[1, 2].pop()", 2), ("[1, 2].popleft()", 1), ("[1, 2].pop(-2)", 1), ("[].pop()", "unknown"),
        ("[1, *unknown].pop()", "unknown"), ("[1, 2].pop(unknown)", "unknown"), ("[1].copy()", [1]),
        ("{'a': 1}.get('a')", 1), ("{'a': 1}.get('b')", None), ("{'a': 1}.get('b', 5)", 5), ("{'a': 1}.pop('a')", 1),
        ("{**unknown}.get('a')", "unknown"), ("{'a': 1}.setdefault('a', 2)", 1), ("{'a': 1}.values()", [1]),
        ("{'a': 1}.keys()", ["a"]), ("{'a': 1}.items()", [["a", 1]]), ("{'a': 1}.clear()", None),
        ("{'a': 1}.get(unknown)", "unknown"), ("{**unknown}.setdefault('a', 2)", "unknown"),
    ],
)  # fmt: skip
def test_items_are_retrieved(call, value):
    assert constant(call) == value


@pytest.mark.parametrize(
    ("before", "call", "value", "after"),
    [
        ("{}", "d.setdefault('a', 2)", 2, {"a": 2}), ("{}", "d.setdefault('a')", None, {"a": None}),
        ("{'a': 1}", "d.setdefault('a', 2)", 1, {"a": 1}),
    ],
)  # fmt: skip
def test_setdefault_adds_what_is_missing(before, call, value, after):
    assert constant("result", f"d = {before}\nresult = {call}") == value
    assert constant("d", f"d = {before}\nresult = {call}") == after


def test_setdefault_with_an_unknown_key_leaves_the_dictionary_open():
    followed = follow("d = {}\nfirst = d.setdefault(key, [])\nsecond = d.setdefault(key, [])")
    names = followed.scope.names
    assert names["d"].is_open
    assert names["first"] is names["second"]


def test_a_popped_entry_is_removed():
    assert constant("d", "d = {'a': 1, 'b': 2}\nd.pop('a')") == {"b": 2}


def test_generator_methods_return_the_next_value():
    assert constant("[g.send(None), g.__next__(), g.close()]", "def f():\n    yield 1\n    yield 2\ng = f()") == [
        1, 2, "unknown",
    ]  # fmt: skip


def test_an_ordering_only_branch_changes_no_container():
    source = "if unknown:\n    pass\nelse:\n    l.append(2)\n    l.pop()\n    d.pop('a')\n    d.clear()"
    program = follow("l, d = [1], {'a': 1}\n" + source)
    assert len(program.scope.names["l"].items) == 1
    assert "a" in program.scope.names["d"].items
