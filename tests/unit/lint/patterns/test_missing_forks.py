"""Work on a stream of an object with what the current stream may still compute."""

import ast
import textwrap

import pytest

from syncheck.lint.nodes import walk
from syncheck.lint.patterns.missing_forks import COPIES, SENDS, USES, created_in, missing_fork

CLASS = """
class A({base}):
    def __init__(self, model):
        self.s = torch.cuda.Stream()
        self.layer = torch.nn.Linear(4, 4)
        self.target = "cpu"
        self.kept = None

    def {name}({given}):
        with torch.cuda.stream(self.s):
            {work}

    def step(self, q):
        out = attend(q)
        self.kept = out.contiguous()
        self.host = torch.empty(4, pin_memory=True)
        {other}
"""


def message_of(found):
    return "" if found is None else found[0]


def flaw(work, given="self, x", base="object", name="run", other="pass"):
    source = textwrap.dedent(CLASS).format(work=work, given=given, base=base, name=name, other=other)
    kind = ast.parse(source.replace("~", "\n        ")).body[0]
    blocks = [node for node in walk(kind) if isinstance(node, ast.With)]
    return message_of(missing_fork(kind, blocks[0], "s", blocks))


@pytest.mark.parametrize(
    ("work", "given", "expected"),
    [
        ("y = torch.matmul(x, self.w)", "self, x", USES),
        ("y = torch.relu(x[0])", "self, x: torch.Tensor", USES),
        ("y = x.view(-1).float()", "self, x: Tensor", USES),
        ("y = x * 2", "self, x: Tensor", USES),
        ("self.out[0] = x[1:]", "self, x: torch.Tensor", USES),
        ("y = x * 2", "self, x: float", ""),
        ("y = x * 2", "self, x", ""),
        ("y = x.to(self.device) * 2", "self, x: Tensor", ""),  # it may come from the host
        ("y = torch.empty(4)", "self, x: Tensor", ""),
        ("y = torch.zeros_like(x)", "self, x: Tensor", ""),
    ],
)
def test_a_tensor_that_is_given_may_still_be_computed(work, given, expected):
    assert flaw(work, given) == expected


@pytest.mark.parametrize(
    "work",
    [
        "y = self.kept.clone()",
        "y = (self.kept - top).exp()",
        "wide = [p.data.float() for p in self.params]",
        "shadow.copy_(p.data.float())",
        "flat[0:4] = p.grad.view(-1)",
        "torch._foreach_add_(self.total, 1)~    y = torch.add(p.grad, 1)",
    ],
)
def test_results_of_other_methods_and_parameters_may_still_be_computed(work):
    assert flaw(work, "self") == USES


@pytest.mark.parametrize("work", ["g, p.grad = p.grad, None~    p.host.copy_(g)", "g = p.grad~    p.host.copy_(g)"])
def test_a_gradient_under_another_name_may_still_be_computed(work):
    assert flaw(work, "self") == COPIES


@pytest.mark.parametrize("work", ["y = self.host.clone()", "y = self.other.clone()", "p.data = z", "y = self.data + 1"])
def test_other_attributes_are_unknown(work):
    assert not flaw(work, "self")


def test_an_attribute_with_other_values_is_unknown():
    assert not flaw("y = self.kept.clone()", other="self.kept = load()")
    assert flaw("y = self.kept.clone()", other="self.kept = None")


def test_what_is_computed_on_the_stream_itself_needs_no_wait():
    other = "with torch.cuda.stream(self.s):\n            self.kept = q.clone()"
    assert not flaw("y = self.kept.clone()", other=other)


def test_views_of_a_parameter_count():
    given = "self, x: torch.Tensor"
    source = textwrap.dedent(CLASS).format(
        work="y = torch.relu(part)", given=given, base="object", name="run", other=""
    )
    source = source.replace("        with", "        flat = x.view(-1)\n        part = flat[2:]\n        with", 1)
    kind = ast.parse(source).body[0]
    block = next(node for node in walk(kind) if isinstance(node, ast.With))
    assert message_of(missing_fork(kind, block, "s", [block])) == USES
    kind = ast.parse(source.replace("part = flat", "part = load(flat)")).body[0]
    block = next(node for node in walk(kind) if isinstance(node, ast.With))
    assert not missing_fork(kind, block, "s", [block])


