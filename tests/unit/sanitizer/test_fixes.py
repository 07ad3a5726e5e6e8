"""Fixes: edits and their descriptions, once names are known."""

import pytest

from syncheck.findings import Applicability, EditKind, Frame
from syncheck.hb.ids import NamedKind
from syncheck.sanitizer.fixes import (
    EACH,
    PendingEdit,
    PendingFix,
    _merged,
    for_all,
    for_each,
    host_wait,
    insertion,
    replacement,
    wait_at_once,
    wait_code,
    word,
)
from syncheck.sanitizer.messages import EventCode, Names, StreamCode, StreamInfo, WaitCode
from tests.unit.sanitizer.program import Text

SOURCE = """\
import torch
side = torch.cuda.Stream()
done = torch.cuda.Event()
done.wait()
start()
work = start()
torch.cuda.synchronize()
"""

ALL_REDUCE = "c10d::allreduce_"


@pytest.fixture
def names():
    names = Names()
    names.streams |= {1: StreamInfo(0, 0, 0), 2: StreamInfo(0, 7, 2)}
    names.given |= {(NamedKind.STREAM, 2): "side", (NamedKind.EVENT, 3): "done"}
    names.known_at |= {(NamedKind.STREAM, 2): 2, (NamedKind.EVENT, 3): 3}
    return names


_COLLECTIVES = ("start(", "dist.all_reduce(", "batch_isend_irecv(")


class Columns(Text):
    """Calls begin their lines, except those that start a collective."""

    def line(self, number):
        column = max(self.lines[number - 1].find(call) for call in _COLLECTIVES) + 1
        return super().line(number)._replace(column=max(column, 1))


def worded(pending, names, path="program.py", text=SOURCE, **kwargs):
    return word(pending, names, Columns(text, **kwargs), path)


def test_an_insertion_can_be_applied_and_described(names):
    found = worded(PendingFix((insertion(4, StreamCode(2), ".wait_stream(", StreamCode(1), ")"),)), names)
    (edit,) = found.fix.edits
    assert (edit.kind, edit.path, edit.line) == (EditKind.INSERT_BEFORE, "program.py", 4)
    assert edit.code == "side.wait_stream(torch.cuda.default_stream())"
    assert found.text == f"add `{edit.code}` before line 4"
    assert found.fix.applicability is Applicability.SAFE


def test_another_file_is_named(names):
    found = worded(PendingFix((insertion(4, EventCode(3), ".synchronize()"),)), names, path="caller.py")
    assert found.text == "add `done.synchronize()` before program.py:4"


def test_a_fix_that_makes_the_host_wait_is_unsafe(names):
    pending = PendingFix((insertion(4, EventCode(3), ".synchronize()"),), is_unsafe=True)
    assert worded(pending, names).fix.applicability is Applicability.UNSAFE


def test_a_replacement_keeps_the_receiver_of_the_call(names):
    found = worded(PendingFix((replacement(4, "wait", "synchronize()"),)), names)
    assert found.fix.edits[0].code == "done.synchronize()"
    assert found.text == "call `done.synchronize()` instead of `.wait()` at line 4"
    found = worded(PendingFix((replacement(7, "synchronize", "synchronize(1)"),)), names)
    assert found.text == "call `torch.cuda.synchronize(1)` at line 7"


def test_replacing_a_missing_call_is_only_an_example(names):
    found = worded(PendingFix((replacement(5, "wait", "synchronize()"),)), names)
    assert found.fix.applicability is Applicability.EXAMPLE


def test_a_missing_name_is_explained_and_makes_the_fix_an_example(names):
    names.streams[4] = StreamInfo(1, 9, 0)
    found = worded(PendingFix((insertion(4, StreamCode(4), ".synchronize()"),)), names)
    assert found.text == "add `<stream>.synchronize()` before line 4, where `<stream>` is the stream (cuda:1)"
    assert found.fix.applicability is Applicability.EXAMPLE


