"""Findings in code like that of real libraries: guards, parameters, classes, unknown devices."""

import textwrap

import pytest

from syncheck.lint.engine import lint_source
from syncheck.lint.files import Text
from syncheck.lint.prefilter import can_matter


def found(source):
    source = textwrap.dedent(source)
    result = lint_source("m.py", Text(source))
    assert not result.problem, result.problem
    assert not result.findings or can_matter(source.encode())
    return [(f.rule.code, f.location.frame.line) for f in result.findings]


# -- guards


@pytest.mark.parametrize(
    "guard",
    [
        "if world_size == 1:\n        return tensor",
        "if tensor.numel() > limit:\n        raise ValueError(limit)",
        "if mode == 'off':\n        return None\n    elif mode == 'bad':\n        raise ValueError(mode)",
        "if mode:\n        pass\n    else:\n        return tensor",
        "if a:\n        return 1\n    if b:\n        return 2\n    if c:\n        return 3\n    if d:\n        return",
        "assert mode, mode\n    if mode is None:\n        return tensor",
    ],
)
def test_guards_are_passed(guard):
    source = f"""
import torch

def scale(tensor, world_size, limit, mode, a, b, c, d):
    {guard}
    side = torch.cuda.Stream()
    x = torch.ones(4, device="cuda")
    with torch.cuda.stream(side):
        return x * 2
"""
    assert [code for code, _ in found(source)] == ["SYN101"]


def test_guards_in_loops_are_passed():
    assert found(
        """
        import torch

        def scale(batches):
            side = torch.cuda.Stream()
            for batch in batches:
                if batch is None:
                    continue
                if batch.stop:
                    break
                x = torch.ones(4, device="cuda")
                with torch.cuda.stream(side):
                    y = x * 2
        """
    )[0] == ("SYN101", 13)


def test_an_early_return_in_a_called_function_may_have_waited():
    assert not found(
        """
        import torch

        side = torch.cuda.Stream()

        def ready(fast):
            if fast:
                side.wait_stream(torch.cuda.current_stream())
                return
            torch.cuda.synchronize()

        def scale(fast):
            x = torch.ones(4, device="cuda")
            ready(fast)
            with torch.cuda.stream(side):
                return x * 2
        """
    )


def test_the_code_behind_a_guard_is_followed_too():
    assert found(
        """
        import torch

        def scale(tensor, many):
            side = torch.cuda.Stream()
            if many:
                x = torch.ones(4, device="cuda")
                with torch.cuda.stream(side):
                    return x * 2
            return tensor
        """
    ) == [("SYN101", 9)]


# -- collectives


def test_a_handle_requested_by_a_parameter_is_dropped():
    assert found(
        """
        import torch.distributed as dist

        def broadcast(tensor, src, group=None, async_op=False):
            if dist.get_world_size(group) == 1:
                return tensor
            dist.broadcast(tensor, src, group=group, async_op=async_op)
            return tensor
        """
    ) == [("SYN603", 7)]


@pytest.mark.parametrize(
    "body",
    [
        "work = dist.all_reduce(x, async_op=async_op)\n    if async_op:\n        return work\n    return x",
        "return dist.all_reduce(x, async_op=async_op)",
        "work = dist.all_reduce(x, async_op=async_op)\n    if async_op:\n        work.wait()\n    return x",
        "work = dist.all_reduce(x, async_op=not blocking)\n    if blocking:\n        return x\n    work.wait()",
        "if async_op:\n        raise ValueError('no')\n    dist.all_reduce(x, async_op=async_op)\n    return x",
        "work = dist.all_reduce(x, async_op=x is None)\n    return x",
        "self.works.append(dist.all_reduce(x, async_op=self.overlap))",
        "self.work = dist.all_reduce(x, async_op=async_op)",
        "work = dist.all_reduce(x, async_op=async_op)\n    if work is not None:\n        work.wait()",
    ],
)
def test_a_handle_that_is_kept_is_not_dropped(body):
    assert not found(
        f"""
import torch.distributed as dist

def reduce(self, x, blocking, async_op=False):
    {body}
"""
    )


@pytest.mark.parametrize(
    "body",
    [
        "work = dist.all_reduce(x, async_op=async_op)\n    if async_op:\n        return Handle([work], x)",
        "works = []\n    for part in x:\n        work = dist.isend(part, dst=1)\n        if work is not None:\n"
        "            works.append(work)\n    return Handle(works, x)",
        "handle = Handle([], x)\n    handle.works.append(dist.all_reduce(x, async_op=True))\n    return handle",
    ],
)
def test_a_handle_in_a_returned_object_is_not_dropped(body):
    assert not found(
        f"""
import torch.distributed as dist

class Handle:
    def __init__(self, works, kept):
        self.works, self.kept = works, kept

    def wait(self):
        for work in self.works:
            work.wait()

def reduce(x, async_op=False):
    {body}
"""
    )


def test_a_result_is_checked_if_a_parameter_makes_its_collective_asynchronous():
    assert found(
        """
        import torch
        import torch.distributed as dist

        def reduce(async_op=False):
            x = torch.ones(4, device="cuda")
            work = dist.all_reduce(x, async_op=async_op)
            y = x * 2
            return work, y
        """
    ) == [("SYN601", 8)]


