"""`--witness` on two ranks reproduces a race around a collective, and its schedule can be replayed."""

import json
import os
from dataclasses import replace

import pytest

from syncheck.witness.schedule import Schedule
from tests.ranks.conftest import PROGRAMS, RUN

BEGIN = """
import torch
import torch.distributed as dist

dist.init_process_group("nccl")
rank = dist.get_rank()
torch.cuda.set_device(rank)
x = torch.full((4,), rank + 1.0, device="cuda")
"""
END = """
torch.cuda.synchronize()
print(f"rank {rank}: {x.tolist()}\\n", end="", flush=True)
dist.destroy_process_group()
"""
READ = """
work = dist.all_reduce(x, async_op=True)
x = x + 0
work.wait()
"""
OVERWRITTEN = """
work = dist.all_reduce(x, async_op=True)
x.fill_(50)
work.wait()
"""
SENT = """
if rank == 0:
    work = dist.isend(x, 1)
    x.fill_(50)
else:
    work = dist.irecv(x, 0)
work.wait()
"""
RECEIVED = """
if rank == 0:
    work = dist.isend(x, 1)
else:
    work = dist.irecv(x, 0)
    x = x + 0
work.wait()
"""
SCATTERED = """
shared = torch.full((8,), rank + 1.0, device="cuda")
side = torch.cuda.Stream()
torch.cuda.synchronize()
dist.reduce_scatter_tensor(x, shared)
with torch.cuda.stream(side):
    x = x * 2
"""
BROADCAST = """
side = torch.cuda.Stream()
side.wait_stream(torch.cuda.current_stream())
with torch.cuda.stream(side):
    dist.broadcast(x, 0)
x = x * 2
"""
HOOK = """
model = torch.nn.parallel.DistributedDataParallel(torch.nn.Linear(4, 1, bias=False).cuda())

def average(state, bucket):
    buffer = bucket.buffer()
    work = dist.all_reduce(buffer, async_op=True)
    buffer.div_(2)
    return work.get_future().then(lambda future: future.value()[0])

model.register_comm_hook(None, average)
model(x).sum().backward()
x = model.module.weight.grad
"""
TWO_GROUPS = """
y = torch.full((4,), rank + 1.0, device="cuda")
other = dist.new_group([0, 1])
work = dist.all_reduce(x, async_op=True)
later = dist.all_reduce(y, group=other, async_op=True)
later.wait()
x = x + y
work.wait()
"""


@pytest.fixture
def run(run_in_folder, tmp_path):
    """Return a function that runs a program on two ranks and returns the report and the sorted output lines."""

    def check(source, *options):
        (tmp_path / "train.py").write_text(source)
        own = ("--isolated", "--nproc", "2", "--devices", "2", "--output-format", "json", "--output", "report.json")
        done = run_in_folder(*RUN, *own, *options, "train.py", timeout=280)
        assert "Traceback" not in done.stderr, done.stderr[-3000:]
        return json.loads((tmp_path / "report.json").read_text()), sorted(done.stdout.splitlines())

    return check


@pytest.mark.parametrize(
    ("body", "access", "usual", "other"),
    [
        (READ, "in rank 0, what train.py:11 reads", "[3, 3, 3, ...]", "[1, 1, 1, ...]"),
        pytest.param(
            OVERWRITTEN,
            "in rank 0, what train.py:10 reads",
            "[1, 1, 1, ...]",
            "[50, 50, 50, ...]",
            marks=pytest.mark.slow,
        ),
        pytest.param(
            SENT, "in rank 0, what train.py:11 reads", "[1, 1, 1, ...]", "[50, 50, 50, ...]", marks=pytest.mark.slow
        ),
        pytest.param(
            RECEIVED, "in rank 1, what train.py:14 reads", "[1, 1, 1, ...]", "[2, 2, 2, ...]", marks=pytest.mark.slow
        ),
        pytest.param(
            SCATTERED, "in rank 0, what train.py:15 reads", "[3, 3, 3, ...]", "[1, 1, 1, ...]", marks=pytest.mark.slow
        ),
        pytest.param(
            BROADCAST, "in rank 1, what train.py:14 reads", "[1, 1, 1, ...]", "[2, 2, 2, ...]", marks=pytest.mark.slow
        ),
        pytest.param(
            HOOK, "in rank 0, what train.py:15 reads", "[3, 3, 3, ...]", "[1, 1, 1, ...]", marks=pytest.mark.slow
        ),
        pytest.param(
            TWO_GROUPS, "in rank 0, what train.py:15 reads", "[3, 3, 3, ...]", "[1, 1, 1, ...]", marks=pytest.mark.slow
        ),
    ],
    ids=["read", "overwritten", "sent", "received", "scattered", "broadcast", "hook", "two groups"],
)
def test_a_race_around_a_collective_is_reproduced_and_replayed(run, body, access, usual, other):
    source = BEGIN + body + END
    report, _ = run(source, "--witness")
    (proof,) = [finding["proof"] for finding in report["findings"] if "proof" in finding]
    assert proof["outcome"] == "shown"
    assert {"what": access, "usual": usual, "other": other} in proof["differences"]
    without_holds = str(replace(Schedule.parse(proof["tried"]), holds=()))
    printed, replayed = (run(source, "--schedule", each)[1] for each in (without_holds, proof["tried"]))
    assert replayed != printed
    if body is READ:
        assert run(source, "--schedule", proof["tried"])[1] == replayed


@pytest.fixture
def explored(run_in_folder, tmp_path):
    """Return a function that runs a program under three random schedules and returns its findings and notes."""

    def explore(n_ranks, program, *arguments, seed=0):
        own = ("--isolated", "--nproc", str(n_ranks), "--devices", str(n_ranks), "--output-format", "json")
        schedules = ("--output", "report.json", "--schedules", "3", "--seed", str(seed))
        run_in_folder(*RUN, *own, *schedules, str(PROGRAMS / f"{program}.py"), *arguments, timeout=280)
        report = json.loads((tmp_path / "report.json").read_text())
        return report["findings"], report["notes"]

    return explore


N_RANDOM = 3 if "SYNCHECK_AGREE" in os.environ else 1
SAME = ([], ["3 random schedules: all results match the program's order"])


@pytest.mark.slow
@pytest.mark.parametrize("program", ["collectives", "coalescing", "frameworks", "attention"])
def test_a_correct_job_gives_the_same_results_under_every_schedule(explored, program):
    assert explored(2, program) == SAME


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(N_RANDOM))
def test_random_exchanges_on_groups_and_streams_give_the_same_under_every_schedule(explored, seed):
    assert explored(3, "random_exchanges", str(seed), seed=10 * seed) == SAME
