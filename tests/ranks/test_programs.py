"""Programs with several processes on virtual GPUs, started in every common way."""

import json
import socket
import sys

import pytest

from tests.ranks.conftest import PROGRAMS, RUN, SYNCHECK, TORCHRUN

JSON = ["--output-format", "json", "--output", "report.json"]


def findings(tmp_path):
    report = json.loads((tmp_path / "report.json").read_text())
    return report, [(f["rule"], f["line"], f["ranks"]) for f in report["findings"] if f["level"] != "advice"]


@pytest.mark.parametrize(
    "program",
    "frameworks attention coalescing shapes mixed_backends bound remote_calls time_of_first_rank".split(),
)  # collectives.py: see test_same_accesses
def test_programs_of_frameworks_run_without_findings(program, run_in_folder, tmp_path):
    done = run_in_folder(*RUN, "--nproc", "2", *JSON, str(PROGRAMS / f"{program}.py"))
    report, found = findings(tmp_path)
    assert (done.returncode, found) == (0, []), done.stdout + done.stderr
    assert report["incomplete"] == []
    assert report["summary"]["ranks"] == 2
    assert report["summary"]["operators"] > 20


@pytest.mark.parametrize(("arguments", "expected"), [([], []), (["same"], [("SYN601", 15, [0, 1])])])
def test_a_batch_that_sends_what_it_receives_is_reported(arguments, expected, run_in_folder, tmp_path):
    done = run_in_folder(*RUN, "--nproc", "2", *JSON, str(PROGRAMS / "relay.py"), *arguments)
    assert findings(tmp_path)[1] == expected, done.stdout + done.stderr


@pytest.mark.parametrize(("arguments", "expected"), [([], []), (["all"], [("SYN601", 14, [0, 1])])])
def test_a_rank_that_only_sends_may_read_its_tensor(arguments, expected, run_in_folder, tmp_path):
    done = run_in_folder(*RUN, "--nproc", "2", *JSON, str(PROGRAMS / "roots.py"), *arguments)
    assert findings(tmp_path)[1] == expected, done.stdout + done.stderr


def test_a_message_can_be_waited_for_twice(run_in_folder, tmp_path):
    done = run_in_folder(*RUN, "--nproc", "2", "--hang-timeout", "5", *JSON, str(PROGRAMS / "waits_twice.py"))
    report, found = findings(tmp_path)
    assert (done.returncode, found, report["incomplete"]) == (0, [], []), done.stdout + done.stderr


def test_collectives_can_run_in_a_single_rank(run_in_folder):
    alone = {"RANK": "0", "LOCAL_RANK": "0", "WORLD_SIZE": "1", "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": "0"}
    done = run_in_folder(*RUN, str(PROGRAMS / "collectives.py"), **alone)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "no findings" in done.stderr


@pytest.mark.parametrize(
    "command",
    [
        [*TORCHRUN, "2", "-m", "syncheck", "run", "--backend", "sim", *JSON, str(PROGRAMS / "race.py"), "a", "b"],
        [*RUN, *JSON, "--nproc", "2", str(PROGRAMS / "race.py"), "a", "b"],
        [*RUN, *JSON, "-m", "torch.distributed.run", "--nproc-per-node", "2", str(PROGRAMS / "race.py"), "a", "b"],
        [*RUN, *JSON, str(PROGRAMS / "race_spawned.py"), "a", "b"],
    ],
    ids=["torchrun of syncheck", "--nproc", "syncheck of torchrun", "mp.spawn"],
)
def test_a_race_in_both_ranks_is_one_finding_that_names_both(command, run_in_folder, tmp_path):
    done = run_in_folder(*command)
    report, found = findings(tmp_path)
    assert found == [("SYN601", 14 if "spawned" in command[-3] else 12, [0, 1])], done.stdout + done.stderr
    assert done.returncode == 1
    assert report["summary"]["ranks"] == 2
    assert not report["incomplete"]
    assert done.stdout.count("['a', 'b']") == 2  # the program ran, with its arguments
    assert not list(tmp_path.glob(".syncheck/job-*"))


STEPS = str(PROGRAMS / "three_steps.py")
OF_LAUNCHER = ["-m", "torch.distributed.run", "--nproc-per-node"]


