"""Certainty of findings."""

import ast
import textwrap
from dataclasses import replace

import pytest

from syncheck.findings import Finding, Frame, Location, merge_equal
from syncheck.lint.certainty import adjusted, merge_by_clock
from syncheck.rules.catalogue import find
from syncheck.rules.model import Severity

EMPTY = ast.parse("")


def frame(line, function="f"):
    return Frame("a.py", line, 1, line, 9, function)


def finding(code, line=10, related=(), **kwargs):
    rule = find(code)
    sites = tuple(Location(frame(other) if isinstance(other, int) else other) for other in related)
    return Finding(rule, Location(frame(line)), code, related=sites, level=kwargs.pop("level", rule.severity))


def shown(findings, *, guesses=None, copies=(), has_chosen=False):
    """Return (code, level) of the reported findings; guesses and copies are given by line."""
    likely = {frame(line): is_likely for line, is_likely in (guesses or {}).items()}
    result = adjusted(findings, likely, {frame(line) for line in copies}, EMPTY, has_chosen=has_chosen)
    return [(found.rule.code, found.level.value) for found in result]


# -- dependence on unknown code


@pytest.mark.parametrize("code", ["SYN701", "SYN402", "SYN502"])
@pytest.mark.parametrize(
    ("guesses", "expected"),
    [({}, "error"), ({5: True}, "warning"), ({5: False}, None), ({5: True, 6: False}, None), ({7: False}, "error")],
)
def test_possible_work_of_unknown_code_makes_a_finding_uncertain(code, guesses, expected):
    made = finding(code, related=(5, 6), level=Severity.ERROR)
    assert shown([made], guesses=guesses) == ([(code, expected)] if expected else [])


def test_other_rules_do_not_depend_on_unknown_code():
    assert shown([finding("SYN101", related=(5,))], guesses={5: False}) == [("SYN101", "error")]


# -- assumptions


@pytest.mark.parametrize(
    ("code", "guesses", "copies", "has_chosen", "expected"),
    [
        ("SYN701", {5: True}, (), False, ("what line 5 calls leaves work on a GPU",)),
        ("SYN101", {5: True}, (), False, ()),
        ("SYN301", {}, (5,), False, ("what line 5 copies lies on a GPU",)),
        ("SYN301", {}, (7,), False, ()),
        ("SYN301", {}, (), True, ("conditions that are not known are as on one path through the program",)),
    ],
)
def test_a_finding_states_its_assumptions(code, guesses, copies, has_chosen, expected):
    likely = {frame(line): is_likely for line, is_likely in guesses.items()}
    made = [finding(code, related=(5,))]
    (result,) = adjusted(made, likely, {frame(line) for line in copies}, EMPTY, has_chosen=has_chosen)
    assert result.assumptions == expected


def test_what_is_assumed_of_callers_makes_a_finding_a_warning_that_says_so():
    callers = {("SYN60", frame(5)): "`async_op` is true", ("SYN201", frame(10)): "the caller waits"}
    made = [finding("SYN603", related=(5,)), finding("SYN601", line=5), finding("SYN101"), finding("SYN201")]
    found = list(adjusted(made, {}, frozenset(), EMPTY, callers, has_chosen=False))
    assert [(each.message, each.level.value, each.assumptions) for each in found] == [
        ("SYN603, if `async_op` is true", "warning", ("`async_op` is true",)),
        ("SYN601, if `async_op` is true", "warning", ("`async_op` is true",)),
        ("SYN101", "error", ()),
        ("SYN201, if the caller waits", "warning", ("the caller waits",)),
    ]


def test_new_memory_may_never_have_been_used():
    (found,) = adjusted([finding("SYN104")], {}, frozenset(), EMPTY, has_chosen=False)
    assert (found.level, found.assumptions) == (Severity.WARNING, ("the new memory was in use before",))


def test_advice_does_not_become_a_warning():
    (found,) = adjusted(
        [finding("SYN603", level=Severity.ADVICE)],
        {},
        frozenset(),
        EMPTY,
        {("SYN60", frame(10)): "a"},
        has_chosen=False,
    )
    assert found.level is Severity.ADVICE


