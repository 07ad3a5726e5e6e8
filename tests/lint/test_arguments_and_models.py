"""Models and batches that are moved to a GPU, flags that callers pass, and copies that are stored in arrays."""

import textwrap

import pytest

from syncheck.lint.engine import lint_source
from syncheck.lint.files import Text


def reported(source):
    result = lint_source("a.py", Text(textwrap.dedent(source)))
    assert not result.problem
    return [(finding.rule.code, finding.level.name.lower()) for finding in result.findings]


INFERENCE = """
import time
import torch
import networks

def run(args, batches, report):
    device = torch.device({device})
    model = {model}.to(device)
    seconds = 0
    for number, batch in enumerate(batches):
        left = batch["left"].to(device)
        began = time.perf_counter()
        found = model(left){part}
        {wait}
        seconds += time.perf_counter() - began
        report(found)
    print("mean inference time", seconds / number)
"""
WHERE = {"device": "'cuda'", "model": "networks.Stereo(args.size)", "part": "", "wait": "pass"}


@pytest.mark.parametrize(
    "where",
    [
        {},
        {"model": "torch.nn.Linear(8, 8)"},
        {"part": "[-1]"},
        {"device": "'cuda' if torch.cuda.is_available() else 'cpu'"},
    ],
)
def test_the_time_of_a_model_that_was_moved_to_a_gpu(where):
    assert reported(INFERENCE.format(**(WHERE | where))) == [("SYN701", "warning")]


@pytest.mark.parametrize("where", [{"wait": "torch.cuda.synchronize()"}, {"device": "'cpu'"}, {"wait": "found.item()"}])
def test_the_time_of_a_model_is_correct(where):
    assert reported(INFERENCE.format(**(WHERE | where))) == []


EXCHANGE = """
import torch
import torch.distributed as dist

def {name}(source, group, async_op=False):
    target = torch.empty_like(source)
    dist.all_to_all_single(target, source, group=group, async_op=async_op)
    return target + 1

{calls}
"""


@pytest.mark.parametrize(
    ("calls", "codes"),
    [
        ("", ["SYN603"]),
        ("def a(x, g):\n    return _exchange(x, g)", ["SYN603"]),  # `async_op` is there for calls in other files
        ("def a(x, g):\n    return _exchange(x, g, async_op=False)", []),
        ("def a(x, g):\n    return _exchange(x, g, False) + _exchange(x, group=g, async_op=False)", []),
        ("def a(x, g):\n    return _exchange(x, g, async_op=True)", ["SYN603"]),
        ("def a(x, g, later):\n    return _exchange(x, g, later)", ["SYN603"]),
        ("def a(x, **options):\n    return _exchange(x, **options)", ["SYN603"]),
    ],
)
def test_a_flag_of_a_private_function_has_the_value_that_all_calls_pass(calls, codes):
    found = {code for code, _ in reported(EXCHANGE.format(name="_exchange", calls=calls))}
    assert found & {"SYN601", "SYN603"} == set(codes) or (codes and found)


@pytest.mark.parametrize("calls", ["", "def a(x, g):\n    return exchange(x, g, False)"])
def test_other_files_may_pass_another_value_to_a_public_function(calls):
    assert ("SYN601", "warning") in reported(EXCHANGE.format(name="exchange", calls=calls))


def test_a_call_that_passes_the_flag_makes_it_an_error():
    calls = "def a(x, g):\n    return exchange(x, g, True)"
    assert ("SYN601", "error") in reported(EXCHANGE.format(name="exchange", calls=calls))


@pytest.mark.parametrize(
    ("parameter", "use", "calls", "codes"),
    [
        ("wait=True", "not wait", "_exchange(x)", []),
        ("wait=True", "not wait", "_exchange(x, False)", ["SYN603"]),
        ("wait=True", "not wait", "_exchange(x, wait=True)", []),
        ("later=False", "later", "_exchange(x)", []),
        ("later=False", "later", "_exchange(x) + _exchange(x, later=y)", ["SYN603"]),
    ],
)
def test_a_flag_of_a_private_function_has_its_default_if_no_call_passes_it(parameter, use, calls, codes):
    source = f"""
import torch
import torch.distributed as dist

def _exchange(source, {parameter}):
    target = torch.empty(4, device="cuda")
    if {use}:
        dist.all_to_all_single(target, source, async_op=True)
    return target

def run(x, y):
    return {calls}
"""
    assert [code for code, _ in reported(source) if code == "SYN603"] == codes


@pytest.mark.parametrize(
    ("target", "codes"),
    [("lengths[first:last]", ["SYN301"]), ("lengths[first:]", ["SYN301"]), ("lengths[first]", [])],
)
def test_a_copy_in_flight_that_is_stored_in_a_slice_is_read(target, codes):
    source = f"""
    import torch

    def store(lengths, gradients, first, last):
        {target} = torch.sum(gradients, 0).to("cpu", non_blocking=True)
    """
    assert [code for code, _ in reported(source)] == codes


@pytest.mark.parametrize(
    ("print_it", "codes"),
    [
        ('print(f"took {ended - began:.2f} s")', ["SYN701"]),
        ('print(f"CPU time: {ended - began:.2f} s")', []),
        ('print(f"host overhead {ended - began:.2f} s")', []),
        ('record("offload_launch_ms", ended - began)', []),
        ('record("offload_ms", ended - began)', ["SYN701"]),
    ],
)
def test_a_time_that_is_named_after_the_host_is_the_hosts(print_it, codes):
    source = f"""
    import time
    import torch

    def copy(record):
        x = torch.ones(1 << 20, device="cuda")
        y = torch.empty(1 << 20, pin_memory=True)
        torch.cuda.synchronize()
        began = time.time()
        y.copy_(x, non_blocking=True)
        ended = time.time()
        {print_it}
        torch.cuda.synchronize()
    """
    assert [code for code, _ in reported(source)] == codes


@pytest.mark.parametrize(("method", "codes"), [("generate", []), ("forward", ["SYN701"])])
def test_a_language_model_that_generates_is_waited_for(method, codes):
    source = f"""
    import time
    import transformers

    def run(text):
        ids = transformers.AutoTokenizer.from_pretrained("gpt2")(text).input_ids.cuda()
        model = transformers.GPT2LMHeadModel.from_pretrained("gpt2").cuda()
        began = time.time()
        out = model.{method}(ids, max_length=200)
        print("took", time.time() - began)
    """
    assert [code for code, _ in reported(source)] == codes


@pytest.mark.parametrize(
    ("use", "level"), [("float()", "warning"), ("half()", "warning"), ("sum()", "error"), ("add(1)", "error")]
)
def test_a_cast_of_a_copy_in_flight_may_read_nothing(use, level):
    source = f"""
import torch

def fetch(x):
    return x.cuda().to("cpu", non_blocking=True).{use}
"""
    assert reported(source) == [("SYN301", level)]
