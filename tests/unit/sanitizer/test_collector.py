"""Raw findings, one per cause, whose texts are built at the end."""

from dataclasses import replace

from syncheck.findings import Frame, Location, distinct
from syncheck.hb.ids import NamedKind
from syncheck.rules import missing_record_stream, redundant_wait, unordered_read, useless_record_stream
from syncheck.rules.model import Severity
from syncheck.sanitizer.collector import Collector, PendingFinding
from syncheck.sanitizer.fixes import PendingFix, insertion
from syncheck.sanitizer.messages import EventCode, EventRef, StreamInfo, StreamRef, TensorCode, TensorRef, View
from tests.unit.sanitizer.program import Text, found, new_collector


def redundant(site, **kwargs):
    return PendingFinding(redundant_wait.RULE, site, {"reason": ("it is",)}, **kwargs)


def useless(site, **kwargs):
    facts = {"tensor": (TensorRef(9, 0),), "reason": ("so",)}
    return PendingFinding(useless_record_stream.RULE, site, facts, allocation=9, **kwargs)


def test_a_repetition_is_counted_and_another_cause_is_another_finding():
    collector = new_collector()
    first = collector.add(redundant(5), 1)
    assert collector.add(redundant(5), 1) is first
    other = collector.add(redundant(5, related=[(8, ("there",))]), 2)
    assert other is not first
    assert (first.count, other.count) == (2, 1)
    assert found(collector) == [("SYN802", 5, 2), ("SYN802", 5, 1)]


def test_findings_fixed_by_the_same_line_are_merged():
    collector = new_collector()
    collector.names.streams |= {1: StreamInfo(0, 0, 0)}
    text = Text("import torch\n" + "first()\n" * 20)

    def race(site, early, *code):
        fix = PendingFix((insertion(site, *code),))
        facts = {"tensor": ("x",), "reader": ("a",), "writer": (str(early),)}
        collector.add(PendingFinding(unordered_read.RULE, site, facts, [(early, ("wrote it",))], fix=fix), early)

    for early in (3, 4, 5):
        race(12, early, "wait()")
    race(12, 6, "wait_for_another()")
    race(13, 3, "wait()")
    for early in (7, 8):
        race(12, early, EventCode(1), ".wait()")  # nothing has a name, so the two may need different lines
    findings = collector.findings(text)
    assert [(f.location.frame.line, f.count, len(f.related)) for f in findings] == [
        (12, 3, 3), (12, 1, 1), (12, 1, 1), (12, 1, 1), (13, 1, 1),
    ]  # fmt: skip


def test_streams_of_one_name_are_told_apart_in_a_finding():
    collector = new_collector()
    names = collector.names
    names.streams |= {2: StreamInfo(0, 77, 3), 3: StreamInfo(0, 78, 4)}
    names.given |= {(NamedKind.STREAM, 2): "self.stream", (NamedKind.STREAM, 3): "self.stream"}
    facts = {"tensor": ("x",), "reader": (StreamRef(2),), "writer": (StreamRef(3),)}
    related = [(4, (StreamRef(3), " wrote it here"))]
    collector.add(PendingFinding(unordered_read.RULE, 9, facts, related))
    (finding,) = collector.findings(Text("x()\n" * 9))
    assert "stream `self.stream` (cuda:0) reads x without waiting for another stream `self.stream`" in finding.message
    assert finding.related[0].message == "another stream `self.stream` (cuda:0) wrote it here"


def test_only_new_findings_are_announced():
    announced = []
    collector = Collector(lambda rule: True, announced.append)
    for site in (5, 5, 6):
        collector.add(redundant(site))
    assert [pending.site for pending in announced] == [5, 6]


def test_related_places_of_repetitions_are_bounded():
    pending = redundant(5, related=[(1, ("a",))])
    pending.mention([(1, ("again",)), *((site, ("b",)) for site in range(2, 20))])
    assert [site for site, _ in pending.related] == [1, 2, 3, 4, 5]
    pending.mention([(30, ("c",))])
    assert len(pending.related) == 5


def test_one_call_reached_through_two_callers_is_shown_once():
    frame = Frame("a.py", 3, 1, 3, 9)
    first, other = (Location(frame, stack=(Frame("a.py", line),), message="written here") for line in (10, 20))
    read = replace(first, message="read here")
    assert distinct([first, read, other]) == (first, read)


def test_findings_of_unselected_rules_are_omitted():
    collector = Collector(lambda rule: rule.code != "SYN802")
    collector.add(redundant(5))
    assert found(collector) == []
    assert collector.has(5)
    assert not collector.has(6)


def test_a_finding_superseded_at_the_end_is_dropped():
    collector, is_superseded = new_collector(), []
    collector.add(redundant(5, superseded=lambda: bool(is_superseded)))
    assert found(collector) == [("SYN802", 5, 1)]
    is_superseded.append(True)
    assert found(collector) == []


