"""Names valid at a line of the program, and lines at which an edit is possible."""

import textwrap

import pytest

from syncheck.findings import EditKind, Frame
from syncheck.hb.ids import NamedKind
from syncheck.sanitizer.messages import (
    DeviceSyncCode,
    EventCode,
    Names,
    RecordedStreamCode,
    ResultCode,
    StreamCode,
    StreamInfo,
    StreamRef,
    TensorCode,
    TorchCode,
    WaitCode,
)
from syncheck.sanitizer.monitor import SourceLine
from syncheck.sanitizer.spelling import Spelling
from tests.unit.sanitizer.program import Text

SOURCE = textwrap.dedent("""\
    import torch as th
    side = th.cuda.Stream()
    done = th.cuda.Event()
    def use(batch):
        total = batch.sum()
        return total
    x = th.zeros(4)
    for turn in range(3):
        y = use(x)
    done.wait()
    work = start()
    if turn: x.neg_()
    start()
    result = pool.submit(use).result()
    for pair in pairs:
        left, right = pair
        loss = left + right
        loss.backward()
    left2 = result
    left2 = result
    loss.backward()
""")


@pytest.fixture
def names():
    names = Names()
    names.streams |= {1: StreamInfo(0, 0, 0), 2: StreamInfo(0, 7, 2)}
    names.given |= {(NamedKind.STREAM, 2): "side", (NamedKind.EVENT, 3): "done"}
    names.known_at |= {(NamedKind.STREAM, 2): 2, (NamedKind.EVENT, 3): 3}
    return names


@pytest.fixture
def sites():
    return Text(SOURCE, bound={11: "work"}, callers={5: (9,)})


@pytest.fixture
def spelling(names, sites):
    return Spelling(names, sites)


def spelled(spelling, line, *code):
    found = spelling.spell(code, spelling._sites.line(line))
    return found.code, found.is_usable


def test_names_with_the_same_meaning_at_the_line_are_used(spelling):
    assert spelled(spelling, 10, StreamCode(2), ".wait_event(", EventCode(3), ")") == ("side.wait_event(done)", True)
    assert spelled(spelling, 5, StreamCode(2)) == ("side", True)  # a global is visible in a function


def test_a_name_that_is_not_bound_yet_is_missing(spelling):
    found = spelling.spell((StreamCode(2), " ", EventCode(3)), spelling._sites.line(2))
    assert (found.code, found.is_usable) == ("<stream> <event>", False)
    assert found.missing == {"<stream>": "stream `side` (cuda:0)", "<event>": "`done`"}


def test_a_wait_for_an_event_that_may_be_none_is_guarded(names):
    spelling = Spelling(names, Text("done, side = None, make()\nfor x in data:\n    use(x)\n    done = record()\n"))
    found = spelling.spell((StreamCode(2), ".wait_event(", EventCode(3), ")"), spelling._sites.line(3))
    assert found.statement == "if done is not None: side.wait_event(done)"


def test_a_wait_for_a_device_is_guarded_in_a_program_that_may_lack_one(names):
    spelling = Spelling(names, Text("import torch as th\nif th.cuda.is_available():\n    use()\nprint(clock())\n"))
    found = spelling.spell((DeviceSyncCode(1),), spelling._sites.line(4))
    assert found.statement == "if th.cuda.is_available(): th.cuda.synchronize()"


def test_one_name_does_not_stand_for_two_streams(spelling, names):
    names.streams[4] = StreamInfo(0, 8, 0)
    names.seen_at[NamedKind.STREAM, 4] = {("program.py", 10): "side"}
    assert spelled(spelling, 10, StreamCode(2), ".wait_stream(", StreamCode(4), ")") == (
        "side.wait_stream(<stream>)",
        False,
    )


def test_a_name_that_the_current_stream_has_at_the_line_stands_for_that_stream(spelling, names):
    """In another object, `self.stream` is another stream."""
    names.streams[4] = StreamInfo(0, 8, 0)
    names.seen_at[NamedKind.STREAM, 4] = {("program.py", 10): "side"}
    wait = (StreamCode(2), ".wait_stream(", StreamCode(4, is_current=True), ")")
    assert spelled(spelling, 10, *wait) == ("<stream>.wait_stream(side)", False)


