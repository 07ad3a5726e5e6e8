"""Models of described library functions and methods."""

import pytest

from syncheck.lint import prefilter
from syncheck.lint.models.library import register_described
from syncheck.semantics.library import describe
from tests.descriptions import isolate_descriptions
from tests.unit.lint.program import calls_of, constant, value_of

HEAD = """\
import acme
s, e = torch.cuda.Stream(), torch.cuda.Event()
x, out = torch.ones(4, device='cuda'), torch.ones(4, device='cuda')
"""


@pytest.fixture(autouse=True)
def no_descriptions(monkeypatch):
    isolate_descriptions(monkeypatch)


def calls(source, *signatures, before=HEAD, **what):
    """Return the calls of a program after describing these signatures, all with the same keywords."""
    for signature in signatures:
        describe(signature, **what)
    register_described()
    return [call for call in calls_of(source, before) if not call.startswith("free")]


COPY = "acme.copy(x, out, *, stream=None)"


@pytest.mark.parametrize(
    ("call", "stream"),
    [
        ("acme.copy(x, out)", "cuda:0"), ("acme.copy(x, out, stream=None)", "cuda:0"),
        ("acme.copy(x, out, stream=s)", "s1"), ("acme.copy(out=out, x=x, stream=s)", "s1"),
        ("with torch.cuda.stream(s): acme.copy(x, out)", "s1"),
    ],
)  # fmt: skip
def test_a_function_works_on_the_given_or_the_current_stream(call, stream):
    made = calls(call, COPY, reads="x", writes="out", stream="stream")
    assert made == [f"launch {stream} acme.copy r1 w2"]


def test_work_on_an_unknown_stream_is_not_reported():
    assert calls("acme.copy(x, out, stream=unknown())", COPY, reads="x", stream="stream") == []


def test_a_function_that_accesses_no_tensor_launches_nothing():
    assert calls("acme.copy(1, 2)", COPY, reads="x", writes="out") == []
    assert calls("acme.copy()", COPY, reads="x", writes="out") == []


def test_tensors_in_lists_are_accessed():
    assert calls("acme.copy([x, out])", COPY, reads="x") == ["launch cuda:0 acme.copy r1 r2"]


@pytest.mark.parametrize(
    ("call", "place", "wait"),
    [
        ("acme.copy(x, s)", "out", ["wait cuda:0 for s1"]),
        ("e.record(s); acme.copy(x, e)", "out", ["record e1 on s1", "wait cuda:0 for e1 (torch)"]),
        ("acme.copy(x, 3)", "out", []),
        ("acme.copy(x, None)", "out", []),
        ("acme.copy(x)", "out", []),
    ],
)
def test_the_work_waits_for_a_stream_or_an_event(call, place, wait):
    made = calls(call, COPY, reads="x", waits_for=place)
    assert [shown.replace(" (torch)", "") for shown in made] == [
        *(shown.replace(" (torch)", "") for shown in wait), "launch cuda:0 acme.copy r1",
    ]  # fmt: skip


def test_the_work_on_a_given_stream_may_wait_for_the_current_one():
    made = calls("acme.copy(x, stream=s)", COPY, reads="x", stream="stream", waits_for="current")
    assert [shown.partition(" (")[0] for shown in made] == ["wait s1 for cuda:0", "launch s1 acme.copy r1"]


def test_a_wait_involving_an_unknown_stream_may_cover_everything():
    made = calls("acme.copy(x, stream=unknown())", COPY, reads="x", stream="stream", waits_for="current")
    assert made == ["all complete"]


def test_the_current_stream_may_wait_for_the_work():
    made = calls("acme.copy(x, stream=s)", COPY, reads="x", stream="stream", then_waits="current")
    assert [shown.partition(" (")[0] for shown in made] == ["launch s1 acme.copy r1", "wait cuda:0 for s1"]


def test_the_host_may_wait_for_the_work():
    assert calls("acme.copy(x)", COPY, reads="x", then_waits="host") == ["launch cuda:0 acme.copy r1", "sync cuda:0"]


# -- results


def test_a_new_tensor_is_allocated_on_the_current_stream_and_written_by_the_work():
    made = calls("y = acme.make(x, s)", "acme.make(x, stream)", reads="x", returns="new", stream="stream")
    assert made == ["allocate 3 on cuda:0", "launch s1 acme.make r1 w3"]


def test_a_parameter_may_be_the_result():
    describe("acme.same(x)", returns="x")
    register_described()
    assert constant("acme.same(7)", HEAD) == 7


def test_any_other_result_is_unknown():
    describe(COPY, reads="x")
    register_described()
    assert constant("acme.copy(x)", HEAD) == "unknown"
    assert constant("acme.missing(x)", HEAD) != 7


# -- methods, variables, operators


FETCH = "acme.Store.fetch(self, out)"


def test_each_object_has_its_own_streams():
    source = "a, b = acme.Store(), acme.Store()\na.fetch(out)\na.fetch(out)\nb.fetch(out)\n"
    made = [call for call in calls(source, FETCH, writes="out", stream="self.side") if call.startswith("launch")]
    assert made == ["launch s2 acme.Store.fetch w2", "launch s2 acme.Store.fetch w2", "launch s3 acme.Store.fetch w2"]


def test_the_methods_of_an_object_share_its_streams():
    describe("acme.Store.wait(self)", stream="self.side", then_waits="current")
    made = calls("a = acme.Store()\na.fetch(out)\na.wait()", FETCH, writes="out", stream="self.side")
    assert [shown.partition(" (")[0] for shown in made] == ["launch s2 acme.Store.fetch w2", "wait cuda:0 for s2"]


def test_a_stream_of_a_library_is_shared_by_its_functions():
    made = calls(
        "acme.copy(x)\nacme.other(out)", COPY, "acme.other(x)", reads="x", stream="acme.streams.side"
    )  # fmt: skip
    assert made == ["launch s2 acme.copy r1", "launch s2 acme.other r2"]


def test_an_operator_is_called_through_torch_ops():
    made = calls("torch.ops.acme.gather(x, out)", "acme::gather(x, out)", reads="x", writes="out")
    assert made == ["launch cuda:0 acme::gather r1 w2"]


def test_an_undescribed_method_is_unknown():
    describe(FETCH, writes="out")
    register_described()
    assert type(value_of("acme.Store().missing()", HEAD)).__name__ == "Value"


def test_files_with_a_described_name_are_analyzed():
    for signature in ("acme.native.copy_rows(x)", "acme::gather_rows(x)", "acme.Store.fetch_rows(self)"):
        describe(signature)
    register_described()
    assert [prefilter.can_matter(word) for word in (b"copy_rows", b"gather_rows", b"fetch_rows", b"native")] == [
        True, True, True, False,
    ]  # fmt: skip