def test_findings_ignored_by_the_program_are_omitted():
    collector, sites = new_collector(), Text()
    sites.ignored_sites[5] = ["SYN802"]
    collector.add(redundant(5))
    collector.add(redundant(6))
    assert found(collector, sites) == [("SYN802", 6, 1)]


def test_a_call_made_by_torch_is_not_reported_to_the_user():
    collector, sites = new_collector(), Text()
    sites.stacks[5] = (Frame("torch/distributed/fsdp.py", 1, is_user=False), Frame("program.py", 5))
    sites.stacks[6] = (Frame("program.py", 6), Frame("torch/nn.py", 1, is_user=False))
    for site in (5, 6):
        collector.add(useless(site, is_about_call=True))
    collector.add(redundant(5))
    assert found(collector, sites) == [("SYN802", 5, 1), ("SYN202", 6, 1)]


def test_a_call_inside_a_stream_method_is_attributed_to_the_user():
    collector, sites = new_collector(), Text()
    wait_stream = Frame("torch/cuda/streams.py", 1, is_user=False)
    sites.stacks[5] = (wait_stream, Frame("program.py", 5))
    sites.stacks[6] = (wait_stream, Frame("torch/distributed/fsdp.py", 1, is_user=False), Frame("program.py", 6))
    for site in (5, 6):
        collector.add(useless(site, is_about_call=True))
    assert found(collector, sites) == [("SYN202", 5, 1)]


def test_a_checkpoint_limits_findings_to_later_ones():
    collector = new_collector()
    collector.add(redundant(5))
    collector.add(redundant(6))
    mark = collector.checkpoint()
    assert collector.findings(Text(), mark) == ()
    collector.add(redundant(5))
    collector.add(redundant(7))
    assert [(f.location.frame.line, f.count) for f in collector.findings(Text(), mark)] == [(5, 1), (7, 1)]
    assert [(line, count) for _, line, count in found(collector)] == [(5, 2), (6, 1), (7, 1)]


def test_the_first_occurrence_since_a_checkpoint_is_described():
    collector = new_collector()
    first, second, third = redundant(5), redundant(5), redundant(5)
    assert collector.add(first) is collector.add(redundant(5)) is first
    collector.checkpoint()
    assert collector.add(second) is collector.add(third) is second
    assert [(line, count) for _, line, count in found(collector)] == [(5, 4)]


def test_a_finding_uses_names_that_became_known_later():
    collector = new_collector()
    collector.names.streams |= {1: StreamInfo(0, 0, 0), 2: StreamInfo(0, 7, 3)}
    collector.names.views.append(View((4,), 4, "float32"))
    facts = {"reader": (StreamRef(2),), "tensor": (TensorRef(9, 0),), "writer": (StreamRef(1),)}
    advice = ("; look at {line}",)
    related = [(4, (StreamRef(1), " wrote it")), (0, ("nowhere",))]
    fix = PendingFix((insertion(6, EventCode(3), ".synchronize()"),))
    collector.add(PendingFinding(unordered_read.RULE, 6, facts, related, advice, fix, allocation=9))
    collector.names.given |= {(NamedKind.STREAM, 2): "side", (NamedKind.ALLOCATION, 9): "x"}
    (finding,) = collector.findings(Text("\n" * 5 + "y = x.sum()\n"))
    assert finding.message == (
        "stream `side` (cuda:0) reads `x` (4 float32, 16 bytes) without waiting for the default stream of cuda:0, "
        "which wrote it"
    )
    assert [(location.frame.line, location.message) for location in finding.related] == [
        (4, "the default stream of cuda:0 wrote it")
    ]
    assert finding.help == "add `<event>.synchronize()` before line 6; look at line 6"
    assert finding.level is Severity.ERROR


def test_an_explicit_level_overrides_that_of_the_rule():
    collector = new_collector()
    collector.add(redundant(5, level=Severity.ERROR))
    assert collector.findings(Text())[0].level is Severity.ERROR
    assert redundant_wait.RULE.severity is not Severity.ERROR


def test_a_freed_tensor_is_named_by_its_creation_or_deletion_site():
    for bound, shown in (({10: "x"}, "`x`"), ({10: "xs[...]"}, "a tensor"), ({10: "xs[...]", 11: "y"}, "`y`")):
        collector = new_collector()
        collector.names.views.append(View((4,), 4, "float32"))
        collector.add(useless(5, name_sites=(10, 11)))
        (finding,) = collector.findings(Text(bound=bound))
        assert shown in finding.message


