"""How many of the planted bugs in small packages a run reports, and whether the suggested lines can be pasted.

Run it as `python bench/library_runs.py [HALVES...]`, for example with `C D`. It runs the packages of
`library_packages` that have a `program` that uses them, and their correct twins, on simulated GPUs. Each
suggested line is inserted where the report says, as a reader would, and the program is run again. Then `syncheck lint
--fix`, with `--unsafe-fixes`, repairs the package as it was, and the program is run again.
"""

import json
import re
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

HERE = Path(__file__).parent
sys.path[:0] = [str(HERE.parent / "tests" / "rules"), str(HERE.parent)]
from library_packages import packages  # noqa: E402
from pasting import pasted  # noqa: E402

_OTHER_FILE = re.compile(r"(before|after) ([\w/]+\.py):(\d+)")


def run(folder: Path) -> list[dict[str, Any]]:
    """Run a package's program; return its errors and warnings."""
    ranks = ["--nproc", "2"] if "init_process_group" in (folder / "program.py").read_text(encoding="utf-8") else []
    command = [sys.executable, "-m", "syncheck", "run", "--backend", "sim", *ranks, "--output-format", "json"]
    done = subprocess.run(
        [*command, "--output", "report.json", "program.py"], cwd=folder, capture_output=True, text=True, check=False
    )
    written = folder / "report.json"
    if not written.exists():
        raise RuntimeError(f"{folder} gave no report: {done.stderr[-400:]}")
    report = json.loads(written.read_text(encoding="utf-8"))
    written.unlink()
    if report["incomplete"]:
        raise RuntimeError(f"{folder}: incomplete: {report['incomplete']}")
    return [finding for finding in report["findings"] if finding["level"] != "advice"]


def unpack(sources: dict[str, str], program: str, folder: Path) -> Path:
    """Write the sources of a package, and the program that uses it, into a folder."""
    into = folder / "package" if "__init__.py" in sources else folder
    for name, text in sources.items():
        path = into / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
    (folder / "program.py").write_text(program, encoding="utf-8")
    return folder


def paste(folder: Path, finding: dict[str, Any]) -> bool:
    """Apply the suggested line of a finding; return whether it is one."""
    advice, path = finding["help"], folder / finding["path"]
    if other := _OTHER_FILE.search(advice):
        path, advice = folder / other[2], advice.replace(other[0], f"{other[1]} line {other[3]}")
    changed = pasted(path.read_text(encoding="utf-8"), advice)
    if changed is not None:
        path.write_text(changed, encoding="utf-8")
    return changed is not None


def is_clean(folder: Path) -> bool:
    """Return whether a package runs to its end without a finding."""
    try:
        return not run(folder)
    except RuntimeError as error:
        print(f"  {error}")
        return False


def fix(folder: Path) -> bool:
    """Let the linter fix a package; return whether it changed anything."""
    before = [path.read_bytes() for path in sorted(folder.rglob("*.py"))]
    command = [sys.executable, "-m", "syncheck", "lint", "--no-cache", "--fix", "--unsafe-fixes", "."]
    subprocess.run(command, cwd=folder, capture_output=True, check=False)
    return before != [path.read_bytes() for path in sorted(folder.rglob("*.py"))]


@dataclass
class Score:
    """The numbers printed at the end."""

    n_bugs: int = 0
    found: int = 0
    clean: int = 0
    fixed: int = 0
    clean_after_fix: int = 0
    n_correct: int = 0
    false: int = 0


def judge(package: dict[str, Any], score: Score) -> None:
    """Run a package and its twin, paste the advice, and print the findings before and after."""
    with TemporaryDirectory() as folder:
        twin = run(unpack(package["ok"], package["program"], Path(folder)))
    score.n_correct, score.false = score.n_correct + 1, score.false + bool(twin)
    with TemporaryDirectory() as folder:
        findings = run(unpack(package["bug"], package["program"], Path(folder)))
        pasted_all = [paste(Path(folder), finding) for finding in findings]
        is_repaired = bool(findings) and all(pasted_all) and is_clean(Path(folder))
    shown = [f"{finding['rule']} {finding['path']}:{finding['line']}" for finding in findings]
    state = "clean" if is_repaired else "not clean"
    print(f"{package['package']}: {', '.join(shown) or 'no finding'}; {state} after pasting", flush=True)
    if package.get("is_correct", False):
        score.n_correct, score.false = score.n_correct + 1, score.false + bool(findings)
        return
    score.n_bugs, score.found = score.n_bugs + 1, score.found + bool(findings)
    score.clean += is_repaired
    with TemporaryDirectory() as folder:
        if fix(unpack(package["bug"], package["program"], Path(folder))):
            score.fixed, score.clean_after_fix = score.fixed + 1, score.clean_after_fix + is_clean(Path(folder))


def main() -> None:
    """Print the findings of each package, and the sums."""
    score = Score()
    for package in packages(sys.argv[1:]):
        if "program" in package:
            judge(package, score)
    print(f"{score.found} of {score.n_bugs} bugs reported, {score.clean} of them clean after pasting")
    print(f"{score.fixed} changed by `lint --fix --unsafe-fixes`, {score.clean_after_fix} of them clean in a run")
    print(f"{score.false} false alarms on {score.n_correct} correct programs")


if __name__ == "__main__":
    main()
