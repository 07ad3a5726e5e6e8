"""Reports of launches and of host accesses."""

import threading

import torch

from syncheck.instrument.plan import Argument

READ = Argument(0, "x", is_list=False, is_write=False, is_read=True)


def test_a_launch_is_reported_after_earlier_frees(gpu):
    x, y = torch.ones(4, device="cuda"), torch.ones(4, device="cuda")
    with gpu.calling() as calls:
        del x
        y.add_(1)
    assert calls == ["free 1", "launch cuda:0 add_ w2"]


def test_before_launch_callbacks_run_before_each_launch(gpu):
    seen, x = [], torch.ones(4, device="cuda")
    gpu.simulator.launches.before_launch.append(lambda stream, accesses: seen.append((stream, len(accesses))))
    x.add_(x)
    assert seen == [(1, 2)]


def test_a_read_and_a_write_of_the_same_bytes_are_one_access(gpu):
    x = torch.ones(4, device="cuda")
    assert gpu.calls_of(lambda: x.add_(x)) == ["launch cuda:0 add_ w1"]


def test_host_accesses_are_reported_for_memory_a_stream_may_use(gpu):
    launches, h = gpu.simulator.launches, torch.ones(4).pin_memory()
    assert gpu.calls_of(lambda: launches.host_read("reading", h)) == ["host reading r1"]
    assert gpu.calls_of(lambda: launches.host_access("reading", [(torch.ones(4), READ)])) == []
    assert gpu.calls_of(lambda: launches.host_access("reading", [(h[:0], READ)])) == []


def test_work_in_a_block_of_another_device_has_a_context(gpus):
    x = torch.ones(4, device="cuda:0")
    with torch.cuda.stream(torch.cuda.Stream(device=1)):
        assert gpus.calls_of(lambda: x.add_(1)) == ["launch cuda:0 add_ w1 in a context of s1"]


def test_a_thread_that_lost_its_stream_is_reported(gpu):
    x = torch.ones(4, device="cuda")
    with torch.cuda.stream(torch.cuda.Stream()), gpu.calling() as calls:
        thread = threading.Thread(target=lambda: x.add_(1))
        thread.start()
        thread.join()
    assert calls == ["lost s1 for cuda:0", "launch cuda:0 add_ w1 in a context of s1"]


def test_a_backward_pass_has_no_lost_context(gpus):
    x = torch.ones(4, device="cuda:0", requires_grad=True)
    loss = x.sin()
    gradient = torch.ones(4, device="cuda:0")
    with torch.cuda.stream(torch.cuda.Stream("cuda:1")), gpus.calling() as calls:
        loss.backward(gradient)
    launches = [call for call in calls if call.startswith("launch")]
    assert launches
    assert [call for call in launches if "in a context" in call] == []
