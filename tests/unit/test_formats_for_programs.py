"""SARIF, GitHub, GitLab and JUnit reports, validated by the rules of their consumers."""

import json
import re
from dataclasses import replace

import junitparser
import pytest
from sarif_pydantic import Sarif

from syncheck.findings import Frame, Location, Report
from syncheck.report import concise, github, gitlab, junit, sarif, structured
from syncheck.witness.proofs import Difference, Proof, ProofOutcome
from tests.unit.report_samples import TRAIN, WAIT, lost_record, missing_record, rich_report, unordered_read


def special_characters() -> Report:
    """Return a report with paths and texts that the formats have to escape."""
    finding = unordered_read()
    location = Location(Frame("a b/ü%,:\n<x>&\x1b.py", 3, source="x = '<&\"\x07'"), "said & <done>")
    return Report(
        (replace(finding, location=location, related=(location,), message="100% of `x`\n::error::", help="a\r\nb"),)
    )


REPORTS = {"empty": Report(incomplete=("one\x1b[1m",)), "rich": rich_report(), "strange": special_characters()}
every_report = pytest.mark.parametrize("report", REPORTS.values(), ids=REPORTS)


@every_report
def test_sarif_is_valid_and_has_everything_code_scanning_requires(report):
    document = json.loads(sarif.render(report, version="1.2.3"))
    (run,) = Sarif.model_validate(document).runs
    assert len(run.results or []) == len(report.findings)
    rules = document["runs"][0]["tool"]["driver"]["rules"]
    assert len({rule["id"] for rule in rules}) == len(rules)
    for result, finding in zip(document["runs"][0]["results"], report.findings, strict=True):
        assert rules[result["ruleIndex"]]["id"] == result["ruleId"] == finding.rule.code
        assert result["level"] in {"error", "warning", "note"}
        assert result["partialFingerprints"]["syncheck/v1"] == finding.fingerprint
        locations = [*result["locations"], *result["relatedLocations"]]
        assert len(locations) == 1 + len(finding.related)
        for location in locations:
            physical = location["physicalLocation"]
            assert re.fullmatch(r"[\w./%~-]+|%3Cstring%3E", physical["artifactLocation"]["uri"])
            region = physical["region"]
            assert region["startLine"] >= 1
            assert region.get("endLine", region["startLine"]) >= region["startLine"]
            assert region.get("startColumn", 1) >= 1
    for notification in document["runs"][0]["invocations"][0]["toolExecutionNotifications"]:
        assert notification["message"]["text"] in report.incomplete


@pytest.mark.parametrize(
    ("path", "address"),
    [
        ("/a/b c.py", {"uri": "file:///a/b%20c.py"}),
        ("C:/a/b:c.py", {"uri": "file:///C:/a/b%3Ac.py"}),
        ("a:b.py", {"uri": "a%3Ab.py", "uriBaseId": "%SRCROOT%"}),
    ],
)
def test_sarif_has_the_address_of_a_file(path, address):
    finding = replace(unordered_read(), location=Location(Frame(path, 1)))
    (result,) = json.loads(sarif.render(Report((finding,)), version="1"))["runs"][0]["results"]
    assert result["locations"][0]["physicalLocation"]["artifactLocation"] == address


def test_sarif_says_whether_the_check_was_complete():
    for checked in (Report(), Report(incomplete=("a.py: it is not Python",))):
        (invocation,) = json.loads(sarif.render(checked, version="1"))["runs"][0]["invocations"]
        assert invocation["executionSuccessful"] == (not checked.incomplete)


def test_advice_after_the_message_begins_with_a_capital_letter():
    report = Report((replace(unordered_read(), message="it races", help="add a wait"),))
    (result,) = json.loads(sarif.render(report, version="1"))["runs"][0]["results"]
    assert result["message"]["text"] == "it races. Add a wait"
    (entry,) = json.loads(gitlab.render(report))
    assert entry["description"] == "it races. Add a wait"


def test_sarif_has_a_code_flow_for_a_race():
    (run,) = json.loads(sarif.render(Report((missing_record(),)), version="1"))["runs"]
    (flow,) = run["results"][0]["codeFlows"]
    lines = [
        step["location"]["physicalLocation"]["region"]["startLine"] for step in flow["threadFlows"][0]["locations"]
    ]
    assert lines[-1] == missing_record().location.frame.line
    assert sorted(lines[:-1]) == sorted(location.frame.line for location in missing_record().related)


@pytest.mark.parametrize(("assumptions", "rank"), [((), 100.0), (("a",), 50.0), (("a", "b"), 33.3)])
def test_sarif_ranks_lint_findings_by_their_assumptions(assumptions, rank):
    finding = replace(unordered_read(), source="lint", assumptions=assumptions)
    document = json.loads(sarif.render(Report((finding,)), version="1"))
    (result,) = document["runs"][0]["results"]
    assert result["rank"] == rank
    assert result["properties"] == {"assumptions": list(assumptions)}
    Sarif.model_validate(document)
    in_a_run = json.loads(sarif.render(Report((unordered_read(),)), version="1"))
    assert "rank" not in in_a_run["runs"][0]["results"][0]