def test_of_equal_findings_the_one_with_the_fewest_assumptions_is_kept():
    made = finding("SYN301", related=(5,))
    some, more = replace(made, assumptions=("a",)), replace(made, assumptions=("a", "b"))
    assert [found.assumptions for found in merge_equal([more, some])] == [("a",)]
    assert [found.assumptions for found in merge_equal([more, made])] == [()]


# -- captures


@pytest.mark.parametrize(
    ("function", "has_chosen", "level"), [("g", True, "warning"), ("g", False, "error"), ("f", True, "error")]
)
def test_a_capture_in_another_function_on_a_chosen_path_is_only_a_warning(function, has_chosen, level):
    made = finding("SYN902", related=(frame(5, function),))
    assert shown([made], has_chosen=has_chosen) == [("SYN902", level)]
    assert shown([finding("SYN101", related=(frame(5, function),))], has_chosen=has_chosen) == [("SYN101", "error")]


@pytest.mark.parametrize(("after", "level"), [("yield", "warning"), ("wait(work)", "error")])
def test_a_generator_may_wait_when_it_is_resumed(after, level):
    tree = ast.parse(f"def f():\n    work = start()\n    {after}\n")
    made = replace(finding("SYN603", 2), location=Location(frame(2, "f")))
    (found,) = adjusted([made], {}, set(), tree, has_chosen=False)
    assert found.level.value == level


# -- waits of a stream for itself


def test_another_rule_at_the_same_place_takes_precedence():
    assert shown([finding("SYN407"), finding("SYN301")]) == [("SYN301", "error")]
    assert [code for code, _ in shown([finding("SYN407", 11), finding("SYN301")])] == ["SYN407", "SYN301"]
    assert [code for code, _ in shown([finding("SYN407"), finding("SYN407")])] == ["SYN407", "SYN407"]


# -- clocks


def test_a_possible_copy_from_a_gpu_is_not_reported_as_mistimed():
    assert shown([finding("SYN701", related=(5,))], copies=[5]) == []
    assert shown([finding("SYN701", related=(5,))], copies=[6]) == [("SYN701", "error")]
    assert shown([finding("SYN301", related=(5,))], copies=[5]) == [("SYN301", "error")]


def is_measured(source):
    """Return whether the time up to the last clock reading is reported."""
    tree = ast.parse(textwrap.dedent(source))
    readings = [node for node in ast.walk(tree) if isinstance(node, ast.Call) and ast.unparse(node.func) == "clock"]
    last = max(readings, key=lambda node: (node.lineno, node.col_offset))
    there = Frame("a.py", last.lineno, last.col_offset + 1, last.end_lineno, last.end_col_offset + 1)
    made = Finding(find("SYN701"), Location(there), "")
    return list(adjusted([made], {}, set(), tree, has_chosen=False)) == [made]


@pytest.mark.parametrize(
    "use",
    [
        "print(clock() - start)",
        "print(f'{clock() - start:.3f}')",
        "log(seconds=clock() - start)",
        "times.append(clock() - start)",
        "self.seconds = clock() - start",
        "total += clock() - start",
        "seconds = clock() - start\nprint(seconds)",
        "seconds = clock() - start\nif seconds > 5: warn()\nprint(seconds)",
        "seconds, n = clock() - start, 1",
        "seconds = self.seconds = clock() - start",
        "a = b = clock()\nprint(b - start)",
        "a = clock()\nb = a - start\nc = b * 1000\nprint(c)",
        "a = clock()\nb = a\nc = b\nd = c\ne = d\nif e > 5: stop()",  # beyond the search depth
        "clock()",
        "accelerator_time = clock() - start\nprint(accelerator_time)",
        "data.append(clock() - start)",
        "print((clock() - start) / 100)",
        "print((clock() - start) * 60)",
        "batch_time.update(clock() - start)",
        "update(clock() - start)",
        "log(f'{name} of data took {clock() - start}')",
        "after_warmup = clock() - start\nprint(after_warmup)",
        "log(f'after the warm-up: {clock() - start}')",
        "log(f'torch.compile: {clock() - start}')",
        "log(f'compiled: {clock() - start}')",
        "precompiled_s = clock() - start\nprint(precompiled_s)",
        "record('prepare_batch', clock() - start)",
        "record('the data time', clock() - start)",
    ],
)
@pytest.mark.parametrize("is_function", [True, False])
def test_a_time_that_is_used_is_measured(use, is_function):
    assert is_measured(f"def f():\n{textwrap.indent(use, '    ')}" if is_function else use)


