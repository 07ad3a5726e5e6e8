"""How the linter follows a program: what it can determine, and when it stays silent."""

import textwrap

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from syncheck.lint.engine import lint_data, lint_source
from syncheck.lint.files import Text
from syncheck.lint.fixes.repair import repair
from syncheck.lint.prefilter import can_matter
from syncheck.rules.catalogue import CATALOGUE

CODES = frozenset(rule.code for rule in CATALOGUE)
RACE = """
side = torch.cuda.Stream()
x = torch.ones(4, device="cuda")
with torch.cuda.stream(side):
    y = x * 2
"""


def found(source):
    source = textwrap.dedent(source)
    result = lint_source("m.py", Text(source))
    assert not result.problem, result.problem
    assert not result.findings or can_matter(source.encode())
    return [(f.rule.code, f.location.frame.line) for f in result.findings]


@pytest.mark.parametrize(
    "imports",
    ["import torch", "import torch as th\ntorch = th", "from torch import cuda\nimport torch\ntorch.cuda = cuda"],
)
def test_torch_can_be_imported_under_many_names(imports):
    assert [code for code, _ in found(f"{imports}\n{RACE}")] == ["SYN101"]


@pytest.mark.parametrize(
    ("stream", "block"),
    [
        ("torch.Stream(device='cuda')", "side"),
        ("tc.Stream()", "tc.stream(side)"),
        ("Stream()", "torch.cuda.StreamContext(side)"),
        ("torch.get_device_module('cuda').Stream()", "torch.get_device_module('cuda').stream(side)"),
        ("get_accelerator().Stream()", "get_accelerator().stream(side)"),
        ("torch.xpu.Stream()", "torch.xpu.stream(side)"),
    ],
)
def test_streams_can_be_created_and_entered_in_many_ways(stream, block):
    source = f"""
        import torch
        import torch.cuda as tc
        from torch.cuda import Stream
        from deepspeed.accelerator import get_accelerator
        side = {stream}
        x = torch.ones(4, device="cuda")
        with {block}:
            y = x * 2
    """
    assert found(source) == [("SYN101", 9)]


def test_a_stream_can_be_current_without_a_with_block():
    assert found(
        """
        import contextlib
        import torch
        side = torch.cuda.Stream()
        x = torch.ones(4, device="cuda")
        with contextlib.ExitStack() as stack:
            stack.enter_context(torch.cuda.stream(side))
            y = x * 2
        torch.cuda.set_stream(torch.cuda.Stream())
        z = y + 1
        """
    ) == [("SYN101", 8), ("SYN101", 10)]


def test_a_function_is_analyzed_without_a_caller():
    assert found(
        """
        import torch
        class Loader:
            def __init__(self):
                self.side = torch.cuda.Stream()
            def load(self, host):
                with torch.cuda.stream(self.side):
                    batch = host.cuda(non_blocking=True)
                return batch + 1
        """
    ) == [("SYN101", 9)]


@pytest.mark.parametrize(
    "wait",
    [
        "torch.cuda.current_stream().wait_stream(self.side)",
        "self.side.synchronize()",
        "torch.cuda.synchronize()",
        "torch.cuda.current_stream().wait_event(self.side.record_event())",
        "self._wait()",
        "join(self.side)",
        "self.sync_all()",
        "if self.overlap:\n            torch.cuda.current_stream().wait_stream(self.side)",
        "self.done.wait()",
        "hook(batch)",
    ],
)
def test_code_that_may_wait_is_assumed_to_wait(wait):
    codes = [
        code
        for code, _ in found(
            f"""
import torch
from elsewhere import hook, join
class Loader(Base):
    def __init__(self):
        self.side = torch.cuda.Stream()
        self.done = torch.cuda.Event()
    def _wait(self):
        torch.cuda.current_stream().wait_stream(self.side)
    def load(self, host):
        with torch.cuda.stream(self.side):
            batch = host.cuda(non_blocking=True)
        {wait}
        return batch + 1
"""
        )
    ]
    assert "SYN101" not in codes


