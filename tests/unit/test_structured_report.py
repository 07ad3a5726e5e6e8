import json
from pathlib import Path

import jsonschema
import pytest

import syncheck
from syncheck.findings import Finding, Frame, Location, Report
from syncheck.report.structured import render_json
from syncheck.rules.model import Severity
from tests.unit.report_samples import check_golden, rich_report, unordered_read


def load(report):
    return json.loads(render_json(report, version="1.2.3"))


def test_json_report_matches_the_golden_file():
    check_golden("report.json", render_json(rich_report(), version="1.2.3"))


def test_empty_report_has_every_key():
    assert load(Report()) == {
        "version": 1,
        "tool": {"name": "syncheck", "version": "1.2.3"},
        "incomplete": [],
        "notes": [],
        "summary": {
            "backend": "",
            "operators": 0,
            "streams": 0,
            "devices": 0,
            "seconds": 0.0,
            "files": 0,
            "ranks": 0,
        },
        "hidden": 0,
        "known": 0,
        "fixes": {"fixed": 0, "fixable": 0, "fixable_unsafe": 0},
        "findings": [],
    }


def test_finding_has_the_keys_of_the_schema():
    finding = unordered_read()
    (entry,) = load(Report((finding,)))["findings"]
    stack = entry.pop("stack")
    (related,) = entry.pop("related")
    assert entry == {
        "rule": "SYN101",
        "name": "unordered-read",
        "level": "error",
        "half": "run",
        "path": "train.py",
        "line": 9,
        "column": 13,
        "end_line": 9,
        "end_column": 18,
        "function": "forward",
        "assumptions": [],
        "message": finding.message,
        "help": finding.help,
        "fix": {
            "applicability": "safe",
            "edits": [
                {
                    "kind": "insert-before",
                    "path": "train.py",
                    "line": 8,
                    "column": 0,
                    "code": "copy.wait_stream(torch.cuda.current_stream())",
                    "old": "",
                }
            ],
        },
        "count": 3,
        "rank": 0,
        "ranks": [],
        "fingerprint": finding.fingerprint,
        "package": "",
    }
    assert stack[0] == {"path": "torch/_tensor.py", "line": 52, "function": "_wrapped"}
    assert [frame["line"] for frame in stack] == [52, 9, 14, 18]
    assert [frame["line"] for frame in related.pop("stack")] == [7, 14, 18]
    assert related == {
        "path": "train.py",
        "line": 7,
        "column": 9,
        "end_line": 7,
        "end_column": 22,
        "function": "forward",
        "message": "the default stream of cuda:0 wrote it here",
    }


def test_unknown_stack_is_omitted():
    finding = Finding(unordered_read().rule, Location(Frame("a.py", 1)), "message", level=Severity.WARNING)
    (entry,) = load(Report((finding,)))["findings"]
    assert "stack" not in entry
    assert entry["related"] == []
    assert entry["level"] == "warning"


def test_findings_and_related_places_keep_their_order():
    report = rich_report()
    document = load(report)
    assert [entry["rule"] for entry in document["findings"]] == [f.rule.code for f in report.findings]
    assert [[location["line"] for location in entry["related"]] for entry in document["findings"]] == [
        [location.frame.line for location in finding.related] for finding in report.findings
    ]
    assert document["hidden"] == 3
    assert document["notes"] == ["torch.compile ran eagerly"]
    assert document["incomplete"] == list(report.incomplete)


def test_unencodable_text_survives():
    message = "'\udcff' and 漢字 and 😀"
    finding = Finding(unordered_read().rule, Location(Frame("a.py", 1)), message)
    shown = render_json(Report((finding,)), version="1")
    assert json.loads(shown.encode("utf-8"))["findings"][0]["message"] == message


def test_report_is_deterministic_and_ends_with_a_newline():
    shown = render_json(rich_report(), version="1")
    assert shown == render_json(rich_report(), version="1")
    assert shown.endswith("\n}\n")
    assert shown.startswith('{\n  "version": 1,\n')


def test_every_report_is_valid_against_the_published_schema():
    schema = json.loads((Path(syncheck.__file__).parent / "report/report-1.schema.json").read_text())
    jsonschema.Draft202012Validator.check_schema(schema)
    for report in (Report(), rich_report(), Report((unordered_read(),))):
        jsonschema.validate(load(report), schema)
    for damaged in ({**load(Report()), "version": 2}, {**load(rich_report()), "findings": [{"rule": "SYN101"}]}):
        with pytest.raises(jsonschema.ValidationError):
            jsonschema.validate(damaged, schema)