@pytest.mark.parametrize(
    ("imports", "call"),
    [
        ("import deepspeed.comm as dist", "dist.all_reduce(x, async_op=True)"),
        ("from deepspeed import comm as dist", "dist.allgather_fn(y, x, async_op=True)"),
        ("from deepspeed.comm import reduce_scatter_fn", "reduce_scatter_fn(y, x, async_op=args.async_op)"),
    ],
)
def test_deepspeed_names_are_recognized(imports, call):
    assert found(
        f"""
import torch
{imports}

def reduce(x, y, args):
    {call}
    return x
"""
    ) == [("SYN603", 6)]


def test_sending_with_deepspeed_waits():
    assert not found("import torch\nimport deepspeed.comm as dist\ndef send(x):\n    dist.isend(x, 1)\n    return x\n")


def test_a_barrier_completes_earlier_operations_of_its_group():
    assert not found(
        """
        import torch
        import torch.distributed as dist

        def exchange(tensors):
            works = []
            for rank, tensor in enumerate(tensors):
                works.append(dist.isend(tensor, dst=rank))
            for rank, tensor in enumerate(tensors):
                dist.recv(tensor, src=rank)
            dist.barrier()
            return tensors
        """
    )


def test_events_around_an_asynchronous_collective_do_not_time_it():
    assert found(
        """
        import torch
        import torch.distributed as dist

        def timed(x, trials, async_op):
            begin, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
            begin.record()
            for _ in range(trials):
                dist.all_reduce(x, async_op=async_op)
            end.record()
            torch.cuda.synchronize()
            return begin.elapsed_time(end)
        """
    ) == [("SYN702", 10)]


def test_a_function_called_by_the_script_is_also_analyzed_with_other_arguments():
    assert found(
        """
        import torch
        import torch.distributed as dist

        def reduce(x, async_op=False):
            dist.all_reduce(x, async_op=async_op)
            return x

        if __name__ == "__main__":
            reduce(torch.ones(4, device="cuda"))
        """
    ) == [("SYN603", 6)]


def test_paths_of_a_method_take_precedence_over_those_of_its_constructor():
    tests = "\n".join(f"        if options.a{n}:\n            self.b{n} = 1" for n in range(9))
    assert found(
        f"""
import torch

class Scaler:
    def __init__(self, options):
{tests}

    def scale(self, kind):
        side = torch.cuda.Stream()
        x = torch.ones(4, device="cuda")
        if kind == "host":
            return x.cpu()
        elif kind == "main":
            return x * 2
        with torch.cuda.stream(side):
            return x * 3
"""
    )[0] == ("SYN101", 33)


def test_a_wait_for_a_record_of_an_earlier_iteration_is_not_useless():
    assert not found(
        """
        import torch

        def consume(parts, make_stream):
            event = torch.cuda.Event()
            for part in parts:
                event.wait()
                with torch.cuda.stream(make_stream()):
                    event.record()
        """
    )


@pytest.mark.parametrize("otherwise", ["return None", "else:\n                return None"])
def test_a_handle_that_one_branch_waits_for_is_not_dropped(otherwise):
    assert not found(
        f"""
        import torch
        import torch.distributed as dist

        def vote(is_joined):
            votes = torch.ones(1, device="cuda")
            work = dist.all_reduce(votes, async_op=True)
            if is_joined:
                work.wait()
                return votes.item() != 0
            {otherwise}
        """
    )


def test_a_wait_in_the_other_branch_orders_nothing_in_this_one():
    (finding,) = found(
        """
        import torch

        side = torch.cuda.Stream()

        def work(mode):
            x = torch.ones(4, device="cuda")
            if mode == "overlap":
                with torch.cuda.stream(side):
                    y = x * 2
            else:
                torch.cuda.synchronize()
                y = x
            return y
        """
    )
    assert "SYN101" in str(finding)


# -- unknown devices


@pytest.mark.parametrize(
    "read",
    [
        "logits.to('cpu', non_blocking=True).float()",
        "logits.sigmoid().to(torch.device('cpu'), non_blocking=True).tolist()",
        "table[rows] += logits.detach().to('cpu', torch.int32, non_blocking=True)",
        "print(model(logits).to('cpu', non_blocking=True))",
    ],
)
def test_a_non_blocking_copy_to_the_host_is_assumed_to_come_from_a_gpu(read):
    assert [code for code, _ in found(f"import torch\ndef f(logits, table, rows, model):\n    {read}\n")] == ["SYN301"]


