"""Clocks around models and tensors that were moved to a GPU, or to a device that may be one."""

import textwrap

import pytest

from syncheck.lint.engine import lint_source
from syncheck.lint.files import Text

SOURCE = """
import time
import torch
from models import load_model, tokenizer

def bench(prompt, path, rounds):
    model = load_model(path).to("cuda")
    inputs = tokenizer(prompt).to("cuda")
    {before}
    start = time.perf_counter()
    {work}
    {after}
    seconds = time.perf_counter() - start
    print(seconds)
"""


def found(source):
    result = lint_source("m.py", Text(textwrap.dedent(source)))
    assert not result.problem, result.problem
    return [f.location.frame.line for f in result.findings if f.rule.code == "SYN701"]


def timed(work, *, before="pass", after="pass"):
    return found(SOURCE.format(work=work, before=before, after=after)) == [13]


@pytest.mark.parametrize(
    "work",
    [
        "out = model(inputs)", "out = model(inputs[:, 1:])", "out = model(inputs['ids'])", "out = model(inputs.ids)",
        "out = model(**inputs)", "out = model(inputs * 2)", "out = model(-inputs)", "out = model(inputs.unsqueeze(0))",
        "loss = model(inputs) / 2; loss.backward()", "for row in inputs: out = model(row)",
    ],
)  # fmt: skip
def test_a_model_on_a_gpu_computes_on_what_was_moved_there_and_on_its_parts(work):
    assert timed(work)


@pytest.mark.parametrize(
    ("work", "level"), [("out = net(x)[0] * scale", "warning"), ("out = (x @ x) * scale", "error")]
)
def test_an_operator_on_what_unknown_code_returns_is_only_likely_to_matter(work, level):
    source = f"""
        import time
        import torch
        x = torch.rand(8, 8, device="cuda")
        scale = torch.rand(8, device="cuda")
        def bench(net):
            start = time.perf_counter()
            {work}
            print(time.perf_counter() - start)
    """
    (found,) = lint_source("m.py", Text(textwrap.dedent(source))).findings
    assert (found.rule.code, found.level.value) == ("SYN701", level)


@pytest.mark.parametrize("work", ["out = model(prompt)", "rows = inputs.shape[0]", "size = load_model(inputs.shape)"])
def test_a_call_that_gets_nothing_from_a_gpu_may_do_its_work_on_the_host(work):
    assert not timed(work)


@pytest.mark.parametrize(
    "after",
    [
        "rows = out.tolist()", "loss = float(out)", "print(out)", "text = f'{out}'", "best = out if out > 0 else 0",
        "while out.max() > 3: break", "loss = float(out[0])", "loss = float(out * 2)", "torch.cuda.synchronize()",
    ],
)  # fmt: skip
def test_a_read_of_the_result_waits(after):
    assert timed("out = model(inputs)")
    assert not timed("out = model(inputs)", after=after)


@pytest.mark.parametrize(
    "context",
    [
        "torch.autocast(device_type='cuda')", "torch.autocast('cuda', dtype=torch.float16)",
        "torch.inference_mode(), torch.autocast(device_type=inputs.device.type)",
        "torch.amp.autocast(device_type='cuda')", "torch.profiler.record_function('on device')",
    ],
)  # fmt: skip
def test_contexts_that_get_a_device_make_no_stream_current(context):
    assert timed(f"with {context}: out = model(inputs)")
    assert timed("with ctx: out = model(inputs)", before=f"ctx = {context.rpartition('(), ')[2]}")


GIVEN = """
import time
import torch

def bench(model, batch, {device}, rounds):
    use_gpu = torch.cuda.is_available()
    {before}
    start = time.perf_counter()
    {work}
    return time.perf_counter() - start
"""


@pytest.mark.parametrize(
    ("device", "before", "work"),
    [
        ("device", "x = torch.randn(4, 4).to(device)", "y = model(x)"),
        ("device", "x = batch.to(device, non_blocking=True)", "y = model(x)"),
        ("index", "x = torch.randn(4, 4).cuda(index)", "y = model(x)"),
        ("rank", "for key, value in batch.items(): batch[key] = value.to(rank)", "y = model(**batch)"),
        ("device", "batch = {key: value.to(device) for key, value in batch.items()}", "y = model(**batch)"),
        ("device", "batch = [value.to(device) for value in batch]", "y = model(batch)"),
        ("device", "batch = (batch[0].to(device), batch[1])", "y = model(*batch)"),
        ("device", "x = torch.randn(4, 4, device=device)", "y = x @ x"),
        ("device", "x = torch.randn(4, 4, device=device)", "y = torch.einsum('ij,jk->ik', x, x)"),
        ("device", "x = torch.randn(4, 4, device=device)", "y = torch.nn.functional.linear(x, x)"),
    ],
)
def test_a_device_that_is_a_parameter_may_be_a_gpu(device, before, work):
    assert found(GIVEN.format(device=device, before=before, work=work)) == [10]


@pytest.mark.parametrize(
    ("device", "before", "work"),
    [
        ("size", "x = torch.randn(4, 4).to(size)", "y = model(x)"),
        ("device", "x = torch.randn(4, 4).to('cpu')", "y = model(x)"),
        ("device", "x = torch.randn(4, 4, device=device)", "y = x + 1"),
        ("device", "x = torch.randn(4, 4, device=device)", "y = x.reshape(2, 8)"),
        ("device", "x = torch.randn(4, 4, device=device)", "y = torch.einsum('ij,jk->ik', x, x).cpu()"),
    ],
)
def test_work_elsewhere_and_short_work_is_no_mistake(device, before, work):
    assert found(GIVEN.format(device=device, before=before, work=work)) == []