@pytest.mark.parametrize("call", [".wait_stream(", ".wait_event("])
def test_a_wait_for_a_stream_without_a_name_has_an_alternative_that_can_be_pasted(names, call):
    names.streams[4] = StreamInfo(0, 9, 0)
    wait = insertion(4, "torch.cuda.current_stream()", call, StreamCode(4), ")")
    text = worded(PendingFix((wait,)), names).text
    assert text.endswith("is the stream (cuda:0); or add `torch.cuda.synchronize()` there, which waits for more")
    after = PendingEdit(EditKind.INSERT_AFTER, 4, wait.code)
    assert "synchronize" not in worded(PendingFix((after,)), names).text


def test_several_edits_form_one_fix(names):
    edits = (insertion(4, EventCode(3), ".query()"), PendingEdit(EditKind.ADD_ARGUMENT, 3, ("enable_timing=True",)))
    found = worded(PendingFix(edits), names)
    assert [edit.line for edit in found.fix.edits] == [4, 3]
    assert found.text == "add `done.query()` before line 4, and pass `enable_timing=True` to the call at line 3"


def test_equal_changes_to_two_calls_of_a_line_are_one_sentence():
    change = "pass `enable_timing=True` to the call at line 3"
    assert list(_merged([change, change])) == ["pass `enable_timing=True` to both calls at line 3"]
    assert list(_merged([change, "add `x` before line 4"])) == [change, "add `x` before line 4"]


def test_equal_lines_for_two_tensors_are_added_once(names):
    names.given |= {(NamedKind.STREAM, 4): "side"}
    names.streams[4] = StreamInfo(0, 8, 2)
    names.known_at[NamedKind.STREAM, 4] = 2
    found = worded(PendingFix(tuple(insertion(4, StreamCode(stream), ".query()") for stream in (2, 4))), names)
    assert found.text == "add `side.query()` before line 4"
    assert len(found.fix.edits) == 1


def test_the_first_applicable_choice_is_used(names):
    nameless = PendingFix((insertion(4, EventCode(9), ".synchronize()"),))
    usable = PendingFix((insertion(4, EventCode(3), ".synchronize()"),))
    found = worded(nameless._replace(otherwise=nameless._replace(otherwise=usable)), names)
    assert found.text == "add `done.synchronize()` before line 4"
    assert worded(nameless._replace(otherwise=nameless), names).fix.applicability is Applicability.EXAMPLE


def test_an_alternative_is_offered_if_a_fix_cannot_be_applied(names):
    names.streams[4] = StreamInfo(1, 9, 0)
    first = insertion(4, StreamCode(4), ".synchronize()")
    after = PendingEdit(EditKind.INSERT_AFTER, 4, (EventCode(3), ".synchronize()"))
    found = worded(PendingFix((first,), otherwise=PendingFix((after,))), names)
    assert found.text == "add `done.synchronize()` after line 4"
    found = worded(PendingFix((first,), otherwise=PendingFix((first,), is_example=True)), names)
    assert found.text.startswith("add `<stream>.synchronize()` before line 4")


def test_a_handle_is_waited_for_where_it_is_created(names):
    thrown_away = worded(wait_at_once(ALL_REDUCE, 5), names)
    assert thrown_away.text == "add `.wait()` to the call at line 5"
    assert thrown_away.fix.applicability is Applicability.UNSAFE
    kept = worded(wait_at_once(ALL_REDUCE, 6), names, bound={6: "work"})
    assert kept.text == "add `work.wait()` after line 6"
    assert kept.fix.edits[0].kind is EditKind.INSERT_AFTER


def test_the_host_waits_for_the_first_named_object(names):
    assert worded(host_wait(4, [9, 3], 2, 0), names).text == "add `done.synchronize()` before line 4"
    del names.given[NamedKind.EVENT, 3]
    assert worded(host_wait(4, [9, 3], 2, 0), names).text == "add `side.synchronize()` before line 4"
    del names.given[NamedKind.STREAM, 2]
    found = worded(host_wait(4, [9, 3], 2, 0), names)
    assert found.text == "add `torch.cuda.synchronize()` before line 4"
    assert found.fix.applicability is Applicability.UNSAFE