@pytest.mark.parametrize(
    "body",
    [
        "a = x.to('cpu', non_blocking=True)\n    b = y.to('cpu')\n    return a.tolist(), b",
        "a = x.to('cpu', non_blocking=True)\n    y.to(torch.device('cpu'), non_blocking=False)\n    return a.tolist()",
        "a = x.to('cpu', non_blocking=True)\n    n = y.max().item()\n    return a[:n].tolist()",
        "a = x.to('cpu', non_blocking=True)\n    b = y.cpu()\n    return a.tolist(), b",
        "a = x.to('cpu', non_blocking=True)\n    n = y.tolist()\n    return a.tolist(), n",
        "a = x.to('cpu', non_blocking=True)\n    torch.cuda.current_stream().synchronize()\n    return a.tolist()",
        "return {key: value.to('cpu', non_blocking=True) for key, value in x.items()}",
        "a = x.to('cpu', 'x', 'y')\n    return a.tolist()",
        "a = x.to('cpu', non_blocking=True).numpy()\n    torch.cuda.synchronize()\n    return a",
        "a = x.to('cpu', non_blocking=flag)\n    return a.tolist()",
        "a = x.to('cpu', non_blocking=True)\n    return int(a.shape[0])",
    ],
)
def test_a_copy_to_the_host_that_is_waited_for_or_not_read_is_correct(body):
    assert not found(f"import torch\ndef f(x, y, flag):\n    {body}\n")


@pytest.mark.parametrize(
    ("steps", "lines"),
    [
        ("yield x.to('cpu', non_blocking=True).numpy()", [5]),
        ("yield x.to('cpu', non_blocking=True).numpy(), x", [5]),
        ("a = x.to('cpu', non_blocking=True).numpy()\n        torch.cuda.synchronize()\n        yield a", []),
        ("yield x.to('cpu', non_blocking=True)", []),  # the caller may wait
        ("a = x.to('cpu', non_blocking=True).numpy()\n        yield x", []),
    ],
)
def test_an_array_that_a_generator_yields_while_it_is_copied(steps, lines):
    source = f"import torch\ndef f(batches):\n    for x in batches:\n        x = x.cuda()\n        {steps}\n"
    assert found(source) == [("SYN301", line) for line in lines]


def test_only_the_read_of_a_list_that_becomes_a_tensor_is_reported():
    assert found(
        """
        import torch

        class Cache:
            def __init__(self):
                self.rows = []

            def append(self, row):
                self.rows.append(row.detach().to("cpu", non_blocking=True))

            def prepare(self):
                self.rows = torch.concat(self.rows)
        """
    ) == [("SYN301", 12)]


def test_a_non_blocking_copy_into_pinned_memory_is_assumed_to_come_from_a_gpu():
    assert found(
        """
        import torch

        def fetch(source):
            buffer = torch.empty(4, pin_memory=True)
            buffer.copy_(source, non_blocking=True)
            return buffer.tolist()
        """
    ) == [("SYN301", 7)]


def test_an_event_that_a_stream_waits_for_does_not_make_the_host_wait():
    assert found(
        """
        import torch

        class Optimizer:
            def update(self, index, gradient, table):
                cpu = torch.device("cpu")
                is_on_gpu = gradient.device != cpu
                changes = (gradient * gradient).to(cpu, non_blocking=True)
                if is_on_gpu:
                    done = torch.cuda.Event()
                    done.record()
                    done.wait()
                table[index] -= changes
        """
    ) == [("SYN402", 12)]


# -- unknown code


MODEL = """
import time
import torch

def bench(model, image, steps):
    image = image.cuda()
    torch.cuda.synchronize()
    began = time.perf_counter()
    {}
    {}
"""


@pytest.mark.parametrize(
    ("work", "report"),
    [
        ("model(image)", "print(time.perf_counter() - began)"),
        ("model(image)", "end = time.perf_counter()\n    return (end - began) * 1e3"),
        ("loss = model(image).sum()\n    loss.backward()", "return time.perf_counter() - began"),
        ("for _ in range(steps):\n        model(image)", "self.seconds = time.perf_counter() - began"),
    ],
)
def test_calling_a_model_does_not_wait_for_it(work, report):
    result = lint_source("m.py", Text(MODEL.format(work, report)))
    assert [(f.rule.code, f.level) for f in result.findings] == [("SYN701", "warning")]


@pytest.mark.parametrize(
    ("work", "report"),
    [
        ("loss = model(image).item()", "print(time.perf_counter() - began)"),
        ("loss = model(image)\n    losses.append(float(loss))", "print(time.perf_counter() - began)"),
        ("out = model(image)\n    if out.max() > 3:\n        pass", "print(time.perf_counter() - began)"),
        ("out = model(image)\n    print(f'{out}')", "print(time.perf_counter() - began)"),
        ("out, _ = model(image)\n    x = out[0].cpu()", "print(time.perf_counter() - began)"),
        ("save(image)", "print(time.perf_counter() - began)"),
        ("evaluate(image)", "print(time.perf_counter() - began)"),
        ("model(image)", "if time.perf_counter() - began > 3:\n        return None"),
        ("model(image)", "spent = time.perf_counter() - began\n    if spent > steps:\n        return None"),
        ("model(image)", "time.sleep(max(0, 1 - (time.perf_counter() - began)))"),
        ("model(image)\n    do_bench(lambda: model(image))", "print(time.perf_counter() - began)"),
        (
            "step = torch.zeros(1, device='cuda')\n    x = image.sum().item()\n    step += 1",
            "print(time.time() - began)",
        ),
    ],
)
def test_a_clock_that_may_be_right_is_not_reported(work, report):
    assert not found(MODEL.format(work, report))


