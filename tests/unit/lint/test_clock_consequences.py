"""Findings about clocks that may have no consequence where they are."""

import ast

import pytest

from syncheck.lint.clock_consequences import weighed_by_clock
from syncheck.lint.engine import lint_source
from syncheck.lint.files import Text
from tests.unit.lint.checking import HEAD
from tests.unit.lint.checking import found_with_levels as found

TIMED = """
def f():
    x = torch.randn(64, 64, device="cuda")
    start = time.time()
    for i in range(1000):
        y = x @ x
        {read}
    print(time.time() - start)
"""


@pytest.mark.parametrize(("read", "level"), [("if i == 999: print(y.tolist())", "warning"), ("pass", "error")])
def test_a_read_that_may_be_in_the_last_iteration(read, level):
    assert found(TIMED.format(read=read)) == [("SYN701", level)]


AHEAD = """
def f(log):
    x, side = torch.randn(64, 64, device="cuda"), torch.cuda.Stream()
    torch.cuda.synchronize()
    {before}
    for i in range(100):
        {first}
        with torch.cuda.stream(side):
            y = x @ x
        log.info("step %d, %.1f s", i, time.time() - start)
"""


@pytest.mark.parametrize(
    ("before", "first", "codes"),
    [("start = time.time()", "pass", []), ("pass", "start = time.time()", ["SYN701"])],
)
def test_work_for_the_next_iteration_may_run_ahead(before, first, codes):
    assert [code for code, _ in found(AHEAD.format(before=before, first=first))] == codes


GROUP = """
def f():
    dist.init_process_group({backend})
    x = torch.randn(1 << 20, device="cuda")
    torch.cuda.synchronize()
    start = time.time()
    dist.all_reduce(x)
    {after}
    print(time.time() - start)
"""


@pytest.mark.parametrize(
    ("backend", "after", "codes"),
    [
        ('"gloo", rank=0', "pass", []),
        ('"nccl"', "pass", ["SYN701"]),
        ("", "pass", ["SYN701"]),
        ('"cpu:gloo,cuda:nccl"', "pass", ["SYN701"]),
        ('"gloo"', "y = x @ x", ["SYN701"]),
    ],
)
def test_the_host_waits_for_collectives_of_gloo(backend, after, codes):
    assert [code for code, _ in found(GROUP.format(backend=backend, after=after))] == codes


HANDLE = """
def f():
    dist.init_process_group({backend})
    x = torch.randn(1 << 20, device="cuda")
    torch.cuda.synchronize()
    start = time.time()
    y = x + 6
    work = dist.broadcast(x, 0, async_op=True)
    work.wait()
    print(time.time() - start)
"""


@pytest.mark.parametrize(("backend", "codes"), [('"gloo"', []), ('"nccl"', ["SYN701"])])
def test_the_host_waits_in_handles_of_gloo(backend, codes):
    assert [code for code, _ in found(HANDLE.format(backend=backend))] == codes


FUNCTION = """
def {name}(x):
    x = x.cuda()
    start = time.time()
    for _ in range(100):
        y = x @ x
    print({shown})
"""


@pytest.mark.parametrize(
    ("name", "shown", "codes"),
    [
        ("cpu_backward", "time.time() - start", []),
        ("offload_to_cpu", "time.time() - start", ["SYN701"]),
        ("backward", "time.time() - start", ["SYN701"]),
        ("backward", "str(datetime.timedelta(seconds=int(time.time() - start)))", []),
    ],
)
def test_functions_for_the_cpu_and_times_of_whole_runs_are_not_reported(name, shown, codes):
    assert [code for code, _ in found(FUNCTION.format(name=name, shown=shown))] == codes


@pytest.mark.parametrize(
    ("header", "is_reported"), [("meters.every(batches)", False), ("range(int(time.time() - start))", True)]
)
def test_clocks_of_what_a_loop_iterates_over_show_progress(header, is_reported):
    timed = "x = torch.randn(8, device='cuda')\nstart = time.time()\ny = x @ x\nprint(time.time() - start)\n"
    (finding,) = lint_source("m.py", Text(HEAD + timed)).findings
    line = finding.location.frame.line
    tree = ast.parse("\n" * (line - 1) + f"for _ in {header}:\n    pass\n")
    assert (weighed_by_clock(finding, tree) is not None) == is_reported


SENT = """
def f(data, rank, {name}):
    start = time.monotonic()
    dist.send(data, dst=rank)
    print(data.numel() / (time.monotonic() - start))
    dist.isend(data, rank).wait()
"""


