"""Runs random programs on real GPUs and compares the findings with the simulator's and the values with the reference's.

`python -m tests.agreement.on_gpus --programs 400 --limit 240 --output result.json` runs each program in the simulator,
in a separate process, and then under the sanitizer on this machine's GPUs. `--simulate --output expected.json` only
runs the simulation; pass its result with `--expected expected.json`. With one GPU, programs that use two are skipped.
"""

import argparse
import json
import random
import subprocess
import sys
import tempfile
import time
import traceback
from collections import Counter
from pathlib import Path

import torch

import syncheck
from syncheck.findings import Finding
from syncheck.rules.model import Severity
from tests.agreement.drawing import draw
from tests.agreement.reachability import Reference
from tests.agreement.running import execute
from tests.agreement.steps import Program

ROOT = Path(__file__).parents[2]


def locations(finding: Finding) -> str:
    """Return the rule and the lines of a finding as text that can be compared."""
    related = sorted(location.frame.line for location in finding.related)
    return f"{finding.rule.code}:{finding.location.frame.line} with {related}"


def verdict(program: Program, backend: str) -> tuple[list[str], list[object]]:
    """Run a program under the sanitizer. Return its errors and warnings, and its output."""
    with syncheck.check(backend=backend) as report:
        output = execute(program)
    found = sorted(locations(one) for one in report.findings if one.level is not Severity.ADVICE)
    return found + [f"incomplete: {reason}" for reason in report.incomplete], output


def simulated(n_programs: int) -> dict[str, list[str]]:
    """Return the simulator's findings for each program, by seed."""
    return {str(seed): verdict(draw(random.Random(seed)), "sim")[0] for seed in range(n_programs)}


class Comparison:
    """The results of the programs that were run.

    Attributes:
        counts: how many programs were run, were skipped, and had no findings, and how many findings there were.
        problems: programs whose results disagree.
        stopped: why the run stopped early, or "".
    """

    def __init__(self, backend: str, n_devices: int) -> None:
        self.backend, self.n_devices = backend, n_devices
        self.counts: Counter[str] = Counter()
        self.problems: list[dict[str, object]] = []
        self.stopped = ""

    def run(self, expected: dict[str, list[str]], limit: float) -> None:
        """Run the programs that the simulator ran, for at most `limit` seconds."""
        start = time.monotonic()
        for seed, simulator in expected.items():
            if time.monotonic() - start > limit:
                self.stopped = f"after {limit:g} s, before seed {seed}"
                return
            program = draw(random.Random(int(seed)))
            if program.n_devices > self.n_devices:
                self.counts["left out: they need more devices"] += 1
                continue
            try:
                self.compare(seed, program, simulator)
            except RuntimeError as error:  # the CUDA context may be unusable after an error
                self.problem(seed, program, {"error": traceback.format_exc().splitlines()})
                self.stopped = f"at seed {seed}: {error}"
                return

    def compare(self, seed: str, program: Program, simulator: list[str]) -> None:
        found, output = verdict(program, self.backend)
        self.counts["programs"] += 1
        self.counts["findings"] += len(found)
        self.counts["programs with findings" if found else "programs without a finding"] += 1
        reference = Reference(program)
        if not self.is_same(program, reference, found, simulator):
            self.problem(seed, program, {"simulated": simulator, "real": found})
        if reference.races:
            self.counts["races, other values"] += output != reference.output
            return
        self.counts["values compared"] += 1
        if output != reference.output:
            self.problem(seed, program, {"values": repr(output), "reference": repr(reference.output)})

    def is_same(self, program: Program, reference: Reference, found: list[str], simulator: list[str]) -> bool:
        """Return whether the findings are right. With threads, they depend on the timing of each thread."""
        if not program.has_threads:
            return found == simulator
        self.counts["programs with threads"] += 1
        return bool(found) or not Reference(program, threads_order=True).races if reference.races else not found

    def problem(self, seed: str, program: Program, what: dict[str, object]) -> None:
        self.problems.append({"seed": seed, **what, "source": program.source.splitlines()})

    def result(self) -> dict[str, object]:
        return {
            "machine": machine(), "counts": dict(self.counts), "stopped": self.stopped, "problems": self.problems,
        }  # fmt: skip


def machine() -> str:
    if not torch.cuda.is_available():
        return f"no GPU, torch {torch.__version__}"
    return f"{torch.cuda.device_count()} x {torch.cuda.get_device_name(0)}, torch {torch.__version__}"


def expectations(options: argparse.Namespace) -> dict[str, list[str]]:
    """Return the simulator's findings, read from a file or computed in a separate process that sees no GPU."""
    if options.expected:
        return json.loads(options.expected.read_text())
    with tempfile.TemporaryDirectory() as folder:
        output = Path(folder) / "expected.json"
        command = [sys.executable, "-m", "tests.agreement.on_gpus", "--simulate", "--programs", str(options.programs)]
        subprocess.run([*command, "--output", str(output)], check=True, cwd=ROOT)
        return json.loads(output.read_text())


def main(arguments: list[str] | None = None) -> int:
    """Run the comparison. Return 1 if any result disagrees."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--programs", type=int, default=400, help="number of programs, with seeds from 0")
    parser.add_argument("--limit", type=float, default=240, help="time limit for the GPU runs in seconds")
    parser.add_argument("--output", type=Path, required=True, help="the result, as JSON")
    parser.add_argument("--expected", type=Path, help="the simulator's findings, written by --simulate")
    parser.add_argument("--simulate", action="store_true", help="only run the simulator")
    parser.add_argument(
        "--backend", choices=["cuda", "sim"], default="cuda", help="sim: run without GPUs, to test this script"
    )
    options = parser.parse_args(arguments)
    if options.simulate:
        options.output.write_text(json.dumps(simulated(options.programs), indent=0))
        return 0
    expected = expectations(options)
    n_devices = torch.cuda.device_count() if options.backend == "cuda" else 2
    comparison = Comparison(options.backend, n_devices)
    comparison.run(dict(list(expected.items())[: options.programs]), options.limit)
    options.output.write_text(json.dumps(comparison.result(), indent=1))
    summary = [f"{count} {what}" for what, count in sorted(comparison.counts.items())]
    summary += [
        f"{len(comparison.problems)} problems",
        *([f"stopped {comparison.stopped}"] if comparison.stopped else []),
    ]
    sys.stdout.write("\n".join([machine(), *summary, ""]))
    return bool(comparison.problems) or not comparison.counts["programs"]


if __name__ == "__main__":
    sys.exit(main())
