"""Cost of the pytest plugin in a session that does not use it: alternates sessions with and without it."""

import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

TURNS = 30
N_TESTS = 200
GOAL = 0.005
"""Maximum number of seconds that the unused plugin may add."""


def seconds(folder, *options):
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", *options]
    began = time.perf_counter()
    subprocess.run(command, cwd=folder, check=True, capture_output=True)
    return time.perf_counter() - began


def main():
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        (folder / "pytest.ini").write_text("[pytest]\nasyncio_default_fixture_loop_scope = function\n")
        (folder / "test_it.py").write_text("".join(f"def test_{n}():\n    pass\n\n" for n in range(N_TESTS)))
        seconds(folder)
        pairs = [(seconds(folder, "-p", "no:syncheck"), seconds(folder)) for _ in range(TURNS)]
    without, added = statistics.median(w for w, _ in pairs), statistics.median(b - a for a, b in pairs)
    print(f"{N_TESTS} empty tests, {TURNS} alternating sessions each; medians")
    print(f"with the unused plugin: {1 + added / without:.4f}x of the session without it")
    print(f"added less than {GOAL * 1000:.0f} ms: {'yes' if added < GOAL else 'no'}")


if __name__ == "__main__":
    main()
