"""Which calls may wait until later calls are made."""

from syncheck.cuda.waiting_calls import WaitingCalls


def test_calls_wait_only_after_many_without_findings():
    waiting = WaitingCalls()
    answers = [waiting.may_wait(0) for _ in range(100)]
    assert not any(answers[:32])
    assert answers[32:64] == [True] * 32


def test_a_call_is_made_from_time_to_time():
    waiting = WaitingCalls()
    answers = [waiting.may_wait(0) for _ in range(400)]
    longest = max(map(len, "".join(map(str, map(int, answers))).split("0")))
    assert longest == 32
    assert answers.count(True) > 300


def test_a_finding_ends_all_waiting():
    waiting = WaitingCalls()
    for _ in range(40):
        waiting.may_wait(3)
    assert waiting.may_wait(3)
    answers = [waiting.may_wait(4) for _ in range(33)]
    assert answers == [False] * 32 + [True]
