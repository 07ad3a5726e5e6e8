"""Models of layers, parameters and optimizers."""

import pytest

from syncheck.lint.engine import lint_source
from syncheck.lint.files import Text
from syncheck.lint.interp.values import MOVED
from tests.unit.lint.program import calls_of, constant, follow

L = "l = torch.nn.Linear(4, 4, device='cuda')\nx = torch.ones(4, device='cuda')\n"


def test_a_layer_has_parameters_on_its_device():
    assert calls_of("l = torch.nn.Linear(4, 4, device='cuda')") == ["allocate 1 on cuda:0", "launch cuda:0 uniform_ w1"]
    assert calls_of("l = torch.nn.Linear(4, 4)") == []
    assert constant("torch.nn.Linear(4, 4, device=unknown)") == "unknown"
    assert follow(L).scope.names["l"].weight.is_leaf


def test_functions_in_torch_nn_are_operators():
    assert calls_of("y = torch.nn.functional.relu(x)", L)[-1] == "launch cuda:0 relu r2 w3"


def test_named_parameters_are_pairs():
    before = L + "for name, p in l.named_parameters(): p.sin_()"
    assert calls_of(before, L) == calls_of(L + "for p in l.parameters(): p.sin_()", L)


@pytest.mark.parametrize("method", ["eval()", "train(False)", "half()", "requires_grad_(False)", "to('cuda')"])
def test_chaining_methods_return_the_layer(method):
    program = follow(L + f"m = l.{method}")
    assert program.scope.names["m"] is program.scope.names["l"]


def test_a_parameter_is_a_leaf_unless_it_requires_no_gradient():
    program = follow(
        "p = torch.nn.Parameter(torch.ones(4))\nq = torch.nn.Parameter(torch.ones(4), requires_grad=False)"
    )
    assert [program.scope.names[name].is_leaf for name in "pq"] == [True, False]


def test_an_optimizer_reads_gradients_and_writes_parameters():
    before = L + "o = torch.optim.SGD(l.parameters(), lr=1)\n"
    assert calls_of("o.step()", before) == []  # there is no gradient
    trained = before + "l(x).sum().backward()\n"
    (step,) = calls_of("o.step()", trained)
    assert step.startswith("launch cuda:0 _foreach_add_ r")
    assert step.endswith("w1")
    assert [call.split()[0] for call in calls_of("o.zero_grad()", trained)] == ["free"]
    assert [call.split()[0] for call in calls_of("l.zero_grad()", trained)] == ["free"]


NET = """
class N(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.a = torch.nn.Linear(4, 4)
        self.layers = [torch.nn.Linear(4, 4)]
        self.register_buffer("b", torch.ones(4))
n = N()
"""


def test_a_module_of_the_program_is_moved_with_all_its_layers():
    copies = [call for call in calls_of("n.cuda()", NET) if call.startswith("launch")]
    assert copies == ["launch cuda:0 copy_ w1", "launch cuda:0 copy_ w2"]
    assert constant("list(n.parameters())", NET)[:2] == ["tensor", "tensor"]
    assert constant("n.b", NET) == "tensor"
    assert constant("n.eval()", NET) == "instance"


def test_other_methods_of_a_module_are_unknown():
    assert constant("n.state_dict()", NET) == "unknown"
    assert calls_of("n.synchronize()", NET) == ["all complete"]


def test_deepspeed_moves_the_model_to_a_gpu():
    names = follow("import deepspeed\nengine, optimizer, loader, _ = deepspeed.initialize(model=net)").scope.names
    assert names["engine"] is MOVED
    assert names["optimizer"] is not MOVED
    assert follow("import deepspeed\ne = deepspeed.init_inference(net)").scope.names["e"] is MOVED


BLOCKS = """
class Block(torch.nn.Module):
    def __init__(self):
        self.a = torch.nn.Linear(4, 4)
    def forward(self, x):
        return self.a(x)
"""


@pytest.mark.parametrize("made", ["[Block(), Block()]", "(Block() for _ in range(2))", "(Block(), Block())"])
def test_a_list_of_layers_is_moved_with_all_of_them_and_holds_each(made):
    program = BLOCKS + f"layers = torch.nn.ModuleList({made})\n"
    moved = [call for call in calls_of("layers = layers.cuda()", program) if call.startswith("launch")]
    assert moved == ["launch cuda:0 copy_ w1", "launch cuda:0 copy_ w2"]
    used = calls_of(
        "for layer in layers: x = layer(x)", program + "layers.to('cuda').eval()\nx = torch.ones(4).cuda()\n"
    )
    assert [call.split()[2] for call in used if call.startswith("launch")] == ["addmm", "addmm"]


