from syncheck.findings import Finding, Frame, Location, Report, Summary
from syncheck.report import concise
from syncheck.witness.proofs import Difference, Proof, ProofOutcome
from tests.unit.report_samples import READ, check_golden, rich_report


def test_concise_report_matches_the_golden_file():
    check_golden("report.concise.txt", concise.render(rich_report()))


def test_concise_report_has_one_line_per_finding():
    frame = Frame("a.py", 3, 5)
    finding = Finding(READ, Location(frame), "two\nlines")
    unknown = Finding(READ, Location(Frame("b.py", 0)), "message")
    assert concise.render(Report((finding, unknown), hidden=1)) == (
        "a.py:3:5: SYN101 [error] two lines\n"
        "b.py:1:1: SYN101 [error] message\n"
        "incomplete: 1 more finding is hidden: raise --max-findings\n"
    )


def test_concise_report_includes_the_outcome_of_a_proof():
    proof = Proof(
        ProofOutcome.SHOWN, "schedule", differences=(Difference("line 1", "2", "3"),), command="syncheck run x"
    )
    finding = Finding(READ, Location(Frame("a.py", 3, 5)), "message", proof=proof)
    assert concise.render(Report((finding,))) == (
        "a.py:3:5: SYN101 [error] message. Proof: shown by running the two accesses in the other order: "
        "line 1: 3, not 2; reproduce with: syncheck run x\n"
    )


def test_concise_report_of_a_clean_run_is_empty():
    assert concise.render(Report(summary=Summary("1 NVIDIA H200", operators=10, streams=2, devices=1))) == ""


def test_every_reason_for_incompleteness_has_its_own_line():
    assert concise.render(Report(incomplete=("a\nb", "c"))) == "incomplete: a b\nincomplete: c\n"
