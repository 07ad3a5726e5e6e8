"""What functions, decorators and timers of other files do with devices, clocks and functions."""

import textwrap

import pytest

from syncheck.lint.engine import lint_source
from syncheck.lint.files import Text

HELPER = """
import functools
import threading
import time
import torch

def move(x, device):
    if device.type == "cuda":
        return x.to(device, non_blocking=True)
    return x.to(device)

def move_freely(x, device):
    return x.to(device, non_blocking=True)

def fetch(x):
    return x.to("cpu", non_blocking=True)

def send(batch):
    if isinstance(batch, torch.Tensor):
        return batch.cuda(non_blocking=True)
    if isinstance(batch, dict):
        return {{key: send(value) for key, value in batch.items()}}
    return [send(item) for item in batch]

def batch_to_device(batch, device):
    return {{key: value.to(device, non_blocking=True) for key, value in batch.items()}}

def in_thread(function):
    @functools.wraps(function)
    def run(*args):
        threading.Timer(0, lambda: function(*args)).start()
    return run

class Stopwatch:
    def __init__(self):
        self.events = [torch.cuda.Event(enable_timing=True) for _ in range(2)]
    def __enter__(self):
        self.start = time.perf_counter()
        {at_start}
    def __exit__(self, *error):
        self.seconds = time.perf_counter() - self.start
        {at_end}
        print(self.seconds)
"""


@pytest.fixture
def found(tmp_path):
    """Return a function that lints a file beside the helper, and returns the codes and lines of its findings."""
    (tmp_path / "pyproject.toml").touch()

    def lint(source, at_start="pass", at_end="pass"):
        (tmp_path / "helper.py").write_text(HELPER.format(at_start=at_start, at_end=at_end))
        text = "import torch\nfrom helper import *\n" + textwrap.dedent(source)
        text = text.replace("import *", "import batch_to_device, fetch, in_thread, move, move_freely, send, Stopwatch")
        result = lint_source(str(tmp_path / "main.py"), Text(text))
        assert not result.problem
        return [(f.rule.code, f.location.frame.line) for f in result.findings if f.level.value != "advice"]

    return lint


COPY = """
def total(batches):
    device = torch.device("cpu")
    moved = [{call} for x in batches]
    return float(moved[0][0])
"""


@pytest.mark.parametrize("call", ["move(x, device)", "move_freely(x, device)", "x.to(device)"])
def test_a_helper_that_is_given_the_host_need_not_copy_from_a_gpu(found, call):
    assert found(COPY.format(call=call)) == []


@pytest.mark.parametrize("call", ["fetch(x)", "x.to(device, non_blocking=True)"])
def test_a_copy_that_names_the_host_is_assumed_to_come_from_a_gpu(found, call):
    assert found(COPY.format(call=call)) == [("SYN301", 7)]


PREFETCH = """
def run(network, batches):
    side = torch.cuda.Stream()
    for batch in batches:
        with torch.cuda.stream(side):
            batch = {call}
        {wait}
        network({batch})
"""


@pytest.mark.parametrize(
    ("call", "batch"), [("send(batch)", "batch"), ("batch_to_device(batch, 'cuda')", "batch['x']")]
)
def test_a_helper_that_moves_whole_batches_is_followed(found, call, batch):
    wait = "torch.cuda.current_stream().wait_stream(side)"
    assert ("SYN101", 10) in found(PREFETCH.format(call=call, batch=batch, wait="pass"))
    assert "SYN101" not in dict(found(PREFETCH.format(call=call, batch=batch, wait=wait)))


def test_a_function_that_a_decorator_starts_elsewhere_is_followed(found):
    source = """
    @in_thread
    def work(x):
        side = torch.cuda.Stream()
        y = x.cuda() * 2
        with torch.cuda.stream(side):
            return y + 1
    """
    assert found(source) == [("SYN101", 9)]


TIMED = """
def bench(x):
    x = x.cuda()
    with Stopwatch():
        y = torch.mm(x, x)
    return y
"""


def test_the_clock_of_another_file_is_reported_at_its_use(found):
    assert found(TIMED) == [("SYN701", 6)]