def test_missing_names_are_distinguished(spelling, names):
    names.streams |= {4: StreamInfo(0, 8, 0), 5: StreamInfo(1, 9, 0)}
    found = spelling.spell((StreamCode(4), " ", StreamCode(5), " ", StreamCode(4)), spelling._sites.line(10))
    assert found.code == "<stream> <other stream> <stream>"
    assert found.missing == {"<stream>": "the stream (cuda:0)", "<other stream>": "the stream (cuda:1)"}


def test_default_and_current_streams_use_the_imported_module_name(spelling):
    assert spelled(spelling, 10, StreamCode(1)) == ("th.cuda.default_stream()", True)
    assert spelled(spelling, 10, StreamCode(1, is_current=True)) == ("th.cuda.current_stream()", True)
    assert spelled(spelling, 10, DeviceSyncCode(1)) == ("th.cuda.synchronize()", True)
    assert spelled(spelling, 1, DeviceSyncCode(1)) == ("torch.cuda.synchronize()", False)  # not imported there


def test_an_unnamed_current_stream_needs_no_name(spelling, names):
    names.streams[4] = StreamInfo(0, 8, 0)
    assert spelled(spelling, 10, StreamCode(4, is_current=True)) == ("th.cuda.current_stream()", True)


def test_a_tensor_is_named_only_where_the_statement_mentions_it(spelling, names):
    names.seen_at[NamedKind.ALLOCATION, 9] = {("program.py", 9): "x"}
    assert spelled(spelling, 9, TensorCode(9)) == ("x", True)
    assert spelled(spelling, 10, TensorCode(9)) == ("<tensor>", False)


def test_a_result_has_the_variable_of_its_own_statement(spelling, sites):
    sites.names[7], sites.spans[7] = "x", (5, 16)
    assert spelled(spelling, 7, ResultCode(7), ".sum()") == ("x.sum()", True)
    assert spelled(spelling, 9, ResultCode(7)) == ("<tensor>", False)
    sites.spans[7] = (5, 9)  # a part of the assigned value
    assert spelled(spelling, 7, ResultCode(7)) == ("<tensor>", False)
    sites.names[7], sites.spans[7] = "", (5, 16)
    assert spelled(spelling, 7, ResultCode(7)) == ("<tensor>", False)


@pytest.mark.parametrize(
    ("statement", "name"),
    [
        ("x.record_stream(th.cuda.current_stream())", "th.cuda.current_stream()"),
        ("x.record_stream(stream=user)", "user"),
        ("x.record_stream(*given)", "<stream>"),
        ("record(x, user)", "<stream>"),
    ],
)
def test_a_recorded_stream_is_spelled_as_in_its_call(names, statement, name):
    text = Text(statement)
    text.columns[1] = 1
    spelling = Spelling(names, text)
    assert spelled(spelling, 1, RecordedStreamCode(1)) == (name, name != "<stream>")


def test_a_tensor_observed_in_a_variable_at_the_line_has_that_name(spelling, names):
    names.seen_at[NamedKind.ALLOCATION, 9] = {("program.py", 10): "x"}
    assert spelled(spelling, 10, TensorCode(9)) == ("x", True)


def test_a_name_observed_at_the_line_takes_precedence_over_the_given_name(spelling, names):
    names.seen_at[NamedKind.STREAM, 2] = {("program.py", 10): "done"}
    assert spelled(spelling, 10, StreamCode(2)) == ("done", True)
    assert spelled(spelling, 12, StreamCode(2)) == ("done", True)
    names.seen_at[NamedKind.STREAM, 2] = {("other.py", 10): "done"}
    assert spelled(spelling, 10, StreamCode(2)) == ("side", True)


def test_a_handle_of_an_earlier_iteration_is_missing_in_the_first_one(names):
    text = "def f(chunks):\n{}    for chunk in chunks:\n        pack(chunk)\n        work = send(chunk)\n"
    unbound = Spelling(names, Text(text.format(""), bound={4: "work"}))
    assert spelled(unbound, 3, WaitCode(4)) == ("<handle>.wait()", False)
    bound = Spelling(names, Text(text.format("    work = send(chunks[0])\n"), bound={5: "work"}))
    assert spelled(bound, 4, WaitCode(5)) == ("work.wait()", True)