@pytest.mark.parametrize(
    ("base", "name", "work", "expected"),
    [
        ("nn.Module", "forward", "y = self.layer(x)", USES),
        ("nn.Module", "forward", "block = self.layers[0]~    y = block(*x)", USES),
        ("nn.Module", "forward", "block = load()~    y = block(*x)", ""),
        ("nn.Module", "run", "y = self.layer(x)", ""),
        ("Base", "forward", "y = self.layer(x)", ""),
        ("nn.Module", "forward", "x = torch.empty(4)~    y = self.layer(x)", ""),
        ("nn.Module", "forward", "y = self.step(x)", ""),
    ],
)
def test_a_layer_uses_the_input_of_forward(base, name, work, expected):
    assert flaw(work, base=base, name=name) == expected


def test_a_collective_sends_what_its_caller_has_computed():
    assert flaw("dist.all_reduce(x)") == SENDS
    assert flaw("self.handle = self.allreduce(x)") == SENDS
    assert flaw("self.handle = self.other.allreduce(x)") == ""
    assert flaw("self.all_gather_object(x)") == ""
    assert not flaw("x = torch.empty(4)~    dist.all_reduce(x)")
    assert not flaw("dist.barrier(x)")


@pytest.mark.parametrize(
    ("work", "expected"),
    [
        ("x = x.to(self.target, non_blocking=True)", COPIES),
        ("y = x.to('cpu', non_blocking=True)", COPIES),
        ("self.pinned.copy_(self.out, non_blocking=True)", COPIES),
        ("y = x.to(self.device, non_blocking=True)", ""),
        ("x = work()~    y = x.to('cpu', non_blocking=True)", ""),
        ("y = x.cpu()", COPIES),
        ("y.copy_(x.grad)", COPIES),
        ("y.copy_(x.data)", COPIES),
        ("y.copy_(x.data, non_blocking=True)", ""),
        ("y.copy_(x)", ""),
        ("x = work()~    y = x.cpu()", ""),
        ("self.out.copy_(x)~    self.pinned.copy_(self.out, non_blocking=True)", ""),
    ],
)
def test_a_copy_to_the_host_needs_its_source(work, expected):
    assert flaw(work) == expected


def test_a_block_that_may_get_what_another_block_makes_is_unknown():
    other = "with torch.cuda.stream(self.s):\n            return q.cuda()"
    given = "self, x: torch.Tensor"
    assert flaw("y = torch.relu(x)", given)
    assert not flaw("y = torch.relu(x)", given, other=other)
    assert flaw("y = torch.relu(x)", given, other=other, name="forward")


def test_a_method_that_runs_inside_a_block_on_its_stream_is_unknown():
    other = "with torch.cuda.stream(self.s):\n            self.run(q)"
    assert not flaw("y = torch.relu(x)", "self, x: torch.Tensor", other=other)


def test_variables_bound_to_calls_are_created_in_a_block():
    block = ast.parse("with s:\n    a = f()\n    b = c\n    d, e = f()\n").body[0]
    assert created_in(block) == {"a"}


def test_the_work_that_needs_the_wait_is_named():
    kind = ast.parse(CLASS.format(base="object", name="run", given="self, x", work="y = x.cpu()", other="pass")).body[0]
    blocks = [node for node in walk(kind) if isinstance(node, ast.With)]
    _, work = missing_fork(kind, blocks[0], "s", blocks)
    assert ast.unparse(work) == "x.cpu()"


SWAPPER = """
class Swapper:
    def __init__(self, pool, size):
        self.out = torch.cuda.Stream()
        self.pool = list(pool)
        self.host = torch.empty(size, pin_memory=True)

    @staticmethod
    def copy(source, target):
        for one, other in zip(source, target):
            other.copy_(one, non_blocking=True)

    def swap(self):
        with torch.cuda.stream(self.out):
            self.copy(self.pool, self.host)
"""


@pytest.mark.parametrize(
    ("old", "new", "expected"),
    [
        ("", "", COPIES),
        ("list(pool)", "pool", COPIES),
        ("list(pool)", "torch.empty(size)", ""),
        ("self.copy(self.pool, self.host)", "self.copy(self.host, self.host)", ""),
        (", non_blocking=True", "", ""),
        ("self.copy(self.pool, self.host)", "self.copy(self.host, self.pool)", ""),
        ("torch.empty(size, pin_memory=True)", "torch.empty(size)", ""),
    ],
    ids=["list", "as given", "its own memory", "host memory only", "blocking", "upload", "not pinned"],
)
def test_a_method_may_copy_what_the_constructor_was_given(old, new, expected):
    kind = ast.parse(SWAPPER.replace(old, new) if old else SWAPPER).body[0]
    blocks = [node for node in walk(kind) if isinstance(node, ast.With)]
    assert message_of(missing_fork(kind, blocks[0], "out", blocks)) == expected
