"""Time and memory of linting, compared with other linters: ruff, TorchFix, Fixit, syncheck cold and warm.

Run it as `python bench/lint.py [FOLDER...]`. By default it lints the installed torch package, and for the slow linters
torch.distributed. Linters that are not installed are skipped: `pip install ruff torchfix fixit`.
"""

import importlib.util
import os
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path

SYNCHECK = str(Path(sys.executable).with_name("syncheck"))  # not -m: the folder may contain a types.py
LINTERS = {
    "ruff": ["ruff", "check", "--isolated", "--no-cache", "--quiet", "--exit-zero", "."],
    "syncheck, cold": [SYNCHECK, "lint", "--no-cache", "--statistics", "."],
    "syncheck, warm": [SYNCHECK, "lint", "--statistics", "."],
    "TorchFix": ["torchfix", "--select", "ALL", "."],
    "Fixit": ["fixit", "--quiet", "lint", "."],
}
SLOW = {"TorchFix", "Fixit"}


def measure(command: list[str], folder: Path) -> tuple[float, float]:
    """Return the time in seconds and the peak memory in MiB of a command run in a folder."""
    began = time.perf_counter()
    process = subprocess.Popen(command, cwd=folder, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    _, _, usage = os.wait4(process.pid, 0)
    return time.perf_counter() - began, usage.ru_maxrss / 1024


def bench(folder: Path, *, with_slow: bool) -> None:
    """Print the table for one folder, copied to a temporary one so that no settings apply."""
    with tempfile.TemporaryDirectory() as temporary:
        copy = Path(temporary) / folder.name
        shutil.copytree(folder, copy, ignore=shutil.ignore_patterns("*.so*", "*.a", "include", "bin", "__pycache__"))
        files = [path for path in copy.rglob("*.py") if path.is_file()]
        lines = sum(path.read_bytes().count(b"\n") for path in files)
        print(f"\n{folder.name}: {len(files):,} files, {lines:,} lines")
        print(
            "| linter | time relative to ruff | lines per second relative to ruff | peak MiB |\n"
            "| --- | --- | --- | --- |"
        )
        base = 0.0
        for name, command in LINTERS.items():
            if shutil.which(command[0]) is None or (name in SLOW and not with_slow):
                continue
            runs = [measure(command, copy) for _ in range(1 if name in SLOW else 4)]
            seconds, size = min(runs[1:] or runs)  # the first run warms the disk cache and syncheck's cache
            base = base or seconds
            print(f"| {name} | {seconds / base:.1f} | {base / seconds:.3f} | {size:.0f} |", flush=True)


def main() -> None:
    """Print the tables."""
    if len(sys.argv) > 1:
        for folder in sys.argv[1:]:
            bench(Path(folder), with_slow=True)
        return
    torch = importlib.util.find_spec("torch")
    assert torch is not None
    assert torch.origin is not None
    package = Path(torch.origin).parent
    bench(package, with_slow=False)
    bench(package / "distributed", with_slow=True)


if __name__ == "__main__":
    main()
