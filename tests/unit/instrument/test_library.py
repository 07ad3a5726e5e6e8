"""Described library functions are reported when the program calls them."""

import sys
from contextlib import nullcontext
from types import ModuleType

import pytest
import torch

from syncheck.hb.ids import BY_TORCH, NO_EVENT, WaitCall
from syncheck.instrument.library import Library, bound_to
from syncheck.instrument.patching import Patches
from syncheck.semantics import library as descriptions
from syncheck.semantics.library import Effect, describe

CURRENT_STREAM, SITE = 1, 20


class Calls:
    """Records reported calls; a stream or an event is a number or any object."""

    def __init__(self):
        self.checking = True
        self.made = []

    def is_checking(self):
        return self.checking

    def stream_of(self, stream):
        return CURRENT_STREAM if stream is None else stream

    def event_of(self, event):
        return event

    def site(self):
        return SITE

    def launch(self, *launch):
        self.made.append(("launch", *launch))

    def monitor(self):
        return nullcontext(self)

    def wait_stream(self, stream, other, site, origins):
        assert (site, origins) == (SITE, BY_TORCH)
        self.made.append(("wait_stream", stream, other))

    def wait(self, event, stream, site, via):
        assert (site, via) == (SITE, WaitCall.TORCH)
        self.made.append(("wait", event, stream))

    def sync_stream(self, stream, site, *, explicit):
        assert (site, explicit) == (SITE, False)
        self.made.append(("sync_stream", stream))


class Event:
    """A GPU event."""


class Store:
    side = 7

    def __init__(self):
        self.table = torch.ones(2)

    def fetch(self, out, *, scale=1):
        """Fetch rows."""
        return out

    @staticmethod
    def pack(x):
        return ("packed", x)

    @classmethod
    def load(cls, x):
        return cls, x


@pytest.fixture
def calls():
    return Calls()


@pytest.fixture
def acme(monkeypatch):
    """Return a library module with functions, a class, a stream, and a builtin without a signature."""
    monkeypatch.setattr(descriptions, "_described", {})
    module = ModuleType("acme")
    store = type("Store", (Store,), dict(vars(Store)))
    vars(module).update(
        Store=store, copy=lambda x, out=None, stream=None: out, make=lambda x: (torch.ones(2), [torch.zeros(2)]),
        compiled=max, streams=ModuleType("acme.streams"), number=3,
    )  # fmt: skip
    module.streams.side = 9
    monkeypatch.setitem(sys.modules, "acme", module)
    monkeypatch.setitem(sys.modules, "acme.streams", module.streams)
    return module


@pytest.fixture
def install(calls, acme):
    """Return a function that wraps everything described; the wrappers are removed after the test."""
    patches = Patches()
    yield lambda: Library(calls).install(patches)
    patches.undo()


X, OUT = torch.ones(1), torch.ones(1)


def shown(calls):
    """Return the calls with tensors shown as "x" and "out"."""

    def name(part):
        if part is X or part is OUT:
            return "x" if part is X else "out"
        return [name(inner) for inner in part] if isinstance(part, list | tuple) else part

    return [name(call) for call in calls.made]


def test_a_function_is_reported_after_it_ran_with_its_accesses(calls, acme, install):
    describe("acme.copy(x, out, stream)", reads="x", writes="out", stream="stream")
    install()
    assert acme.copy(X, OUT, stream=4) is OUT
    assert shown(calls) == [["launch", "acme.copy", 4, [["x", False], ["out", True]]]]


def test_an_omitted_stream_is_the_current_one(calls, acme, install):
    describe("acme.copy(x, out, stream)", reads="x", stream="stream")
    install()
    acme.copy(X)
    assert shown(calls) == [["launch", "acme.copy", CURRENT_STREAM, [["x", False]]]]


def test_an_error_propagates_and_nothing_is_reported(calls, acme, install):
    describe("acme.copy(x)", reads="x")
    install()
    with pytest.raises(TypeError):
        acme.copy()
    assert calls.made == []


