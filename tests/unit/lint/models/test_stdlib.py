"""Standard library functions that call other functions."""

import pytest

from tests.unit.lint.program import calls_of, constant, follow

X = "x = torch.ones(4, device='cuda')\n"
T = "import time, timeit, functools, contextlib\n"


@pytest.mark.parametrize("clock", ["time.time", "time.perf_counter", "time.monotonic_ns", "timeit.default_timer"])
def test_clocks_are_read(clock):
    assert calls_of(f"a = {clock}()\nb = {clock}() - a", T) == ["clock", "clock", "clock_difference"]


def test_timeit_reads_a_clock_around_its_call():
    calls = calls_of("a = timeit.timeit(lambda: x.sin_())", T + X)
    assert [call for call in calls if call != "is_pending"] == [
        "clock",
        "launch cuda:0 sin_ w1",
        "clock",
        "clock_difference",
    ]
    assert calls_of("a = timeit.timeit('text')", T + X) == ["clock", "clock", "clock_difference"]


@pytest.mark.parametrize(
    "measured",
    [
        "timeit.timeit(stmt=lambda: x.sin_(), number=3)",
        "min(timeit.repeat(lambda: x.sin_(), repeat=3, number=10))",
        "timeit.Timer(lambda: x.sin_()).timeit(10)",
        "min(timeit.Timer(functools.partial(x.sin_)).repeat(3, 10))",
    ],
)
def test_all_forms_of_timeit_read_clocks(measured):
    calls = [call for call in calls_of(f"a = {measured}", T + X) if call != "is_pending"]
    assert calls == ["clock", "launch cuda:0 sin_ w1", "clock", "clock_difference"]


def test_an_unused_timeit_result_is_not_measured():
    assert calls_of("timeit.timeit(lambda: x.sin_())", T + X) == ["launch cuda:0 sin_ w1"]


def test_higher_order_functions_are_followed():
    assert constant("functools.partial(f, 1)(2)", T + "def f(a, b): return [a, b]") == [1, 2]
    assert constant("functools.wraps(g)(f)(2)", T + "def f(a): return a") == 2


def test_cached_functions_run_once_for_equal_arguments():
    source = T + X + "@functools.lru_cache\ndef f(n):\n    x.sin_()\n    return n\n"
    assert calls_of("a = [f(1), f(1), f(2)]", source) == ["launch cuda:0 sin_ w1"] * 2
    source = source.replace("lru_cache", "lru_cache(maxsize=None)")
    assert calls_of("a = [f(1), f(1), f(2)]", source) == ["launch cuda:0 sin_ w1"] * 2


def test_null_and_closing_contexts():
    assert constant("a", T + "with contextlib.nullcontext(3) as a: pass") == 3
    source = (
        T + "class C:\n    closed = 0\n    def close(self): self.closed = 1\nc = C()\nwith contextlib.closing(c): pass"
    )
    assert constant("c.closed", source) == 1


def test_an_exit_stack_exits_in_reverse():
    before = T + X + "s = torch.cuda.Stream()\n"
    source = """
with contextlib.ExitStack() as stack:
    stack.callback(x.tan_)
    stack.enter_context(torch.cuda.stream(s))
    x.sin_()
x.cos_()
"""
    assert calls_of(source, before) == ["launch s1 sin_ w1", "launch cuda:0 tan_ w1", "launch cuda:0 cos_ w1"]
    assert calls_of("st = contextlib.ExitStack()\nwith st as q:\n    q.push(f)", before) == ["all complete"]


def test_call_sites_in_an_ignore_block_differ():
    program = follow(
        T + X + "import syncheck\nwith syncheck.ignore('SYN101', 'unordered-write'):\n    x.sin_()\nx.cos_()"
    )
    codes = [program.sites.ignored_codes(site) for site in range(1, len(program.sites.nodes) + 1)]
    assert ["SYN101", "SYN103"] in codes
    assert program.sites.ignored_now == frozenset()
    assert codes[-1] == []


def test_an_unknown_rule_in_an_ignore_block_has_no_effect():
    assert follow("import syncheck\nwith syncheck.ignore('SYN9999'):\n    pass").sites.ignored_now == frozenset()