TRAINED = """
import time
import torch
from models import Net

def train(batches, rate):
    net = Net().cuda()
    optimizer = torch.optim.Adam(net.parameters(), lr=rate)
    for batch, target in batches:
        start = time.perf_counter()
        loss = net(batch.cuda(), target)
        value = loss.item()
        {backward}
        norm = torch.nn.utils.clip_grad_norm_(net.parameters(), {limit})
        {after}
        {step}
        seconds = time.perf_counter() - start
        print(value, seconds)
"""
STEPS = {"backward": "loss.backward()", "limit": "1.0", "after": "pass", "step": "optimizer.step()"}


@pytest.mark.parametrize(
    ("given", "is_found"),
    [
        ({}, True), ({"backward": "pass"}, False), ({"step": "pass"}, True),
        ({"step": "pass", "after": "print(float(norm))"}, False),
        ({"step": "pass", "limit": "1.0, error_if_nonfinite=True"}, False),
        ({"step": "optimizer.step(); torch.cuda.synchronize()"}, False),
    ],
)  # fmt: skip
def test_clipping_gradients_waits_for_nothing_and_a_step_alone_after_a_wait_matters_little(given, is_found):
    assert bool(found(TRAINED.format(**STEPS | given))) is is_found


POSTPROCESSED = """
import time
import torch
from boxes import batched_nms

def infer(model, image):
    model.cuda()
    start = time.perf_counter()
    boxes = model(image.cuda())
    kept = {kept}
    print(time.perf_counter() - start)
"""


@pytest.mark.parametrize(("kept", "is_found"), [("batched_nms(boxes, 0.5)", False), ("boxes", True)])
def test_the_host_waits_for_the_boxes_that_are_kept(kept, is_found):
    assert bool(found(POSTPROCESSED.format(kept=kept))) is is_found


@pytest.mark.parametrize(("library", "is_found"), [("pykeops.torch", False), ("opt_einsum", True)])
def test_the_host_waits_for_the_kernels_of_keops(library, is_found):
    source = f"""
import time
import torch
from {library} import LazyTensor

x = torch.randn(1000, 3, device="cuda")
start = time.perf_counter()
y = LazyTensor(x) @ x
z = x @ x.T
print(time.perf_counter() - start)
"""
    assert bool(found(source)) is is_found


LAYERS = """
import time
import torch

def prepare(path):
    net = torch.load(path).cuda()
    start = time.perf_counter()
    {work}
    seconds = time.perf_counter() - start
    print(seconds)
"""


@pytest.mark.parametrize(
    "work",
    [
        "net.eval()", "names = [name for name, _ in net.named_parameters()]", "weights = net.state_dict()",
        "net.zero_grad(set_to_none=True)", "optimizer = torch.optim.SGD(net.parameters(), lr=1.0)",
    ],
)  # fmt: skip
def test_a_layer_can_be_inspected_without_work_on_the_gpu(work):
    assert found(LAYERS.format(work=work)) == []
    assert found(LAYERS.format(work=work.split(" = ")[-1] + "; y = net(torch.ones(4).cuda())")) == [9]


KNOWN = """
import time
import torch

class Net(torch.nn.Module):
    def __init__(self):
        self.weight = torch.nn.Parameter(torch.ones(4))

    def forward(self, x):
        return self.weight * x

def train():
    net = Net()
    optimizer = torch.optim.SGD({parameters}, lr=1.0)
    start = time.perf_counter()
    optimizer.step()
    print(time.perf_counter() - start, torch.cuda.is_available())
"""


@pytest.mark.parametrize(
    ("parameters", "is_found"),
    [("net.parameters()", False), ("others", True), ("[{'params': others}]", False), ("make().to('cuda')", True)],
)
def test_an_optimizer_of_known_parameters_does_what_they_need(parameters, is_found):
    assert bool(found(KNOWN.format(parameters=parameters))) is is_found


GROUP = """
import time
import torch
import torch.distributed as dist

def exchange(tensor, group, rounds):
    start = time.perf_counter()
    for _ in range(rounds):
        dist.all_reduce(tensor, group=group)
    {after}
    return (time.perf_counter() - start) / rounds

def main():
    dist.init_process_group("{backend}", rank=torch.cuda.current_device())
"""
MEASURED = """
import time
import torch

def measure(model, x):
    torch.cuda.reset_peak_memory_stats()
    start = time.perf_counter()
    y = model(x)
    {after}
    return time.perf_counter() - start, torch.cuda.max_memory_allocated()
"""
PASSED = """
import time
import torch

def measure(model, x):
    start = time.perf_counter()
    y = model(x)
    {after}
    return time.perf_counter() - start

def run(path):
    net = torch.load(path).to("{device}")
    print(measure(net, torch.randn(4, 4).to("{device}")))
"""


@pytest.mark.parametrize(("after", "is_found"), [("pass", True), ("torch.cuda.synchronize()", False)])
def test_the_file_shows_that_work_of_unknown_arguments_runs_on_a_gpu(after, is_found):
    assert bool(found(GROUP.format(after=after, backend="nccl"))) is is_found
    assert bool(found(MEASURED.format(after=after))) is is_found
    assert bool(found(PASSED.format(after=after, device="cuda"))) is is_found


def test_the_file_may_show_that_it_runs_on_the_host():
    assert found(GROUP.format(after="pass", backend="gloo")) == []
    assert found(PASSED.format(after="pass", device="cpu")) == []
    assert found(MEASURED.format(after="pass").replace("model(", "parse(")) == []