@pytest.mark.parametrize(
    "use",
    [
        "if clock() - start > 5: stop()",
        "while clock() < end: step()",
        "assert clock() - start < 5",
        "if clock(): stop()",
        "while clock(): stop()",
        "assert clock()",
        "time.sleep(1 - (clock() - start))",
        "sleep(seconds=clock() - start)",
        "late = clock() - start > 5\nprint(late)",
        "a = clock()\nb = clock()\nprint(a)",
        "seconds = clock() - start",
        "seconds = clock() - start\nif seconds > 5: stop()",
        "seconds = clock() - start\nseconds = 3",
        "a = clock()\nb = a\nc = b\nd = c\nif d > 5: stop()",
        "cpu_seconds = clock() - start\nprint(cpu_seconds)",
        "self.launchTime = clock() - start",
        "times['dispatch'] = clock() - start",
        "stats['issue_s'] += clock() - start",
        "a = enqueue_ms = clock() - start\nprint(a)",
        "data_time.update(clock() - start)",
        "print((clock() - start) / 60)",
        "minutes = round((clock() - start) // 60, 1)\nprint(minutes)",
        "self.load_timer.add(clock() - start, 1)",
        "dataset_seconds += clock() - start",
        "approx_seconds = total + (clock() - start)\nprint(approx_seconds)",
        "log(f'the schedule took {clock() - start} s')",
        "seconds = clock() - start\nlog(f'to launch: {seconds:.3f}')",
        "record('prepare_batch_ms', clock() - start)",
        "stats.add('data_time', clock() - start)",
        "warmup_s = clock() - start\nprint(warmup_s)",
        "self.warm_up_time = clock() - start",
        "print(f'Warm-up took {clock() - start} s')",
        "seconds = clock() - start\nprint(f'compilation time: {seconds}')",
        "print('Compile time (first call):', clock() - start)",
    ],
)
@pytest.mark.parametrize("is_function", [True, False])
def test_a_time_that_is_only_compared_or_concerns_the_host_is_not_measured(use, is_function):
    assert not is_measured(f"async def f():\n{textwrap.indent(use, '    ')}" if is_function else use)


def test_a_use_of_the_same_name_in_another_function_does_not_count():
    other = "def f():\n    seconds = clock()\ndef g(seconds):\n    print(seconds)\n"
    assert not is_measured(other)
    assert not is_measured("def f(): seconds = clock()\nprint(seconds)\n")
    assert not is_measured("def f():\n    seconds = clock()\n    def g(seconds):\n        print(seconds)\n")


def test_the_innermost_function_counts():
    inner = "def f(seconds):\n    print(seconds)\n    def g():\n        seconds = clock()\n        {}\n"
    assert not is_measured(inner.format("pass"))
    assert is_measured(inner.format("print(seconds)"))


# -- one finding per reading


def test_the_worst_finding_per_reading_is_kept_at_the_first_place():
    warning, error = (finding("SYN701", level=level) for level in (Severity.WARNING, Severity.ERROR))
    other, race = finding("SYN701", 20), finding("SYN101")
    assert merge_by_clock([warning, race, error, other]) == [error, race, other]
    assert merge_by_clock([error, warning]) == [error]
    assert merge_by_clock([race, race]) == [race, race]


def test_the_first_of_equal_findings_is_kept():
    one, two = finding("SYN701", related=(1,)), finding("SYN701", related=(2,))
    assert merge_by_clock([one, two]) == [one]


STARTED_ELSEWHERE = """
def train(clock, losses, x):
    for loss in losses:
        {wait}
        work(x)
        clock.pause()

def main(clock):
    clock.start()
    train(clock, [], 0)
"""


@pytest.mark.parametrize(("wait", "level"), [("loss.item()", "warning"), ("loss.backward()", "error")])
def test_a_clock_started_elsewhere_misses_little_if_each_iteration_waits(wait, level):
    tree = ast.parse(STARTED_ELSEWHERE.format(wait=wait))
    made = replace(finding("SYN701", 6, (frame(5, "train"), frame(9, "main"))), location=Location(frame(6, "train")))
    (found,) = adjusted([made], {}, set(), tree, has_chosen=False)
    assert found.level.value == level
