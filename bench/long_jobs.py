"""Memory use of long jobs: programs that run for long under a check print their size as they go.

Run it as `python bench/long_jobs.py [--scale 0.1] [--backend cuda]`. The programs run operators with changing shapes on
two streams, operators at distinct call sites, and graphs that are captured and dropped. Sizes are in MiB, after each
fifth.
"""

import argparse
import subprocess
import sys
import tempfile
from pathlib import Path

HEAD = """
import torch
def size():
    return next(int(line.split()[1]) // 1024 for line in open("/proc/self/status") if line.startswith("VmRSS"))
"""
SHAPES = """
side = torch.cuda.Stream()
for number in range({n} // 5):
    x = torch.empty(1 + number % 5003, 1 + number % 7, device="cuda")
    y = x[: 1 + number % 11] * 2
    side.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(side):
        y.add_(1)
    torch.cuda.current_stream().wait_stream(side)
    if not (number + 1) % ({n} // 25):
        print(size(), flush=True)
"""
SITES = """
x = torch.ones(4, device="cuda")
for part in range(5):
    source = "x.add_(1)\\n" * ({n} // 5)
    exec(compile(source, f"generated_{{part}}.py", "exec"))
    print(size(), flush=True)
"""
GRAPHS = """
x = torch.ones(64, device="cuda")
for number in range({n}):
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        y = (x * 2 + 1).sum()
    graph.replay()
    torch.cuda.synchronize()
    del graph, y
    if not (number + 1) % ({n} // 5):
        print(size(), flush=True)
"""
PROGRAMS = {
    "operators of changing shapes": (SHAPES, 1_000_000),
    "distinct call sites": (SITES, 100_000),
    "graphs captured and dropped": (GRAPHS, 5_000),
}


def sizes(program: str, backend: str) -> list[int]:
    """Return the sizes that a program prints while it is checked."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "program.py"
        path.write_text(HEAD + program)
        options = ["--isolated", "--backend", backend, "--exit-zero", "-q"]
        command = [sys.executable, "-m", "syncheck", "run", *options, str(path)]
        done = subprocess.run(command, capture_output=True, text=True, check=True, cwd=folder)
    return [int(word) for word in done.stdout.split() if word.isdecimal()][:5]


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--scale", type=float, default=1.0, help="fraction of the iterations to run")
    parser.add_argument("--backend", choices=("sim", "cuda"), default="sim")
    chosen = parser.parse_args()
    print("| program | iterations | MiB after each fifth |\n| --- | --- | --- |")
    for name, (program, number) in PROGRAMS.items():
        n = int(number * chosen.scale)
        print(f"| {name} | {n:,} | {', '.join(map(str, sizes(program.format(n=n), chosen.backend)))} |", flush=True)


if __name__ == "__main__":
    main()
