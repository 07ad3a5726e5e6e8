"""Models of threads and executors."""

from tests.unit.lint.program import calls_of, constant

X = "x = torch.ones(4, device='cuda')\nimport threading\nfrom concurrent.futures import ThreadPoolExecutor\n"
WORK = X + "def work(t, n=0):\n    t.sin_()\n    return n\n"


def test_a_thread_runs_its_function_when_started():
    assert calls_of("t = threading.Thread(target=work, args=(x,))", WORK) == []
    assert calls_of("t.start()\nt.join()", WORK + "t = threading.Thread(target=work, args=(x,))\n") == [
        "launch cuda:0 sin_ w1"
    ]
    assert calls_of("threading.Thread(None, work, kwargs={'t': x}, args=()).start()", WORK) == ["launch cuda:0 sin_ w1"]


def test_a_thread_that_waits_for_others_may_run_at_any_time():
    source = X + "q = []\ndef work():\n    q.get()\n    x.sin_()\nt = threading.Thread(target=work, args=(x,))\n"
    assert calls_of("t.start()", source) == ["all complete", "launch cuda:0 unknown code"]


def test_waiting_for_a_cuda_event_does_not_make_a_thread_unordered():
    source = X + "e = torch.cuda.Event()\ndef work():\n    e.wait()\n    x.sin_()\nt = threading.Thread(target=work)\n"
    assert calls_of("t.start()", source) == ["wait cuda:0 for e1 (event)", "launch cuda:0 sin_ w1"]


def test_an_executor_returns_the_results_of_its_functions():
    before = WORK + "pool = ThreadPoolExecutor(2)\n"
    assert calls_of("f = pool.submit(work, x, n=3)", before) == ["launch cuda:0 sin_ w1"]
    assert constant("pool.submit(work, x, n=3).result()", before) == 3
    assert constant("list(pool.map(lambda n: n + 1, [1, 2]))", before) == [2, 3]
    assert constant("pool.submit().result()", before) == "unknown"


def test_other_methods_of_a_future_are_unknown():
    assert constant("pool.submit(work, x).done()", WORK + "pool = ThreadPoolExecutor(2)\n") == "unknown"