@pytest.mark.parametrize(
    "body",
    [
        "with torch.cuda.stream(stream):\n        y = x.cuda()\n    return y + 1",  # a stream of the caller
        "with stream:\n        y = torch.ones(4, device='cuda')\n    return y + 1",
        "e = threading.Event()\n    e.wait()",
        "y = x.to(device, non_blocking=True)\n    return y.sum().item()",  # the direction is unknown
        "t = time.time()\n    model(x)\n    return time.time() - t",
        "dist.all_reduce(x, async_op=True).wait()",
        "work = dist.all_reduce(x, async_op=True)\n    return work",
        "works.append(dist.all_reduce(x, async_op=True))",
        "with _coalescing_manager():\n        dist.all_reduce(x, async_op=True)",
    ],
)
def test_uncertain_findings_are_not_reported(body):
    imports = "import threading, time\nimport torch\nimport torch.distributed as dist\n"
    assert found(f"{imports}def f(x, stream, device, model, works):\n    {body}\n") == []


def test_a_clock_does_not_time_a_prefetch_in_another_function():
    assert (
        found(
            """
        import time
        import torch
        side = torch.cuda.Stream()
        host = torch.ones(4).pin_memory()
        def preload():
            with torch.cuda.stream(side):
                return host.cuda(non_blocking=True)
        began = time.time()
        batch = preload()
        print(time.time() - began)
        """
        )
        == []
    )


def test_a_tensor_whose_use_torch_would_reject_has_an_unknown_device():
    assert (
        found(
            """
        import torch
        class Optimizer:
            def __init__(self, weights):
                self.weights = [torch.ones(4, pin_memory=True)]
            def step(self):
                grad = torch.ones(4, device="cuda")
                for weight in self.weights:
                    weight -= grad * 2
        """
        )
        == []
    )


FORK = "side().wait_stream(torch.cuda.current_stream())\nwith torch.cuda.stream(side()):\n    x.mul_(2)\n"
JOIN = "torch.cuda.current_stream().wait_stream(side())\nx.add_(1)\n"


@pytest.mark.parametrize(
    "side",
    [
        "@functools.lru_cache(None)\ndef side():\n    return torch.cuda.Stream()",
        "class A:\n    @functools.cached_property\n    def s(self):\n        return torch.cuda.Stream()\n"
        "a = A()\ndef side():\n    return a.s",
        "class Meta(type):\n    made = {}\n"
        "    def __call__(cls):\n        return Meta.made.setdefault(cls, super().__call__())\n"
        "class A(metaclass=Meta):\n    def __init__(self):\n        self.s = torch.cuda.Stream()\n"
        "def side():\n    return A().s",
        "@singleton\ndef side():\n    return torch.cuda.Stream()",
    ],
)
def test_an_object_created_once_is_a_single_object(side):
    assert found(f"import functools\nimport torch\nfrom tools import singleton\n{side}\n{SETUP}{FORK}{JOIN}") == []


SETUP = 'x = torch.ones(4, device="cuda")\n'


@pytest.mark.parametrize(
    "body",
    [
        "with contextlib.ExitStack() as stack:\n"
        "    stack.callback(lambda: torch.cuda.current_stream().wait_stream(s))\n"
        "    with torch.cuda.stream(s):\n        x.mul_(2)",
        "stack = contextlib.ExitStack()\nstack.callback(join)\n"
        "with torch.cuda.stream(s):\n    x.mul_(2)\nstack.close()",
        "with contextlib.closing(Joined()):\n    with torch.cuda.stream(s):\n        x.mul_(2)",
        "with elsewhere(Joined()):\n    with torch.cuda.stream(s):\n        x.mul_(2)",
        "HOOKS = []\n@HOOKS.append\ndef hook():\n    join()\nwith torch.cuda.stream(s):\n    x.mul_(2)\nHOOKS[0]()",
        "HOOKS = {}\ndef register(name):\n"
        "    def note(f):\n        HOOKS[name] = f\n        return f\n    return note\n"
        "@register('join')\ndef hook():\n    join()\nwith torch.cuda.stream(s):\n    x.mul_(2)\nHOOKS['join']()",
        "block = torch.cuda.stream(s)\nblock.__enter__()\nx.mul_(2)\nblock.__exit__(None, None, None)\njoin()",
    ],
)
def test_indirect_waits_are_recognized(body):
    head = "import contextlib\nimport torch\nfrom tools import elsewhere\ns = torch.cuda.Stream()\n"
    head += "def join():\n    torch.cuda.current_stream().wait_stream(s)\n"
    head += "class Joined:\n    def close(self):\n        join()\n"
    assert found(f"{head}{SETUP}s.wait_stream(torch.cuda.current_stream())\n{body}\nx.add_(1)\n") == []