def test_a_list_of_layers_has_the_parameters_of_all():
    names = follow(BLOCKS + "n = torch.nn.ModuleList([Block()]).cuda()\np = n.parameters()").scope.names
    assert len(names["p"].items) == 1
    assert names["p"].is_open
    assert follow("n = torch.nn.ModuleList()").scope.names["n"].items == []


def test_networks_in_networks_are_moved_once():
    program = BLOCKS + (
        "class Net(torch.nn.Module):\n    def __init__(self):\n        self.block = self.same = Block()\n"
        "        self.block.parent = self\n"
    )
    moved = [call for call in calls_of("net = Net().cuda()", program) if "copy_" in call]
    assert len(moved) == 1


def test_backward_of_several_tensors_writes_the_gradients():
    source = "w = torch.ones(4, device='cuda', requires_grad=True)\n"
    assert "launch cuda:0 backward r2 w3" in " ".join(calls_of("torch.autograd.backward([w * 2])", source))


def test_gradients_read_the_outputs():
    source = "w = torch.ones(4, device='cuda', requires_grad=True)\n"
    assert "launch cuda:0 backward r2" in calls_of("g = torch.autograd.grad(w * 2, w)", source)


SIDE = (
    "import torch\nside = torch.cuda.Stream()\nl = torch.nn.Linear(4, 4, device='cuda')\n"
    "x = torch.ones(4, device='cuda')\nopt = torch.optim.SGD(l.parameters(), 0.1)\ntorch.cuda.synchronize()\n"
    "def wait(*_): torch.cuda.current_stream().wait_stream(side)\ndef show(*_): print('called')\n"
    "{hook}\nwith torch.cuda.stream(side): z = x * 2\ny = {call}\nprint((x + z).sum())\n"
)


def codes(source):
    return [found.rule.code for found in lint_source("m.py", Text(source)).findings if found.level.value != "advice"]


@pytest.mark.parametrize(
    ("hook", "is_found"),
    [
        ("l.register_forward_pre_hook(wait)", False),
        ("l.register_forward_hook(wait)", False),
        ("l.register_forward_hook(hook=unknown)", False),
        ("l.forward = wait", False),
        ("l.register_forward_hook(show)", True),
        ("pass", True),
    ],
)
def test_hooks_of_a_layer_may_wait(hook, is_found):
    assert codes(SIDE.format(hook=hook, call="l(x)")) == ["SYN101"] * is_found


@pytest.mark.parametrize(
    ("hook", "is_found"), [("opt.register_step_pre_hook(wait)", False), ("opt.register_step_post_hook(show)", True)]
)
def test_hooks_of_an_optimizer_may_wait(hook, is_found):
    assert codes(SIDE.format(hook=hook, call="opt.step()")) == ["SYN101"] * is_found


@pytest.mark.parametrize(
    "wrapped",
    [
        "torch.nn.parallel.DistributedDataParallel({})", "torch.distributed.fsdp.FullyShardedDataParallel({})",
        "torch.distributed.fsdp.fully_shard({})", "torch.compile({})", "torch.jit.script({})", "torch.jit.trace({}, x)",
        "torch.nn.SyncBatchNorm.convert_sync_batchnorm({})", "torch.nn.utils.weight_norm({})",
    ],
)  # fmt: skip
def test_a_wrapped_network_is_the_network(wrapped):
    program = follow(L + f"w = {wrapped.format('l')}")
    assert program.scope.names["w"] is program.scope.names["l"]
    net = "class Net(torch.nn.Module):\n  def forward(self, x): return x.sin()\n"
    program = follow(L + net + f"n = Net()\nw = {wrapped.format('n')}")
    assert program.scope.names["w"] is program.scope.names["n"]


def test_other_arguments_of_wrappers_are_unknown():
    assert constant("torch.nn.parallel.DistributedDataParallel(unknown)") == "unknown"
    assert constant("torch.jit.script(unknown)") == "unknown"


def test_what_a_network_of_unknown_layers_computes_is_running():
    source = (
        "import time\nimport torch\nimport other\nclass Net(torch.nn.Module):\n  def __init__(self):\n"
        "    super().__init__()\n    self.layer = other.Layer()\n  def forward(self, x): return self.layer(x)\n"
        "def run(batches, device):\n  net = Net().to(device)\n  for x in batches:\n"
        "    x = x.to(device, non_blocking=True)\n    start = time.time()\n    y = net(x)\n"
        "    print(time.time() - start)\nrun(other.batches, torch.device('cuda'))\n"
    )
    assert codes(source) == ["SYN701"]
