"""Binding and deleting names, attributes and items."""

import pytest

from tests.unit.lint.program import calls_of, constant, follow, value_of

X = "x = torch.ones(4, device='cuda')\n"


@pytest.mark.parametrize(
    ("source", "expression", "value"),
    [
        ("a = b = 1", "[a, b]", [1, 1]),
        ("a, b = 1, 2", "[b, a]", [2, 1]),
        ("[a, (b, c)] = 1, (2, 3)", "[a, b, c]", [1, 2, 3]),
        ("a, b = [1, 2, 3]", "[a, b]", ["unknown", "unknown"]),  # it raises
        ("a, *b = 1, 2, 3", "[a, b]", [1, [2, 3]]),
        ("*a, b = 1, 2, 3", "[a, b]", [[1, 2], 3]),
        ("a, *b, c = 1, 2", "[a, b, c]", [1, [], 2]),
        ("a, *b = f()", "[a, b]", ["unknown", "unknown"]),
        ("a = {'k': 1}\na |= {'l': 2}", "a", {"k": 1, "l": 2}),
        ("a, b = (n for n in [1, 2])", "[a, b]", [1, 2]),
        ("a, b = f()", "[a, b]", ["unknown", "unknown"]),
        ("a = [1, 2]\na[0] = 3", "a", [3, 2]),
        ("a = [1, 2]\na[-1] = 3", "a", [1, 3]),
        ("a = [1, 2]\na[5] = 3", "a", [1, 2]),
        ("a = {}\na['k'] = 3", "a", {"k": 3}),
        ("a = [1, 2]\ndel a[0]", "a", [2]),
        ("a = {'k': 1, 'l': 2}\ndel a['k']", "a", {"l": 2}),
        ("a = b = 1\ndel a", "a", "symbol"),
        ("a = b = 1\ndel (a, b)", "b", "symbol"),
        ("(a := 3)", "a", 3),
        ("a: int = 3", "a", 3),
    ],
)
def test_targets_get_their_values(source, expression, value):
    assert constant(expression, source) == value


def test_unpacked_parts_of_a_tensor_share_its_memory():
    assert calls_of("a, b = x\na.add_(1)\nb.add_(1)", X) == ["launch cuda:0 add_ w1"] * 2


def test_attributes_of_objects_are_bound_and_deleted():
    source = "class A: pass\na = A()\na.b = 1\na.c = 2\ndel a.c"
    assert constant("a.b", source) == 1
    assert constant("a.c", source) == "attribute"


def test_assigning_to_an_unknown_index_makes_all_items_uncertain_except_streams():
    source = "s = torch.cuda.Stream()\na = [1, s]\na[unknown] = 2"
    assert constant("a", source) == ["unknown", "stream", "..."]
    assert constant("a", "a = {'k': 1}\na[unknown] = 2") == {"[unknown]": 2, "...": "..."}
    assert constant("a", "a = [1, 2]\ndel a[unknown]") == ["unknown", "unknown", "..."]


def test_a_gradient_is_an_attribute_of_its_tensor():
    source = X + "y = torch.ones(4, device='cuda')\nx.grad = y\n"
    assert constant("x.grad", source) == "tensor"
    assert constant("x.grad", source + "x.grad = None") is None


def test_assigning_the_data_of_a_tensor_replaces_its_memory():
    assert calls_of("y = torch.empty(4, device='cuda')\nx.data = y\ndel y\nx.add_(1)", X) == [
        "allocate 2 on cuda:0", "free 1", "launch cuda:0 add_ w2",
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("source", "calls"),
    [
        ("x[0] = 1", ["launch cuda:0 copy_ w1"]),
        ("x[1:] = x[0]", ["launch cuda:0 copy_ r1 w1"]),
        ("x += 1", ["launch cuda:0 add_ w1"]),
        ("x[0] += 1", ["launch cuda:0 add_ w1"]),
        ("x[[0, 1]] = 1", ["sync cuda:0", "launch cuda:0 copy_ w1"]),
        (
            "x[x > 0] = x",
            ["allocate 2 on cuda:0", "launch cuda:0 gt r1 w2", "sync cuda:0", "launch cuda:0 copy_ r2 r1 w1", "free 2"],
        ),
        ("x[0] = torch.ones(1)", ["launch cuda:0 copy_ w1", "sync cuda:0"]),
    ],
)
def test_items_of_a_tensor_are_written(source, calls):
    assert calls_of(source, X) == calls


def test_rebinding_a_name_frees_its_tensor():
    assert calls_of("x = None", X) == ["free 1"]
    assert calls_of("del x", X) == ["free 1"]
    assert calls_of("y = x\ndel x", X) == []


def test_an_ordering_only_branch_neither_binds_nor_deletes():
    before = "class A: pass\na = A()\na.b = [1]\nd = {}\n"
    program = follow(before + "if unknown:\n    pass\nelse:\n    a.b = 2\n    d['k'] = 1\n    del a.b\n")
    assert program.scope.names["a"].attributes["b"].items[0].value == 1
    assert value_of("d", before).items == {}
