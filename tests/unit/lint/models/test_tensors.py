"""Models of tensor methods and torch functions."""

import pytest

from syncheck.lint.engine import lint_source
from syncheck.lint.files import Text
from tests.unit.lint.program import calls_of, constant, follow

X = "x = torch.ones(4, device='cuda')\ny = torch.ones(4, device='cuda')\n"
S = "s = torch.cuda.Stream()\n"
W = "w = torch.ones(4, device='cuda', requires_grad=True)\n"


@pytest.mark.parametrize(
    ("call", "launched"),
    [
        ("z = torch.add(x, y)", "add r1 r2 w3"),
        ("z = torch.linalg.norm(x)", "norm r1 w3"),
        ("z = torch.nn.functional.relu(x)", "relu r1 w3"),
        ("z = torch.cat([x, y])", "cat r1 r2 w3"),
        ("torch.Tensor.add_(x, y)", "add_ r2 w1"),
        ("torch.add(x, 1, out=y)", "add r1 w2"),
        ("z = torch.ops.aten.add(x, y)", "add r1 r2 w3"),
    ],
)
def test_torch_functions_run_operators(call, launched):
    assert [made for made in calls_of(call, X) if made.startswith("launch")] == [f"launch cuda:0 {launched}"]


@pytest.mark.parametrize(
    ("call", "launched"),
    [
        ("_foreach_mul_([x, y], 2)", ["mul_ w1", "mul_ w2"]),
        ("_foreach_add_([x], [y])", ["add_ r2 w1"]),
        ("_foreach_lerp_([x, y], [y, x], 0.5)", ["lerp_ r2 w1", "lerp_ r1 w2"]),
        ("_foreach_addcmul_([x], [y], [y])", ["addcmul_ r2 w1"]),
        ("_foreach_add_([x], [x, y])", ["add_ w1 r2"]),  # the lengths are unknown: each with each
        ("_foreach_zero_([])", []),
        ("_foreach_zero_(self=[x])", ["zero_ w1"]),
        ("_foreach_add_([x], other=[y])", ["add_ r2 w1"]),
    ],
)
def test_foreach_functions_modify_their_lists_in_place(call, launched):
    assert calls_of(f"torch.{call}", X) == [f"launch cuda:0 {each}" for each in launched]


@pytest.mark.parametrize("sources", ["[y]", "src=[y]"])
def test_foreach_copies_copy(sources):
    assert calls_of(f"torch._foreach_copy_([x], {sources})", X) == calls_of("x.copy_(y)", X)


@pytest.mark.parametrize(
    "call", ["torch.manual_seed(1)", "torch.cuda.empty_cache()", "torch.utils.data.f()", "torch.compile(f)"]
)
def test_functions_that_are_not_operators_access_nothing(call):
    assert calls_of(call, X) == []


def test_an_unknown_function_with_a_stream_may_wait():
    assert calls_of("torch.cuda.unknown(s)", S) == ["all complete"]
    assert calls_of("torch.some.module.f(x)", X) == [
        "launch cuda:0 unknown code r1", "all complete", "launch cuda:0 unknown code",
    ]  # fmt: skip


def test_values_are_transferred_to_the_host():
    assert calls_of("torch.save(x, 'f')", X) == ["launch cuda:0 save r1", "sync cuda:0"]
    assert calls_of("n = h.numpy()", "h = torch.ones(4, pin_memory=True)\n") == []
    assert calls_of("f(h.numpy())", "h = torch.ones(4, pin_memory=True)\n") == ["escape Tensor.numpy() r1"]
    assert constant("torch.from_numpy(a)") == "tensor"


@pytest.mark.parametrize(("method", "how"), [("fill(0)", "w1"), ("sort()", "w1"), ("mean()", "r1")])
def test_methods_of_arrays_read_or_write_the_memory_of_the_tensor(method, how):
    (call,) = calls_of(f"a.{method}", "h = torch.ones(4, pin_memory=True)\na = h.numpy()\n")
    assert call.endswith(how)


def test_numpy_on_a_gpu_tensor_waits_for_the_copy():
    calls = calls_of("n = x.numpy(force=True)", "x = torch.ones(4, device='cuda')\n")
    assert calls == calls_of("n = x.cpu()", "x = torch.ones(4, device='cuda')\n")
    assert any(call.startswith("sync") or "wait" in call for call in calls), calls


def test_record_stream_reports_tensor_and_stream():
    assert calls_of("x.record_stream(s)", X + S) == ["record_stream 1 s1"]
    assert calls_of("x.record_stream(unknown)\nx.sin_()", X) == ["launch cuda:0 sin_"]


def test_resizing_to_zero_frees_memory():
    assert calls_of("x.resize_(0)", X) == ["free 1"]
    assert calls_of("x.resize_(5)", X) == []


# -- backward


