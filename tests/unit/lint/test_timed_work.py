"""Functions that measure the time of work on a GPU, even if they name none."""

import ast
import textwrap

import pytest

from syncheck.lint.engine import lint_source
from syncheck.lint.files import Text
from syncheck.lint.timed_work import TimedWork, may_time
from tests.unit.lint.checking import TIMED

CALLED = (
    TIMED.format(work="y = model(x)")
    + """
def main(device, args):
    net = Net()
    net.cuda()
    data = torch.ones(4).to(device)
    {call}

using = torch.cuda.is_available()
"""
)


def is_measured(source, name="bench"):
    source = textwrap.dedent(source)
    tree = ast.parse(source)
    function = next(node for node in ast.walk(tree) if getattr(node, "name", "") == name)
    return TimedWork(tree, source, frozenset()).is_measured_in(function)


@pytest.mark.parametrize(
    ("source", "may"),
    [
        ("cuda = time.time()", True), ("cuda = now()", True), ("npu = time.time()", False),
        ("cuda = time.sleep(1)", False), ("x = time.time()\n  # cuda", False), ("x = time.time()  # cuda", True),
    ],
)  # fmt: skip
def test_a_file_needs_a_clock_and_a_gpu(source, may):
    assert may_time(source, frozenset({"now"})) is may


@pytest.mark.parametrize(
    ("source", "is_timed"),
    [
        (CALLED.format(call="bench(net, data, 10)"), True), (CALLED.format(call="pass"), False),
        (CALLED.format(call="bench(net, data, 10)").replace("time.perf_counter", "now"), False),
        (TIMED.format(work="dist.all_reduce(x)") + "backend, cuda = 'nccl', True", True),
        (TIMED.format(work="dist.all_reduce(x)") + "backend, cuda = 'gloo', False", False),
        (TIMED.format(work="dist.get_rank()") + "backend, cuda = 'nccl', True", False),
    ],
)  # fmt: skip
def test_a_clock_around_work_on_a_gpu_is_found(source, is_timed):
    assert is_measured(source) is is_timed


OBJECT = """
class Encoder:
    def __init__(self, net, device):
        {moved}

    def bench(self, x):
        start = time.perf_counter()
        y = {called}(x)
        return time.perf_counter() - start

using = torch.cuda.is_available()
"""


@pytest.mark.parametrize(
    "moved_by", ["self.net = net.cuda()", "self.net = Net(net).to(device)", "self.net.to('cuda')", "self.net.cuda()"]
)
def test_a_method_times_an_attribute_that_was_moved(moved_by):
    assert is_measured(OBJECT.format(moved=moved_by, called="self.net"))


@pytest.mark.parametrize(
    ("moved_by", "called"),
    [
        ("self.net = net", "self.net"),
        ("self.net = net.cpu()", "self.net"),
        ("self.net = net.cuda()", "self.other"),
        ("self.net = net\n        self.other = net.cuda()", "self.net"),
    ],
)
def test_a_method_that_calls_something_else_times_no_gpu(moved_by, called):
    assert not is_measured(OBJECT.format(moved=moved_by, called=called))


@pytest.mark.parametrize(("called", "codes"), [("self.net.forward", ["SYN701"]), ("self.other.forward", [])])
def test_the_forward_method_of_a_network_runs_it(called, codes):
    source = "import time\nimport torch\n" + OBJECT.format(moved='self.net = net.to("cuda")', called=called)
    assert [finding.rule.code for finding in lint_source("m.py", Text(source)).findings] == codes


TRAINER = """
import time
class Trainer:
    def iterate(self, batch):
        loss = self.net(batch)
        {statement}
    def bench(self, batch):
        start = time.time()
        self.{called}(batch)
        return time.time() - start
    def other(self):
        return "cuda"
"""


@pytest.mark.parametrize(
    ("statement", "called", "expected"),
    [
        ("loss.backward()", "iterate", True), ("self.fp_optimizer.step()", "iterate", True),
        ("self.scaler.step(optimizer)", "iterate", True), ("self.scheduler.step()", "iterate", False),
        ("pass", "iterate", False), ("loss.backward()", "other", False),
    ],
)  # fmt: skip
def test_calls_of_code_that_trains_are_recognized(statement, called, expected):
    assert is_measured(TRAINER.format(statement=statement, called=called)) is expected


def test_training_without_a_gpu_is_irrelevant():
    source = TRAINER.format(statement="loss.backward()", called="iterate")
    assert not is_measured(source.replace("cuda", "cpu"))


ENGINE = """
net = Net().{moved}

class Engine:
    def load(self, image):
        return image.{moved}

    def forward(self, x):
        return self.load(x) * 2

    def run(self, x):
        return self.forward(x)

    def convert(self, x):
        return x + 1

    def bench(self, x):
        start = time.time()
        y = {called}(x)
        return time.time() - start
"""


@pytest.mark.parametrize("called", ["self.load", "self.forward", "self.run", "net", "engine.run"])
def test_what_is_timed_may_work_on_a_gpu_in_another_function(called):
    assert is_measured(ENGINE.format(moved="cuda()", called=called))


@pytest.mark.parametrize(("moved", "called"), [("cuda()", "self.convert"), ("cpu()", "self.run")])
def test_what_is_timed_may_work_on_the_host_in_another_function(moved, called):
    assert not is_measured(ENGINE.format(moved=moved, called=called) + "\nusing = torch.cuda.is_available()\n")


TIMER = """
import time
class Timer:
    def tic(self):
        self.start = time.time()
    def toc(self):
        self.total = {stop}

def bench(model, x, device):
    x = x{moved}
    timer = Timer()
    timer.tic()
    y = model(x)
    timer.{called}()
    return timer.total, torch.cuda.device_count()
"""


@pytest.mark.parametrize(
    ("stop", "moved", "called", "expected"),
    [
        ("time.time() - self.start", ".to(device)", "toc", True),
        ("time.time() - self.start", "", "toc", False),
        ("time.time() - self.start", ".to(device)", "tic", False),
        ("0", ".to(device)", "toc", False),
    ],
)
def test_a_timer_may_read_the_clock(stop, moved, called, expected):
    assert is_measured(TIMER.format(stop=stop, moved=moved, called=called)) is expected