def test_elapsed_time_needs_a_wait_regardless_of_the_timed_code():
    assert found(
        """
        import torch
        from kernels import count_tokens

        def test_speed():
            tokens = torch.zeros(100, device="cuda")
            begin, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
            begin.record()
            for _ in range(100):
                count_tokens(tokens)
            end.record()
            print(begin.elapsed_time(end))
        """
    ) == [("SYN404", 12)]


def test_registering_a_callback_does_not_wait():
    assert [
        code
        for code, _ in found(
            """
            import torch

            def fill(future):
                x = torch.zeros(4, device="cuda")
                future.then(lambda done: done)
                with torch.cuda.stream(torch.cuda.Stream()):
                    x.fill_(1)
            """
        )
    ] == ["SYN103"]


@pytest.mark.parametrize(
    "name", ["os.path.join", "supports_non_blocking", "transformer_block_level", "all_reduce_async"]
)
def test_words_that_merely_resemble_waiting_do_not_wait(name):
    assert found(
        f"""
import os
import torch

def scale(x, y):
    side = torch.cuda.Stream()
    x = torch.ones(4, device="cuda")
    {name}(y)
    with torch.cuda.stream(side):
        return x * 2
"""
    ) == [("SYN101", 10)]


@pytest.mark.parametrize("name", ["sync_all", "waitForAll", "dist_barrier", "obj.block_until_ready", "synchronize"])
def test_words_that_mean_waiting_wait(name):
    assert not found(
        f"""
import torch
from other import obj, sync_all, waitForAll, dist_barrier, synchronize

def scale(x):
    side = torch.cuda.Stream()
    x = torch.ones(4, device="cuda")
    {name}()
    with torch.cuda.stream(side):
        return x * 2
"""
    )


def test_a_tensor_made_from_host_numbers_is_ready_immediately():
    assert not found(
        """
        import torch

        def rows(source):
            rows = torch.tensor([3, 1, 2], device="cuda")
            with torch.cuda.stream(torch.cuda.Stream()):
                return rows * 2
        """
    )


def test_an_external_event_is_not_reported():
    assert not found(
        """
        import torch

        def capture(graph, x):
            event = torch.cuda.Event(external=True)
            with torch.cuda.graph(graph):
                event.record()
            graph.replay()
            event.synchronize()
        """
    )


def test_a_plain_function_in_a_class_body_gets_no_instance():
    assert not found(
        """
        import torch

        class Kernels:
            def _checked(function):
                side = torch.cuda.Stream()
                with torch.cuda.stream(side):
                    function.wait_event(side)
                return function
        """
    )


# -- loaders


LOADER = """
import torch
from functools import partial

class Loader:
    def __init__(self, loader, device):
        self.loader = loader
        self.device = device

    def __iter__(self):
        first = True
        stream = torch.cuda.Stream(device=self.device)
        context = partial(torch.cuda.stream, stream=stream)
        for next_batch in self.loader:
            {}
            with context():
                next_batch = next_batch.to(device=self.device, non_blocking=True)
            if not first:
                yield batch
            else:
                first = False
            {}
            batch = next_batch
            {}
        yield batch
"""
WAIT = "torch.cuda.current_stream(device=self.device).wait_stream(stream)"


def test_a_batch_that_a_loader_yields_is_used_and_freed_by_the_caller():
    assert {code for code, _ in found(LOADER.format("pass", WAIT, "pass"))} == {"SYN201"}


def test_a_loader_that_never_joins_yields_batches_that_are_not_ready():
    assert "SYN101" in {code for code, _ in found(LOADER.format("pass", "pass", "pass"))}


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("pass", "batch.record_stream(torch.cuda.current_stream())"),
        ("stream.wait_stream(torch.cuda.current_stream(device=self.device))", "pass"),
    ],
)
def test_a_loader_that_protects_its_batches_is_correct(before, after):
    assert "SYN201" not in [code for code, _ in found(LOADER.format(before, WAIT, after))]


def test_a_prefetcher_with_a_next_method_is_recognized():
    assert "SYN201" in {
        code
        for code, _ in found(
            """
            import torch

            class Prefetcher:
                def __init__(self, loader):
                    self.loader = iter(loader)
                    self.stream = torch.cuda.Stream()
                    self.preload()

                def preload(self):
                    try:
                        self.batch = next(self.loader)
                    except StopIteration:
                        self.batch = None
                        return
                    with torch.cuda.stream(self.stream):
                        self.batch = self.batch.cuda(non_blocking=True)

                def next(self):
                    torch.cuda.current_stream().wait_stream(self.stream)
                    batch = self.batch
                    self.preload()
                    return batch
            """
        )
    }


def test_streams_of_two_unknown_devices_are_different():
    assert not found(
        """
        import torch

        def send(source, target):
            x = torch.ones(4, device="cuda")
            torch.cuda.current_stream(target).wait_stream(torch.cuda.current_stream(source))
            with torch.cuda.stream(torch.cuda.Stream()):
                return x * 2
        """
    )


