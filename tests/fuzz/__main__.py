"""Tries mutated inputs until the time is up or one fails: `python -m tests.fuzz --seconds 3600`."""

import argparse
import os
import secrets
import subprocess
import sys
import time
from pathlib import Path

FOLDER = Path(__file__).parent


def main() -> int:
    """Run the tests of this folder repeatedly, printing the seed of each round."""
    parser = argparse.ArgumentParser(prog="make fuzz", description=__doc__)
    parser.add_argument("--seconds", type=float, default=3600.0, help="start no new round after this many seconds")
    parser.add_argument("--examples", type=int, default=500, help="number of inputs of each kind per round")
    parser.add_argument("--seed", type=int, help="run one round with this seed")
    options = parser.parse_args()
    environment = os.environ | {"SYNCHECK_FUZZ_EXAMPLES": str(options.examples)}
    end = time.monotonic() + options.seconds
    while True:
        seed = secrets.randbelow(2**32) if options.seed is None else options.seed
        sys.stdout.write(f"seed {seed}\n")
        sys.stdout.flush()
        command = [sys.executable, "-m", "pytest", "-q", "-x", "--timeout=0", f"--hypothesis-seed={seed}", str(FOLDER)]
        status = subprocess.run(command, env=environment, check=False).returncode
        if status or options.seed is not None:
            return status
        if time.monotonic() > end:
            return 0


if __name__ == "__main__":
    sys.exit(main())