def test_a_thread_that_waits_for_other_threads_is_not_followed():
    assert (
        found(
            """
        import threading
        import torch
        s, x = torch.cuda.Stream(), torch.ones(4, device="cuda")
        ok, ready = threading.Event(), torch.cuda.Event()
        def work():
            ok.wait()
            s.wait_event(ready)
            with torch.cuda.stream(s):
                x.mul_(2)
            s.synchronize()
        thread = threading.Thread(target=work)
        thread.start()
        ready.record()
        ok.set()
        thread.join()
        x.add_(1)
        """
        )
        == []
    )


def test_a_wait_completes_earlier_collectives():
    assert (
        found(
            """
        import torch
        import torch.distributed as dist
        def last(x, y):
            x, y = x.cuda(), y.cuda()
            first = dist.all_reduce(x, async_op=True)
            second = dist.all_reduce(y, async_op=True)
            second.wait()
            return x + y, first
        def all_streams(x):
            x = x.cuda()
            work = dist.all_reduce(x, async_op=True)
            torch.cuda.synchronize()
            return x + 1, work
        """
        )
        == []
    )


def test_copies_and_device_synchronizations_in_a_timed_loop_are_reported():
    assert found(
        """
        import torch
        model = torch.nn.Linear(4, 4, device="cuda:0")
        start, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
        for _ in range(5):
            start.record()
            y = model(torch.ones(4, 4, device="cuda:0")).to("cuda:1", non_blocking=True)
            end.record()
            torch.cuda.synchronize()
            print(start.elapsed_time(end))
        """
    ) == [("SYN804", 7), ("SYN806", 9)]


def test_a_comprehension_waits_for_every_handle_of_a_long_list():
    source = """
        import torch
        import torch.distributed as dist
        def f(parts):
            works = []
            for _ in range(20):
                for part in parts:
                    works.append(dist.all_reduce(part, async_op=True))
            {}
        """
    assert found(source.format("_ = [work.wait() for work in works]")) == []
    assert found(source.format("[work.wait() for work in works if work is not None]")) == []
    assert [code for code, _ in found(source.format("pass"))] == ["SYN603"]


@pytest.mark.parametrize(
    ("made", "record", "advice"),
    [
        ("done = torch.cuda.Event()", "done.record()", "wait_event(done)"),
        ("", "done = side.record_event()", "wait_event(done)"),
        ("", "events = [side.record_event()]", "wait_event(events[0])"),
        ("", "side.record_event()", "wait_stream(side)"),
        ("done = torch.cuda.Event()\ndone.record()", "pass", "wait_stream(side)"),
    ],
)
def test_the_suggested_wait_is_for_the_event_after_the_work(made, record, advice):
    source = f"""
import torch
side = torch.cuda.Stream()
{made}
with torch.cuda.stream(side):
    x = torch.ones(4, device="cuda")
    {record}
    side.synchronize if False else None
y = x + 1
"""
    (finding,) = lint_source("m.py", Text(source)).findings
    assert finding.help.startswith(f"add `torch.cuda.current_stream().{advice}` before line")


def test_asynchronous_collectives_are_tracked():
    assert found(
        """
        import torch
        import torch.distributed as dist
        def f(x):
            x = x.cuda()
            work = dist.all_reduce(x, async_op=True)
            y = x + 1
            work.wait()
            other = dist.all_reduce(y, async_op=True)
            y.zero_()
            other.wait()
            dist.broadcast(y, 0, async_op=True)
            unused = dist.broadcast(y, 0, async_op=True)
        """
    ) == [("SYN601", 7), ("SYN602", 10), ("SYN603", 12), ("SYN603", 13)]