@pytest.mark.parametrize(
    "body",
    [
        "work = dist.all_reduce(x, async_op=async_op)\n    def wait():\n        work.wait()\n    return wait",
        "work = dist.all_reduce(x, async_op=True)\n    return lambda: work.wait()",
        "work = dist.all_reduce(x, async_op=True)\n    if kind:\n        table[kind] = work\n        return x",
        "works = [None, None]\n    for n in range(steps):\n        if works[n % 2] is not None:\n"
        "            works[n % 2].wait()\n        works[(n + 1) % 2] = dist.all_reduce(x, async_op=True)",
    ],
)
def test_a_handle_kept_by_other_code_is_not_dropped(body):
    assert not found(
        f"import torch.distributed as dist\ndef reduce(x, kind, table, steps, async_op=False):\n    {body}\n"
    )


@pytest.mark.parametrize(
    ("work", "report"),
    [
        ("cli.inference_step(image)", "print(time.perf_counter() - began)"),
        ("model.generate(image)", "print(time.perf_counter() - began)"),
        ("train_loop_func(image)", "print(time.perf_counter() - began)"),
        ("model(image)", "cpu_time = time.perf_counter() - began\n    print(cpu_time)"),
        ("self.net = self.net.to('cpu', non_blocking=True)", "print(time.perf_counter() - began)"),
    ],
)
def test_a_clock_that_may_only_time_the_host_is_not_reported(work, report):
    assert not found(MODEL.format(work, report))


def test_a_clock_is_reported_once():
    source = MODEL.format(
        "if steps:\n        image *= 2\n    else:\n        model(image)", "print(time.time() - began)"
    )
    source = source.replace("perf_counter", "time")
    assert [code for code, _ in found(source)] == ["SYN701"]


def test_the_device_of_one_tensor_implies_nothing_about_another():
    assert not found(
        """
        import torch

        class Embed(torch.nn.Module):
            def __init__(self):
                super().__init__()
                self.proj = torch.nn.Linear(4, 4)

            def forward(self, x):
                x = x.to(self.proj.weight.device, non_blocking=True)
                return self.proj(x)
        """
    )
    assert not found(
        """
        import torch

        def gather(flag, device):
            counts = torch.zeros(4, pin_memory=flag)
            counts = counts.to("cpu", non_blocking=True)
            counts[0] = 1
            return counts
        """
    )


# -- classes


def test_events_without_timing_are_reported_wherever_they_are_recorded():
    source = """
        import torch

        class Timer:
            def __init__(self):
                self.start = torch.cuda.Event({0})
                self.stop = torch.cuda.Event({0})

            def record(self):
                self.start.record()

            def elapsed(self):
                self.stop.record()
                self.stop.synchronize()
                return self.start.elapsed_time(self.stop)
    """
    assert found(source.format("")) == [("SYN403", 15)]
    assert not found(source.format("enable_timing=True"))
    assert not found(source.format("**options"))


def test_a_loader_may_delegate_its_streams_to_a_helper():
    source = """
        import torch
        from functools import partial

        class Helper:
            def __init__(self, device=None):
                if device is None:
                    device = "cuda"
                self.device = torch.device(device)
                self.is_gpu = self.device.type in ["cuda", "xpu"]
                self.stream = None
                self.module = getattr(torch, self.device.type) if self.is_gpu else None

            def begin(self):
                if self.is_gpu:
                    self.stream = self.module.Stream()
                    self.context = partial(self.module.stream, stream=self.stream)

            def join(self):
                if self.stream is not None:
                    self.module.current_stream().wait_stream(self.stream)

            def fork(self):
                if self.stream is not None:
                    self.stream.wait_stream(self.module.current_stream())

        class Loader:
            def __init__(self, loader, device=None):
                self.loader = loader
                self.helper = Helper(device)

            def move(self, batch):
                if isinstance(batch, list):
                    return [self.move(part) for part in batch]
                return batch.pin_memory().to(self.helper.device, non_blocking=True)

            def __iter__(self):
                self.helper.begin()
                batch = None
                for next_batch in self.loader:
                    {}
                    with self.helper.context():
                        next_batch = self.move(next_batch)
                    if batch is not None:
                        yield batch
                    self.helper.join()
                    batch = next_batch
                yield batch
    """
    assert "SYN201" in [code for code, _ in found(source.format("pass"))]
    assert not found(source.format("self.helper.fork()"))


def test_a_branch_that_warns_is_not_assumed_to_be_taken():
    tests = "\n".join(f"        if options.a{n}:\n            self.b{n} = 1" for n in range(9))
    assert found(
        f"""
import torch
import warnings

class Scaler:
    def __init__(self, options):
        self.device = "cuda"
        if options.wrong:
            warnings.warn("there is none")
            self.device = "cpu"
{tests}

    def scale(self, x):
        x = torch.ones(4, device=self.device)
        with torch.cuda.stream(torch.cuda.Stream()):
            return x * 3
"""
    )[0] == ("SYN101", 33)


# -- events


SELF = """
import torch

def fetch(x, stream):
    x = torch.ones(4, device="cuda")
    host = torch.empty(4, pin_memory=True)
    host.copy_(x, non_blocking=True)
    done = torch.cuda.Event()
    done.record()
    {}
    return host
"""


