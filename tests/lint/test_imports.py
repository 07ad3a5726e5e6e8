"""How the linter treats functions imported from other files of the repository."""

import textwrap

import pytest

from syncheck.lint.engine import lint_data, lint_source
from syncheck.lint.files import Text

HELPERS = """
    import contextlib
    import time
    import torch
    import torch.distributed as dist
    from more import deeper

    SIDE = torch.cuda.Stream()

    def scale(x): return x * 2
    def join(): torch.cuda.current_stream().wait_stream(SIDE)
    def fence(): torch.cuda.synchronize()
    def as_number(x): return x.item()
    def reduced(x): return dist.all_reduce(x, async_op=True)
    def on_side(x):
        with torch.cuda.stream(SIDE):
            x.add_(1)
    def two_deep(x): return deeper(x)
    def own_mistake(x):
        with torch.cuda.stream(torch.cuda.Stream()):
            y = torch.zeros(3, device="cuda")
        return y + 1
    def fails(x): raise NotImplementedError
    def endless(x): return endless(x)
    def long(x):
        STATEMENTS
        return x
    @contextlib.contextmanager
    def beside():
        with torch.cuda.stream(SIDE):
            yield
    @contextlib.contextmanager
    def joined():
        SIDE.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(SIDE):
            yield
        torch.cuda.current_stream().wait_stream(SIDE)
    def chosen(flag): return torch.cuda.stream(SIDE) if flag else contextlib.nullcontext()
    class Loader:
        def __init__(self, source):
            self.source = iter(source)
            self.stream = torch.cuda.Stream()
            self.load()
        def keep(self, batch): batch.record_stream(torch.cuda.current_stream())
    class Side:
        def __init__(self): self.stream = torch.cuda.Stream()
        def add(self, x):
            with torch.cuda.stream(self.stream):
                x.add_(1)
    def side(): return Side()
    class Timer:
        def __init__(self): self.began = time.time()
        def stop(self):
            torch.cuda.synchronize()
            return time.time() - self.began
        def count(self): return 1
    class Warm:
        def __init__(self): torch.cuda.synchronize()
"""


@pytest.fixture
def codes(tmp_path):
    """Return a function that lints a function body that uses imported names, with results as "code: source line"."""
    (tmp_path / "pyproject.toml").touch()
    (tmp_path / "helpers.py").write_text(textwrap.dedent(HELPERS).replace("STATEMENTS", "a = 1; " * 400))
    (tmp_path / "more.py").write_text("def deeper(x): return x * 2\n")

    def lint(body, *names):
        source = f"import time\nimport torch\nfrom helpers import {', '.join(names)}\n\ndef f():\n"
        source += textwrap.indent(textwrap.dedent(body).strip(), "    ") + "\n"
        result = lint_source(str(tmp_path / "main.py"), Text(source))
        assert not result.problem
        return sorted(f"{finding.rule.code}: {finding.location.frame.source.strip()}" for finding in result.findings)

    return lint


MADE = """
side = torch.cuda.Stream()
with torch.cuda.stream(side):
    x = torch.zeros(4, device="cuda")
"""


def test_an_imported_function_that_reads_counts_as_a_read(codes):
    assert codes(MADE + "y = scale(x)", "scale") == ["SYN101: y = scale(x)"]


def test_a_collective_that_another_file_starts_may_be_waited_for_there(tmp_path):
    (tmp_path / "pyproject.toml").touch()
    helper = "import torch.distributed as dist\ndef send(x): dist.isend(x, 1)\n"
    (tmp_path / "helper.py").write_text(helper)
    source = "import torch\nfrom helper import send\nsend(torch.ones(4, device='cuda'))\n"
    (finding,) = lint_source(str(tmp_path / "main.py"), Text(source)).findings
    assert (finding.rule.code, finding.level.value) == ("SYN603", "warning")
    assert finding.message.endswith("if the file that starts it does not wait for it")


@pytest.mark.parametrize("given", ["bucket: Bucket", "buckets: list[Bucket]"])
def test_an_object_of_another_file_that_starts_collectives_holds_gpu_tensors(tmp_path, given):
    (tmp_path / "pyproject.toml").touch()
    helper = """
        import torch
        import torch.distributed as dist
        class Bucket:
            def __init__(self, device): self.flat = torch.zeros(8, device=device)
            def launch(self): return dist.all_reduce(self.flat, async_op=True)
            def reset(self): self.flat.zero_()
    """
    (tmp_path / "helper.py").write_text(textwrap.dedent(helper))
    loop = f"    for bucket in {given.partition(':')[0] if 'list' in given else '[bucket]'}:\n"
    source = f"import torch\nfrom helper import Bucket\ndef step({given}):\n{loop}"
    early, late = "        bucket.reset()\n        work.wait()\n", "        work.wait()\n        bucket.reset()\n"
    found = [
        lint_source(str(tmp_path / "main.py"), Text(f"{source}        work = bucket.launch()\n{end}")).findings
        for end in (early, late)
    ]
    assert [[finding.rule.code for finding in each] for each in found] == [["SYN602"], []]


