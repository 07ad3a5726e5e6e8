"""JUnit XML report: one test case for each finding, one test suite for each file.

Source:
    testmoapp/junitxml, "Common JUnit XML format"; read by Jenkins and GitLab.
"""

from itertools import groupby
from xml.etree import ElementTree as Xml

from syncheck.findings import Finding, Report
from syncheck.report.style import visible


def render(report: Report) -> str:
    """Return the report as XML; without findings, it has one passing test case."""
    root = Xml.Element("testsuites", name="syncheck", tests=str(max(len(report.findings), 1)),
                       failures=str(len(report.findings)), errors=str(len(report.incomplete)))  # fmt: skip
    for path, group in groupby(report.findings, key=lambda finding: finding.location.frame.path):
        findings = list(group)
        suite = Xml.SubElement(
            root, "testsuite", name=visible(path), tests=str(len(findings)), failures=str(len(findings))
        )
        for finding in findings:
            _add(suite, finding)
    if not report.findings:
        suite = Xml.SubElement(root, "testsuite", name="syncheck", tests="1", failures="0")
        Xml.SubElement(suite, "testcase", name="no findings", classname="syncheck")
    for reason in report.incomplete:
        suite = Xml.SubElement(root, "testsuite", name="incomplete", tests="1", errors="1")
        case = Xml.SubElement(suite, "testcase", name="incomplete", classname="syncheck")
        Xml.SubElement(case, "error", message=visible(reason))
    Xml.indent(root)
    return Xml.tostring(root, encoding="unicode", xml_declaration=True) + "\n"


def _add(suite: Xml.Element, finding: Finding) -> None:
    frame = finding.location.frame
    name = f"{finding.rule.code} {finding.rule.name} (line {frame.line}, column {frame.column})"
    case = Xml.SubElement(suite, "testcase", name=name, classname=visible(frame.path), file=visible(frame.path),
                          line=str(frame.line))  # fmt: skip
    failure = Xml.SubElement(case, "failure", type=finding.level.value, message=visible(finding.message))
    proof = [finding.proof.summary] if finding.proof is not None else []
    failure.text = "\n".join(map(visible, (f"{frame.path}:{frame.line}", *finding.help.splitlines(), *proof)))
