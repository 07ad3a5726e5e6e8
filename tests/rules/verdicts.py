"""Runs all fixtures on a backend and writes the findings, or makes a table that compares two such runs.

`python tests/rules/verdicts.py run cuda real.json`, `... run sim simulated.json`, then
`python tests/rules/verdicts.py table simulated.json real.json docs/verdicts.md`.
"""

import json
import os
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from threading import local

import markers
import simulated

HEAD = """# The same verdict on simulated and on real GPUs

Every program under `fixtures/` was run in the simulator and on real GPUs ({machine}). A finding is a rule and the
line that it names; `-` is none. Made by `tests/rules/verdicts.py`; `pytest -m gpu tests/rules` repeats it.

{summary}

| program | simulated | real | as marked |
| --- | --- | --- | --- |
"""
_runners = local()


def run(backend: str, output: Path) -> None:
    def one(path: Path) -> tuple[str, dict[str, object]]:
        if not hasattr(_runners, "runner"):
            _runners.runner = simulated.Runner(backend)
        expected = markers.read(path)
        outcome = _runners.runner.outcome(path)
        found = [f"{code}:{line}" for code, line in sorted(outcome.found.elements(), key=lambda f: f[::-1])]
        problems = simulated.problems(expected, outcome)
        return path.relative_to(markers.ROOT).as_posix(), {"found": found, "problems": problems}

    jobs = min(24, os.cpu_count() or 1)
    with ThreadPoolExecutor(jobs) as pool:
        results = dict(pool.map(one, markers.fixtures()))
    wrong = {name: result["problems"] for name, result in results.items() if result["problems"]}
    print(f"{len(results)} programs, {len(wrong)} not as marked")
    for name, problems in wrong.items():
        print(name, problems)
    output.write_text(json.dumps({"machine": machine(), "results": results}, indent=1))
    os._exit(0)  # skip the shutdown of the workers


def machine() -> str:
    import torch

    if not torch.cuda.is_available():
        return f"torch {torch.__version__}"
    count = torch.cuda.device_count()
    return f"{count} x {torch.cuda.get_device_name(0)}, torch {torch.__version__}, Python {sys.version.split()[0]}"


def table(first: Path, second: Path, output: Path) -> None:
    simulated_run, real_run = json.loads(first.read_text()), json.loads(second.read_text())
    rows, equal = [], 0
    for name, ours in simulated_run["results"].items():
        theirs = real_run["results"][name]
        equal += ours["found"] == theirs["found"]
        marked = "yes" if not (ours["problems"] or theirs["problems"]) else "no"
        shown = [", ".join(result["found"]) or "-" for result in (ours, theirs)]
        rows.append(f"| `{name}` | {shown[0]} | {shown[1]} | {marked} |")
    summary = f"{equal} of {len(rows)} programs have the same findings on both."
    output.write_text(HEAD.format(machine=real_run["machine"], summary=summary) + "\n".join(rows) + "\n")
    print(summary)


if __name__ == "__main__":
    if sys.argv[1] == "run":
        run(sys.argv[2], Path(sys.argv[3]))
    else:
        table(*map(Path, sys.argv[2:5]))