def test_a_returned_tensor_is_checked_where_it_is_used(codes):
    body = "x = torch.zeros(4, device='cuda')\ny = scale(x)\nwith torch.cuda.stream(torch.cuda.Stream()):\n    y + 1"
    assert codes(body, "scale") == ["SYN101: y + 1"]


def test_an_imported_function_may_work_on_its_own_stream(codes):
    body = "torch.cuda.Stream()\nx = torch.zeros(4, device='cuda')\non_side(x)"
    assert codes(body, "on_side") == ["SYN103: on_side(x)"]
    assert codes(
        "torch.cuda.Stream()\nx = torch.zeros(4, device='cuda')\nfence()\non_side(x)\ny = x + 1", "on_side", "fence"
    ) == ["SYN101: y = x + 1"]


@pytest.mark.parametrize("name", ["fence", "join"])
def test_an_imported_function_may_wait(codes, name):
    body = f"torch.cuda.Stream()\nx = torch.zeros(4, device='cuda')\nfence()\non_side(x)\n{name}()\ny = x + 1"
    assert codes(body, "on_side", "fence", "join") == []


def test_an_imported_function_that_reads_a_number_waits(codes):
    timed = "x = torch.zeros(4, device='cuda')\nbegin = time.perf_counter()\ny = scale(x)\n{}\n"
    timed += "print(time.perf_counter() - begin)"
    assert len(codes(timed.format("pass"), "scale")) == 1
    assert codes(timed.format("as_number(y)"), "scale", "as_number") == []


@pytest.mark.parametrize(
    ("before", "after", "n_found"),
    [
        ("timer = Timer()", "timer.stop()", 0), ("timer = Timer()", "timer.count()", 1), ("pass", "Warm()", 0),
        ("pass", "Timer()", 1), ("import acme; timer = acme.Timer()", "timer.stop()", 0),
        ("import acme; meter = acme.Meter()", "meter.stop()", 1),
    ],
)  # fmt: skip
def test_a_method_or_a_constructor_of_another_file_may_wait(codes, before, after, n_found):
    timed = f"{before}\nx = torch.zeros(4, device='cuda')\nbegin = time.perf_counter()\ny = scale(x)\n{after}\n"
    assert len(codes(timed + "print(time.perf_counter() - begin)", "scale", "Timer", "Warm")) == n_found


TIMERS = """
import time
import torch
class StepTimer:
    def __init__(self): self.total, self.calls = 0.0, 0
    def tic(self): self.start = time.time()
    def toc(self):
        {wait}
        self.total += time.time() - self.start
        self.calls += 1
        return self.total / self.calls
"""
TIMED = """
import argparse
import torch
from timers import StepTimer
parser = argparse.ArgumentParser()
parser.add_argument("--cpu", action="store_true")
args = parser.parse_args()
device = torch.device("cpu" if args.cpu else "cuda")
timers = {"forward": StepTimer(), "misc": StepTimer()}
for batch in batches():
    x = batch.to(device)
    timers["forward"].tic()
    y = x @ x
    %s
    timers["forward"].toc()
"""


@pytest.mark.parametrize(
    ("in_timer", "in_loop", "n_found"),
    [("pass", "pass", 1), ("torch.cuda.synchronize()", "pass", 0), ("pass", "y = y.cpu()", 0)],
)
def test_a_timer_of_another_file_measures_the_launch(tmp_path, in_timer, in_loop, n_found):
    (tmp_path / "pyproject.toml").touch()
    (tmp_path / "timers.py").write_text(TIMERS.format(wait=in_timer))
    found = lint_source(str(tmp_path / "main.py"), Text(TIMED % in_loop)).findings
    times = [f.location.frame.line for f in found if f.rule.code == "SYN701"]
    assert times == [15] * n_found


def test_a_returned_handle_can_be_waited_for(codes):
    body = "torch.cuda.Event()\nx = torch.zeros(4, device='cuda')\n{}\ny = x + 1"
    assert codes(body.format("reduced(x)"), "reduced") != []
    assert codes(body.format("work = reduced(x)\nwork.wait()"), "reduced") == []


