"""Findings for torch operators whose order or accesses are easily misunderstood."""

import weakref

import numpy as np
import pytest
import torch
from torch.cuda.comm import broadcast_coalesced

import syncheck


@pytest.fixture
def check():
    """Return a function that runs a program on simulated GPUs and returns the codes of its errors and warnings."""

    def run(program):
        with syncheck.check(backend="sim") as report:
            program()
        assert report.incomplete == ()
        return [finding.rule.code for finding in report.findings if finding.level != "advice"]

    return run


def normalize_on_two_streams(*, training):
    layer = torch.nn.BatchNorm1d(3, device="cuda").train(training)
    main, side = torch.cuda.current_stream(), torch.cuda.Stream()
    x = torch.ones(4, 3, device="cuda")
    side.wait_stream(main)
    layer(x)
    with torch.cuda.stream(side):
        layer(x)
    main.wait_stream(side)


def test_batch_norm_only_reads_its_statistics_in_evaluation_mode(check):
    assert check(lambda: normalize_on_two_streams(training=False)) == []


def test_batch_norm_writes_its_statistics_in_training_mode(check):
    assert "SYN103" in check(lambda: normalize_on_two_streams(training=True))


def offload_gradients(parameter, side, *, records):
    """Copy a gradient to the host in a hook, on a side stream, and drop it."""

    def hook(taken):
        side.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(side):
            host = taken.grad.to("cpu", non_blocking=True)
        if records:
            taken.grad.record_stream(side)
        taken.grad = None
        kept.append(host)

    kept = []
    parameter.register_post_accumulate_grad_hook(hook)


@pytest.mark.parametrize("records", [False, True])
def test_a_gradient_read_on_a_side_stream_by_a_leaf_hook_needs_record_stream(check, records):
    def program():
        weight = torch.ones(1 << 19, device="cuda", requires_grad=True)
        offload_gradients(weight, torch.cuda.Stream(), records=records)
        for _ in range(2):
            (weight * 2).sum().backward()
        torch.cuda.synchronize()

    assert check(program) == ([] if records else ["SYN201"])


def test_a_gradient_read_on_a_side_stream_by_a_tensor_hook_needs_record_stream(check):
    def program():
        side, norms = torch.cuda.Stream(), []

        def hook(gradient):
            side.wait_stream(torch.cuda.current_stream())
            with torch.cuda.stream(side):
                norms.append(gradient.norm())

        x = torch.ones(1 << 19, device="cuda", requires_grad=True)
        for _ in range(2):
            y = x * 2
            y.register_hook(hook)
            (y * 3).sum().backward()
            x.grad = None
        torch.cuda.synchronize()

    assert check(program) == ["SYN201"]


