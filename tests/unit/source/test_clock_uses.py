"""Whether a program may subtract a reading of a clock."""

import dis

import pytest

from syncheck.source.clock_uses import may_be_subtracted


def tracked(tmp_path, text, name="clock"):
    """Return whether the result of the only call of a function may be subtracted."""
    path = tmp_path / "program.py"
    path.write_text(text)
    codes = [compile(text, str(path), "exec")]
    for code in codes:
        codes += [constant for constant in code.co_consts if hasattr(constant, "co_code")]
    found = []
    for code in codes:
        for instruction in dis.get_instructions(code):
            place = instruction.positions
            is_call = instruction.opname.startswith("CALL") and place is not None and place.lineno is not None
            if is_call and text.splitlines()[place.lineno - 1][place.col_offset :].startswith(f"{name}("):
                found.append(may_be_subtracted(code, instruction.offset))
    assert len(set(found)) == 1
    return found[0]


@pytest.mark.parametrize(
    "text",
    [
        "print(clock() - start)",
        "elapsed = limit - clock() * 1000",
        "end = clock()\nprint(end - start)",
        "self.start = clock()",
        "times.append(clock())",
        "queue.put((clock(), batch))",
        "item = {'start': clock()}\nspent = end - item['start']",
        "state['start'] = clock()\nspent = end - state['start']",
        "def now():\n    return clock()",
        "def f():\n    now = clock()\n    return now",
        "now = clock()\nlog(now)",
        "if (now := clock()) and now - start > 3: stop()",
        "total -= clock()",
        "f(at=clock())",
    ],
)
def test_a_reading_may_be_subtracted(tmp_path, text):
    assert tracked(tmp_path, text)


@pytest.mark.parametrize(
    "text",
    [
        "torch.save({'model': m, 'saved_at': clock()}, path)",
        "state['saved_at'] = clock()",
        "now = clock()\nstate = {'saved_at': now}",
        "print(clock())",
        "kind = type(clock())",
        "while clock() < limit: step()",
        "name = f'{clock()}.pt'",
        "json.dump([clock()], file)",
        "clock()",
        "a = clock()\nb = a\nprint(b)",
        "a = clock()\na = a + 1",
    ],
)
def test_a_reading_that_is_only_kept_stays_a_plain_number(tmp_path, text):
    assert not tracked(tmp_path, text)


def test_without_its_source_any_reading_may_be_subtracted():
    assert may_be_subtracted(compile("clock()", "<generated>", "exec"), 0)


def test_another_call_may_be_subtracted(tmp_path):
    path = tmp_path / "program.py"
    path.write_text("x = 1\n")
    assert may_be_subtracted(compile("clock()", str(path), "exec"), 0)
