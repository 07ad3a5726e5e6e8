"""Program threads as hosts: which one acts, what orders them, and where one may have observed others."""

import gc
import threading
from concurrent.futures import ThreadPoolExecutor

import pytest

from syncheck.hb.ids import EVERY_THREAD, MAIN_THREAD
from syncheck.instrument.hosts import Hosts
from syncheck.instrument.locked_monitor import LockedMonitor
from tests.unit.instrument.program import run


class Monitor:
    """Records calls with their arguments."""

    def __init__(self):
        self.calls = []

    def __getattr__(self, name):
        return lambda *args: self.calls.append((name, *args))


def as_library(source, **names):
    """Return the function `f` of a text as library code, whose frames do not count as the program's."""
    exec(compile(source, threading.__file__, "exec"), names)
    return names["f"]


WATCHED = as_library(
    "def f(hosts, work):\n    thread = current()\n    hosts.begin(thread)\n    work()\n    hosts.end(thread)",
    current=threading.current_thread,
)


class World:
    """A program whose threads make GPU calls.

    Attributes:
        calls: calls received by the monitor.
    """

    def __init__(self):
        monitor = Monitor()
        self.calls = monitor.calls
        self.hosts = Hosts(LockedMonitor(monitor, threading.RLock()))
        self.launch = self.hosts.monitor.launch

    def start_one(self):
        """Start a thread that never makes a call."""
        self.started = threading.Thread()
        self.hosts.start(self.started)

    def names(self):
        return [call[0] for call in self.calls]

    def thread(self, work, *, name="worker"):
        """Run a function in a thread of the program and join it."""
        thread = threading.Thread(target=WATCHED, args=(self.hosts, work), name=name)
        self.hosts.start(thread)
        thread.start()
        thread.join()
        self.hosts.joined(thread)
        return thread

    def in_untracked_thread(self, work):
        """Run a function in an untracked thread."""
        thread = threading.Thread(target=work)
        thread.start()
        thread.join()


@pytest.fixture
def world():
    return World()


# -- the acting thread


def test_hosts_are_not_reported_before_the_first_thread_start(world):
    world.launch()
    world.launch()
    assert world.calls == [("launch",), ("launch",)]
    assert not world.hosts.has_threads


def test_the_first_thread_start_is_announced_once(world):
    seen = []
    world.hosts.on_first_thread = lambda: seen.append(world.hosts.has_threads)
    for _ in range(2):
        world.start_one()
    assert seen == [False]
    assert world.hosts.has_threads


def test_a_single_acting_thread_is_not_reported_after_a_start(world):
    world.start_one()
    world.calls.clear()
    world.launch()
    world.launch()
    assert world.calls == [("launch",), ("launch",)]


def test_a_thread_is_ordered_after_its_start_and_before_its_join(world):
    world.launch()
    thread = world.thread(world.launch)
    world.launch()
    start, worker = world.hosts.sync_of(thread), 2
    assert world.calls == [
        ("launch",), ("release", start),
        ("host", worker, "worker"), ("acquire", start), ("launch",), ("release", start),
        ("host", MAIN_THREAD, "MainThread"), ("acquire_all",), ("acquire", start), ("launch",),
    ]  # fmt: skip


def test_each_thread_is_a_separate_host(world):
    for name in "ab":
        world.thread(world.launch, name=name)
    main = (MAIN_THREAD, "MainThread")
    assert [call[1:] for call in world.calls if call[0] == "host"] == [(2, "a"), main, (3, "b"), main]


def test_a_thread_without_calls_is_not_reported(world):
    world.thread(lambda: None)
    assert world.names() == ["release", "acquire"]  # its start and its join


def test_a_join_before_any_start_orders_nothing(world):
    world.hosts.joined(threading.Thread())
    assert world.calls == []


def test_an_unknown_thread_stands_for_every_thread(world):
    world.start_one()
    world.calls.clear()
    world.in_untracked_thread(world.launch)
    assert world.calls == [("host", EVERY_THREAD, ""), ("launch",)]


# -- synchronization objects


def test_an_object_has_one_number_during_its_lifetime(world):
    first, second = threading.Event(), threading.Event()
    number = world.hosts.sync_of(first)
    assert world.hosts.sync_of(first) == number
    assert world.hosts.sync_of(second) != number


def test_the_number_of_a_deleted_object_is_forgotten_before_the_next_call(world):
    thing = threading.Event()
    number = world.hosts.sync_of(thing)
    del thing
    gc.collect()
    assert world.calls == []
    world.launch()
    assert world.calls == [("forget_sync", number), ("launch",)]


def test_an_object_at_a_reused_address_gets_a_new_number(world):
    first, second = threading.Event(), threading.Event()
    number = world.hosts.sync_of(first)
    objects = world.hosts._objects
    objects[id(second)] = objects.pop(id(first))  # as if it were at the address of the first one
    assert world.hosts.sync_of(second) != number


def test_the_releasing_or_acquiring_thread_is_reported(world):
    sync = world.hosts.sync_of(world)
    world.thread(lambda: world.hosts.release(sync))
    world.hosts.acquire(sync)
    assert [call for call in world.calls if call[0] == "host" or call[1:] == (sync,)] == [
        ("host", 2, "worker"), ("release", sync), ("host", MAIN_THREAD, "MainThread"), ("acquire", sync),
    ]  # fmt: skip


