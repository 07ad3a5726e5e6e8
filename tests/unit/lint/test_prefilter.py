"""Prefilters for files and functions."""

import ast

import pytest

from syncheck.lint import deferred
from syncheck.lint.prefilter import (
    anchor_lines,
    can_matter,
    clock_aliases,
    device_names,
    has_anchor,
    lines_with,
    may_use_gpu,
    reads_clock,
    spans_any,
    uses_gpu,
)

GIVEN = {"device", "torch_device", "cuda_device", "dev", "gpu", "rank", "local_rank", "device_id", "dev_id", "gpu_id"}


@pytest.mark.parametrize(
    ("data", "matters"),
    [
        (b"import torch\ns = torch.cuda.Stream()", True),
        (b"from deepspeed.accelerator import get_accelerator\nx.to(d, non_blocking=True)", True),
        (b"import torch\nx = torch.ones(3)", False),
        (b"s = Stream()", False),  # without torch
        (b"import mxnet  # not torch\nt = time.time()\nx.cuda()", False),
        (b"import mxnet\n# from pytorch\nt = time.time()\nx.cuda()", False),
        (b"import mxnet\ntry:\n\timport torch\nexcept ImportError: pass\nt = time.time()\nx.cuda()", True),
        (b"import mxnet\nfrom common import (\n  np,\n  torch,\n)\nt = time.time()\nx.cuda()", True),
        (b"import mxnet, torch\nt = time.time()\nx.cuda()", True),
        (b"import mxnet\nfrom torch import cuda\nt = time.time()", True),
        (b"import torch\nt = time.perf_counter()", False),
        (b"import torch\nt = time.perf_counter()\nx.cuda()", True),
        (b"import torch\nloss.backward()\nloss.item()", True),
        (b"import torch\nloss.backward()", False),
        (b"import torch.distributed\nif rank == 0: all_reduce(x)", True),
        (b"import torch\nif rank == 0: f()", False),
        (b"x = 1  # syncheck: ignore[SYN101]", True),  # which is unused
        (b"", False),
    ],
)
def test_a_file_matters_by_its_words(data, matters):
    assert can_matter(data) is matters


def test_anchor_lines_contain_words_that_start_a_rule():
    source = "import torch\ns = Stream()\n\ne = torch.cuda.Event(); x.wait_stream(s)\ny = 1\nt = time()\n"
    assert sorted(set(anchor_lines(source))) == [2, 4, 6]
    assert anchor_lines("x = 1") == []


def test_lines_with_words_are_returned_in_order():
    assert lines_with("one\n\ntwo one\nthree", {"one", "ee"}) == [1, 3, 4]
    assert lines_with("one", ()) == []


@pytest.mark.parametrize(
    ("body", "anchored"),
    [
        ("s = torch.cuda.Stream()", True), ("with torch.cuda.stream(s): pass", True),
        ("x.to(d, non_blocking=True)", True),
        ("stream(x)", True), ("streams(x)", False), ("t = time.time()", False), ("t = time.time(); x.cuda()", True),
        ("t = perf_counter(); x.to('cuda:0')", True), ("x = 'Stream'", False),
        ("threading.Thread(); torch.cuda.f()", True),
    ],
)  # fmt: skip
def test_a_function_matters_by_its_names(body, anchored):
    assert has_anchor(ast.parse(f"def f():\n    {body}")) is anchored


@pytest.mark.parametrize(
    ("body", "anchored"),
    [
        ("s = torch.cuda.Stream()", True), ("with x . stream (s): pass", True), ("f = time.time; x.cuda()", True),
        ("f()", False),
    ],
)  # fmt: skip
def test_an_unparsed_function_matters_by_the_same_names(body, anchored):
    (function,) = deferred.functions(deferred.parse(f"def f():\n    {body}\n" + "    f(1)\n" * 20).body)
    assert deferred.text_of(function) is not None
    assert has_anchor(function) is anchored
    assert (deferred.text_of(function) is None) is anchored