MAY_BE_NONE = """\
import torch
def f(x, flag):
    dist.all_reduce(x, async_op=flag)
    work = dist.all_reduce(x, async_op=flag is None)
    y = x
    work = dist.all_reduce(x, async_op=True)
"""


def test_a_handle_that_may_be_none_is_checked_before_waiting(names):
    thrown_away = worded(wait_at_once(ALL_REDUCE, 3), names, text=MAY_BE_NONE)
    assert thrown_away.text == "if the call at line 3 returns a handle and not None, call `wait()` on it"
    assert thrown_away.fix.applicability is Applicability.EXAMPLE
    kept = worded(wait_at_once(ALL_REDUCE, 4), names, text=MAY_BE_NONE, bound={4: "work"})
    assert kept.text == "add `if work is not None: work.wait()` after line 4"
    assert kept.fix.applicability is Applicability.UNSAFE
    later = PendingFix((insertion(5, WaitCode(4)),), after=4)
    assert worded(later, names, text=MAY_BE_NONE, bound={4: "work"}).fix.edits[0].code.startswith("if work is not None")
    assert (
        worded(wait_at_once(ALL_REDUCE, 6), names, text=MAY_BE_NONE, bound={6: "work"}).text
        == "add `work.wait()` after line 6"
    )


def test_a_functional_collective_is_waited_for_through_its_result(names):
    kept = worded(wait_at_once("_c10d_functional::all_reduce", 6), names, bound={6: "total"})
    assert kept.text == "add `torch.ops._c10d_functional.wait_tensor(total)` after line 6"
    thrown_away = worded(wait_at_once("_c10d_functional::all_reduce", 5), names)
    assert thrown_away.text.endswith("after line 5, where `<result>` is what the call at line 5 returns")
    assert thrown_away.fix.applicability is Applicability.EXAMPLE


LAUNCH_AND_USE = """\
import torch
side = torch.cuda.Stream()
def make():
    return torch.ones(4)
total = make().sum()
"""


def test_a_line_that_launches_and_uses_must_be_split(names):
    pending = PendingFix((insertion(5, StreamCode(1), ".wait_stream(", StreamCode(2), ")"),), after=4)
    found = worded(pending, names, text=LAUNCH_AND_USE, callers={4: (5,)})
    code = "torch.cuda.default_stream().wait_stream(side)"
    assert found.text == f"split line 5 and add `{code}` between the launch and the use"
    assert found.fix.applicability is Applicability.EXAMPLE


def test_the_work_of_a_block_must_be_awaited_in_the_block(names):
    pending = PendingFix((insertion(5, StreamCode(1), ".wait_stream(", StreamCode(2), ")"),), after=4)
    text = LAUNCH_AND_USE.replace("total = make().sum()", "with timed():\n    make()")
    found = worded(pending, names, text=text, callers={4: (5,)})
    code = "torch.cuda.default_stream().wait_stream(side)"
    assert found.text == f"add `{code}` at the end of the block that begins in line 5"


def test_a_hook_of_a_backward_pass_must_wait_itself(names):
    pending = PendingFix((insertion(5, StreamCode(1), ".wait_stream(", StreamCode(2), ")"),), after=4)
    text = LAUNCH_AND_USE.replace("total = make().sum()", "loss.backward()")
    found = worded(pending, names, text=text, callers={4: (5,)})
    code = "torch.cuda.default_stream().wait_stream(side)"
    where = "after the `with` block of the stream, before line 4 returns its result"
    assert found.text.endswith(f", add `{code}` {where}")
    assert found.fix.applicability is Applicability.EXAMPLE