def test_a_handle_is_named_by_its_assignment_target(spelling):
    assert spelled(spelling, 12, WaitCode(11)) == ("work.wait()", True)
    assert spelled(spelling, 9, WaitCode(11)) == ("<handle>.wait()", False)
    assert spelled(spelling, 13, WaitCode(13)) == ("<handle>.wait()", False)


def test_coalesced_collectives_are_waited_for_by_their_manager(names):
    text = "with _coalescing_manager(async_ops=True) as cm:\n    all_reduce(x)\nprint(x)\n"
    for line in (1, 2):
        assert spelled(Spelling(names, Text(text)), 3, WaitCode(line)) == ("cm.wait()", True)


def test_handles_of_a_comprehension_are_all_waited_for(names):
    text = "works = [start(i) for i in range(2)]\nprint(works)\n"
    sites = Text(text, bound={1: "works[...]"})
    sites.columns[1] = 10
    spelling = Spelling(names, sites)
    assert spelled(spelling, 2, WaitCode(1)) == ("[handle.wait() for handle in works]", True)


def test_a_torch_function_is_spelled_as_imported(spelling):
    assert spelled(spelling, 10, TorchCode("ops.x"), "()") == ("th.ops.x()", True)
    assert spelled(spelling, 1, TorchCode("ops.x"), "()") == ("torch.ops.x()", False)


def test_a_phrase_is_not_code(spelling):
    with pytest.raises(TypeError, match="is a phrase"):
        spelled(spelling, 10, StreamRef(1))


def test_without_the_source_a_name_is_valid_only_in_its_own_function(names):
    spelling = Spelling(names, Text(SOURCE, readable=False))
    assert spelled(spelling, 10, StreamCode(2), " ", DeviceSyncCode(1)) == ("side torch.cuda.synchronize()", True)
    assert spelled(spelling, 5, StreamCode(2)) == ("<stream>", False)


# -- where an edit is made


def target(spelling, kind, site, *code, other=0):
    found = spelling.target(kind, site, code, other)
    return found.line.number, found.is_usable


def test_a_statement_is_inserted_before_that_of_the_call(spelling):
    assert target(spelling, EditKind.INSERT_BEFORE, 10, StreamCode(2)) == (10, True)
    assert target(spelling, EditKind.INSERT_BEFORE, 12, StreamCode(2)) == (12, False)  # it does not begin its line


def test_a_statement_is_inserted_at_the_caller_if_the_call_is_not_suitable(spelling, names):
    names.seen_at[NamedKind.ALLOCATION, 9] = {("program.py", 9): "x"}
    assert target(spelling, EditKind.INSERT_BEFORE, 5, TensorCode(9)) == (9, True)
    names.seen_at.clear()
    assert target(spelling, EditKind.INSERT_BEFORE, 5, TensorCode(9)) == (5, False)


def test_an_insertion_comes_after_the_work_it_waits_for(spelling):
    assert target(spelling, EditKind.INSERT_BEFORE, 10, other=9) == (10, True)
    assert target(spelling, EditKind.INSERT_BEFORE, 9, other=9) == (9, True)  # the work of the previous iteration
    assert target(spelling, EditKind.INSERT_BEFORE, 14, other=6) == (14, False)  # the work runs concurrently


def test_other_edits_are_made_at_the_line_of_the_call(spelling):
    assert target(spelling, EditKind.INSERT_AFTER, 11) == (11, True)
    assert target(spelling, EditKind.INSERT_AFTER, 6) == (6, False)  # nothing runs after a return
    assert target(spelling, EditKind.REPLACE_CALL, 10) == (10, True)
    assert target(spelling, EditKind.ADD_ARGUMENT, 3) == (3, True)
    assert target(spelling, EditKind.APPEND_CALL, 11) == (11, False)