@pytest.mark.parametrize(
    ("source", "names"),
    [
        ("from timeit import default_timer as timer\n", {"timer"}),
        ("from time import sleep, perf_counter as now\n", {"now"}),
        ("import time as clock\n", {"clock"}),
        ("import numpy as np\nfrom time import time\n", set()),
        ("def f(x, clock=time.perf_counter):\n", {"clock"}),
        ("def f(clock: Callable[[], float] = time.monotonic, n=1):\n", {"clock"}),
        ("def f(now=time.time):\n    self._timer = now\n", {"now", "_timer"}),
        ("start = time.perf_counter()\n", set()),
        ("start = time.time\n", {"start"}),
    ],
)
def test_clock_aliases_are_found(source, names):
    assert clock_aliases(source) == names


@pytest.mark.parametrize(
    ("source", "names"),
    [
        ("where = torch.device('cuda:0' if ok else 'cpu')\n", {"where"}),
        ("x = 'cuda'\n    y = 'cuda'\n", {"x"}),
    ],
)
def test_device_names_are_found(source, names):
    assert device_names(source) == names | GIVEN
    assert device_names("gpu = torch.device('cpu')\n") == set()
    of_host = "# device = 'cuda'\ndevice = 'cpu'\ngpu = 'cuda'\n"
    assert device_names(of_host) == GIVEN - {"device"}
    assert "device" in device_names("device = 'cpu'\nif torch.cuda.is_available():\n    device = 'cuda'\n")
    assert "device" in device_names("device = 'cpu'\nif torch.cuda.is_available(): device = 'cuda:0'\n")


@pytest.mark.parametrize(
    ("source", "expected"),
    [
        ("x = x.cuda()", True),
        ("x = x.to(device)", True),
        ("    x = x.to(device=self._device)", True),
        ("x = x.to(args.device_id, dtype)", True),
        ("# x = x.to(device)", False),
        ("x = x.to(device())", False),
        ("x = x.to(dtype)", False),
        ("device = 3", False),
    ],
)
def test_a_move_to_a_device_may_use_a_gpu(source, expected):
    assert may_use_gpu(source) == expected
    assert bool(device_names(source)) == expected


def test_an_aliased_clock_and_device_are_enough():
    function = ast.parse("def f(x):\n    begin = now()\n    x.to(gpu)\n").body[0]
    assert not has_anchor(function)
    assert not has_anchor(function, frozenset({"now"}))
    assert has_anchor(function, frozenset({"now"}), frozenset({"gpu"}))


@pytest.mark.parametrize(
    ("body", "expected"),
    [("time.time()", True), ("now()", True), ("perf_counter()", True), ("sleep(1)", False), ("timer.stop()", False)],
)
def test_functions_that_read_a_clock(body, expected):
    assert reads_clock(ast.parse(f"def f():\n    {body}").body[0], frozenset({"now"})) is expected
    long = f"def f():\n    {body}\n" + "    x = 1\n" * 40
    assert reads_clock(deferred.parse(long).body[0], frozenset({"now"})) is expected


@pytest.mark.parametrize(
    ("source", "expected"),
    [
        ("x = x.cuda()", True), ("x = make(device='cuda').to('cpu')", False), ("x = x.cuda().cpu()", False),
        ("input = 1", False), ("n_gpus = 2", True), ("x.to('npu')", True), ("", False),
        ("x = make(device='cuda').to(\"cpu\")\ny = y.cuda()", True),
    ],
)  # fmt: skip
def test_files_that_use_gpus(source, expected):
    assert uses_gpu(source) is expected


@pytest.mark.parametrize(
    ("lines", "expected"), [([], False), ([1], False), ([1, 3], True), ([2], True), ([4, 9], False)]
)
def test_a_statement_spans_its_first_to_its_last_line(lines, expected):
    statement = ast.parse("a = 1\nb = (\n    2)\nc = 3").body[1]
    assert spans_any(statement, lines) is expected
