"""Cost of comparing the ranks of a job: merges generated records and prints the time and the peak memory.

Run it as `python bench/ranks.py`. Each size is merged in a separate process, with equal ranks and with one odd rank.
"""

import argparse
import json
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from syncheck.findings import Frame, Location, Report, Summary
from syncheck.ranks import merging
from syncheck.ranks.signature import Group, Signature
from syncheck.ranks.writer import Process, Recorder

SIZES = ((16, 20_000), (128, 20_000), (1024, 20_000), (8192, 20_000), (16, 1_000_000))


def generate(folder: Path, ranks: int, length: int, odd: int) -> float:
    """Write the records of a training job whose steps reduce 40 buckets of different shapes and gather twice.

    Ranks that do the same have copies of one record. Return the seconds needed to record one collective.
    """
    world = Group("0", tuple(range(ranks)))
    signatures = [Signature("all_reduce", f"float32 [{1024 * (i + 1)}]", "sum") for i in range(40)]
    signatures += [Signature("all_gather_into_tensor", f"bfloat16 [{i}, 512]") for i in (8, 16)]
    written = [0] if odd < 0 else [0, odd]
    began = time.perf_counter()
    for rank in written:
        recorder = Recorder(folder, Process(rank, ranks))
        for number in range(length):
            signature = signatures[number % len(signatures)]
            if rank == odd and number == length // 2:
                signature = Signature("broadcast", "float32 [7]", "", 0)
            recorder.issue(world, signature, number % len(signatures), location)
        recorder.end(0, Report(summary=Summary("generated", length, 2, 1, 1.0)), ["train.py"], [])
    seconds = (time.perf_counter() - began) / len(written) / length
    for rank in set(range(ranks)) - set(written):
        _copy(folder, rank)
    return seconds


def _copy(folder: Path, rank: int) -> None:
    """Write the record of a rank that does the same as rank 0."""
    for path in list(folder.glob("rank-00000-*")):
        other = folder / path.name.replace("rank-00000-", f"rank-{rank:05}-")
        data = path.read_bytes()
        other.write_bytes(
            data.replace(b'"rank":0,', f'"rank":{rank},'.encode(), 1) if path.suffix == ".jsonl" else data
        )


def location(site: int) -> Location:
    return Location(Frame("train.py", site + 1, 1, site + 1, 20, "step", "dist.all_reduce(bucket)"))


def merge(folder: Path) -> None:
    """Merge the records in this process and print the time and memory used."""
    began = time.perf_counter()
    report = merging.merge([folder]).report
    seconds = time.perf_counter() - began
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    print(json.dumps({"seconds": seconds, "peak": peak, "findings": len(report.findings)}))


def main() -> None:
    print(
        "| ranks x collectives | records | writing per collective | merge, equal | merge, one differs | peak memory |"
    )
    print("| --- | --- | --- | --- | --- | --- |")
    for ranks, length in SIZES:
        cells = []
        for odd in (-1, ranks // 3):
            with tempfile.TemporaryDirectory() as name:
                each = generate(Path(name), ranks, length, odd)
                size = sum(path.stat().st_size for path in Path(name).iterdir()) / 2**20
                command = [sys.executable, __file__, "--merge", name]
                cells.append(json.loads(subprocess.run(command, capture_output=True, text=True, check=True).stdout))
        assert [cell["findings"] for cell in cells] == [0, 1]
        alike, differs = cells
        print(
            f"| {ranks:,} x {length:,} | {size:.0f} MiB | {each * 1e6:.1f} us | {alike['seconds']:.2f} s "
            f"| {differs['seconds']:.2f} s | {max(alike['peak'], differs['peak']):.0f} MiB |",
            flush=True,
        )


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--merge", type=Path)
    chosen = parser.parse_args()
    if chosen.merge:
        merge(chosen.merge)
    else:
        main()
