"""The debug mode that warns or raises when an operator makes the host wait."""

import warnings

import pytest

from syncheck.sim.sync_debug import Level, SyncDebug


@pytest.mark.parametrize(
    ("given", "level"),
    [("default", Level.SILENT), ("warn", Level.WARN), ("error", Level.RAISE), (0, Level.SILENT), (2, Level.RAISE)],
)
def test_a_level_has_a_name_and_a_number(given, level):
    debug = SyncDebug()
    debug.level = Level.WARN
    debug.choose(given)
    assert debug.level is level


@pytest.mark.parametrize(("given", "known"), [("off", "`default`, `warn`, `error`"), (3, "0,1,2")])
def test_an_unknown_level_is_rejected_and_changes_nothing(given, known):
    debug = SyncDebug()
    debug.choose("warn")
    with pytest.raises(RuntimeError, match=f"expected one of {known}"):
        debug.choose(given)
    assert debug.level is Level.WARN


def test_a_wait_is_silent_warns_or_raises():
    debug = SyncDebug()
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        debug.check()
    debug.choose("warn")
    with pytest.warns(UserWarning, match="synchronizing CUDA operation"):
        debug.check()
    debug.choose("error")
    with pytest.raises(RuntimeError, match="synchronizing CUDA operation"):
        debug.check()
