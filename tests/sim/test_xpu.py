"""Programs that use `torch.xpu` on simulated GPUs."""

import pytest
import torch

from syncheck.instrument.findings import NewFindings
from syncheck.sim import device_kind
from syncheck.sim.backend import Simulator
from syncheck.sim.null_monitor import NoSites, NullMonitor
from tests import warm


@pytest.fixture
def xpus():
    given = (NullMonitor(), NoSites(), lambda _: None, NewFindings(), lambda: None)
    with Simulator(2, *given, device_type="xpu").watching():
        yield


def snapshot():
    owners = {"torch": torch, "xpu": torch.xpu, "cuda": torch.cuda, "C": torch._C, "Tensor": torch.Tensor}
    owners |= {"accelerator": torch.accelerator, "memory": torch.xpu.memory, "streams": torch.xpu.streams}
    owners |= {"Storage": torch.UntypedStorage, "version": torch.version}
    return {(name, key): value for name, owner in owners.items() for key, value in list(vars(owner).items())}


def test_all_patches_are_removed():
    before = snapshot()
    given = (NullMonitor(), NoSites(), lambda _: None, NewFindings(), lambda: None)
    with Simulator(1, *given, device_type="xpu").watching():
        assert torch.ones(2, device="xpu").is_xpu
    after = snapshot()
    assert {key for key in before.keys() | after.keys() if before.get(key) is not after.get(key)} == set()
    assert not torch.xpu.is_available()
    assert device_kind.simulated() is device_kind.CUDA


@pytest.mark.usefixtures("xpus")
def test_xpus_are_available_and_other_gpus_are_not():
    assert torch.xpu.is_available()
    assert torch.xpu.device_count() == 2
    assert not torch.cuda.is_available()
    assert torch.cuda.device_count() == 0
    assert torch.accelerator.current_accelerator() == torch.device("xpu")
    assert torch.accelerator.is_available()
    assert torch.xpu.get_device_name() == torch.xpu.get_device_properties(1).name == "Simulated GPU"
    assert torch.xpu.get_device_capability()["has_fp16"]


@pytest.mark.usefixtures("xpus")
def test_tensors_have_the_right_device():
    x = torch.ones(4, device="xpu:1")
    assert str(x.device) == "xpu:1"
    assert x.is_xpu
    assert not x.is_cuda
    assert x.get_device() == 1
    assert torch.ones(4).to("xpu").device == torch.device("xpu", 0)
    assert torch.ones(4).xpu(1).device == torch.device("xpu", 1)
    assert torch.nn.Linear(2, 2).xpu().weight.is_xpu
    assert torch.nn.Linear(2, 2).to("xpu:1").weight.device.index == 1
    assert x.cpu().device.type == "cpu"
    assert x.untyped_storage().device == torch.device("xpu", 1)
    with torch.device("xpu"):
        assert torch.zeros(3).is_xpu
    assert (x + x).sum().item() == 8


@pytest.mark.usefixtures("xpus")
def test_streams_and_events_are_those_of_torch_xpu():
    stream, event = torch.xpu.Stream(device=1), torch.xpu.Event(enable_timing=True)
    assert isinstance(stream, torch.xpu.Stream)
    assert stream.device == torch.device("xpu", 1)
    assert "torch.xpu.Stream" in repr(stream)
    with torch.xpu.stream(stream):
        assert torch.xpu.current_stream() == stream
        assert torch.xpu.current_device() == 1
        event.record()
    event.synchronize()
    assert event.query()
    with torch.xpu.device(1):
        assert torch.accelerator.current_device_index() == 1
    torch.xpu.synchronize()
    torch.accelerator.synchronize()
    assert torch.Stream("xpu:1").device == torch.device("xpu", 1)
    assert torch.xpu.Stream(priority=7).priority == 0  # clamped to the supported range


@pytest.mark.usefixtures("xpus")
def test_random_numbers_and_autocast_work():
    torch.manual_seed(3)
    first = torch.rand(4, device="xpu")
    torch.xpu.manual_seed(3)
    assert torch.equal(first, torch.rand(4, device="xpu"))
    generator = torch.Generator("xpu").manual_seed(3)
    assert torch.equal(first, torch.rand(4, device="xpu", generator=generator))
    with torch.autocast("xpu", dtype=torch.bfloat16):
        assert (torch.ones(2, 2, device="xpu") @ torch.ones(2, 2, device="xpu")).dtype == torch.bfloat16
    assert torch.xpu.memory_allocated() > 0