def test_nothing_is_reported_outside_of_a_check(calls, acme, install):
    describe("acme.copy(x)", reads="x")
    install()
    calls.checking = False
    acme.copy(X)
    assert calls.made == []


def test_a_method_may_refer_to_attributes_of_its_object(calls, acme, install):
    describe("acme.Store.fetch(self, out)", reads="self.table", writes="out", stream="self.side", waits_for="current")
    install()
    store = acme.Store()
    assert store.fetch(out=OUT, scale=2) is OUT
    table = (store.table, False)
    assert calls.made == [("wait_stream", 7, CURRENT_STREAM), ("launch", "acme.Store.fetch", 7, [table, (OUT, True)])]
    assert acme.Store.fetch.__doc__ == "Fetch rows."


@pytest.mark.parametrize("is_instance", [True, False])
def test_a_static_method_stays_static(calls, acme, install, is_instance):
    describe("acme.Store.pack(x)", reads="x")
    install()
    assert (acme.Store() if is_instance else acme.Store).pack(X) == ("packed", X)
    assert shown(calls) == [["launch", "acme.Store.pack", CURRENT_STREAM, [["x", False]]]]


@pytest.mark.parametrize("is_instance", [True, False])
def test_a_class_method_stays_bound_to_its_class(calls, acme, install, is_instance):
    describe("acme.Store.load(x)", reads="x")
    install()
    kind = type("Mine", (acme.Store,), {})
    assert (kind() if is_instance else kind).load(X) == (kind, X)
    assert shown(calls) == [["launch", "acme.Store.load", CURRENT_STREAM, [["x", False]]]]


def test_a_class_described_as_a_function_stays_a_class(acme, install):
    describe("acme.Store(x)", reads="x")
    install()
    assert isinstance(acme.Store(), acme.Store)


def test_the_full_name_of_a_variable_may_denote_a_stream(calls, acme, install):
    describe("acme.copy(x)", reads="x", stream="acme.streams.side", then_waits=("current", "acme.streams.side"))
    install()
    acme.copy(X)
    assert shown(calls) == [
        ["launch", "acme.copy", 9, [["x", False]]], ["wait_stream", CURRENT_STREAM, 9],
    ]  # fmt: skip


def test_an_event_is_waited_for_unless_the_argument_is_none(calls, acme, install, monkeypatch):
    describe("acme.copy(x, out, stream)", waits_for=("out", "stream"))
    monkeypatch.setattr(torch.cuda, "Event", Event)
    install()
    event = Event()
    acme.copy(X, event)
    assert calls.made == [("wait", event, CURRENT_STREAM)]


def test_an_event_from_before_the_check_is_not_waited_for(calls, acme, install, monkeypatch):
    describe("acme.copy(x, out, stream)", waits_for="out")
    monkeypatch.setattr(torch.cuda, "Event", Event)
    monkeypatch.setattr(calls, "event_of", lambda _: NO_EVENT)
    install()
    acme.copy(X, Event())
    assert calls.made == []


def test_a_stream_does_not_wait_for_itself(calls, acme, install):
    describe("acme.copy(x, out, stream)", reads="x", waits_for="stream", then_waits="stream")
    install()
    acme.copy(X, stream=CURRENT_STREAM)
    assert [call[0] for call in calls.made] == ["launch"]


def test_a_stream_is_waited_for(calls, acme, install):
    describe("acme.copy(x, out, stream)", waits_for=("stream",))
    install()
    acme.copy(X, stream=4)
    assert calls.made == [("wait_stream", CURRENT_STREAM, 4)]


def test_the_host_may_wait_at_the_end(calls, acme, install):
    describe("acme.copy(x, out, stream)", reads="x", stream="stream", then_waits="host")
    install()
    acme.copy(X, stream=4)
    assert [call[:3] for call in calls.made] == [("launch", "acme.copy", 4), ("sync_stream", 4)]


def test_new_tensors_in_a_result_are_written(calls, acme, install):
    describe("acme.make(x)", returns="new")
    install()
    first, (second,) = acme.make(X)
    ((_, _, _, uses),) = calls.made
    assert [(tensor is made, is_write) for (tensor, is_write), made in zip(uses, (first, second), strict=True)] == [
        (True, True), (True, True),
    ]  # fmt: skip