def test_a_function_is_analyzed_regardless_of_its_decorators():
    assert found(
        """
        import torch
        from tests import skip_without_gpu
        class TestIt:
            @skip_without_gpu(2)
            def test_it(self):
                side, x = torch.cuda.Stream(), torch.zeros(4, device="cuda")
                with torch.cuda.stream(side):
                    x.fill_(1)
        """
    ) == [("SYN103", 9)]


def test_a_context_entered_elsewhere_may_be_exited():
    assert (
        found(
            """
        import torch
        class Swap:
            def __init__(self):
                self.block = torch.cuda.stream(torch.cuda.Stream())
            def leave(self):
                self.block.__exit__(None, None, None)
        """
        )
        == []
    )


def test_a_generator_that_calls_itself_does_not_crash():
    source = (
        "import torch\nside = torch.cuda.Stream()\ndef g():\n    yield next(it)\nit = g()\nfor x in it:\n    print(x)\n"
    )
    assert not lint_source("m.py", Text(source)).problem


def test_a_branch_is_reported_if_one_path_through_it_is_wrong():
    assert found(
        """
        import torch
        def f(x, overlap):
            side = torch.cuda.Stream()
            y = torch.ones(4, device="cuda")
            if overlap:
                with torch.cuda.stream(side):
                    y.add_(1)
            return y
        """
    ) == [("SYN103", 8)]


def test_the_same_condition_is_decided_once():
    assert (
        found(
            """
        import torch
        def f(overlap):
            side = torch.cuda.Stream()
            if overlap:
                with torch.cuda.stream(side):
                    y = torch.ones(4, device="cuda")
            if not overlap:
                y = torch.ones(4, device="cuda")
                return y + 1
        """
        )
        == []
    )


LINES = st.sampled_from(
    """import torch|side = torch.cuda.Stream()|with torch.cuda.stream(side):|    y = x * 2|with f() as x, y:|global x
x = torch.ones(4, device="cuda")|for i in range(3):|    x = y[i:]|def f(a, *b, c=x, **d):|    yield a|del x, y
    return f(a, *b, **d)|class C(C):|    def __init__(self): self.x = self|C().x.f()|while x:|    break|try:|x: int
except E as e:|finally:|    raise|lambda: f()|x += y|x, *y = f(x)|async def g(): await x|match x:|nonlocal x
    case [1, y]: pass|x = [f(i) for i in x if i]|e = torch.cuda.Event()|e.record(); e.wait()|print(f"{x}")|@f
x[0][y] = x[1:, None]|x = y if x else f|assert x, y|x = {**x, 1: y}|x = x @ y ** -x|torch.cuda.synchronize(
d = {}; d[0:1]|range(1, 2, 3, 4)|range(0, 5, 0)|x[::0]|stack.enter_context(*[])
x.backward()|[][9]|next(iter([]))""".replace("\n", "|").split("|")
)


@settings(max_examples=300)
@given(st.lists(LINES, max_size=14).map("\n".join))
def test_no_source_crashes_the_linter_and_fixes_always_parse(source):
    result = lint_source("m.py", Text(source))
    assert "itself" not in result.problem
    if not result.problem:
        fixed = repair("m.py", source, unsafe=True, codes=CODES)
        compile(fixed.source, "m.py", "exec", 0x400, dont_inherit=True)  # only parses


@pytest.mark.parametrize(
    ("line", "name"),
    [
        ("x[x > 1]", "x[x > 1]"),
        ("x[x > 1] = x.mean()", "x[x > 1]"),
        ("x.masked_fill_(x < 0, x.mean())", "x.masked_fill_()"),
        ("float(x.sum())", "float()"),
        ("1 if x else 2", "bool(x)"),
        ("not x[0]", "bool(x[0])"),
        ("x[(x > 1) & x.isnan()]", "x[(x > 1) & x.isnan()]"),
        ("x[x.abs() > 1] = x.mean()", "x[x.abs() > 1]"),
        ("x[[0, 1]]", "x[[0, 1]]"),
        ("f'{x}'", "x"),
    ],
)
def test_a_host_wait_in_a_capture_is_named(line, name):
    source = (
        f'import torch\nx = torch.ones(4, device="cuda")\nwith torch.cuda.graph(torch.cuda.CUDAGraph()):\n    {line}\n'
    )
    finding, *_ = lint_source("m.py", Text(source)).findings
    assert (finding.rule.code, finding.message.split(" is a ")[0]) == ("SYN902", name)


