"""Findings as data and back."""

import json
from dataclasses import replace

from syncheck.serialization import of_finding, to_finding
from tests.unit.report_samples import unordered_read


def test_a_finding_keeps_its_assumptions():
    finding = replace(unordered_read(), source="lint", assumptions=("what line 9 copies lies on a GPU",))
    assert to_finding(json.loads(json.dumps(of_finding(finding)))) == finding


def test_a_finding_of_an_earlier_version_has_no_assumptions():
    data = of_finding(unordered_read())
    del data["assumptions"]
    assert to_finding(data).assumptions == ()