def test_a_library_that_launches_and_uses_is_named(names):
    pending = PendingFix((insertion(5, StreamCode(1), ".wait_stream(", StreamCode(2), ")"),), after=4)
    stack = (Frame("acme/loader.py", 9, is_user=False), Frame("program.py", 5))
    found = worded(pending, names, text=LAUNCH_AND_USE, callers={4: (5,)}, stacks={5: stack})
    assert found.text == "in acme, add `torch.cuda.default_stream().wait_stream(side)` before acme/loader.py:9"


def test_a_line_that_runs_again_in_another_call_needs_no_split(names):
    sites = Columns(SOURCE)
    sites.at_line = {50: 5, 51: 5}  # called from different lines
    pending = PendingFix((insertion(50, StreamCode(1), ".wait_stream(", StreamCode(2), ")"),), after=51)
    found = word(pending, names, sites, "program.py")
    assert found.text == "add `torch.cuda.default_stream().wait_stream(side)` before line 5"


def test_a_call_inside_a_library_that_runs_again_needs_no_split(names):
    stack = (Frame("acme/loader.py", 9, is_user=False), Frame("program.py", 5))
    pending = PendingFix((insertion(5, StreamCode(1), ".wait_stream(", StreamCode(2), ")"),), after=5)
    found = worded(pending, names, stacks={5: stack})
    assert found.text == "add `torch.cuda.default_stream().wait_stream(side)` before line 5"


def test_no_statement_after_a_line_orders_two_calls_that_a_library_makes_in_it(names):
    def stack(line, function):
        return (Frame("acme/loader.py", line, function=function, is_user=False), Frame("program.py", 5))

    def found(earlier, later):
        sites = Columns(SOURCE, stacks={50: earlier, 51: later})
        sites.at_line = {50: 5, 51: 5}
        edit = PendingEdit(EditKind.INSERT_AFTER, 50, (StreamCode(1), ".wait_stream(", StreamCode(2), ")"))
        return word(PendingFix((edit,), before=51), names, sites, "program.py").fix.applicability

    assert found(stack(8, "load"), stack(9, "load")) is Applicability.EXAMPLE
    assert found(stack(9, "load"), stack(8, "load")) is Applicability.SAFE  # in the next iteration
    assert found(stack(8, "load"), stack(9, "hook")) is Applicability.SAFE


def test_code_without_placeholders_is_preferred_at_the_same_line(names):
    by_stream = PendingFix((insertion(5, StreamCode(1), ".wait_stream(", StreamCode(2), ")"),), after=4)
    pending = by_stream._replace(
        edits=(insertion(5, StreamCode(1), ".wait_event(", EventCode(4), ")"),), otherwise=by_stream
    )
    found = worded(pending, names, text=LAUNCH_AND_USE, callers={4: (5,)})
    assert found.text.startswith("split line 5 and add `torch.cuda.default_stream().wait_stream(side)`")


def test_an_example_is_introduced_as_one(names):
    found = worded(PendingFix((replacement(5, "wait", "synchronize()"),)), names)
    assert found.text == "for example, call `synchronize()` instead of `.wait()` at line 5"


LOOP = """\
import torch
streams = make()
works = []
for stream in streams:
    work(stream)
    works.append(start())
    done()
join()
"""


@pytest.fixture
def loop_names():
    names = Names()
    names.streams |= {1: StreamInfo(0, 0, 0), 2: StreamInfo(0, 7, 2), 3: StreamInfo(0, 8, 2)}
    for stream in (2, 3):
        names.seen_at[NamedKind.STREAM_GROUP, stream] = {("program.py", line): "streams" for line in (5, 8)}
        names.seen_at[NamedKind.STREAM, stream] = {("program.py", 5): "stream"}
    return names


def wait_for_one(stream, line):
    group = for_each(NamedKind.STREAM_GROUP, stream, "main.wait_stream(", EACH, ")")
    one = insertion(line, "main.wait_stream(", StreamCode(stream), ")")
    return PendingFix((one,), otherwise=PendingFix((insertion(line, *group),)))


def test_each_member_of_a_group_is_waited_for(loop_names):
    found = worded(wait_for_one(2, 8), loop_names, text=LOOP)
    assert found.text == "add `[main.wait_stream(each) for each in streams]` before line 8"