# -- where a thread may have observed others


HEAD = """
items = []


def inner():
    launch()


def twice():
    launch()
    launch()


def seeing():
    print(*items, end="")
    launch()
"""


class Go:
    """Event of the program: another thread makes a GPU call while the program waits for it."""

    def __init__(self, world):
        self.event = threading.Event()
        self.event.wait = lambda: world.in_untracked_thread(world.launch)


def has_unobserved(body):
    """Return whether a program's thread is ordered after the others at its last call.

    The program runs in a separate thread, because the caller of the tests may be a program, too.
    """
    with ThreadPoolExecutor(1) as pool:
        return pool.submit(_is_ordered_after_others, body).result()


def _is_ordered_after_others(body):
    world = World()
    world.start_one()
    world.in_untracked_thread(world.launch)
    lines = "\n".join(f"    {line}" for line in body.splitlines())
    go = Go(world).event
    calling = as_library("def f(one, other):\n    one()\n    go.wait()\n    other()", go=go)
    run(f"{HEAD}\ndef program(go):\n{lines}\nprogram(go)\n", launch=world.launch, go=go, calling=calling)
    last = max(i for i, call in enumerate(world.calls) if call[0] == "host" and call[1] == MAIN_THREAD)
    return ("acquire_all",) in world.calls[last:]


BLIND = {
    "one line after the other": "launch()\ngo.wait()\nlaunch()",
    "one line": "launch(), go.wait(), launch()",
    "work of its own": "launch()\na = 1\ngo.wait()\na = a + 1\nlaunch()",
    "into a function": "launch()\ngo.wait()\ninner()",
    "into two functions": "def outer():\n    inner()\nlaunch()\ngo.wait()\nouter()",
    "round a loop": "for i in range(2):\n    launch()\n    go.wait()",
    "a second call that is isolated": "launch()\ngo.wait()\nlaunch()\ngo.wait()\nlaunch()",
}
SEEING = {
    "a look at what is shared": "launch()\ngo.wait()\nprint(*items, end='')\nlaunch()",
    "out of a function": "inner()\ngo.wait()\nlaunch()",
    "out of a function and into it": "inner()\ngo.wait()\ninner()",
    "a function that looks": "launch()\ngo.wait()\nseeing()",
    "a branch": "launch()\ngo.wait()\nif not items: launch()",
    "a loop that looks": "for i in range(2):\n    launch()\n    go.wait()\n    print(*items, end='')",
    "a loop further out": "for i in range(2):\n    inner()\n    go.wait()",
    "called by a library": "launch()\ngo.wait()\nlist(map(lambda _: launch(), range(1)))",
    "very deep": "def deep(n):\n    deep(n - 1) if n else launch()\nlaunch()\ngo.wait()\ndeep(300)",
    "out of a function that a library called": "calling(inner, launch)",
    "into a function that a library calls": "calling(launch, inner)",
    "what was seen once": "launch()\nprint(*items, end='')\ngo.wait()\nlaunch()",
}


@pytest.mark.parametrize("body", BLIND.values(), ids=BLIND)
def test_isolated_code_does_not_order_a_thread_after_others(body):
    assert not has_unobserved(body)


@pytest.mark.parametrize("body", SEEING.values(), ids=SEEING)
def test_code_that_may_have_looked_orders_a_thread_after_all_others(body):
    assert has_unobserved(body)


def test_two_monitor_calls_from_one_program_call_count_as_one_observation(world):
    source = "def f():\n    launch()\n    go.wait()\n    launch()\n"
    both = as_library(source, launch=world.launch, go=Go(world).event)
    world.start_one()
    world.in_untracked_thread(world.launch)
    run("def program(both):\n    both()\nprogram(both)", both=both)
    assert world.names()[-3:] == ["launch", "host", "launch"]


@pytest.mark.parametrize(("before", "has_unobserved"), [("a = 1", False), ("print(*items, end='')", True)])
def test_a_new_thread_is_ordered_only_after_what_preceded_its_start(world, before, has_unobserved):
    work = run(f"{HEAD}\ndef work():\n    {before}\n    launch()\n", launch=world.launch)["work"]
    world.thread(work)
    assert (
        world.names()[1:5] == ["host", "acquire", *(["acquire_all"] if has_unobserved else []), "launch", "release"][:4]
    )


def test_a_task_is_ordered_after_its_submission(world):
    world.start_one()
    item = threading.Event()

    def tasks():
        world.hosts.begin(threading.current_thread())
        for _ in range(2):
            world.hosts.begin_task(world.hosts.sync_of(item))
            work()

    work = run(f"{HEAD}\ndef work():\n    launch()\n", launch=world.launch)["work"]
    as_task = as_library("def f(tasks):\n    tasks()")
    thread = threading.Thread(target=as_task, args=(tasks,))
    world.hosts.start(thread)
    thread.start()
    thread.join()
    assert world.names().count("acquire") == 3


def test_a_thread_whose_function_was_called_by_a_library_may_have_observed_others(world):
    work = run("def work():\n    list(map(lambda _: launch(), range(1)))", launch=world.launch)["work"]
    world.thread(work)
    assert "acquire_all" in world.names()