def test_a_call_that_touches_no_tensor_launches_nothing(calls, acme, install):
    describe("acme.copy(x)", reads="x")
    install()
    acme.copy(3)
    assert calls.made == []


def test_tensors_in_a_list_are_accessed(calls, acme, install):
    describe("acme.copy(x)", reads="x")
    install()
    acme.copy([X, OUT])
    assert shown(calls) == [["launch", "acme.copy", CURRENT_STREAM, [["x", False], ["out", False]]]]


def test_default_arguments_are_considered(calls, acme, install):
    acme.copy = lambda x, stream=4: x
    describe("acme.copy(x, stream)", reads="x", stream="stream")
    install()
    acme.copy(X)
    assert shown(calls) == [["launch", "acme.copy", 4, [["x", False]]]]


def test_compiled_functions_are_bound_by_their_description(calls, acme, install):
    describe("acme.compiled(x, y)", reads="x")
    install()
    assert acme.compiled((X,), (OUT,), key=lambda _: 1) == (X,)
    assert shown(calls) == [["launch", "acme.compiled", CURRENT_STREAM, [["x", False]]]]


@pytest.mark.parametrize("name", ["acme.missing", "acme.Missing.fetch", "acme.number", "acme.Store.missing"])
def test_missing_members_of_the_library_are_skipped(calls, acme, install, name):
    before = dict(vars(acme))
    describe(f"{name}(x)", reads="x")
    install()
    assert dict(vars(acme)) == before


def test_operators_are_not_wrapped(acme, install):
    before = dict(vars(acme))
    describe("acme::copy(x)", reads="x")
    install()
    assert dict(vars(acme)) == before


def test_functions_are_restored(acme, calls):
    before, fetch = acme.copy, acme.Store.fetch
    describe("acme.copy(x)", reads="x")
    describe("acme.Store.fetch(self, out)", reads="out")
    patches = Patches()
    Library(calls).install(patches)
    assert acme.copy is not before
    patches.undo()
    assert (acme.copy, acme.Store.fetch) == (before, fetch)


def test_a_module_imported_later_is_wrapped_on_import(calls, acme, install, tmp_path, monkeypatch):
    (tmp_path / "acme_later.py").write_text("def copy(x):\n    return x\n")
    monkeypatch.syspath_prepend(str(tmp_path))
    describe("acme_later.copy(x)", reads="x")
    describe("acme.copy(x)", reads="x")
    install()
    import acme_later

    acme_later.copy(X)
    assert shown(calls) == [["launch", "acme_later.copy", CURRENT_STREAM, [["x", False]]]]
    monkeypatch.delitem(sys.modules, "acme_later")


def test_a_submodule_is_wrapped_when_it_is_imported(calls, install, tmp_path, monkeypatch):
    package = tmp_path / "acme_package"
    package.mkdir()
    (package / "__init__.py").write_text("")
    (package / "inner.py").write_text("class Store:\n    def fetch(self, x):\n        return x\n")
    monkeypatch.syspath_prepend(str(tmp_path))
    import acme_package

    describe("acme_package.inner.Store.fetch(self, x)", reads="x")
    install()
    import acme_package.inner

    acme_package.inner.Store().fetch(X)
    assert [call[1] for call in calls.made] == ["acme_package.inner.Store.fetch"]
    for name in ("acme_package.inner", "acme_package"):
        monkeypatch.delitem(sys.modules, name)


def test_a_library_that_is_not_installed_is_not_an_error(calls, install):
    describe("acme_that_is_nowhere.Store.fetch(self, x)", reads="x")
    install()
    assert calls.made == []


def test_arguments_are_bound_by_the_names_in_the_description():
    effect = Effect("acme.f", ("x", "y", "z"))
    assert bound_to(effect, (1, 2), {"z": 3, "w": 4}) == {"x": 1, "y": 2, "z": 3, "w": 4}
    assert bound_to(effect, (1, 2, 3, 4), {}) == {"x": 1, "y": 2, "z": 3}
