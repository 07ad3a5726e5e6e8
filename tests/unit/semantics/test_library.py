"""Descriptions of library functions."""

import pytest

from syncheck.errors import ConfigError
from syncheck.semantics import library
from syncheck.semantics.library import CURRENT, HOST, NEW, Effect, describe, described, operator


@pytest.fixture(autouse=True)
def no_descriptions(monkeypatch):
    """Start without descriptions."""
    monkeypatch.setattr(library, "_described", {})


def test_an_empty_description_uses_the_current_stream():
    assert describe("acme.f(x)") == Effect("acme.f", ("x",), (), (), CURRENT, (), (), "")


def test_a_single_name_becomes_a_tuple_and_several_keep_their_order():
    effect = describe(
        "acme.f(x, y, out, s, e)", reads=("y", "x"), writes="out", stream="s", waits_for=("e", CURRENT),
        then_waits=HOST, returns=NEW,
    )  # fmt: skip
    assert (effect.reads, effect.writes) == (("y", "x"), ("out",))
    assert (effect.stream, effect.waits_for, effect.then_waits, effect.returns) == ("s", ("e", CURRENT), (HOST,), NEW)


@pytest.mark.parametrize(
    ("signature", "name", "parameters"),
    [
        ("acme.f()", "acme.f", ()),
        ("acme.native.f(a, /, b=1, *, c=None)", "acme.native.f", ("a", "b", "c")),
        ("acme::f(a, b)", "acme::f", ("a", "b")),
        ("acme.f (\n  a,\n  b,\n)  ", "acme.f", ("a", "b")),
        ("_a1.B._c(self)", "_a1.B._c", ("self",)),
    ],
)
def test_a_signature_has_a_full_name_and_parameters(signature, name, parameters):
    effect = describe(signature)
    assert (effect.name, effect.parameters) == (name, parameters)


@pytest.mark.parametrize(
    "signature",
    ["f(x)", "acme.f", "acme.f(x", "acme.f(x))", "acme.f(x: int)", "acme.f(x) -> int", "acme.f(1)", "acme.1f(x)",
     "acme:f(x)", ".f(x)", "acme.f(x, x=)", ""],
)  # fmt: skip
def test_an_invalid_signature_is_rejected_with_an_example(signature):
    with pytest.raises(ConfigError, match="is not the signature of a function with its full name") as error:
        describe(signature)
    assert "acme.cache.prefetch(table, out, *, stream=None)" in error.value.hint


@pytest.mark.parametrize("signature", ["acme.f(*xs)", "acme.f(x, **options)"])
def test_variadic_parameters_are_rejected(signature):
    with pytest.raises(ConfigError, match="has \\* or \\*\\* parameters"):
        describe(signature)


@pytest.mark.parametrize("wrong", [{"reads": "z"}, {"writes": ("x", "z")}, {"returns": "z"}, {"reads": "z.data"}])
def test_an_unknown_parameter_is_rejected(wrong):
    with pytest.raises(ConfigError, match=r"acme\.f has no parameter 'z") as error:
        describe("acme.f(x, y)", **wrong)
    assert error.value.hint == "its parameters are x, y"


@pytest.mark.parametrize("role", ["stream", "waits_for", "then_waits"])
@pytest.mark.parametrize("place", ["side", ""])
def test_an_unknown_stream_is_rejected(role, place):
    with pytest.raises(ConfigError, match=rf"acme\.f: '{place}' names no stream"):
        describe("acme.f(x)", **{role: place})


@pytest.mark.parametrize("role", ["stream", "waits_for"])
def test_the_host_is_not_a_stream_and_may_only_wait(role):
    with pytest.raises(ConfigError, match=r"acme\.f: 'host' names no stream"):
        describe("acme.f(x)", **{role: HOST})
    assert describe("acme.f(x, host)", **{role: HOST}).parameters == ("x", "host")


@pytest.mark.parametrize("place", ["self.side", "acme.streams.copy", CURRENT, "s"])
def test_a_stream_can_be_named_in_four_ways(place):
    effect = describe("acme.C.f(self, s)", stream=place, waits_for=place, then_waits=place)
    assert (effect.stream, effect.waits_for, effect.then_waits) == (place, (place,), (place,))


@pytest.mark.parametrize("part", ["self", "self.table", "x.data"])
def test_a_parameter_or_its_attribute_can_be_read_and_written(part):
    effect = describe("acme.C.f(self, x)", reads=part, writes=part)
    assert (effect.reads, effect.writes) == ((part,), (part,))


def test_only_a_method_has_an_owner():
    assert describe("acme.cache.Store.put(self, x)").owner == "acme.cache.Store"
    assert describe("acme.cache.put(x, self)").owner == ""
    assert describe("acme.cache.put()").owner == ""


def test_operators_are_found_by_name():
    gather = describe("acme::gather(x)")
    describe("acme.gather(x)")
    assert gather.is_operator
    assert not describe("acme.f(x)").is_operator
    assert operator("acme::gather") is gather
    assert operator("acme::scatter") is None


def test_the_latest_description_of_a_name_replaces_earlier_ones():
    describe("acme.f(x)")
    other = describe("acme.g(x)")
    latest = describe("acme.f(x)", reads="x")
    assert described() == (latest, other)


def test_a_rejected_description_is_not_stored():
    with pytest.raises(ConfigError):
        describe("acme.f(x)", reads="y")
    assert described() == ()
