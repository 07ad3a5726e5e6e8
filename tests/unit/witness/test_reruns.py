"""Information extracted from a run in another order."""

from syncheck.commands.reruns import exception_in, reason_in

TRACEBACK = ["Traceback (most recent call last):", '  File "train.py", line 3, in <module>', "ValueError: nan"]


def test_the_exception_is_the_line_after_the_frames():
    assert exception_in([*TRACEBACK, "it goes on here", "a warning behind it"]) == "ValueError: nan"


def test_the_last_of_several_tracebacks_counts():
    assert exception_in([*TRACEBACK, "During handling ...:", *TRACEBACK[:2], "KeyError: 'loss'"]) == "KeyError: 'loss'"


def test_warnings_are_not_exceptions():
    assert exception_in(["train.py:3: UserWarning: slow", "  warnings.warn(SLOW)"]) == ""


def test_the_reason_is_the_last_line_that_is_no_hint():
    assert (
        reason_in(["a warning", "syncheck: error: no models", "  hint: name a module"]) == "syncheck: error: no models"
    )
    assert reason_in([]) == ""


def test_a_truncated_traceback_has_no_exception():
    assert exception_in(TRACEBACK[:2]) == ""
