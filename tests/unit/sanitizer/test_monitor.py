"""The monitor protocol: each implementation accepts every call with the declared signature."""

import inspect

import pytest

from syncheck.hb.ids import BY_TORCH
from syncheck.instrument.sites import SiteTable
from syncheck.lint.interp.sites import SourceSites
from syncheck.sanitizer import monitor
from syncheck.sanitizer.monitor import Monitor, Sites, SourceLine
from syncheck.sanitizer.session import Session
from syncheck.sim.null_monitor import NoSites, NullMonitor

CALLS = {name: function for name, function in vars(Monitor).items() if inspect.isfunction(function) and name[0] != "_"}
QUESTIONS = [name for name, function in vars(Sites).items() if inspect.isfunction(function) and name[0] != "_"]


def parameters(function, *, is_bound):
    found = list(inspect.signature(function).parameters.values())
    return [(p.name, p.kind, p.default) for p in (found if is_bound else found[1:])]


@pytest.fixture
def session():
    return Session(lambda rule: True, "no GPU")


@pytest.mark.parametrize("name", CALLS)
def test_a_session_accepts_each_call_as_declared(session, name):
    assert parameters(getattr(session, name), is_bound=True) == parameters(CALLS[name], is_bound=False)


@pytest.mark.parametrize("name", CALLS)
def test_the_null_monitor_accepts_each_call(name):
    assert getattr(NullMonitor(), name)(1, 2, site=3) in (0, False, (), None)


@pytest.mark.parametrize("table", [SiteTable, SourceSites, NoSites])
def test_every_site_table_answers_every_query(table):
    assert [name for name in QUESTIONS if not hasattr(table, name)] == []


def test_a_source_line_needs_only_file_and_number():
    assert SourceLine("program.py", 3) == ("program.py", 3, 0, "", None, True)
    assert monitor.BY_TORCH is BY_TORCH
