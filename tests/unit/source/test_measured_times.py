"""Whether a program measures GPU work with a clock."""

import ast

import pytest

from syncheck.findings import Frame
from syncheck.source.measured_times import function_at, is_host_time, is_measured

FUNCTION = """def f(start, log, limit):
    work()
    {use}
    return 0
"""


def measured(use, **facts):
    tree = ast.parse(FUNCTION.format(use=use))
    call = next(node for node in ast.walk(tree) if isinstance(node, ast.Call) and ast.unparse(node.func) == "clock")
    frame = Frame("m.py", call.lineno, end_line=call.end_lineno, column=call.col_offset + 1)
    return is_measured(frame, function_at(tree, call.lineno), **facts)


@pytest.mark.parametrize(
    "use",
    [
        "return clock() - start",
        "log(clock() - start)",
        "seconds = clock() - start; log(seconds)",
        "end = clock(); log(end - start)",
        "self.total += clock() - start",
        "times = []; times.append(clock() - start); log(times)",
        "times.append(clock() - start)",
        "times = self.times; times.append(clock() - start)",
        "global times; times = []; times.append(clock() - start)",
        "log['times'] = times = []; times.append(clock() - start)",
    ],
)
def test_a_time_that_is_used_is_measured(use):
    assert measured(use)


@pytest.mark.parametrize(
    "use",
    [
        "times = []; times.append(clock() - start)",
        "if clock() - start > limit: return 1",
        "end = clock()\n    if end - start > limit: return 1",
        "while clock() < limit: pass",
        "time.sleep(max(0, limit - (clock() - start)))",
        "launch_ms = (clock() - start) * 1e3; log(launch_ms)",
        "log('warm-up took', clock() - start)",
        "log((clock() - start) / 3600)",
        "log(datetime.timedelta(seconds=int(clock() - start)))",
    ],
)
def test_a_limit_and_the_time_of_the_hosts_own_work_are_not(use):
    assert not measured(use)


@pytest.mark.parametrize(
    ("name", "is_used"),
    [
        ("bench_launch_us", False), ("measure_launch_time", False), ("launch_overhead", False),
        ("kernel_overhead", True), ("launch_training", True), ("bench", True), ("bench_dispatch_us", True),
    ],
)  # fmt: skip
def test_a_function_that_measures_the_launch(name, is_used):
    tree = ast.parse(FUNCTION.replace("def f", f"def {name}").format(use="log(clock() - start)"))
    frame = Frame("m.py", 3, end_line=3, column=9)
    assert is_measured(frame, function_at(tree, 3)) is is_used


@pytest.mark.parametrize(
    ("test", "is_used"),
    [
        ("rank == 0", False),
        ("dist.get_rank() == 0 and step > 3", False),
        ("local_rank == 0", True),
        ("rank == 1", True),
        ("rank is not None", True),
        ("rank == 0 or verbose", True),
        ("config.main_loop", True),
        ("step % 10 == 0 and master_process", False),
        ("accelerator.is_main_process", False),
        ("verbose", True),
        ("rank != 0", True),
        ("not is_main_process()", True),
    ],
)
def test_a_time_for_the_first_rank_is_used_there_only(test, is_used):
    use = f"seconds = clock() - start\n    if {test}:\n        log(seconds)"
    assert measured(use)
    assert measured(use, is_main_process=False) is is_used


def test_a_reading_in_another_place_may_be_measured():
    tree = ast.parse("def f(): return 1")
    assert is_measured(Frame("m.py", 7, column=1), tree)


def test_the_innermost_function_around_a_line():
    tree = ast.parse("def f():\n    def g():\n        return 1\n    return 2\nx = 3")
    assert [getattr(function_at(tree, line), "name", "") for line in (2, 3, 4, 5)] == ["g", "g", "f", ""]


@pytest.mark.parametrize(
    ("name", "expected"), [("cpu_seconds", True), ("data_time", True), ("warmup_s", True), ("step_time", False)]
)
def test_a_name_says_what_a_time_includes(name, expected):
    assert is_host_time(name) is expected