@pytest.mark.usefixtures("xpus")
def test_errors_are_those_of_torch_xpu():
    with pytest.raises(RuntimeError, match="at least two devices, xpu:0 and cpu"):
        torch.ones(2, device="xpu") + torch.ones(2)
    with pytest.raises(RuntimeError, match="XPU error: invalid device ordinal"):
        torch.ones(2, device="xpu:5")


TRAINING = """
import torch

model = torch.nn.Sequential(torch.nn.Linear(64, 64), torch.nn.GELU(), torch.nn.Linear(64, 1)).to("xpu")
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
batches = [torch.randn(32, 64).pin_memory() for _ in range(4)]
side = torch.xpu.Stream()
for batch in batches:
    with torch.xpu.stream(side):
        x = batch.to("xpu", non_blocking=True)
    {wait}
    {keep}
    with torch.autocast("xpu", dtype=torch.bfloat16):
        loss = model(x).square().mean()
    loss.backward()
    optimizer.step()
    optimizer.zero_grad()
print(loss.item())
"""
WAIT, KEEP = "torch.xpu.current_stream().wait_stream(side)", "x.record_stream(torch.xpu.current_stream())"


def run(text, folder, *options):
    (folder / "train.py").write_text(text)
    command = ("syncheck", "run", "--backend", "sim", "--device-type", "xpu", *options, "train.py")
    return warm.run(*command, folder=folder)


def test_a_correct_training_loop_has_no_findings(tmp_path):
    done = run(TRAINING.format(wait=WAIT, keep=KEEP), tmp_path)
    assert done.returncode == 0, done.stderr
    assert "no findings" in done.stderr
    assert "2 simulated XPUs" in done.stderr


@pytest.mark.parametrize(
    ("wait", "keep", "code", "advice"),
    [("pass", KEEP, "SYN101", WAIT), (WAIT, "pass", "SYN201", KEEP)],
)
def test_a_missing_line_is_reported_with_code_to_paste(tmp_path, wait, keep, code, advice):
    done = run(TRAINING.format(wait=wait, keep=keep), tmp_path)
    assert done.returncode == 1
    assert f"error[{code}]" in done.stderr
    assert advice in done.stderr
    assert "cuda" not in done.stderr


def test_the_device_independent_api_is_checked(tmp_path):
    text = """
import torch

device = torch.accelerator.current_accelerator()
side = torch.Stream(device)
x = torch.ones(1024, device=device)
with side:
    y = x * 2
torch.accelerator.synchronize()
print(y.sum().item())
"""
    done = run(text, tmp_path)
    assert "SYN101" in done.stderr
    right = text.replace("with side:", "side.wait_stream(torch.accelerator.current_stream())\nwith side:")
    assert run(right, tmp_path).returncode == 0


def test_a_missing_wait_for_a_copy_to_the_host_is_reported(tmp_path):
    text = """
import torch

x = torch.ones(1024, device="xpu")
host = torch.empty(1024, pin_memory=True)
host.copy_(x, non_blocking=True)
{wait}
print(host.sum().item())
"""
    assert "SYN301" in run(text.format(wait=""), tmp_path).stderr
    assert run(text.format(wait="torch.xpu.synchronize()"), tmp_path).returncode == 0


def test_replaying_a_trace_names_its_device_type(tmp_path):
    run(TRAINING.format(wait="pass", keep=KEEP), tmp_path, "--trace", "run.trace")
    done = warm.run("syncheck", "replay", "run.trace", folder=tmp_path)
    assert WAIT in done.stdout + done.stderr
    assert "xpu:0" in done.stdout + done.stderr


def test_real_xpus_are_rejected(tmp_path):
    (tmp_path / "train.py").write_text("")
    done = warm.run("syncheck", "run", "--backend", "cuda", "--device-type", "xpu", "train.py", folder=tmp_path)
    assert done.returncode == 3
    assert "--backend sim" in done.stderr


def test_a_check_inside_a_program_can_use_xpus(tmp_path):
    text = """
import syncheck
import torch

with syncheck.check(backend="sim", device_type="xpu") as report:
    side = torch.xpu.Stream()
    x = torch.ones(1024, device="xpu")
    with torch.xpu.stream(side):
        y = x * 2
print(report.codes)
"""
    (tmp_path / "program.py").write_text(text)
    done = warm.run("program", folder=tmp_path)
    assert "SYN101" in done.stdout