@pytest.mark.parametrize(("steps", "expected"), [("1:2", [("SYN101", 19, [0, 1])]), ("2:3", [])])
@pytest.mark.parametrize(
    "program", [["--nproc", "2", STEPS], [*OF_LAUNCHER, "2", STEPS], [STEPS, "spawn"]],
    ids=["--nproc", "syncheck of torchrun", "mp.spawn"],
)  # fmt: skip
def test_all_ranks_check_the_same_steps(program, steps, expected, run_in_folder, tmp_path):
    done = run_in_folder(*RUN, *JSON, "--steps", steps, *program)
    report, found = findings(tmp_path)
    assert found == expected, done.stdout + done.stderr
    assert (report["incomplete"], report["notes"]) == ([], [])


@pytest.mark.parametrize("program", [[*OF_LAUNCHER, "2", STEPS], [STEPS, "spawn"]])
def test_steps_that_no_rank_reaches_are_reported(program, run_in_folder, tmp_path):
    run_in_folder(*RUN, *JSON, "--steps", "5:6", *program)
    report, _ = findings(tmp_path)
    assert "nothing to check: the program ended before the steps of --steps" in report["incomplete"]
    assert report["notes"] == ["--steps begins with step 5, but only 3 steps ran"]


@pytest.mark.parametrize(("number", "names"), [("2", ["rank0", "rank1"]), ("1", ["rank0"])])
def test_each_rank_that_a_launcher_starts_writes_its_own_trace(number, names, run_in_folder, tmp_path):
    run_in_folder(*RUN, *JSON, "--trace", "run.trace", *OF_LAUNCHER, number, STEPS)
    assert {path.name for path in tmp_path.glob("*.trace")} == {"run.trace", *(f"run.{name}.trace" for name in names)}
    for name in names:
        done = run_in_folder(*SYNCHECK, "replay", *JSON, f"run.{name}.trace")
        assert [rule for rule, _, _ in findings(tmp_path)[1]] == ["SYN101"], done.stderr


def test_a_rank_that_another_rank_starts_writes_its_own_trace(run_in_folder, tmp_path):
    run_in_folder(*RUN, *JSON, "--trace", "run.trace", str(PROGRAMS / "starts_the_others.py"))
    assert {path.name for path in tmp_path.glob("*.trace")} == {"run.trace", "run.rank1.trace"}


def test_a_report_says_that_spawned_processes_are_not_recorded(run_in_folder, tmp_path):
    run_in_folder(*RUN, *JSON, "--trace", "run.trace", "--html", "page.html", STEPS, "spawn")
    report, _ = findings(tmp_path)
    assert "--trace, --html: spawned processes are checked, but not recorded" in report["notes"]


def test_a_rank_started_by_another_rank_is_checked(run_in_folder, tmp_path):
    done = run_in_folder(*RUN, *JSON, str(PROGRAMS / "starts_the_others.py"))
    report, found = findings(tmp_path)
    assert found == [("SYN601", 20, [0, 1])], done.stdout + done.stderr
    assert report["summary"]["ranks"] == 2
    assert not report["incomplete"]


def test_ranks_can_be_started_through_environment_variables(start_ranks, tmp_path):
    ends = start_ranks([*RUN, *JSON, str(PROGRAMS / "race.py")], 3)
    assert sorted(status for status, _ in ends) == [0, 0, 1]  # the last one to end reports
    assert findings(tmp_path)[1] == [("SYN601", 12, [0, 1, 2])]


def test_a_finding_in_one_rank_names_only_that_rank(run_in_folder, tmp_path):
    run_in_folder(*RUN, *JSON, "--nproc", "2", str(PROGRAMS / "race.py"), "only", "1")
    assert findings(tmp_path)[1] == [("SYN601", 12, [1])]


def test_an_unchecked_rank_is_reported(start_ranks, tmp_path):
    program = str(PROGRAMS / "gloo.py")

    def command(rank):
        return [sys.executable, program] if rank == 1 else [*RUN, *JSON, program]

    start_ranks(command, 2)
    report, _ = findings(tmp_path)
    assert "rank 1 of 2 left no record: not checked, or ended too early" in report["incomplete"]


