"""Expected findings of a program, read from its comments.

`# expect: SYN101, SYN102` at the end of a line: the sanitizer and the linter report these rules with this line as
the primary location. `# expect-run:` and `# expect-lint:` apply to one of the two; `# miss-lint:` is a finding that the
linter is known to miss. Two findings need two codes. `# devices: 2` on its own line, before the first import, is the
number of GPUs that the program needs, and `# ranks: 2` the number of processes that run it; the default is 1. A
comment may contain several markers, and words before them:
`# the join is missing  # expect-run: SYN101  # miss-lint: SYN101`.
"""

import io
import re
import tokenize
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from syncheck.rules.catalogue import all_rules

MAX_DEVICES = 8

_HALVES = {"expect": ("run", "lint"), "expect-run": ("run",), "expect-lint": ("lint",), "miss-lint": ("miss-lint",)}
_SUPPRESSION = "syncheck:"
_MEANT_AS_MARKER = re.compile(r"(?i)(?:expect|miss)[\w-]*\s*[:=]|(?:devices|ranks)\s*[:=]|.*\bSYN\d")
_MARKER = re.compile(r"(?P<kind>[a-z-]+):\s*(?P<codes>[A-Z][A-Z_]*\d+(?:\s*,\s*[A-Z][A-Z_]*\d+)*)")
_SIZE = re.compile(r"(?P<what>devices|ranks):\s*(?P<number>\d+)")
_LAYOUT = {tokenize.COMMENT, tokenize.NL, tokenize.NEWLINE, tokenize.ENCODING, tokenize.INDENT}


class MarkerError(ValueError):
    """A marker is invalid; the message starts with file and line."""


@dataclass(frozen=True, slots=True)
class Expected:
    """Expected findings of a fixture.

    Attributes:
        run: (code, line) -> number of findings of the sanitizer.
        lint: the same for the linter.
        missed: the same for findings that the linter is known to miss.
        devices: number of GPUs that the program needs.
        ranks: number of processes that run it.
    """

    run: Counter[tuple[str, int]]
    lint: Counter[tuple[str, int]]
    missed: Counter[tuple[str, int]]
    devices: int = 1
    ranks: int = 1

    @property
    def codes(self) -> frozenset[str]:
        """The codes named by any marker."""
        return frozenset(code for code, _ in (*self.run, *self.lint, *self.missed))


def read(path: Path) -> Expected:
    """Read a fixture's markers.

    Raises:
        MarkerError: a marker is malformed, misplaced, or names an unknown rule.
    """
    return parse(path.read_text(encoding="utf-8"), str(path))


def parse(source: str, name: str = "<source>") -> Expected:
    """Read the markers in a source text; `name` is used in error messages.

    Raises:
        MarkerError: see `read`.
    """
    found: dict[str, Counter[tuple[str, int]]] = {"run": Counter(), "lint": Counter(), "miss-lint": Counter()}
    sizes: dict[str, int] = {}
    for line, part, has_code_before, has_code_above in _parts(source):
        where = f"{name}:{line}"
        if match := _SIZE.fullmatch(part):
            if has_code_above or match["what"] in sizes:
                raise MarkerError(f"{where}: one `# {match['what']}:`, alone on its line, before the first statement")
            sizes[match["what"]] = _count(match, where)
        elif match := _MARKER.fullmatch(part):
            if not has_code_before:
                raise MarkerError(f"{where}: {part!r} stands on a line without code")
            for half in _halves(match, where):
                found[half].update((code, line) for code in _codes(match, where))
        elif _MEANT_AS_MARKER.match(part) and not part.startswith(_SUPPRESSION):
            raise MarkerError(f"{where}: malformed marker {part!r}")
    return Expected(found["run"], found["lint"], found["miss-lint"], **sizes)


def _parts(source: str) -> Iterator[tuple[int, str, bool, bool]]:
    """Yield (line, part of a comment between two "#", whether code precedes it on its line, whether code precedes it).

    The module docstring does not count as code.
    """
    last_code_line = 0
    is_first = True
    for token in tokenize.generate_tokens(io.StringIO(source).readline):
        line = token.start[0]
        if token.type == tokenize.COMMENT:
            for part in token.string.lstrip("#").split("#"):
                yield line, part.strip(), last_code_line == line, last_code_line > 0
        elif token.type not in _LAYOUT:
            if not (is_first and token.type == tokenize.STRING):
                last_code_line = token.end[0]
            is_first = False


def _count(match: re.Match[str], where: str) -> int:
    number = int(match["number"])
    if not 1 <= number <= MAX_DEVICES:
        raise MarkerError(f"{where}: {number} {match['what']}; between 1 and {MAX_DEVICES} are expected")
    return number


def _halves(match: re.Match[str], where: str) -> tuple[str, ...]:
    kind = match["kind"]
    if kind not in _HALVES:
        raise MarkerError(f"{where}: unknown marker {kind!r}; there are {', '.join(_HALVES)}")
    return _HALVES[kind]


def _codes(match: re.Match[str], where: str) -> list[str]:
    codes = re.findall(r"[A-Z][A-Z_]*\d+", match["codes"])
    for code in codes:
        if all(code != rule.code for rule in all_rules()):
            raise MarkerError(f"{where}: no rule has the code {code}")
    return codes
