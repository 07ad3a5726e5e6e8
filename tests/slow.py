"""The tests that `make test` leaves to `make check`: those in `slow.txt`, and those with the mark itself.

`pytest --durations=0 ... | python -m tests.slow` writes `slow.txt` anew: the tests that took at least a second.
"""

import re
import sys
from collections import Counter
from collections.abc import Iterable
from functools import cache
from pathlib import Path

FILE = Path(__file__).with_suffix(".txt")
LIMIT_SECONDS = 1.0
_DURATION = re.compile(r"([\d.]+)s (?:call|setup|teardown)\s+(\S+::.*)")


@cache
def listed() -> frozenset[str]:
    """Return the names of the listed tests, as pytest gives them."""
    return frozenset(FILE.read_text(encoding="utf-8").splitlines())


def names_of(lines: Iterable[str]) -> list[str]:
    """Return the names of the slow tests in pytest's table of durations, in order."""
    durations = Counter[str]()
    for line in lines:
        found = _DURATION.match(line)
        if found:
            durations[found[2].strip()] += float(found[1])
    return sorted(name for name, seconds in durations.items() if seconds >= LIMIT_SECONDS)


if __name__ == "__main__":
    FILE.write_text("".join(f"{name}\n" for name in names_of(sys.stdin)), encoding="utf-8")