@pytest.mark.parametrize(
    "line",
    [
        "picked = x[~(x > 1) & x.isfinite()]",
        "x[x > 1] = x.sum()",
        "x[x > 1] = x",
        "x[x > 1, rows] = 0",
        "x[[0, 1]] = 0",
        "picked = x[torch.tensor([0, 1])]",
        "picked = x[(x > 1).clone()]",
        "x.index_fill_(0, rows, x.mean())",
        "n = x.repeat_interleave(rows, 0)",
    ],
)
def test_sizes_and_numbers_on_the_gpu_make_the_host_wait(line):
    assert found(COPY_AND_READ.format(line=line)) == []


@pytest.mark.parametrize(
    "line",
    [
        "picked = x[rows]",
        "x[x > 1] = 0",
        "picked = x[0]",
        "picked = x[torch.arange(4) > 2]",
        "n = x.repeat_interleave(len(x.shape) // 1, 0)",
        "x.index_fill_(0, rows, 2.0)",
        "n = x.repeat_interleave(rows, 0, output_size=9)",
        "n = x.repeat_interleave(2, 0)",
    ],
)
def test_values_known_to_the_host_do_not_make_it_wait(line):
    assert [code for code, _ in found(COPY_AND_READ.format(line=line))] == ["SYN301"]


COPY_AND_READ = """
import torch
x = torch.rand(4, device="cuda")
rows = torch.tensor([0, 1, 1, 2], device="cuda")
kept = torch.empty(4, pin_memory=True)
kept.copy_(x, non_blocking=True)
{line}
print(kept.sum())
"""


@pytest.mark.parametrize("part", ["[:, :n]", "[:n]", ".narrow(1, 0, n)", ".narrow(0, 1, 2)", ".select(0, 2)"])
def test_the_same_part_of_a_tensor_is_recognized(part):
    source = f"""
        import torch

        def fill(n):
            x = torch.ones(4, 4, device="cuda")
            side = torch.cuda.Stream()
            side.wait_stream(torch.cuda.current_stream())
            with torch.cuda.stream(side):
                x{part}.zero_()
            return x{part}.sum()
    """
    assert found(source) == [("SYN101", 10)]


def test_disjoint_parts_are_not_a_race():
    source = """
        import torch

        def fill(n):
            x = torch.ones(4, 4, device="cuda")
            side = torch.cuda.Stream()
            side.wait_stream(torch.cuda.current_stream())
            with torch.cuda.stream(side):
                x.narrow(1, 0, n).zero_()
                x.narrow(0, 0, 1).zero_()
            total = x.narrow(1, n, 4 - n).sum() + x.narrow(0, 1, 2).sum()
            side.synchronize()
            return total + x.sum()
    """
    assert found(source) == []


@pytest.mark.parametrize("source", ["x", "x[1:]", "unknown()"])
def test_pinning_what_is_already_pinned_reads_nothing(source):
    program = f"""
        import torch
        x = torch.ones(4, device="cuda")
        y = {source}.to("cpu", non_blocking=True).pin_memory()
        torch.cuda.synchronize()
        print(y.sum().item())
    """
    assert found(program) == []


def test_a_pinned_copy_is_still_in_flight_after_it_is_pinned_again():
    program = """
        import torch
        x = torch.ones(4, device="cuda")
        y = x.to("cpu", non_blocking=True).pin_memory()
        print(y.sum().item())
    """
    assert found(program) == [("SYN301", 5)]


@pytest.mark.parametrize(("value", "expected"), [("1", []), ("0", ["SYN701"])])
def test_a_clock_is_right_if_every_launch_waits(value, expected):
    source = f"""
        import os
        import time
        import torch
        os.environ["CUDA_LAUNCH_BLOCKING"] = "{value}"
        x = torch.ones(4, device="cuda")
        begin = time.perf_counter()
        y = x @ x
        print(time.perf_counter() - begin)
    """
    assert [finding.rule.code for finding in lint_source("m.py", Text(textwrap.dedent(source))).findings] == expected


