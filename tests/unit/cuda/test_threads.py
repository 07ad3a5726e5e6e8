"""Threads on real GPUs: once a thread is started, the monitor receives the acting thread."""

import threading

import torch

from syncheck.instrument.hosts import Hosts
from syncheck.instrument.locked_monitor import LockedMonitor
from syncheck.instrument.patching import Patches
from syncheck.instrument.threads import install_threads


def test_a_single_thread_is_not_reported(gpu):
    torch.ones(4) * 2
    assert gpu.monitor.named("host") == gpu.monitor.named("acquire_all") == []


def test_a_started_thread_is_a_separate_host(gpu):
    reporter = gpu.cuda.reporter
    hosts = Hosts(LockedMonitor(reporter.call_buffer.monitor, reporter.lock))
    hosts.on_first_thread = lambda: reporter.follow_threads(hosts.monitor)
    patches = Patches()
    install_threads(gpu.cuda, hosts, patches)
    try:
        x = torch.ones(4)
        thread = threading.Thread(target=lambda: x.mul_(2), name="worker")
        thread.start()
        thread.join()
        x.add_(1)
        gpu.cuda.flush_calls()
    finally:
        patches.undo()
        reporter.call_buffer.monitor = gpu.monitor
    calls = [call for call in gpu.monitor.calls if call[0] in {"host", "release", "acquire", "launch"}]
    names = [call[2] if call[0] in {"host", "launch"} else call[0] for call in calls]
    assert "worker" in names
    assert names.index("release") < names.index("worker") < names.index("MainThread")
    worker = names[names.index("worker") : names.index("MainThread")]
    assert worker[1] == "acquire"
    assert worker[-1] == "release"
    assert names[names.index("MainThread") + 1] == "acquire"
    assert gpu.report().findings == ()