def test_an_observed_name_takes_precedence_over_the_creation_site():
    collector = new_collector()
    collector.names.views.append(View((4,), 4, "float32"))
    collector.names.given[NamedKind.ALLOCATION, 9] = "seen"
    collector.add(useless(5, name_sites=(10,)))
    assert "`seen`" in collector.findings(Text(bound={10: "x"}))[0].message


def test_events_mentioned_by_a_finding_keep_their_names():
    collector = new_collector()
    collector.add(redundant(5, advice=(EventRef(3),), fix=PendingFix((insertion(5, EventCode(4)),))))
    assert collector.names.kept == {(NamedKind.EVENT, 3), (NamedKind.EVENT, 4)}


def test_a_freed_tensor_is_not_named_after_the_result_of_its_use():
    text = "data = make()\nloss = criterion(output, data)\nx = x + data\n"
    for line, bound, named in ((2, "loss", "`data`"), (3, "x", "`x`")):
        collector = new_collector()
        collector.names.views.append(View((4,), 4, "float32"))
        collector.add(useless(line, name_sites=(line, 1), freed=line))
        (finding,) = collector.findings(Text(text, bound={1: "data", line: bound}))
        assert named in finding.message


def test_a_tensor_of_a_useless_call_has_the_name_that_the_call_uses():
    text = Text("following = make()\nupcoming = following\nupcoming.record_stream(s)\n", bound={1: "following"})
    text.columns[3] = 1
    collector = new_collector()
    collector.names.views.append(View((4,), 4, "float32"))
    collector.add(useless(3, name_sites=(1,), is_about_call=True))
    (finding,) = collector.findings(text)
    assert "`upcoming`" in finding.message


def race_with(writer, *code, site=12, early=3):
    facts = {"tensor": ("x",), "reader": ("a",), "writer": (str(writer),)}
    fix = PendingFix((insertion(site, *code),))
    return PendingFinding(unordered_read.RULE, site, facts, [(early, ("wrote it",))], fix=fix)


def test_findings_at_equal_places_are_merged_with_one_line_each():
    collector = new_collector()
    text = Text("import torch\n" + "first()\n" * 20)
    for writer in ("left", "right", "left"):
        collector.add(race_with(writer, f"wait_for('{writer}')"), writer)
    (finding,) = collector.findings(text)
    assert finding.count == 3
    assert [edit.code for edit in finding.fix.edits] == ["wait_for('left')", "wait_for('right')"]


def test_if_one_of_several_fixes_has_no_line_only_the_first_is_shown():
    collector = new_collector()
    text = Text("import torch\n" + "first()\n" * 20)
    collector.add(race_with("left", "wait_for('left')"), "left")
    collector.add(race_with("right", EventCode(1), ".wait()"), "right")
    (finding,) = collector.findings(text)
    assert [edit.code for edit in finding.fix.edits] == ["wait_for('left')"]


def freed_tensor(collector, text, names, source_columns):
    facts = {"tensor": (TensorRef(9, 0),), "user": ("a",), "verb": ("reading",)}
    code = insertion(3, TensorCode(9), ".record_stream(s)")
    collector.add(
        PendingFinding(
            missing_record_stream.RULE, 3, facts, fix=PendingFix((code,)), allocation=9, name_sites=(4, 2), freed=4
        )
    )
    text.names |= names
    text.spans |= source_columns
    (finding,) = collector.findings(text)
    return finding.fix.edits[0].code


MADE_AND_LOST = "import torch\nlayer.weight = load()\nlayer()\nlayer.weight = None\n"


def test_a_tensor_has_the_name_it_was_created_under_and_removed_from():
    names = {2: "layer.weight", 4: "layer.weight"}
    text = Text("layer = make()\n" + MADE_AND_LOST.partition("\n")[2])
    assert freed_tensor(new_collector(), text, names, {2: (16, 22)}) == "layer.weight.record_stream(s)"


def test_a_part_of_the_assigned_value_does_not_have_its_name():
    names = {2: "layer.weight", 4: "layer.weight"}
    text = Text("layer = make()\n" + MADE_AND_LOST.partition("\n")[2])
    assert "<tensor>" in freed_tensor(new_collector(), text, names, {2: (16, 20)})


def test_assigning_to_data_releases_the_old_tensor():
    text = Text("layer = make()\n" + MADE_AND_LOST.partition("\n")[2])
    assert freed_tensor(new_collector(), text, {4: "layer.weight.data"}, {}) == "layer.weight.data.record_stream(s)"


def test_a_finding_that_its_source_code_makes_irrelevant_is_dropped_but_certain_until_then():
    """`--fail-fast` reports at once what nothing later can change."""
    collector = new_collector()
    dropped = collector.add(redundant(5, irrelevant=lambda: True))
    kept = collector.add(redundant(6, irrelevant=lambda: False))
    assert dropped.is_certain
    assert kept.is_certain
    assert found(collector) == [("SYN802", 6, 1)]