@pytest.mark.parametrize(("name", "codes"), [("log", []), ("gpu", ["SYN701"])])
def test_a_file_that_names_no_gpu_sends_from_the_host(name, codes):
    assert [code for code, _ in found(SENT.format(name=name))] == codes


BY_DEVICE = """
def f({given}):
    x = torch.randn(1 << 20, device="cuda")
    y = torch.randn(1 << 20)
    is_cuda = y.is_cuda
    {test}:
        pass
    else:
        start = time.perf_counter()
    dist.all_reduce(y)
    z = x * 2
    {test}:
        pass
    else:
        print(time.perf_counter() - start)
"""


@pytest.mark.parametrize(
    ("test", "codes"),
    [("if is_cuda", []), ('if device.type == "cuda"', []), ('if device == "cpu"', ["SYN701"]), ("if y", ["SYN701"])],
)
def test_a_clock_in_the_branch_for_machines_without_a_gpu(test, codes):
    assert [code for code, _ in found(BY_DEVICE.format(test=test, given="device"))] == codes


def test_a_function_for_tpus():
    source = """
def f(model, batch, optimizer):
    device = {device}
    start = time.perf_counter()
    model(batch.to(device)).sum().backward()
    optimizer.step()
    print(time.perf_counter() - start)
"""
    assert found(source.format(device="xm.xla_device()")) == []
    assert found(source.format(device='torch.device("cuda")')) == [("SYN701", "warning")]


@pytest.mark.parametrize(("option", "level"), [("async_op", "warning"), ("True", "error"), ("False", "error")])
def test_the_caller_may_wait_for_the_collective(option, level):
    source = f"""
def f(async_op, record):
    x = torch.randn(1 << 20, device="cuda")
    torch.cuda.synchronize()
    start = time.perf_counter()
    work = dist.all_reduce(x, async_op={option})
    record(time.perf_counter() - start)
    return work
"""
    assert ("SYN701", level) in found(source)


def test_other_findings_stay_as_they_are():
    source = f"{HEAD}x = torch.randn(8, device='cuda')\nstart = time.time()\ny = x @ x\nprint(time.time() - start)\n"
    (finding,) = lint_source("m.py", Text(source)).findings
    assert weighed_by_clock(finding, ast.parse(source)) is finding


PROGRESS = """
def f(model, batches, log, warmup, profile):
    model, {before}
    x = torch.randn(8, device="cuda")
    for step in range(batches):
        {first}
        model(x).sum().backward()
        if {test}:
            log(time.perf_counter() - start)
            {after}
"""


@pytest.mark.parametrize(
    ("given", "is_found"),
    [
        ({}, False),
        ({"test": "step % 100 == 0 and start"}, False),
        ({"after": "start = time.perf_counter()"}, False),
        ({"before": "start = model.cuda(), None", "first": "if step == warmup: start = time.perf_counter()"}, False),
        ({"before": "start = model.cuda(), None", "first": "if start is None: start = time.perf_counter()"}, False),
        ({"first": "start = time.perf_counter()"}, True),  # of one iteration
        ({"first": "if profile: start = time.perf_counter()"}, True),
        ({"test": "True"}, True),
        ({"test": "step > 100"}, True),
    ],
)
def test_a_progress_message_about_many_iterations(given, is_found):
    parts = {"before": "start = model.cuda(), time.perf_counter()", "first": "pass", "test": "step % 100 == 0"}
    assert (("SYN701", "warning") in found(PROGRESS.format(**parts | {"after": "pass"} | given))) is is_found


def test_a_clock_around_work_in_one_of_many_iterations():
    source = """
def f(model, batches, log):
    model.cuda()
    for step, batch in enumerate(batches):
        if step % 100 == 0:
            start = time.perf_counter()
            model(batch.cuda()).sum().backward()
            log(time.perf_counter() - start)
"""
    assert found(source) == [("SYN701", "warning")]


LOOP = """
def bench(x, n):
    x = x.cuda()
    for _ in range(n):
        start = time.time()
        {work}
        {end}
    {after}
"""


@pytest.mark.parametrize(
    ("work", "end", "after", "level"),
    [
        ("y = torch.mm(x, x)", "print(time.time() - start)", "pass", "warning"),
        ("for _ in range(9): y = torch.mm(x, x)", "print(time.time() - start)", "pass", "error"),
        ("y = torch.mm(x, x)", "pass", "print(time.time() - start)", "error"),
    ],
)
def test_an_interval_that_is_one_of_many(work, end, after, level):
    source = LOOP.format(work=work, end=end, after=after)
    assert ("SYN701", level) in found(source)