def test_one_line_that_fixes_all_problems_at_a_place_is_used(loop_names):
    joined = for_all([wait_for_one(stream, 8) for stream in (2, 3)], loop_names, Columns(LOOP))
    assert worded(joined, loop_names, text=LOOP).text.startswith("add `[main.wait_stream(each)")


def test_several_problems_at_a_place_get_a_line_each(names):
    one, other = (PendingFix((insertion(4, code),), is_unsafe=code == "b()") for code in ("a()", "b()"))
    joined = for_all([one, other], names, Columns(SOURCE))
    assert [edit.code for edit in joined.edits] == [("a()",), ("b()",)]
    assert joined.is_unsafe
    unknown = PendingFix((insertion(4, EventCode(9), ".wait()"),))
    assert for_all([one, unknown], names, Columns(SOURCE)) is None


def test_an_insertion_after_early_work_uses_no_variable_of_a_later_iteration(loop_names):
    text, after = LOOP, PendingEdit(EditKind.INSERT_AFTER, 5, (StreamCode(3), ".wait_stream(x)"))
    found = worded(PendingFix((after,), before=5), loop_names, text=text)
    assert found.fix.applicability is Applicability.EXAMPLE


def test_handles_in_a_list_are_waited_for_together(names):
    found = worded(PendingFix((insertion(8, wait_code(ALL_REDUCE, 6)),), after=6), names, text=LOOP)
    assert found.text == "add `[handle.wait() for handle in works]` before line 8"


def test_a_handle_without_a_name_is_described_by_its_call(names):
    text = "import torch\nuse(start())\nlate()\n"
    found = worded(PendingFix((insertion(3, wait_code(ALL_REDUCE, 2)),)), names, text=text)
    assert found.text == "add `<handle>.wait()` before line 3, where `<handle>` is what the call at line 2 returns"


def test_several_handles_without_a_name_are_all_waited_for(names):
    text = "import torch\nuse(batch_isend_irecv())\nlate()\n"
    found = worded(PendingFix((insertion(3, wait_code(ALL_REDUCE, 2)),)), names, text=text)
    assert found.text.startswith("add `[handle.wait() for handle in <handle>]` before line 3")


def test_a_dict_item_is_not_waited_for_before_it_exists(names):
    text = "import torch\nworks = {}\nfor key in keys:\n    late()\n    works[key] = start()\n"
    found = worded(PendingFix((insertion(4, wait_code(ALL_REDUCE, 5)),)), names, text=text, bound={5: "works[key]"})
    assert found.text == "add `[handle.wait() for handle in works.values()]` before line 4"


def test_another_thread_in_the_same_function_has_other_local_variables(names):
    names.seen_at[NamedKind.STREAM, 2] = {("program.py", 4): "own"}
    text = "import torch\ndef work(out):\n    own = make()\n    out = start()\n    late()\n"
    after = PendingFix((PendingEdit(EditKind.INSERT_AFTER, 4, (StreamCode(2), ".wait()")),), is_between_threads=True)
    assert worded(after, names, text=text).fix.applicability is Applicability.EXAMPLE
    alone = after._replace(is_between_threads=False)
    assert worded(alone, names, text=text).fix.applicability is Applicability.SAFE


@pytest.mark.parametrize(
    ("call", "is_between_threads", "expected"),
    [
        ("use", False, Applicability.SAFE),
        ("use", True, Applicability.EXAMPLE),
        ("queue.put", False, Applicability.EXAMPLE),
    ],
)
def test_inserting_after_a_statement_that_hands_over_to_another_thread_is_an_example(
    names, call, is_between_threads, expected
):
    text = f"import torch\nside = make()\n{call}(start())\n"
    edit = PendingEdit(EditKind.INSERT_AFTER, 3, ("wait()",))
    found = worded(PendingFix((edit,), is_between_threads=is_between_threads), names, text=text)
    assert found.fix.applicability is expected