def test_ranks_started_by_hand_keep_their_records_in_the_given_folder(start_ranks, run_in_folder, tmp_path):
    start_ranks([*RUN, "--ranks-dir", "records", str(PROGRAMS / "race.py")], 2)
    (job,) = (tmp_path / "records").iterdir()
    assert len(list(job.glob("rank-0000[01]-*.jsonl"))) == 2
    done = run_in_folder(*SYNCHECK, "merge", *JSON, "records")
    assert done.returncode == 1
    assert findings(tmp_path)[1] == [("SYN601", 12, [0, 1])]
    assert run_in_folder(*SYNCHECK, "merge", "--ignore", "SYN601", "records").returncode == 0


@pytest.mark.parametrize(
    ("arguments", "environment", "codes"),
    [([], {}, ["SYN601"]), (["limit"], {}, []), ([], {"TORCH_NCCL_BLOCKING_WAIT": "1"}, [])],
    ids=["plain", "with a limit", "blocking by the environment"],
)
def test_a_wait_that_blocks_the_host_orders_every_stream(arguments, environment, codes, run_in_folder, tmp_path):
    run_in_folder(*RUN, *JSON, str(PROGRAMS / "blocking_wait.py"), *arguments, **environment)
    assert [rule for rule, *_ in findings(tmp_path)[1]] == codes


def test_a_port_in_use_is_reported_as_the_programs_own_error(run_in_folder):
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen(1)
        environment = {
            "RANK": "0",
            "WORLD_SIZE": "2",
            "MASTER_ADDR": "127.0.0.1",
            "MASTER_PORT": str(taken.getsockname()[1]),
        }
        done = run_in_folder(*RUN, str(PROGRAMS / "race.py"), **environment)
    assert done.returncode == 1
    assert "EADDRINUSE" in done.stderr
    assert "nothing to check" in done.stderr


@pytest.mark.parametrize("options", [["--nproc", "2"], []], ids=["--nproc", "mp.spawn"])
def test_ranks_open_the_windows_of_a_budget_together(options, run_in_folder, tmp_path):
    done = run_in_folder(*RUN, *options, "--budget", "30%", *JSON, str(PROGRAMS / "budget.py"))
    report, found = findings(tmp_path)
    assert [(rule, ranks) for rule, _, ranks in found] == [("SYN101", [0, 1])], done.stdout + done.stderr
    assert report["incomplete"] == []
    (note,) = report["notes"]
    assert note.startswith("rank 0: budget 30%: ")
    opened = [line.split(":", 1)[1] for line in done.stdout.splitlines() if line.startswith("opened")]
    assert len(opened) == 2
    assert opened[0] == opened[1]


RACE_OF_RANK_1 = """
import torch
import torch.distributed as dist

dist.init_process_group("nccl")
torch.cuda.set_device(dist.get_rank())
side = torch.cuda.Stream()
x = torch.ones(8, device="cuda")
side.wait_stream(torch.cuda.current_stream())
with torch.cuda.stream(side):
    y = x * 3
if dist.get_rank() == 0:
    torch.cuda.current_stream().wait_stream(side)
print("rank", dist.get_rank(), y.sum().item())
dist.all_reduce(x)
dist.destroy_process_group()
"""


@pytest.mark.slow
def test_the_witness_reruns_all_ranks_of_nproc(run_in_folder, tmp_path):
    (tmp_path / "race_of_rank_1.py").write_text(RACE_OF_RANK_1)
    run_in_folder(*RUN, *JSON, "--nproc", "2", "--witness", "race_of_rank_1.py")
    (finding,) = json.loads((tmp_path / "report.json").read_text())["findings"]
    proof = finding["proof"]
    assert (finding["rule"], proof["outcome"]) == ("SYN101", "shown"), proof
    assert proof["differences"][0]["what"].startswith("in rank 1, what ")


def test_gpus_that_cannot_be_used_are_reported_once(run_in_folder, tmp_path):
    (tmp_path / "program.py").write_text("print('ran')\n")
    done = run_in_folder(*RUN, "--nproc", "2", "--backend", "cuda", "program.py")
    if "ran" in done.stdout:
        pytest.skip("this machine has GPUs")
    assert done.returncode == 3
    assert done.stderr.count("syncheck: error:") == 1
    assert "nothing was checked" not in done.stderr