@pytest.mark.parametrize("wait", ["done.wait()", "torch.cuda.current_stream().wait_event(done)"])
def test_waiting_for_an_event_on_its_own_stream_is_reported(wait):
    assert found(SELF.format(wait)) == [("SYN407", 10)]


@pytest.mark.parametrize(
    "wait",
    [
        "done.synchronize()",
        "done.wait()\n    done.synchronize()",
        "done.wait()\n    torch.cuda.Stream().wait_event(done)",
        "done.wait(stream)",
        "done.wait()\n    self.done = done",
        "done.wait()\n    while not done.query():\n        pass",
        "with torch.cuda.stream(torch.cuda.Stream()):\n        done.wait()",
        "if stream:\n        torch.cuda.Stream().wait_event(done)\n    done.wait()",
    ],
)
def test_an_event_that_something_else_waits_for_is_correct(wait):
    assert "SYN407" not in [code for code, _ in found(SELF.format(wait))]


def test_a_helper_may_receive_the_same_stream_twice():
    assert not found(
        """
        import torch

        def chain(event, stream):
            event.wait(stream)

        def run():
            main = torch.cuda.current_stream()
            done = main.record_event()
            chain(done, main)
        """
    )


def test_waiting_for_an_event_after_a_copy_to_the_gpu_is_not_reported():
    assert "SYN407" not in [
        code for code, _ in found(SELF.replace("host.copy_(x", "x.copy_(host").format("done.wait()"))
    ]


CAPTURE = """
import torch

def positive(x, dense):
    {}
    return x[x > 0]

graph = torch.cuda.CUDAGraph()
x = torch.ones(4, device="cuda")
side = torch.cuda.Stream()
side.wait_stream(torch.cuda.current_stream())
with torch.cuda.stream(side):
    y = x * 2
torch.cuda.current_stream().wait_stream(side)
with torch.cuda.graph(graph):
    y = positive(x, settings.dense)
"""


@pytest.mark.parametrize(("test", "level"), [("pass", "error"), ("if dense:\n        return x", "warning")])
def test_a_conditional_host_wait_in_a_capture_is_only_a_warning(test, level):
    result = lint_source("m.py", Text(CAPTURE.format(test)))
    assert [(f.rule.code, f.level) for f in result.findings] == [("SYN902", level)]


# -- objects created again and again


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        ("for _ in range(9):\n    s = torch.cuda.Stream()", ["SYN805"]),
        ("pool = make_queue()\nfor _ in range(9):\n    pool.put_nowait(torch.cuda.Stream())", []),
        ("pool = make_queue()\nfor i in range(9):\n    pool.put({'s': (torch.cuda.Stream(), i)})", []),
        ("for _ in range(9):\n    on_a_stream()", ["SYN805"]),
        ("for _ in range(9):\n    unknown.stream = torch.cuda.Stream()", []),
        ("for i in range(9):\n    unknown[i] = torch.cuda.Stream()", []),
        ("on_a_stream()\non_a_stream()\non_a_stream()\non_a_stream()", []),
        ("for _ in range(12):\n    e = torch.cuda.Event(enable_timing=True)", ["SYN805"]),
        ("n = 0\nwhile n < 12:\n    e = torch.cuda.Event(enable_timing=True)\n    n += 1", ["SYN805"]),
        ("for size in range(12):\n    times()", []),
        ("times()\n" * 12, []),
        ("pool()\npool()\npool()", []),
    ],
)
def test_only_objects_created_in_a_loop_are_reported(body, expected):
    source = f"""
import torch

def on_a_stream():
    s = torch.cuda.Stream()
    return s.cuda_stream

def times():
    begin = torch.cuda.Event(enable_timing=True)
    begin.record()

def pool():
    events = [torch.cuda.Event(enable_timing=True) for _ in range(10)]
    return len(events)

{body}
"""
    assert [code for code, _ in found(source)] == expected


FALLBACK = """
import torch

def choose(flag):
    {choice}
    return device

def train(batches, model, flag):
    device = choose(flag)
    for images, target in batches:
        target = target.to({device}, non_blocking=True)
        print(target.sum().item())
"""


@pytest.mark.parametrize(
    ("choice", "device", "codes"),
    [
        ("device = torch.device('cuda' if flag else 'cpu')", "device", []),
        (
            "if flag:\n        device = torch.device('cuda')\n    else:\n        device = torch.device('cpu')",
            "device",
            [],
        ),
        ("device = torch.device('cpu')", "device", ["SYN301"]),
        ("device = None", "torch.device('cpu')", ["SYN301"]),
    ],
)
def test_the_host_as_a_fallback_is_no_target_of_copies_from_a_gpu(choice, device, codes):
    """As in pytorch/examples, imagenet/main.py."""
    assert [code for code, _ in found(FALLBACK.format(choice=choice, device=device))] == codes


REDUCED = """
import torch
import torch.distributed as dist

def backward(ctx, grad, weight):
    grad_input = grad @ weight
    if ctx.reduces:
        work = dist.all_reduce(grad_input, async_op=True)
    if ctx.scatters:
        {guard}
        return grad_input * 2
    if ctx.reduces:
        work.wait()
    return grad_input

def f(ctx):
    x = torch.randn(64, 64, device="cuda")
    return backward(ctx, x, x)
"""