@pytest.mark.parametrize(
    ("imported", "expected"),
    [
        ("import MinkowskiEngine as ME", []),
        ("from MinkowskiEngine import SparseTensor", []),
        ("import spconv", ["SYN701"]),
    ],
)
def test_a_clock_is_right_if_the_kernels_of_a_library_are_waited_for(imported, expected):
    source = f"""
        import time
        import torch
        {imported}
        x = torch.ones(4, device="cuda")
        begin = time.perf_counter()
        y = x @ x
        print(time.perf_counter() - begin)
    """
    assert [finding.rule.code for finding in lint_source("m.py", Text(textwrap.dedent(source))).findings] == expected


def test_strictness_does_not_make_a_right_clock_wrong():
    source = textwrap.dedent("""
        import os
        import time
        import torch
        os.environ["CUDA_LAUNCH_BLOCKING"] = "{}"
        def f(x: torch.Tensor):
            begin = time.perf_counter()
            y = x @ x
            print(time.perf_counter() - begin, torch.cuda.device_count())
    """)
    for value, expected in (("0", ["SYN701"]), ("1", [])):
        result = lint_source("m.py", Text(source.format(value)), is_strict=True)
        assert [finding.rule.code for finding in result.findings] == expected


def test_a_batch_from_a_generator_is_freed_where_the_loop_takes_the_next():
    source = textwrap.dedent("""
        import torch
        side = torch.cuda.Stream()
        def batches():
            for i in range(4):
                with torch.cuda.stream(side):
                    x = torch.ones(4, device="cuda")
                torch.cuda.current_stream().wait_stream(side)
                yield x
        for batch in batches():
            result = batch * 2
    """)
    (finding,) = lint_source("m.py", Text(source)).findings
    freed = next(location.frame for location in finding.related if location.message == "freed here")
    assert freed.source[freed.column - 1 : freed.end_column - 1] == "batch"


DECORATED = """
import functools
import torch
{imported}

class Pipe:
    def __init__(self, flag):
        self.side, self.flag = torch.cuda.Stream(), flag

    @logged("work")
    def work(self, x):
        {wait}
        with torch.cuda.stream(self.side):
            return x * 2

    def run(self):
        x = torch.randn(8, device="cuda")
        y = self.work(x)
        torch.cuda.current_stream().wait_stream(self.side)
        return y
"""
DECORATOR = """
def logged(name):
    def decorator(function):
        @functools.wraps(function)
        def wrapper(self, *args):
            if not self.flag:
                return function(self, *args)
            print(name)
            return function(self, *args)
        return wrapper
    return decorator
"""


@pytest.mark.parametrize(
    ("wait", "codes"), [("pass", ["SYN101"]), ("self.side.wait_stream(torch.cuda.current_stream())", [])]
)
def test_a_method_decorated_by_a_function_of_the_file(wait, codes):
    source = DECORATED.format(imported=DECORATOR, wait=wait)
    result = lint_source("m.py", Text(source))
    assert [f.rule.code for f in result.findings if f.rule.code.startswith("SYN1")] == codes


TIMED_METHOD = """
import time
import torch
from logs import logged

class Pipe:
    def __init__(self, net, flag):
        self.net, self.flag = net.cuda(), flag

    @logged("work")
    def work(self, x):
        return self.net(x)

    def run(self):
        x = torch.randn(8, device="cuda")
        start = time.time()
        self.work(x)
        print(time.time() - start)
"""


def test_work_of_a_method_decorated_by_a_function_of_another_file_is_located_in_this_file(tmp_path):
    (tmp_path / "logs.py").write_text(f"import functools\n{DECORATOR}")
    path = tmp_path / "m.py"
    path.write_text(TIMED_METHOD)
    (timing,) = lint_data(str(path), path.read_bytes()).findings
    assert (timing.rule.code, [location.frame.line for location in timing.locations]) == ("SYN701", [18, 17, 16])