READS = {
    "index_select": lambda cache, index: cache.index_select(0, index),
    "index": lambda cache, index: cache[index],
    "embedding": lambda cache, index: torch.nn.functional.embedding(index, cache),
    "gather": lambda cache, index: cache.gather(0, index[:, None].expand(-1, 16)),
    "gather of a dimension": lambda cache, index: cache.t().gather(1, index[None].expand(16, -1)),
    "two indices": lambda cache, index: cache.view(8, 2, 16)[index // 2, index % 2],
    "mask": lambda cache, index: cache[torch.zeros(16, dtype=torch.bool, device="cuda").index_fill_(0, index, True)],
    "masked_select": lambda cache, index: cache.masked_select(
        torch.zeros(16, 1, dtype=torch.bool, device="cuda").index_fill_(0, index, True)
    ),
    "take": lambda cache, index: cache.take(index * 16 + 3),
    "embedding_bag": lambda cache, index: torch.nn.functional.embedding_bag(index[None], cache, mode="sum"),
}
WRITES = {
    "index_copy_": lambda cache, index: cache.index_copy_(0, index, torch.ones(len(index), 16, device="cuda")),
    "index_put_": lambda cache, index: cache.index_put_((index,), torch.ones(len(index), 16, device="cuda")),
    "negative": lambda cache, index: cache.index_put_((index - 16,), torch.ones(len(index), 16, device="cuda")),
    "index_add_": lambda cache, index: cache.index_add_(0, index, torch.ones(len(index), 16, device="cuda")),
    "index_fill_": lambda cache, index: cache.index_fill_(0, index, 1.0),
    "scatter_": lambda cache, index: cache.scatter_(0, index[:, None].expand(-1, 16).contiguous(), 1.0),
    "put_": lambda cache, index: cache.put_(index * 16 - 250, torch.ones(len(index), device="cuda")),
    "embedding_renorm_": lambda cache, index: torch.embedding_renorm_(cache, index, 1.0, 2.0),
}


def use_a_paged_cache(read, write, read_rows, written_rows):
    cache = torch.zeros(16, 16, device="cuda")
    to_read, to_write = torch.tensor(read_rows, device="cuda"), torch.tensor(written_rows, device="cuda")
    main, side = torch.cuda.current_stream(), torch.cuda.Stream()
    side.wait_stream(main)
    with torch.cuda.stream(side):
        kept = read(cache, to_read)
    write(cache, to_write)
    torch.cuda.synchronize()
    del kept


@pytest.mark.parametrize("read", READS.values(), ids=READS)
def test_the_rows_read_by_an_index_are_exact(check, read):
    def program(written):
        use_a_paged_cache(read, WRITES["index_copy_"], [1, 9, 2], written)

    assert check(lambda: program([3, 8])) == []
    assert check(lambda: program([3, 9])) == ["SYN102"]


@pytest.mark.parametrize("write", WRITES.values(), ids=WRITES)
def test_the_rows_written_by_an_index_are_exact(check, write):
    def program(written):
        use_a_paged_cache(READS["index_select"], write, [1, 9, 2], written)

    assert check(lambda: program([3, 8])) == []
    assert check(lambda: program([3, 9])) == ["SYN102"]


def test_many_scattered_rows_are_merged(check):
    def program(n_rows, written):
        cache = torch.zeros(n_rows, 2, device="cuda")
        even = torch.arange(0, 1000, 2, device="cuda")
        target = torch.tensor([written], device="cuda")
        main, side = torch.cuda.current_stream(), torch.cuda.Stream()
        side.wait_stream(main)
        with torch.cuda.stream(side):
            kept = cache.index_select(0, even)
        cache.index_fill_(0, target, 1.0)
        torch.cuda.synchronize()
        del kept

    assert check(lambda: program(2000, 1500)) == []
    assert check(lambda: program(2000, 500)) == ["SYN102"]


def use_rows_on_two_streams(cache, index):
    """Write rows of a cache on one stream while another stream reads some."""
    main, side = torch.cuda.current_stream(), torch.cuda.Stream()
    side.wait_stream(main)
    with torch.cuda.stream(side):
        kept = cache.index_select(0, index)
    cache.index_fill_(0, index[:1], 1.0)
    main.wait_stream(side)
    del kept


def test_the_rows_of_a_very_long_index_are_uncertain():
    with syncheck.check(backend="sim") as report:
        use_rows_on_two_streams(
            torch.zeros(4, 2, device="cuda"), torch.zeros(1 << 15, dtype=torch.int64, device="cuda")
        )
    (finding,) = report.findings
    assert (finding.rule.code, finding.level) == ("SYN102", "warning")


def test_the_rows_of_a_captured_index_are_uncertain():
    with syncheck.check(backend="sim") as report:
        cache, index = torch.zeros(4, 2, device="cuda"), torch.tensor([1, 2], device="cuda")
        torch.cuda.synchronize()
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            use_rows_on_two_streams(cache, index)
        torch.cuda.synchronize()
    (finding,) = (finding for finding in report.findings if finding.rule.code == "SYN102")
    assert finding.level == "warning"


def test_queued_backward_callbacks_run_after_the_leaf_streams_are_joined(check):
    def program(*, is_queued):
        side, seen = torch.cuda.Stream(), []
        with torch.cuda.stream(side):
            weight = torch.ones(4, device="cuda", requires_grad=True)
            loss = (weight * 2).sum()

        def read():
            seen.append(weight.grad.norm())
            assert torch.cuda.current_stream() == torch.cuda.default_stream()

        def hook(_):
            if is_queued:
                torch.autograd.Variable._execution_engine.queue_callback(read)
            else:
                with torch.cuda.stream(torch.cuda.default_stream()):
                    read()

        weight.register_post_accumulate_grad_hook(hook)
        loss.backward()

    assert check(lambda: program(is_queued=True)) == []
    assert "SYN101" in check(lambda: program(is_queued=False))


@pytest.mark.parametrize("through", ["a product", "a view", "not a leaf"])
def test_requested_gradients_are_joined_like_those_of_leaves(check, through):
    def program():
        side = torch.cuda.Stream()
        with torch.cuda.stream(side):
            x = torch.ones(4, device="cuda", requires_grad=True)
            if through == "not a leaf":
                x = x * 3
            y = x.view(2, 2) * 2 if through == "a view" else x * 2
        torch.cuda.current_stream().wait_stream(side)
        loss = y.sum()
        (gradient,) = torch.autograd.grad(loss, [x])
        gradient.record_stream(torch.cuda.current_stream())
        gradient.sum()
        side.wait_stream(torch.cuda.current_stream())

    assert check(program) == []


def test_a_leaf_whose_gradient_was_not_requested_is_not_joined(check):
    def program():
        side = torch.cuda.Stream()
        with torch.cuda.stream(side):
            x = torch.ones(4, device="cuda", requires_grad=True)
            y = x * 2
            noise = torch.ones(4, device="cuda")
        torch.cuda.current_stream().wait_stream(side)
        weight = torch.ones(4, device="cuda", requires_grad=True)
        with torch.cuda.stream(side):
            noise.add_(1)
        torch.autograd.grad((y + weight).sum(), [weight])
        noise.sum()

    assert check(program) == ["SYN101"]


# -- inference mode


def test_a_module_moves_to_a_gpu_in_inference_mode(check):
    def program():
        model = torch.nn.Sequential(torch.nn.Linear(4, 4), torch.nn.BatchNorm1d(4))
        with torch.inference_mode():
            model.cuda()
            assert all(tensor.is_cuda for tensor in (*model.parameters(), *model.buffers()))
            assert model(torch.ones(2, 4, device="cuda")).is_cuda
            model.cpu()
            assert not any(tensor.is_cuda for tensor in (*model.parameters(), *model.buffers()))

    assert check(program) == []


def test_composite_operators_are_decomposed_in_inference_mode(check):
    def program():
        with torch.inference_mode():
            normalize_on_two_streams(training=True)

    assert "SYN103" in check(program)


def test_a_reshape_that_copies_counts_as_a_read_in_inference_mode(check):
    def program():
        with torch.inference_mode():
            x = torch.ones(4, 3, device="cuda")
            with torch.cuda.stream(torch.cuda.Stream()):
                x.t().reshape(12)

    assert check(program) == ["SYN101"]


# -- captures


@pytest.mark.parametrize(
    ("call", "what"),
    [
        (lambda x, index: x.__setitem__(index, 3.0), "copying a number"),
        (lambda x, _: x.copy_(torch.ones(4), non_blocking=True), "a copy from pageable memory"),
    ],
    ids=["a number by an index", "pageable memory"],
)
def test_copies_that_cannot_be_captured_are_rejected_by_name(call, what):
    with syncheck.check(backend="sim") as report:
        x, index = torch.zeros(4, device="cuda"), torch.tensor([1], device="cuda")
        with pytest.raises(RuntimeError, match="captur"), torch.cuda.graph(torch.cuda.CUDAGraph()):
            call(x, index)
    (finding,) = [finding for finding in report.findings if finding.rule.code == "SYN902"]
    assert what in finding.message


def test_storing_a_number_by_index_makes_the_host_wait(check):
    def program():
        host, index = torch.empty(4, pin_memory=True), torch.tensor([1, 2], device="cuda")
        x = torch.zeros(4, device="cuda")
        host.copy_(x, non_blocking=True)
        x[index] = 3.0
        host.sum()

    assert check(program) == []


def test_pinning_a_copy_in_flight_reads_nothing(check):
    def program():
        host = torch.ones(4, device="cuda").to("cpu", non_blocking=True)
        assert host.pin_memory() is host
        torch.cuda.synchronize()
        host.sum().item()

    assert check(program) == []


def test_an_exported_pinned_buffer_may_be_changed_after_a_blocking_copy(check):
    def program():
        host = torch.zeros(4).pin_memory()
        values = host.numpy()
        x = torch.empty(4, device="cuda")
        x.copy_(host)
        values[0] = 1
        x.copy_(host)

    assert check(program) == []


def test_a_tensor_freed_in_a_call_is_not_named_after_the_result_of_the_call(simulate):
    report = simulate("""
import torch
side = torch.cuda.Stream()
def doubled():
    x = torch.ones(1 << 20, device="cuda")
    side.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(side):
        return x * 2
z = doubled()
z = doubled()
y = torch.ones(1 << 20, device="cuda")
""")
    found = [finding for finding in report["findings"] if finding["rule"] == "SYN201"]
    assert found
    assert not any("z.record_stream" in finding["help"] for finding in found)


def test_a_finding_does_not_keep_tensors_alive(check):
    known = []

    def step():
        side = torch.cuda.Stream()
        x = torch.ones(1000, device="cuda")
        with torch.cuda.stream(side):
            y = x + 1
        known.append(weakref.ref(x))
        del x, y
        known.append(known[0]())

    assert check(step) == ["SYN101"]
    assert known[1] is None


BATCHES = """
import torch


class Prefetcher:
    def __init__(self, batches):
        self.batches, self.stream = batches, torch.cuda.Stream()
        self.next_batch = self.preload(0)

    def preload(self, i):
        with torch.cuda.stream(self.stream):
            image, label = self.batches[i]
            return (
                image.cuda(non_blocking=True),
                label.cuda(non_blocking=True),
            )

    def next(self, i):
        torch.cuda.current_stream().wait_stream(self.stream)
        batch = self.next_batch
        self.next_batch = self.preload(i + 1)
        return batch


def main():
    loader = Prefetcher([[torch.ones(64).pin_memory(), torch.ones(64).pin_memory()] for _ in range(5)])
    total = 0
    for i in range(4):
        x, y = loader.next(i)
        total = total + (x * y).sum()
    print(total.item())


main()
"""


def test_unnamed_tensors_of_a_batch_are_fixed_together(simulate):
    (found,) = (finding for finding in simulate(BATCHES)["findings"] if finding["level"] != "advice")
    waits = [f"        {edit['code']}" for edit in found["fix"]["edits"]]
    assert waits == [f"        {name}.record_stream(torch.cuda.current_stream())" for name in "xy"]
    repaired = BATCHES.splitlines()
    line = found["fix"]["edits"][0]["line"] - 1
    repaired[line:line] = waits
    assert not [finding for finding in simulate("\n".join(repaired))["findings"] if finding["level"] != "advice"]


def test_no_group_fix_is_advised_at_the_line_that_creates_the_tensors(simulate):
    """Before that line, the parameters are empty CPU tensors, which do not support `record_stream`."""
    report = simulate("""
import torch
from torch import nn

class LazyWeights:
    def __init__(self, module):
        self.stream, self.host = torch.cuda.Stream(), {}
        for layer in module:
            self.host[layer] = {name: p.data.pin_memory() for name, p in layer.named_parameters()}
            layer.register_forward_pre_hook(self.load)
            layer.register_forward_hook(self.drop)

    def load(self, layer, args):
        with torch.cuda.stream(self.stream):
            for name, p in layer.named_parameters():
                p.data = self.host[layer][name].to("cuda", non_blocking=True)
        torch.cuda.current_stream().wait_stream(self.stream)

    def drop(self, layer, args, out):
        for p in layer.parameters():
            p.data = torch.empty(0)

net = nn.Sequential(nn.Linear(8, 8), nn.Linear(8, 8))
LazyWeights(net)
x = torch.ones(2, 8, device="cuda")
with torch.no_grad():
    y = net(x)
    y = y + net(x)
print(y.sum().item())
""")
    assert {finding["rule"] for finding in report["findings"]} == {"SYN201"}
    assert [finding["help"] for finding in report["findings"] if "each" in finding["help"]] == []


@pytest.mark.parametrize("waits_before", [False, True])
@pytest.mark.parametrize("waits_for_stream", [False, True])
def test_arrays_are_compared_before_the_host_waits_for_an_event_or_a_stream(check, waits_before, waits_for_stream):
    def program():
        side = torch.cuda.Stream()
        host = torch.zeros(8, pin_memory=True)
        values = host.numpy()
        with torch.cuda.stream(side):
            host.to("cuda", non_blocking=True)
            done = side.record_event()
        if waits_before:
            done.synchronize()
        values.fill(1)
        (side if waits_for_stream else done).synchronize()

    assert check(program) == ([] if waits_before else ["SYN302"])


def test_a_buffer_stays_compared_while_other_copies_complete(check):
    def program():
        side = torch.cuda.Stream()
        first, second = (torch.zeros(8, pin_memory=True) for _ in range(2))
        first.numpy()
        values = second.numpy()
        with torch.cuda.stream(side):
            first.to("cuda", non_blocking=True)
            done = side.record_event()
            second.to("cuda", non_blocking=True)
        done.synchronize()
        values.fill(1)
        torch.cuda.synchronize()

    assert check(program) == ["SYN302"]


def test_waits_before_a_capture_do_not_explain_a_race_in_it(check):
    def program():
        x = torch.zeros(8, device="cuda")
        s1, s2 = torch.cuda.Stream(), torch.cuda.Stream()
        torch.cuda.synchronize()
        for _ in range(50):  # more work than in the capture, whose clocks begin anew
            with torch.cuda.stream(s2):
                torch.zeros(8, device="cuda")
        y = torch.zeros(8, device="cuda:1")
        torch.cuda.synchronize(1)
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.stream(s1):
            graph.capture_begin()
            s2.wait_stream(s1)
            with torch.cuda.stream(s2):
                x.mul_(3)
            x.mul_(3)
            s1.wait_stream(s2)
            graph.capture_end()
        del y
        torch.cuda.synchronize()

    assert check(program) == ["SYN103"]


@pytest.mark.parametrize("device", [0, 1])
def test_a_coalesced_broadcast_needs_a_wait_of_its_source(check, device):
    def program():
        buffers = [torch.ones(n, device="cuda:0") for n in (2, 1)]
        side = torch.cuda.Stream(device=0)
        side.wait_stream(torch.cuda.current_stream(0))
        with torch.cuda.stream(side):
            torch._foreach_add_(buffers, 2.0)
        torch.cuda.current_stream(device).wait_event(side.record_event())
        broadcast_coalesced(buffers, [0, 1])

    assert set(check(program)) == (set() if device == 0 else {"SYN101"})


@pytest.mark.parametrize(
    "shared_with",
    [
        lambda host: torch.from_numpy(host.numpy()),
        lambda host: torch.as_tensor(np.asarray(host)),
        lambda host: torch.frombuffer(memoryview(host.numpy()), dtype=torch.float32),
        torch.from_dlpack,
    ],
    ids=["from_numpy", "as_tensor", "frombuffer", "from_dlpack"],
)
def test_tensors_that_share_pinned_memory_are_one_buffer(check, shared_with):
    def read():
        host = torch.zeros(4, pin_memory=True)
        shared = shared_with(host)
        host.copy_(torch.ones(4, device="cuda"), non_blocking=True)
        shared.sum()

    def write():
        host = torch.zeros(4, pin_memory=True)
        shared = shared_with(host)
        assert shared.is_pinned()
        shared.to("cuda", non_blocking=True)
        host.fill_(1)

    assert check(read) == ["SYN301"]
    assert check(write) == ["SYN302"]


def test_parts_of_shared_pinned_memory_are_independent(check):
    def program():
        host = torch.zeros(4, pin_memory=True)
        first, second = (torch.from_numpy(host.numpy()[i : i + 2]) for i in (0, 2))
        first.copy_(torch.ones(2, device="cuda"), non_blocking=True)
        second.sum()
        host[2:].fill_(1)

    assert check(program) == []


FETCHED_BY_TWO_CALLERS = """
import torch

class Layers:
    def __init__(self):
        self.stream, self.weights, self.events = torch.cuda.Stream(), {}, {}
        self.fetch(0)

    def fetch(self, i):
        with torch.cuda.stream(self.stream):
            for _ in range(1): self.weights[i] = torch.ones(4, device="cuda") * i
            self.events[i] = self.stream.record_event()

    def get(self, i):
        self.fetch(i + 1)
        return self.weights[i]

def use(weight):
    return weight.sum()

def train(layers):
    for i in range(3):
        use(layers.get(i))

train(Layers())
torch.cuda.synchronize()
"""


def test_each_caller_that_starts_the_work_gets_a_line(simulate):
    (found,) = simulate(FETCHED_BY_TWO_CALLERS)["findings"]
    repaired = FETCHED_BY_TWO_CALLERS.splitlines()
    edits = sorted(found["fix"]["edits"], key=lambda edit: -edit["line"])
    assert len(edits) == 2
    for edit in edits:
        line = repaired[edit["line"] - 1]
        repaired.insert(edit["line"], line[: len(line) - len(line.lstrip())] + edit["code"])
    assert simulate("\n".join(repaired))["findings"] == []


def test_a_line_for_one_caller_does_not_look_like_the_whole_fix(simulate):
    """The second caller has no line where the stream can be named after the work."""
    program = FETCHED_BY_TWO_CALLERS.replace(
        "        self.fetch(i + 1)\n        return self.weights[i]",
        "        return self.fetch(i + 1) or self.weights[i]",
    )
    (found,) = simulate(program)["findings"]
    assert "after line 7" not in found["help"]
    assert found["fix"]["applicability"] == "example"


def test_lines_for_some_of_many_callers_are_an_example(simulate):
    getters = "".join(
        f"""
    def get{i}(self, i):
        self.fetch(i + 1)
        return self.weights[i]
"""
        for i in range(12)
    )
    program = FETCHED_BY_TWO_CALLERS.replace("\ndef use", f"{getters}\ndef use")
    program = program.replace("range(3)", "range(13)").replace("layers.get(i)", 'getattr(layers, f"get{i % 12}")(i)')
    (found,) = simulate(program)["findings"]
    assert found["fix"]["applicability"] == "example"