@pytest.mark.parametrize(("guard", "is_found"), [("assert not ctx.reduces", False), ("assert ctx.others", True)])
def test_assertions_exclude_paths(guard, is_found):
    assert ("SYN601" in {code for code, _ in found(REDUCED.format(guard=guard))}) is is_found


# -- clocks over loops


@pytest.mark.parametrize(
    ("step", "after", "expected"),
    [
        ("total += x.sum().item()\n        x = x * 2\n        print(time.time() - start)", "", []),
        ("total += x.sum().item()\n        x = x * 2", "print(time.time() - start)", []),
        ("torch.cuda.synchronize()\n        x = x * 2", "print(time.time() - start)", []),
        ("total += read(x)\n        x = x * 2", "print(time.time() - start)", []),
        ("for row in range(3):\n            total += x.sum().item()\n        x = x * 2",
         "print(time.time() - start)", []),
        ("if batch:\n            total += x.sum().item()\n        x = x * 2",
         "print(time.time() - start)", ["warning"]),
        ("if batch:\n            continue\n        total += x.sum().item()\n        x = x * 2",
         "print(time.time() - start)", ["warning"]),
        ("total += x.sum().item()", "x = x * 2\n    print(time.time() - start)", ["warning"]),  # outside the loop
        ("x = x * 2\n        print(time.time() - start)", "", ["error"]),
        ("x = x * 2", "print(time.time() - start)", ["error"]),
        ("start = time.time()\n        n = x.sum().item()\n        x = x * 2\n        print(time.time() - start)", "",
         ["warning"]),
    ],
)  # fmt: skip
def test_a_clock_over_a_loop_whose_every_iteration_waits_is_not_reported(step, after, expected):
    assert levels_over_loop(step, after) == expected


def test_strictly_a_clock_over_a_loop_that_waits_is_a_warning_about_the_end_of_the_loop():
    (finding,) = over_loop("total += x.sum().item()\n        x = x * 2", "print(time.time() - start)", is_strict=True)
    assert finding.level.value == "warning"
    assert finding.message.endswith("is still running, but only with what follows the last wait")


def levels_over_loop(step, after):
    return [str(finding.level) for finding in over_loop(step, after)]


def over_loop(step, after, **options):
    source = f"""
import time
import torch

def read(x):
    return x.sum().item()

def main(batches, total):
    x = torch.ones(4, device="cuda")
    start = time.time()
    for batch in batches:
        {step}
    {after}
"""
    return [f for f in lint_source("m.py", Text(source), **options).findings if f.rule.code == "SYN701"]


@pytest.mark.parametrize(
    ("work", "expected"),
    [
        ("kernel(x)\n    torch.cuda.synchronize()\n    dist.all_gather(parts, count)", "warning"),
        ("kernel(x)\n    n = x.sum().item()\n    some = [torch.zeros(1, device='cuda') for _ in range(2)]\n"
         "    dist.all_gather(some, count)", "warning"),
        ("for part in parts:\n        x = x @ x\n        torch.cuda.empty_cache()\n        print(time.time() - start)\n"
         "    dist.all_gather(parts, count)", "warning"),
        ("y = x @ x\n    torch.cuda.synchronize()\n    start = time.time()\n    dist.all_gather(parts, count)",
         "error"),
        ("dist.all_gather(parts, count)", "error"),
        ("n = x.sum().item()\n    dist.all_gather(parts, count)\n    dist.all_reduce(x)", "warning"),
        ("n = x.sum().item()\n    y = x @ x", "warning"),
        ("y = x @ x\n    n = x.sum().item()\n    start = time.time()\n    y = x @ x", "error"),
    ],
)  # fmt: skip
def test_a_clock_that_misses_only_work_after_a_wait_is_only_a_warning(work, expected):
    source = f"""
import time
import torch
import torch.distributed as dist

def main(kernel):
    x, count = torch.ones(4, device="cuda"), torch.ones(1, device="cuda")
    parts = [torch.zeros(1, device="cuda"), torch.zeros(1, device="cuda")]
    torch.cuda.synchronize()
    start = time.time()
    {work}
    print(time.time() - start)
"""
    result = lint_source("m.py", Text(source))
    assert [(f.rule.code, str(f.level)) for f in result.findings] == [("SYN701", expected)]


def test_a_clock_over_a_loop_that_waits_ignores_work_of_unknown_code():
    assert not found(
        """
        import time
        import torch

        def train(model, batches):
            end = time.time()
            for batch in batches:
                loss = model(batch.cuda())
                print(loss.item())
                model.backward(loss)
                print(time.time() - end)
                end = time.time()
        """
    )


# -- events in graphs


def test_a_cuda_like_platform_is_assumed_to_be_available():
    assert not found(
        """
        import torch
        from acme.platforms import platform

        def times(graph, run):
            options = {"enable_timing": True, "external": True} if platform.is_cuda_alike() else {"enable_timing": True}
            end = torch.cuda.Event(**options)
            graph = torch.cuda.CUDAGraph()
            with torch.cuda.graph(graph):
                run()
                end.record()
            graph.replay()
            end.synchronize()
        """
    )


