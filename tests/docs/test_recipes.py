"""The recipes of docs/ci.md that need a cluster have valid scripts, and the command line accepts their commands."""

import re
import shlex
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest
import yaml

from tests.commands import unknown_argument
from tests.docs.blocks import ROOT, blocks_of

PAGE = ROOT / "docs/ci.md"


def block(language, word):
    (found,) = [block.text for block in blocks_of(PAGE) if block.language == language and word in block.text]
    return found


def syncheck_in(command):
    """Return the part of a command that starts at `syncheck`."""
    words = shlex.split(command)
    return shlex.join(words[words.index("syncheck") :])


def test_the_slurm_script_is_valid():
    script = block("sh", "#SBATCH")
    subprocess.run(["bash", "-n"], input=script, text=True, check=True)
    (command,) = [line for line in script.replace("\\\n", " ").splitlines() if line.startswith("srun ")]
    assert unknown_argument(syncheck_in(command)) is None
    asked = dict(re.findall(r"--([a-z-]+)=(\d+)", next(line for line in script.splitlines() if "#SBATCH" in line)))
    assert f"--nproc-per-node={asked['gpus-per-node']}" in command
    assert asked["ntasks-per-node"] == "1"  # torchrun starts the ranks on each node


def test_the_kubernetes_job_is_valid():
    job = yaml.safe_load(block("yaml", "kind: Job"))
    pod = job["spec"]["template"]["spec"]
    (container,) = pod["containers"]
    words = [*container["command"], *container["args"]]
    assert unknown_argument(shlex.join(words)) is None
    assert words[words.index("--nproc") + 1] == str(container["resources"]["limits"]["nvidia.com/gpu"])
    assert {mount["name"] for mount in container["volumeMounts"]} == {volume["name"] for volume in pod["volumes"]}
    output = Path(words[words.index("--output") + 1])
    assert str(output.parent) in {mount["mountPath"] for mount in container["volumeMounts"]}
    assert (job["spec"]["backoffLimit"], pod["restartPolicy"]) == (0, "Never")


def test_the_gitlab_job_writes_the_report_that_gitlab_reads():
    job = yaml.safe_load(block("yaml", "codequality"))["syncheck"]
    (command,) = [line for line in job["script"] if line.startswith("syncheck ")]
    assert unknown_argument(command) is None
    assert job["artifacts"]["reports"]["codequality"] in command
    assert job["artifacts"]["when"] == "always"  # even if findings fail the job


class Trainer:
    """Stands in for Ray's trainer and runs the workers' function in this process."""

    def __init__(self, function, scaling_config):
        self.fit = function


@pytest.fixture
def stand_ins(monkeypatch):
    """Stand-ins for the modules of Ray and of the program."""

    def work():
        import torch

        side, x = torch.cuda.Stream(), torch.ones(4, device="cuda")
        with torch.cuda.stream(side):
            x.mul_(2)

    modules = {
        "ray": {}, "ray.train": {"ScalingConfig": SimpleNamespace}, "ray.train.torch": {"TorchTrainer": Trainer},
        "training": {"train_one_epoch": work},
    }  # fmt: skip
    for name, contents in modules.items():
        monkeypatch.setitem(sys.modules, name, SimpleNamespace(**contents))


def test_a_ray_worker_fails_with_its_findings(stand_ins, monkeypatch):
    monkeypatch.setenv("SYNCHECK_BACKEND", "sim")
    (source,) = [block.text for block in blocks_of(PAGE) if block.title == "train_ray.py"]
    with pytest.raises(RuntimeError, match=r"wrong GPU synchronization\n.*SYN103"):
        exec(compile(source, "train_ray.py", "exec"), {})
