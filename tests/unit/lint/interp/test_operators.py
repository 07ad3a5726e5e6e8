"""Reads, writes and results of operators."""

import pytest

from syncheck.lint.interp.values import UNKNOWN, WHOLE, Constant, Device, Tensor
from tests.unit.lint.program import call, calls_of, constant, follow, value_of

X = "x = torch.ones(4, device='cuda')\n"
H = "h = torch.ones(4, pin_memory=True)\n"


@pytest.mark.parametrize(
    ("device", "index"),
    [
        ("'cuda'", 0), ("'cuda:1'", 1), ("'cpu'", None), ("2", 2), ("torch.device('cuda', 1)", 1), ("'xpu:1'", 1),
        ("'cuda:9'", UNKNOWN), ("12", UNKNOWN), ("'meta'", UNKNOWN), ("unknown", UNKNOWN), ("True", UNKNOWN),
    ],
)  # fmt: skip
def test_a_device_can_be_named_in_several_ways(device, index):
    assert follow("").interpreter.operators.device_in(value_of(device)) == index


@pytest.mark.parametrize(
    ("source", "calls"),
    [
        ("x = torch.ones(4, device='cuda')", ["allocate 1 on cuda:0", "launch cuda:0 ones w1"]),
        ("x = torch.empty(4, device=1)", ["allocate 1 on cuda:1"]),
        ("x = torch.ones(4)", []),
        ("x = torch.ones(4, device=None)", []),
        ("x = torch.ones(4, pin_memory=True)", ["allocate 1 on host"]),
        ("x = torch.ones(4, device=unknown)", []),
        ("x = torch.ones(4, pin_memory=unknown)", []),
    ],
)
def test_factories_create_tensors(source, calls):
    assert calls_of(source) == calls


def test_a_tensor_like_another_is_on_the_same_device():
    assert calls_of("y = torch.zeros_like(x)", X) == ["allocate 2 on cuda:0", "launch cuda:0 zeros_like w2"]
    assert calls_of("y = x.new_empty(3)", X) == ["allocate 2 on cuda:0"]
    assert calls_of("y = torch.zeros_like(x, device='cpu')", X) == []


def test_an_operator_writes_its_out_argument():
    assert calls_of("torch.add(x, x, out=x)", X) == ["launch cuda:0 add w1"]
    assert calls_of("y = torch.empty(4, device='cuda')\ntorch.add(x, 1, out=y)", X)[1:] == ["launch cuda:0 add r1 w2"]


def test_size_queries_and_views_access_no_memory():
    assert calls_of("x.size(); x.numel(); x.shape; x.data_ptr(); x.is_pinned()", X) == []
    assert calls_of("y = x.view(2, 2).t(); z = x.chunk(2)", X) == []


def test_overwriting_methods_do_not_read():
    program = follow(X + H)
    operators, machine = program.interpreter.operators, program.machine
    seen = []
    machine.launch = lambda stream, operator, touched, node: seen.append([is_write for _, is_write in touched])
    for name in ("zero_", "add_"):
        operators.in_place(name, program.scope.names["x"], [], call())
    assert seen == [[True], [False, True]]


@pytest.mark.parametrize(
    ("call", "calls"),
    [
        ("x.item()", ["launch cuda:0 item r1", "sync cuda:0"]),
        ("x.tolist()", ["launch cuda:0 tolist r1", "sync cuda:0"]),
        ("h.item()", ["host item r2"]),
        ("h.sum()", ["host sum r2"]),
        ("h.add_(1)", ["host add_ w2"]),
    ],
)
def test_the_host_reads_values(call, calls):
    assert calls_of(call, X + H) == calls


@pytest.mark.parametrize(
    ("call", "order"),
    [
        ("x.nonzero()", ["sync", "allocate", "launch", "free"]),
        ("torch.linalg.inv(x)", ["allocate", "launch", "sync", "free"]),
        ("x.masked_fill(x, x)", ["sync", "allocate", "launch", "free"]),
        ("x.masked_fill(x, 0.0)", ["allocate", "launch", "free"]),
        ("x.repeat_interleave(2)", ["allocate", "launch", "free"]),
    ],
)  # fmt: skip
def test_the_host_waits_before_or_after_the_kernel(call, order):
    assert [made.split()[0] for made in calls_of(call, X)] == order


