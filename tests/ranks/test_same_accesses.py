"""In the simulator, every collective reads, writes and waits as NCCL's collectives did on two GPUs."""

import gzip
import json

import pytest

from tests.ranks.conftest import PROGRAMS, RUN
from tests.rules.markers import ROOT

pytestmark = pytest.mark.slow

RECORDED = ROOT / "traces" / "collectives_of_two_ranks.trace.gz"


def table(path):
    """Return, for each collective of a recorded run, its operator, its numbers of reads and writes, and its stream."""
    rows, handles = [], {}
    with gzip.open(path, "rt") as lines:
        for record in map(json.loads, lines):
            if isinstance(record, list) and record[0] == "stream":
                handles[record[1][0]] = record[1][2]
            if isinstance(record, list) and record[0] == "launch" and "c10d" in record[1][1]:
                stream, operator, accesses = record[1][:3]
                writes = sum(is_write for _, _, is_write in accesses)
                whose = "the group's" if handles[stream] else "current"
                rows.append((operator, len(accesses) - writes, writes, whose))
    return rows


def test_the_simulator_and_nccl_agree(run_in_folder, tmp_path):
    done = run_in_folder(*RUN, "--nproc", "2", "--trace", "t.gz", str(PROGRAMS / "collectives.py"))
    assert (done.returncode, "no findings" in done.stderr) == (0, True), done.stderr
    simulated, real = table(tmp_path / "t.rank0.gz"), table(RECORDED)
    assert len({operator for operator, *_ in simulated}) >= 14
    rest = iter(real)
    assert all(row in rest for row in simulated), simulated  # only DistributedDataParallel's setup is missing
    assert len(real) - len(simulated) <= 4
