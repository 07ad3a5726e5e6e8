"""The limit on the number of findings in a session."""

from syncheck.findings import Frame, Location
from syncheck.rules import lost_event_record as lost_record
from syncheck.rules import unordered_read, wait_before_record
from syncheck.rules.model import Severity
from syncheck.sanitizer.collector import MAX_FINDINGS, Collector, PendingFinding


class Sites:
    """Call sites that are lines of one program."""

    def location(self, site):
        return Location(Frame("program.py", site))

    def ignored(self, site, rule):
        return False


def fact(rule):
    return {name: (name,) for name in rule.facts}


def add(collector, rule, site, level=None):
    return collector.add(PendingFinding(rule, site, fact(rule), level=level), "cause")


def lines(collector, since=None):
    return [(f.rule.code, f.location.frame.line, f.count) for f in collector.findings(Sites(), since)]


def test_findings_beyond_the_limit_are_counted_without_hiding_other_rules():
    heard = []
    collector = Collector(lambda _: True, heard.append)
    for site in range(1, MAX_FINDINGS + 1001):
        add(collector, unordered_read.RULE, site)
    assert collector.n_dropped == 1000
    add(collector, lost_record.RULE, 7)
    add(collector, unordered_read.RULE, MAX_FINDINGS + 9, Severity.ADVICE)
    add(collector, unordered_read.RULE, 3)
    found = lines(collector)
    assert len(found) == len(heard) == MAX_FINDINGS + 2
    assert ("SYN405", 7, 1) in found
    assert ("SYN101", 3, 2) in found
    assert collector.has(MAX_FINDINGS)
    assert not collector.has(MAX_FINDINGS + 1)


def test_unselected_rules_do_not_count_towards_the_limit():
    collector = Collector(lambda rule: rule is lost_record.RULE)
    for site in range(MAX_FINDINGS + 10):
        add(collector, unordered_read.RULE, site)
    add(collector, lost_record.RULE, 1)
    add(collector, lost_record.RULE, 2)
    assert [line for _, line, _ in lines(collector)] == [1, 2]
    assert collector.n_dropped == 0


def test_a_checkpoint_resets_the_limit():
    collector = Collector(lambda _: True)
    for site in range(MAX_FINDINGS + 10):
        add(collector, unordered_read.RULE, site)
    mark = collector.checkpoint()
    add(collector, unordered_read.RULE, MAX_FINDINGS + 20)
    add(collector, wait_before_record.RULE, 5)
    assert len(lines(collector, mark)) == 2
    assert collector.n_dropped == 0