def test_a_tensor_on_another_device_is_not_modified_in_place():
    assert calls_of("h.add_(x)\nh.item()", X + H) == []


OTHER = "o = torch.ones(4, device='cuda:1')\n"


@pytest.mark.parametrize("operation", ["x + o", "torch.cat([x, o])", "torch.add(x, x, out=o)"])
def test_tensors_of_several_gpus_cannot_be_combined(operation):
    assert calls_of(operation, X + OTHER) == []


def test_some_operators_work_on_lists_of_tensors_of_several_gpus():
    program = follow(X + OTHER)
    tensors = [program.scope.names[name] for name in "xo"]
    before = len(program.calls)
    program.interpreter.operators.run("aten::_foreach_norm", tensors, call())
    assert len(program.calls) > before


def test_leaves_are_propagated_with_gradients():
    program = follow(
        "w = torch.ones(4, device='cuda', requires_grad=True)\ny = (w * 2).sum()\nwith torch.no_grad():\n    z = w * 2"
    )
    w, y, z = (program.scope.names[name] for name in "wyz")
    assert w.is_leaf
    assert y.leaves == (w,)
    assert z.leaves == ()
    assert program.interpreter.operators.alias(y, None).leaves == (w,)


def test_masks_are_recognized_by_their_operator():
    program = follow(X + "a = x > 0\nb = a & a\nc = x.isnan()\nd = x + 1\ne = a.clone()\nf = (x & x)\ng = a[0]")
    assert [program.scope.names[name].is_mask for name in "abcdefg"] == [True, True, True, False, True, False, True]


def test_rows_of_a_whole_tensor_are_known():
    program = follow(X)
    operators, tensor = program.interpreter.operators, program.scope.names["x"]
    assert operators.part_of(tensor, Constant(2)) == (2, 3)


def test_known_items_of_a_part_are_parts_of_their_own():
    program = follow(X)
    operators, tensor = program.interpreter.operators, program.scope.names["x"]
    part = operators.alias(tensor, (0, 1))
    items = [operators.part_of(part, Constant(index)) for index in (0, 1, 0)]
    assert items[0] == items[2] != items[1]
    assert operators.part_of(part, Constant(slice(1, 2))) is None
    assert operators.part_of(operators.alias(tensor, None), Constant(0)) is None


@pytest.mark.parametrize(("call", "part"), [("narrow(0, 1, 2)", (1, 3)), ("select(1, 0)", (0, 1)), ("t()", WHOLE)])
def test_methods_return_known_parts(call, part):
    assert value_of(f"x.{call}", X).part == part
    assert value_of(f"x[1].{call}", X).part == (None if part != WHOLE else (1, 2))


def test_a_tensor_on_an_unknown_device_is_unknown():
    assert constant("torch.zeros(3, device=unknown)") == "unknown"
    assert isinstance(value_of("torch.device('cpu')"), Device)


@pytest.mark.parametrize(
    ("expression", "expected"),
    [("h * f()", "unknown"), ("f() - h", "unknown"), ("h + 1", "tensor"), ("h @ h", "tensor"), ("x * f()", "tensor")],
)
def test_a_host_tensor_may_be_where_an_unknown_value_is(expression, expected):
    value = value_of(expression, X + "h = torch.ones(3)\n")
    assert ("tensor" if isinstance(value, Tensor) else "unknown") == expected


@pytest.mark.parametrize("indices", ["[i]", "(i, None)", "(x > 0,)", "f()", "[*f()]", "i"])
def test_indices_of_any_kind_can_be_put(indices):
    before = X + "i = torch.zeros(2, dtype=torch.long, device='cuda')\n"
    for source in (f"x.index_put_({indices}, x[0])", f"y = torch.index_put(x, {indices}, x[0])"):
        calls = calls_of(source, before)
        assert any("index_put" in each for each in calls)
        assert ("sync cuda:0" in calls) is ("x > 0" in indices)