def test_a_backward_pass_reads_the_loss_and_writes_gradients():
    calls = calls_of("l.backward()", W + "l = (w * 2).sum()\n")
    gradient = calls[0].split()[1]
    assert calls[0] == f"allocate {gradient} on cuda:0"
    assert calls[1].endswith(f"w{gradient}")
    assert calls[1].startswith("launch cuda:0 backward r")
    assert calls_of("l.backward()", "l = torch.ones(1, device='cuda')\n") == []


def test_backward_runs_on_the_forward_stream_and_the_current_one_waits():
    before = W + S + "with torch.cuda.stream(s):\n    l = (w * 2).sum()\n"
    calls = [call for call in calls_of("l.backward()", before) if not call.startswith(("allocate", "free"))]
    assert calls[0] == "wait s1 for cuda:0 (torch)"
    assert calls[1].startswith("launch s1 backward")
    assert calls[2] == "wait cuda:0 for s1 (torch)"


def test_memory_kept_by_the_graph_is_freed_after_backward():
    before = W + "l = (w * 2).sin().sum()\n"
    assert sum(call.startswith("free") for call in calls_of("l.backward()", before)) == 2


def test_under_no_grad_there_is_no_graph():
    source = "with torch.no_grad():\n    l = (w * 2).sum()\nl.backward()"
    assert not any("backward" in call for call in calls_of(source, W))


def test_hooks_run_on_the_stream_of_the_forward_pass():
    before = (
        W + X + S + "w.register_hook(lambda g: x.sin_())\nw.register_post_accumulate_grad_hook(lambda p: p.cos_())\n"
    )
    before += "with torch.cuda.stream(s):\n    l = (w * 2).sum()\n"
    calls = calls_of("l.backward()", before)
    assert "launch s1 sin_ w2" in calls
    assert "launch s1 cos_ w1" in calls


def test_gradients_on_another_device_are_written_there():
    before = "w = torch.ones(4, device='cuda:1', requires_grad=True)\nl = w.to('cuda:0').sum()\n"
    calls = calls_of("l.backward()", before)
    assert any(call.startswith("launch cuda:1 backward w") for call in calls)
    assert "wait cuda:1 for cuda:0 (torch)" in calls


def test_a_function_passed_to_a_tensor_method_is_unknown_code():
    assert calls_of("x.map_(y, lambda a, b: a)", X) == ["all complete", "launch cuda:0 unknown code"]


def test_a_gradient_stays_with_its_leaf():
    program = follow(W + "(w * 2).sum().backward()\n(w * 3).sum().backward()")
    assert program.scope.names["w"].grad is not None


@pytest.mark.parametrize(
    ("flag", "is_pinned"),
    [("on_gpu", True), ("pin", True), ("self.use_cuda", True), ("verbose", False), ("False", False)],
)
def test_a_flag_may_say_that_memory_is_pinned(flag, is_pinned):
    block = follow(f"h = torch.zeros(4, pin_memory={flag})").scope.names["h"].block
    assert block.is_pinned is is_pinned


@pytest.mark.parametrize("flipped", [frozenset(), frozenset({0})])
def test_such_a_flag_has_one_value_on_a_path(flipped):
    source = (
        "h = torch.zeros(4, pin_memory=pinned)\nl = torch.zeros_like(h, pin_memory=pinned)\ne = 1 if pinned else None"
    )
    names = follow(source, flipped).scope.names
    assert names["h"].block.is_pinned is names["l"].block.is_pinned is (names["e"].value == 1) is (not flipped)


@pytest.mark.parametrize(
    ("call", "waits"),
    [
        ("torch.nonzero(f())", True), ("torch.where(f())", True), ("torch.unique(f())", True), ("f().nonzero()", True),
        ("f().masked_select(g())", True), ("torch.where(f(), 1, 2)", False), ("f().sum()", False),
        ("torch.save(f(), 'x.pt')", True), ("torch.save({'net': f(), 'n': 3}, 'x.pt')", True),
        ("torch.save({'n': 3}, 'x.pt')", False), ("torch.save([1, 2], 'x.pt')", False),
    ],
)  # fmt: skip
def test_what_may_wait_for_the_size_of_its_result_matters_to_clocks(call, waits):
    timed = X + f"import time\nbegin = time.time()\nz = x @ x\nw = {call}\nprint(time.time() - begin)\n"
    found = lint_source("m.py", Text("import torch\n" + timed)).findings
    assert any(finding.rule.code == "SYN701" for finding in found) is not waits


def test_an_unknown_tensor_counts_as_one_on_the_gpu_if_the_size_of_a_result_depends_on_it():
    assert any(line.startswith("sync") for line in calls_of("w = f().masked_select(g())", X))
    assert not any(line.startswith("sync") for line in calls_of("w = f().sum()", X))


def test_where_with_one_argument_is_nonzero():
    assert calls_of("y = torch.where(x)", X) == calls_of("y = torch.nonzero(x)", X)


def test_a_variable_is_the_tensor_itself():
    program = follow("x = torch.ones(3, device='cuda')\ny = torch.autograd.Variable(x, requires_grad=True)")
    assert program.scope.names["y"] is program.scope.names["x"]
