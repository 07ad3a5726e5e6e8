"""Reproduces the races of the bad fixtures and prints for each rule a program and the effect of the other order.

Run it as `python bench/witness.py`. For each rule with races, it takes the first program whose race is reproduced, or
gives the reason why none is. The table is the one in `docs/proof.md`.
"""

import sys
from dataclasses import replace
from pathlib import Path

ROOT = Path(__file__).parents[1]
sys.path[:0] = [str(ROOT), str(ROOT / "tests" / "rules")]

import markers  # noqa: E402  of the tests of fixtures

from bench.forked import reruns_of  # noqa: E402
from syncheck.commands.witness import prove  # noqa: E402
from syncheck.findings import Finding, Report  # noqa: E402
from syncheck.rules.catalogue import CATALOGUE  # noqa: E402
from syncheck.rules.model import Severity  # noqa: E402
from syncheck.witness.proofs import Proof, ProofOutcome  # noqa: E402


def proofs_of(path: Path) -> list[tuple[Finding, Proof]]:
    """Return the races of a program with the results of the attempts to reproduce them."""
    reruns = reruns_of(path, markers.read(path).devices)
    reruns.options = replace(reruns.options, witness=True)
    reruns.run(None)
    report = prove(Report(findings=reruns.findings), reruns)
    return [(finding, finding.proof) for finding in report.findings if finding.proof is not None]


def main() -> None:
    """Print the table."""
    best: dict[str, tuple[Path, Proof]] = {}
    for path in markers.fixtures():
        expected = markers.read(path)
        wanted = {code for code, _ in expected.run} - {code for code, (_, p) in best.items() if _is_shown(p)}
        if expected.ranks > 1 or not wanted:
            continue
        for finding, proof in proofs_of(path):
            code = finding.rule.code
            if code not in best or (_is_shown(proof) and not _is_shown(best[code][1])):
                best[code] = path, proof
    print("| rule | program | outcome | what changes |\n| --- | --- | --- | --- |")
    for rule in CATALOGUE:
        if rule.code in best:
            path, proof = best[rule.code]
            print(f"| {rule.code} | `{path.relative_to(markers.ROOT)}` | {proof.outcome.value} | {_change(proof)} |")
    without = [r.code for r in CATALOGUE if r.code not in best and r.severity is Severity.ERROR]
    print(f"\nErrors that are not about the order of two accesses: {', '.join(without)}.")


def _is_shown(proof: Proof) -> bool:
    return proof.outcome is ProofOutcome.SHOWN


def _change(proof: Proof) -> str:
    if not proof.differences:
        return proof.reason or "nothing"
    first = proof.differences[0]
    return f"{first.what}: {first.other}, not {first.usual}".replace("|", "\\|")


if __name__ == "__main__":
    main()