def test_sarif_has_the_text_that_a_fix_inserts(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "train.py").write_text(TRAIN)
    (run,) = json.loads(sarif.render(Report((unordered_read(),)), version="1"))["runs"]
    (fix,) = run["results"][0]["fixes"]
    (change,) = fix["artifactChanges"]
    (replacement,) = change["replacements"]
    assert change["artifactLocation"]["uri"] == "train.py"
    assert replacement["deletedRegion"] == {"startLine": 8, "startColumn": 1, "endLine": 8, "endColumn": 1}
    assert replacement["insertedContent"]["text"] == f"    {WAIT}\n"
    Sarif.model_validate(json.loads(sarif.render(Report((unordered_read(),)), version="1")))


@pytest.mark.parametrize("text", [None, "def (:\n", "x = 1\n"], ids=["no file", "no Python", "another text"])
def test_sarif_has_no_fix_that_cannot_be_applied(text, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    if text is not None:
        (tmp_path / "train.py").write_text(text)
    (run,) = json.loads(sarif.render(Report((unordered_read(),)), version="1"))["runs"]
    assert "fixes" not in run["results"][0]


def unescaped(text, more=()):
    """Return a value of a workflow command as GitHub's runner reads it (actions/runner, `ActionCommand`)."""
    for escaped, plain in (*more, ("%0D", "\r"), ("%0A", "\n"), ("%25", "%")):
        text = text.replace(escaped, plain)
    return text


@every_report
def test_github_has_one_command_per_finding(report):
    lines = github.render(report).splitlines()
    commands = [re.fullmatch(r"::(error|warning|notice) ([^:]*)::(.*)", line) for line in lines]
    assert len(commands) == len(report.findings) + len(report.incomplete)
    assert all(commands)
    for command, finding in zip(commands, report.findings, strict=False):
        properties = dict(entry.split("=", 1) for entry in command[2].split(","))
        more = (("%3A", ":"), ("%2C", ","))
        assert unescaped(properties["file"], more) == finding.location.frame.path.replace("\x1b", "␛")
        assert int(properties["line"]) == finding.location.frame.line
        assert unescaped(properties["title"], more).startswith(finding.rule.code)
        assert unescaped(command[3]).endswith(finding.help.replace("\r\n", "\r\n"))


def named(path):
    return Report((replace(unordered_read(), location=Location(Frame(path, 3)), related=(), help="one\ntwo"),))


@pytest.mark.parametrize("sign", ["\x1b", "\x07", "\x9b", "\u2028", "\u202e", "\udcff"])
def test_no_format_passes_control_or_unencodable_characters(sign):
    report = named(f"a{sign}b.py")
    for text in (github.render(report), gitlab.render(report), junit.render(report), concise.render(report)):
        assert text.encode()
        assert sign not in text
    assert json.loads(sarif.render(report, version="1"))["runs"][0]["results"]


def test_a_path_cannot_inject_a_github_workflow_command():
    for path in ("::error::x.py", " ::error::x.py", "a\n::error::x.py"):
        assert not any(line.lstrip().startswith("::") for line in concise.render(named(path)).splitlines())
        assert len(github.render(named(path)).splitlines()) == 1


def test_junit_keeps_line_breaks():
    (suite,) = junitparser.JUnitXml.fromstring(junit.render(named("a.py")).encode())
    (case,) = suite
    assert case.result[0].text == "a.py:3\none\ntwo"


@every_report
def test_gitlab_has_every_required_field(report):
    entries = json.loads(gitlab.render(Report((*report.findings, *report.findings))))
    assert len(entries) == 2 * len(report.findings)
    assert len({entry["fingerprint"] for entry in entries}) == len(entries)
    for entry in entries:
        assert entry["severity"] in {"info", "minor", "major", "critical", "blocker"}
        assert entry["description"]
        assert entry["check_name"].startswith("SYN")
        assert entry["location"]["path"]
        assert 1 <= entry["location"]["lines"]["begin"] <= entry["location"]["lines"]["end"]


@every_report
def test_junit_has_a_failure_for_each_finding(report):
    suites = junitparser.JUnitXml.fromstring(junit.render(report).encode())
    cases = [case for suite in suites for case in suite]
    failures = [result for case in cases for result in case.result if isinstance(result, junitparser.Failure)]
    errors = [result for case in cases for result in case.result if isinstance(result, junitparser.Error)]
    assert len(failures) == len(report.findings) == suites.failures
    assert len(errors) == len(report.incomplete) == suites.errors
    assert sum(suite.failures for suite in suites) == len(failures)


def test_fingerprints_do_not_depend_on_line_numbers():
    finding = lost_record()
    location, frame = finding.location, finding.location.frame
    moved = replace(finding, location=replace(location, frame=replace(frame, line=99)))
    assert moved.fingerprint == finding.fingerprint
    elsewhere = replace(
        finding, location=replace(finding.location, frame=replace(finding.location.frame, function="other"))
    )
    assert elsewhere.fingerprint != finding.fingerprint


@pytest.mark.parametrize(
    "render",
    [
        github.render,
        gitlab.render,
        junit.render,
        lambda report: sarif.render(report, version="1"),
        lambda report: structured.render_json(report, version="1"),
    ],
    ids=["github", "gitlab", "junit", "sarif", "json"],
)
def test_each_format_has_the_differences_and_the_command_of_a_proof(render):
    changed = Difference("what train.py:9 reads", "[2]", "[nan]")
    command = "syncheck run --backend sim --schedule s1-abc-1.1-ff train.py"
    proof = Proof(ProofOutcome.SHOWN, "schedule", "s1-abc-1.1-ff", differences=(changed,), command=command)
    text = render(Report((replace(unordered_read(), proof=proof),)))
    for part in ("shown", "what train.py:9 reads", "[nan]", "[2]", command):
        assert part in text