def test_a_returned_object_keeps_its_stream(codes):
    body = "torch.cuda.Stream()\nx = torch.zeros(4, device='cuda')\nfence()\ns = side()\ns.add(x)\n{}y = x + 1"
    assert codes(body.format(""), "side", "fence") == ["SYN101: y = x + 1"]
    assert codes(body.format("torch.cuda.current_stream().wait_stream(s.stream)\n"), "side", "fence") == []


def test_a_function_of_a_third_file_is_followed(codes):
    assert codes(MADE + "y = two_deep(x)", "two_deep") == ["SYN101: y = two_deep(x)"]


@pytest.mark.parametrize("name", ["fails", "endless", "long"])
def test_a_function_that_cannot_be_followed_is_assumed_to_wait(codes, name):
    assert codes(MADE + f"y = {name}(x)\nz = x + 1", name) == []


BESIDE = "torch.cuda.Stream()\nx = torch.zeros(4, device='cuda')\nwith {}:\n    x.add_(1)\ny = x + 1"


@pytest.mark.parametrize(("context", "name"), [("beside()", "beside"), ("chosen(True)", "chosen")])
def test_an_imported_context_manager_can_enter_a_stream(codes, context, name):
    assert codes(BESIDE.format(context), name) == ["SYN101: y = x + 1", "SYN103: x.add_(1)"]


@pytest.mark.parametrize(("context", "name"), [("joined()", "joined"), ("chosen(False)", "chosen")])
def test_an_imported_context_manager_may_order_its_body_or_do_nothing(codes, context, name):
    assert codes(BESIDE.format(context), name) == []


def test_a_base_class_can_be_imported(tmp_path):
    (tmp_path / "pyproject.toml").touch()
    (tmp_path / "helpers.py").write_text(textwrap.dedent(HELPERS).replace("STATEMENTS", "pass"))
    source = """
        import torch
        from helpers import Loader
        class Own(Loader):
            def load(self):
                with torch.cuda.stream(self.stream):
                    self.batch = next(self.source).to("cuda", non_blocking=True)
            def __iter__(self): return self
            def __next__(self):
                torch.cuda.current_stream().wait_stream(self.stream)
                batch = self.batch
                self.keep(batch)
                self.load()
                return batch
    """

    def found(text):
        result = lint_source(str(tmp_path / "main.py"), Text(textwrap.dedent(text)))
        return {finding.rule.code for finding in result.findings}

    assert found(source) == set()
    assert found(source.replace("self.keep(batch)", "pass")) == {"SYN201"}


def test_a_mistake_in_an_imported_file_is_not_reported_at_the_call(codes):
    assert codes("torch.cuda.Stream()\nx = torch.zeros(4, device='cuda')\nz = own_mistake(x)", "own_mistake") == []


COPYING = """
import torch

def fill(kept, x):
    with torch.cuda.stream(torch.cuda.Stream()):
        kept["x"] = x.clone()
"""
COPIED = """
import torch
from other import fill

x, kept = torch.randn(8, device="cuda"), {}
torch.cuda.synchronize()
fill(kept, x)
y = kept["x"] * 2
"""
TIMER = """
import contextlib
import time

@contextlib.contextmanager
def timed():
    start = time.time()
    yield
    print(time.time() - start)
"""
TIMED_BLOCK = """
import torch
from other import timed

w = torch.randn(64, 64, device="cuda")
for _ in range(3):
    y = w @ w
    with timed():
        z = y @ w
    print(z.sum().item())
"""


def help_of(code, folder, other, source):
    """Return the help of the only finding of a rule in a file that imports from another one."""
    (folder / "other.py").write_text(other)
    path = folder / "main.py"
    path.write_text(source)
    (finding,) = [f for f in lint_data(str(path), path.read_bytes()).findings if f.rule.code == code]
    return finding.help


def test_a_stream_that_a_function_of_another_file_makes_is_not_current_after_the_call(tmp_path):
    advice = help_of("SYN101", tmp_path, COPYING, COPIED)
    assert "default_stream()" not in advice
    assert advice.endswith("or add `torch.cuda.synchronize()` there, which waits for more")


def test_the_advice_for_a_block_timed_by_another_file_names_both_of_its_ends(tmp_path):
    assert help_of("SYN701", tmp_path, TIMER, TIMED_BLOCK) == (
        "add `torch.cuda.synchronize()` at the end of the block that begins in line 8, and add "
        "`torch.cuda.synchronize()` before line 8"
    )