# -- bounds of slices


@pytest.mark.parametrize(
    ("bounds", "expected"),
    [
        ("i * 10 : i * 10 + 10", [("SYN301", 8)]),
        ("batch.seeds[0] : batch.seeds[-1] + 1", []),
        ("n[0] : n[0] + 10", []),
        ("rows[0] : rows[1]", [("SYN301", 8)]),
    ],
)
def test_the_host_reads_a_tensor_that_bounds_a_slice(bounds, expected):
    assert (
        found(
            f"""
            import torch

            def collect(layer, out, batches, rows=(0, 10)):
                out, rows = torch.empty(100, device="cpu"), (0, 10)
                n = torch.zeros(2, device="cuda", dtype=torch.int64)
                for i, batch in enumerate(batches):
                    out[{bounds}] = layer(batch).to("cpu", non_blocking=True)
                return out
            """
        )
        == expected
    )


# -- compiled functions


@pytest.mark.parametrize(("wait", "expected"), [("torch.cuda.synchronize()", []), ("pass", [("SYN701", 15)])])
def test_a_compiled_function_behaves_like_the_original(wait, expected):
    assert (
        found(
            f"""
            import time
            import torch

            def loss_and_backward(x):
                x.square().sum().backward()
                {wait}

            backward_compiled = torch.compile(loss_and_backward)

            def main():
                x = torch.ones(4, device="cuda")
                start = time.perf_counter()
                backward_compiled(x)
                return time.perf_counter() - start
            """
        )
        == expected
    )


# -- consecutive times in a loop

TRAINING = """
import time
import torch

def train(model, loader, meter):
    end = time.time()
    for images, target in loader:
        images = images.cuda(non_blocking=True)
        loss = (images @ images).sum()
        {read}
        images.mul_(loss)
        meter.update(time.time() - end)
        {again}
"""


@pytest.mark.parametrize(
    ("read", "again", "levels"),
    [
        ("pass", "pass", ["error"]),
        ("pass", "end = time.time()", ["warning"]),
        ("meter.add(loss.item())", "end = time.time()", []),
        ("pass", "meter.total = time.time()", ["error"]),
    ],
)
def test_work_that_one_time_misses_is_included_in_the_next(read, again, levels):
    result = lint_source("m.py", Text(TRAINING.format(read=read, again=again)))
    assert [f.level.value for f in result.findings if f.rule.code == "SYN701"] == levels


def test_a_model_called_with_a_moved_tensor_may_leave_work_pending():
    source = """
        import time
        import torch
        def f(model, x, device):  # cuda
            x = x.to(device)
            begin = time.time()
            y = {call}(x)
            return time.time() - begin
        """
    assert [code for code, _ in found(source.format(call="model"))] == ["SYN701"]
    assert found(source.format(call="describe")) == []


@pytest.mark.parametrize(("index", "is_found"), [("idx", True), ("other", False), (":", True), ("[4, 5]", False)])
def test_parts_that_different_tensors_select_need_not_overlap(index, is_found):
    lines = found(
        f"""
        import torch

        def work():
            cache = torch.zeros(8, 4, device="cuda")
            idx, other = torch.tensor([0, 1], device="cuda"), torch.tensor([4, 5], device="cuda")
            side = torch.cuda.Stream()
            torch.cuda.synchronize()
            with torch.cuda.stream(side):
                cache[idx] = 1.0
            return cache[{index}].sum()
        """
    )
    assert ("SYN101" in {code for code, _ in lines}) is is_found


@pytest.mark.parametrize(
    ("first", "second", "codes"),
    [
        ("get_group(Mode.TENSOR)", "get_group(Mode.PIPELINE)", ["SYN602"]),
        ("get_group('tensor')", "get_group('pipeline')", ["SYN602"]),
        ("get_group(Mode.TENSOR)", "get_group(Mode.TENSOR)", []),
        ("get_group(mode)", "get_group(other)", []),  # maybe the same
        ("tensor_group", "pipeline_group", []),
    ],
)
def test_functions_that_name_their_group_return_different_groups(first, second, codes):
    source = f"""
    import torch.distributed as dist
    def count(x, mode, other, tensor_group, pipeline_group):
        total = torch.tensor([x], device="cuda")
        works = [dist.all_reduce(total, group={first}, async_op=True)]
        works.append(dist.all_reduce(total, group={second}, async_op=True))
        for work in works:
            work.wait()
        return total.item()
    """
    found = lint_source("m.py", Text("import torch\n" + textwrap.dedent(source))).findings
    assert [f.rule.code for f in found if f.level.value == "error"] == codes


def test_a_dropped_batch_of_operations_is_waited_for_handle_by_handle():
    source = """
    import torch.distributed as dist
    def exchange(x, y):
        dist.batch_isend_irecv([dist.P2POp(dist.isend, x, 1), dist.P2POp(dist.irecv, y, 0)])
        return y + 1
    """
    (finding,) = lint_source("m.py", Text("import torch\n" + textwrap.dedent(source))).findings
    assert "add `[handle.wait() for handle in <handle>]` after line 5" in finding.help
    assert "`.wait()`" not in finding.help  # a list has no such method