def test_an_insertion_after_the_end_of_a_function_goes_after_the_callers_statement(spelling, sites):
    sites.callers[6] = (9,)
    assert target(spelling, EditKind.INSERT_AFTER, 6, StreamCode(2)) == (9, True)
    sites.at_line[60], sites.callers[60] = 5, (9,)  # the later work is in the call, too
    assert target(spelling, EditKind.INSERT_AFTER, 6, StreamCode(2), other=60) == (6, False)
    sites.callers[6] = (1,)  # its name is not bound there
    assert target(spelling, EditKind.INSERT_AFTER, 6, StreamCode(2)) == (6, False)


def test_no_edit_can_be_made_in_an_unreadable_file(names):
    spelling = Spelling(names, Text(SOURCE, readable=False))
    for kind in EditKind:
        assert target(spelling, kind, 10) == (10, False)


@pytest.mark.parametrize(
    ("held_by", "name", "at", "before", "after"),
    [(16, "left", 18, "<tensor>", "left"), (16, "left", 17, "left", "left"), (20, "left2", 21, "<tensor>", "<tensor>")],
)
def test_a_tensor_held_until_it_was_freed_has_its_variables_name(spelling, names, held_by, name, at, before, after):
    names.seen_at[NamedKind.ALLOCATION, 9] = {("program.py", held_by): name}
    assert spelled(spelling, at, TensorCode(9))[0] == before
    names.held_until_freed[9] = name
    assert spelled(spelling, at, TensorCode(9))[0] == after


def test_a_stream_made_by_a_library_is_not_current_at_the_users_line(names, sites, spelling):
    code = (StreamCode(2, is_current=True), ".wait_stream(", StreamCode(1), ")")
    sites.stacks[2] = (Frame("library.py", 3, is_user=False), Frame(sites.path, 2))
    assert spelled(spelling, 10, *code)[0] == "side.wait_stream(th.cuda.default_stream())"
    names.given.clear()
    assert spelled(spelling, 10, *code) == ("<stream>.wait_stream(th.cuda.default_stream())", False)
    sites.stacks[2] = (Frame(sites.path, 2),)
    assert spelled(spelling, 10, *code)[0] == "th.cuda.current_stream().wait_stream(th.cuda.default_stream())"


def test_a_librarys_own_stream_is_current_at_its_line(names, sites, spelling):
    sites.stacks[2] = (Frame("library.py", 3, is_user=False),)
    names.given.clear()
    line = SourceLine.of_library(Frame("library.py", 9, is_user=False))
    assert spelling.spell((StreamCode(2, is_current=True),), line).code == "torch.cuda.current_stream()"


SEVERAL_LINES = textwrap.dedent("""\
    import torch
    hooks = [
        lambda x: x.sum(),
        start(),
    ]
    for hook in hooks:
        hook(x)
""")


def test_words_name_the_first_or_the_last_line_of_a_statement(names):
    spelling = Spelling(names, Text(SEVERAL_LINES))
    assert spelling.target(EditKind.INSERT_BEFORE, 4, (), 0).shown_line(EditKind.INSERT_BEFORE) == 2
    assert spelling.target(EditKind.INSERT_AFTER, 4, (), 0).shown_line(EditKind.INSERT_AFTER) == 5
    assert spelling.target(EditKind.ADD_ARGUMENT, 4, (), 0).shown_line(EditKind.ADD_ARGUMENT) == 4


@pytest.mark.parametrize("kind", [EditKind.INSERT_BEFORE, EditKind.INSERT_AFTER])
def test_what_belongs_beside_a_lambda_goes_to_the_line_that_calls_it(names, kind):
    sites = Text(SEVERAL_LINES, callers={3: (7,)})
    sites.functions[3] = "<lambda>"
    assert target(Spelling(names, sites), kind, 3, StreamCode(1)) == (7, True)
    sites.callers[3] = ()  # another thread calls it
    assert target(Spelling(names, sites), kind, 3, StreamCode(1)) == (3, False)


def test_what_belongs_beside_a_lambda_that_its_own_statement_calls_stays_there(names):
    sites = Text("import torch\nmeasure(lambda: x.sum())\n", callers={5: (2,)})
    sites.at_line[5], sites.functions[5] = 2, "<lambda>"
    assert target(Spelling(names, sites), EditKind.INSERT_BEFORE, 5, StreamCode(1)) == (2, True)
