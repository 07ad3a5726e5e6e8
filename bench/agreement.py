"""Counts how many random programs have races, and how many of the races a schedule demonstrates.

Run it as `python bench/agreement.py --programs 2000`. The programs are those of `make agree` with the same seeds.
"""

import argparse
import random
import sys
import warnings
from collections import Counter
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path

ROOT = Path(__file__).parents[1]
sys.path[:0] = [str(ROOT)]

from tests.agreement import steps as p  # noqa: E402
from tests.agreement.checking import check  # noqa: E402
from tests.agreement.drawing import draw  # noqa: E402

KINDS = {"graphs": p.Capture, "threads": p.Thread, "collectives": p.Collective}


def count(seed: int) -> Counter[str]:
    """Check one program and return its contribution to the table."""
    warnings.simplefilter("ignore", FutureWarning)
    program = draw(random.Random(seed))
    counts = Counter({"programs": 1, f"programs with {program.n_devices} device(s)": 1})
    counts.update(f"programs with {name}" for name, kind in KINDS.items() if _has(program, kind))
    try:
        outcomes = check(program)
    except AssertionError as error:
        print(f"seed {seed} disagrees: {error}")
        return counts + Counter({"programs that disagree": 1})
    counts["programs with findings" if outcomes else "programs without findings"] += 1
    counts["findings"] += outcomes.total()
    return counts + Counter({f"findings: {outcome}": number for outcome, number in outcomes.items()})


def _has(program: p.Program, kind: type) -> bool:
    return any(isinstance(step, kind) for step in program.steps)


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--programs", type=int, default=2000)
    parser.add_argument("--jobs", type=int, default=2)
    options = parser.parse_args()
    with ProcessPoolExecutor(options.jobs) as pool:
        total = sum(pool.map(count, range(options.programs), chunksize=10), Counter())
    for what, number in sorted(total.items()):
        print(f"| {what} | {number:,} |")


if __name__ == "__main__":
    main()
