"""Differences between two runs of a program."""

from syncheck.witness.compare import Rerun, differences, nondeterministic_lines
from syncheck.witness.proofs import Difference
from syncheck.witness.record import Record, Values
from syncheck.witness.schedule import LaunchId, Pair

PAIR = Pair(LaunchId(3, 1), LaunchId(1, 4))


def values(*shown, place="train.py:5"):
    return Values(hash(shown), shown, len(shown), place)


def a_run(*lines, status=0, error="", exception="", **recorded):
    records = (Record(places={"1.4": "train.py:12", "3.1": "train.py:9"}, **recorded),)
    return Rerun(lines, status, error, records, exception=exception)


def test_equal_runs_have_no_differences():
    assert differences(a_run("loss 1", host=[values("1")]), a_run("loss 1", host=[values("1")]), PAIR) == ()


def test_values_read_by_a_racing_access_come_first():
    reference = a_run("sum 6", read={"1.4": [values("2", "2", "2", "2")]})
    other = a_run("sum nan", read={"1.4": [values("2", "nan", "nan", "nan")]})
    assert differences(reference, other, PAIR) == (
        Difference("what train.py:12 reads, from value 1 on", "[2, 2, 2]", "[nan, nan, nan]"),
        Difference("printed line 1", "'sum 6'", "'sum nan'"),
    )


def test_two_writes_differ_in_the_final_value():
    (found,) = differences(a_run(left={"3.1": [values("1")]}), a_run(left={"3.1": [values("2")]}), PAIR)
    assert found == Difference("what is left of what train.py:9 writes", "1", "2")


def test_the_way_a_program_ends_is_compared():
    (found,) = differences(a_run(), a_run(status=1, error="nan", exception="ValueError: nan"), PAIR)
    assert found == Difference("how the program ends", "with status 0", "ValueError: nan")


def test_the_last_line_of_standard_error_is_not_taken_for_the_error():
    (found,) = differences(a_run(), a_run(status=1, error="  warnings.warn(UNSET)"), PAIR)
    assert found == Difference("how the program ends", "with status 0", "with status 1")


def test_a_run_without_records_is_compared_by_its_output():
    assert differences(a_run("a"), Rerun(("b",), 0, ""))[0].what == "printed line 1"


def test_lines_that_vary_between_equal_runs_are_ignored():
    reference, repeat = a_run("loss 1", "12.1 s"), a_run("loss 1", "12.4 s")
    nondeterministic = nondeterministic_lines(reference, repeat)
    assert differences(reference, a_run("loss 1", "12.9 s"), PAIR, nondeterministic) == ()
    assert differences(reference, a_run("loss 2", "12.9 s"), PAIR, nondeterministic)[0].usual == "'loss 1'"


def test_final_memory_and_values_transferred_to_the_host_are_compared():
    found = differences(a_run(host=[values("1")], final=[values("1")]), a_run(host=[], final=[values("3")]))
    assert [one.what for one in found] == [
        "what the host gets at train.py:5",
        "at the end, the tensor made at train.py:5",
    ]
    assert found[0].other == "nothing"


def test_threads_may_read_at_different_places_in_any_order():
    worker = values("1", "2", place="save.py:3")
    one, two = a_run(host=[values("1"), worker, values("3")]), a_run(host=[worker, values("1"), values("3")])
    assert differences(one, two) == ()
    (found,) = differences(one, a_run(host=[worker, values("1"), values("4")]))
    assert (found.what, found.usual, found.other) == ("what the host gets at train.py:5", "3", "4")
    (found,) = differences(one, a_run(host=[worker, values("1"), values("3"), worker]))
    assert (found.what, found.usual, found.other) == ("what the host gets at save.py:3", "nothing", "[1, 2]")
