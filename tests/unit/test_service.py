"""`syncheck.watch()` inside a service, on simulated GPUs."""

import pytest

import syncheck
from syncheck.errors import ConfigError
from tests import warm

SERVICE = """
import time

import torch
import syncheck

found = []
watch = syncheck.watch(budget={budget!r}, backend="sim", on_finding=lambda finding: found.append(finding.rule.code))
side = torch.cuda.Stream()
checked = []


def handle(racy):
    x = torch.ones(64, device="cuda")
    if not racy:
        side.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(side):
        y = x * 2
    torch.cuda.current_stream().wait_stream(side)


{body}
"""


@pytest.fixture
def run(tmp_path):
    def run(body, budget=0.2, *command):
        (tmp_path / "service.py").write_text(SERVICE.format(budget=budget, body=body))
        return warm.run(*(command or ()), *(("service.py",) if command else ("service",)), folder=tmp_path)

    return run


RACY = """
for n in range({n}):
    with watch.request():
        handle(racy=True)
print(found, [finding.rule.code for finding in watch.findings], watch.share.units, 0 < watch.share.checked < 40)
watch.close()
"""


def test_a_race_in_every_request_is_reported_once(run):
    done = run(RACY.format(n=60))
    assert done.stdout == "['SYN101'] ['SYN101'] 60 True\n", done.stderr


def test_the_text_reports_what_was_checked(run):
    done = run(RACY.format(n=60) + "print(watch)\nprint(repr(watch))")
    assert "of 60 requests were checked" in done.stdout
    assert "<syncheck watch: 1 error in service.py>" in done.stdout


def test_the_first_requests_of_a_kind_take_precedence(run):
    body = """
for n in range(3000):
    with watch.request("usual"):
        handle(racy=False)
while not found and watch.share.units < 6000:  # after 1,000 at the latest it is decided anew
    with watch.request("rare"):
        time.sleep(0.005)  # so that the budget can pay for a window, however slow the machine is
        handle(racy=True)
print(found, watch.share.units < 6000)
watch.close()
"""
    done = run(body)
    assert done.stdout == "['SYN101'] True\n", done.stderr


def test_training_steps_count_without_requests(run):
    body = """
weight = torch.nn.Parameter(torch.ones(4, device="cuda"))
optimizer = torch.optim.SGD([weight], lr=0.1)
for n in range(40):
    handle(racy=True)
    weight.sum().backward()
    optimizer.step()
watch.close()
print(found, watch.share.units)
"""
    done = run(body)
    assert done.stdout == "['SYN101'] 40\n", done.stderr


def test_requests_may_fail(run):
    body = """
for n in range(40):
    try:
        with watch.request():
            handle(racy=True)
            raise ValueError("of the request")
    except ValueError as error:
        assert str(error) == "of the request"
watch.close()
print(found)
"""
    done = run(body)
    assert done.stdout == "['SYN101']\n", done.stderr


def test_under_syncheck_run_the_whole_program_is_checked(run):
    done = run(RACY.format(n=8), 0.2, "syncheck", "run", "--backend", "sim")
    assert "seen 8 times" in done.stdout + done.stderr
    assert "[] [] 0 False" in done.stdout


@pytest.mark.parametrize("budget", [0, -0.1, 2, 5, "200%", "abc", None, True, float("nan")])
def test_an_invalid_budget_explains_what_to_write(budget):
    with pytest.raises(ConfigError) as raised:
        syncheck.watch(budget=budget)
    assert raised.value.hint


def test_an_unknown_backend_is_rejected():
    with pytest.raises(ConfigError, match="invalid value for backend: 'gpu'"):
        syncheck.watch(backend="gpu")


@pytest.mark.parametrize("devices", [0, -1, 1000, "x", True])
def test_an_invalid_number_of_devices_is_rejected(devices):
    with pytest.raises(ConfigError, match=f"invalid value for devices: '{devices}'"):
        syncheck.watch(devices=devices)


def test_requests_count_towards_the_budget_of_syncheck_run(run):
    body = """
for n in range(60):
    with watch.request():
        handle(racy=True)
watch.close()
print(watch.share.units, 0 < watch.share.checked < 40)
"""
    done = run(body, 0.2, "syncheck", "run", "--backend", "sim", "--budget", "30%")
    assert done.stdout.startswith("60 True\n"), done.stderr
    assert "SYN101" in done.stdout + done.stderr
    assert "budget 30%: " in done.stdout + done.stderr
    assert "of 60 requests were checked" in done.stdout + done.stderr