PREFETCHER = """import torch
class Prefetcher:
    def __init__(self, data):
        self.data, self.side = data, torch.cuda.Stream()
    def __iter__(self):
        it = iter(self.data)
        self.preload(it)
        batch = self.next(it)
        while batch is not None:
            yield batch
            batch = self.next(it)
    def preload(self, it):
        try:
            self.batch = next(it)
        except StopIteration:
            self.batch = None
            return
        with torch.cuda.stream(self.side):
            self.batch = self.batch.cuda(non_blocking=True) / 255
    def next(self, it):
        torch.cuda.current_stream().wait_stream(self.side)
        batch = self.batch
        if batch is not None:
            batch.record_stream(torch.cuda.current_stream())
        self.preload(it)
        return batch
"""
EVALUATION = """import time
import torch
from prefetching import Prefetcher

def evaluate(batches):
    start = time.time()
    for index, batch in enumerate(batches):
        score = torch.mm(batch, batch).sum().item()
    print(time.time() - start)

def main(data):
    evaluate(Prefetcher(data))

main(torch.randn(10, 10, 10))
"""


def test_what_a_prefetcher_loads_ahead_belongs_to_no_interval(tmp_path):
    (tmp_path / "pyproject.toml").touch()
    (tmp_path / "prefetching.py").write_text(PREFETCHER)
    assert lint_source(str(tmp_path / "main.py"), Text(EVALUATION)).findings == ()


@pytest.mark.parametrize("event", ["self.events[0]", "events[0]", "torch.cuda.Event(enable_timing=True)"])
def test_a_timer_that_also_records_events_does_not_rely_on_its_clock(found, event):
    assert found(TIMED, at_end=f"{event}.record()") == []
    assert found(TIMED, at_start=f"{event}.record()") == []


def test_another_file_may_get_its_modules_by_importing_all_names(tmp_path):
    (tmp_path / "pyproject.toml").touch()
    (tmp_path / "torch_tools.py").write_text("import torch\n")
    work = "from torch_tools import *  # torch\n\ndef upload(x):\n    return torch.sum(x.cuda())\n"
    (tmp_path / "work.py").write_text(work)
    program = """
        import time
        import torch
        from work import torch, upload

        def run(model, x):
            model, x = model.cuda(), upload(x)
            began = time.time()
            y = model(x)
            print(time.time() - began)
            return y
    """
    result = lint_source(str(tmp_path / "main.py"), Text(textwrap.dedent(program)))
    assert not result.problem
    assert [(finding.rule.code, finding.location.frame.line) for finding in result.findings] == [("SYN701", 10)]


def test_a_global_variable_of_another_file_may_hold_a_handle(tmp_path):
    (tmp_path / "pyproject.toml").touch()
    work = """
        import torch.distributed as dist
        KEPT = None

        def start(x):
            return x, dist.all_reduce(x, async_op=True)

        def keep(pair):
            global KEPT
            KEPT = pair
    """
    (tmp_path / "work.py").write_text(textwrap.dedent(work))
    program = """
        import torch
        from work import keep, start

        def backward(gradient: torch.Tensor):
            gradient = gradient.cuda()
            _, handle = start(gradient)
            {use}
            return None
    """
    found = []
    for use in ("keep((gradient, handle))", "pass"):
        result = lint_source(str(tmp_path / "main.py"), Text(textwrap.dedent(program).format(use=use)))
        found.append([finding.rule.code for finding in result.findings])
    assert found == [[], ["SYN603"]]


def test_a_base_class_of_another_file_may_change_an_attribute(tmp_path):
    (tmp_path / "pyproject.toml").touch()
    base = """
        import torch

        class Storage:
            def __init__(self):
                self.device = torch.device("cpu")
                self.buffers = {{}}

            {method}
    """
    program = """
        import torch
        from base import Storage

        class Rollouts(Storage):
            def compute(self):
                ids = self.buffers["ids"].to(device="cpu", non_blocking=True)
                if self.device.type == "cuda":
                    torch.cuda.synchronize(self.device)
                return ids.tolist()
    """
    found = []
    for method in ("def to(self, device): self.device = device", "n = 3"):
        (tmp_path / "base.py").write_text(textwrap.dedent(base).format(method=method))
        result = lint_source(str(tmp_path / "main.py"), Text(textwrap.dedent(program)))
        found.append([finding.rule.code for finding in result.findings])
    assert found == [[], ["SYN301"]]
