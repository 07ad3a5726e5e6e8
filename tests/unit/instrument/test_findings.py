"""Findings whose tensors have not been named yet."""

from syncheck.instrument.findings import NewFindings


def test_findings_are_new_until_they_are_taken():
    findings, first, second = NewFindings(), object(), object()
    findings.add(first)
    findings.add(second)
    assert findings.take() == [first, second]
    assert not findings.new
    findings.add(first)
    assert findings.take() == [first]
