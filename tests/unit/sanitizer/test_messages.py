"""Descriptions of streams, tensors and events."""

import pytest

from syncheck.hb.ids import NamedKind
from syncheck.sanitizer import messages
from syncheck.sanitizer.messages import (
    DeviceSyncCode,
    EventCode,
    EventRef,
    Names,
    StreamCode,
    StreamInfo,
    StreamRef,
    TensorCode,
    TensorRef,
    View,
    WaitCode,
)
from tests.unit.sanitizer.program import Text


@pytest.fixture
def names():
    names = Names()
    names.streams |= {1: StreamInfo(0, 0, 0), 2: StreamInfo(0, 77, 3), 3: StreamInfo(1, 78, 0)}
    return names


def test_a_stream_is_described_by_name_place_or_device(names):
    assert names.format((StreamRef(0),)) == "the host"
    assert names.format((StreamRef(1),)) == "the default stream of cuda:0"
    assert names.format((StreamRef(2),)) == "the stream (cuda:0)"
    names.sites = Text()
    assert names.format((StreamRef(2),)) == "the stream made at program.py:3 (cuda:0)"
    assert names.format((StreamRef(3),)) == "the stream (cuda:1)"
    names.seen_at[NamedKind.STREAM, 2] = {("a.py", 4): "s", ("a.py", 9): "self.up", ("a.py", 12): "self.down"}
    assert names.format((StreamRef(2),)) == "stream `self.up` made at program.py:3 (cuda:0)"
    del names.seen_at[NamedKind.STREAM, 2][("a.py", 9)], names.seen_at[NamedKind.STREAM, 2][("a.py", 12)]
    assert names.format((StreamRef(2),)) == "stream `s` made at program.py:3 (cuda:0)"
    names.given[NamedKind.STREAM, 2] = "copy"
    assert names.format(("on ", StreamRef(2), "!")) == "on stream `copy` (cuda:0)!"
    assert names.stream_and_origin(2) == "stream `copy` made at program.py:3 (cuda:0)"


def test_streams_described_in_the_same_words_are_told_apart(names):
    names.streams |= {4: StreamInfo(0, 79, 5), 5: StreamInfo(1, 80, 5)}
    names.given |= dict.fromkeys(((NamedKind.STREAM, one) for one in (2, 4, 5)), "self.stream")
    texts = [(StreamRef(4), " reads"), (StreamRef(2), " wrote"), (StreamRef(4), StreamRef(5), StreamRef(0))]
    names.tell_apart(texts)
    assert names.format(texts[0]) == "stream `self.stream` (cuda:0) reads"
    assert names.format(texts[1]) == "another stream `self.stream` (cuda:0) wrote"
    assert names.format((StreamRef(5),)) == "stream `self.stream` (cuda:1)"
    names.tell_apart([(StreamRef(2),)])
    assert names.format((StreamRef(2),)) == "stream `self.stream` (cuda:0)"


def test_streams_made_on_one_line_are_told_apart(names):
    names.streams |= {4: StreamInfo(0, 79, 3)}
    names.sites = Text()
    names.tell_apart([(StreamRef(2), StreamRef(4))])
    assert names.format((StreamRef(2),)) == "the stream made at program.py:3 (cuda:0)"
    assert names.format((StreamRef(4),)) == "another stream made at program.py:3 (cuda:0)"


def test_a_stream_with_a_handle_but_no_call_site_is_internal():
    assert [info.is_internal for info in (StreamInfo(0, 0, 0), StreamInfo(0, 7, 3), StreamInfo(0, 7, 0))] == [
        False,
        False,
        True,
    ]


@pytest.mark.parametrize(
    ("view", "text"),
    [
        (View((3, 4), 4, "float32"), "a tensor (3x4 float32, 48 bytes)"),
        (View((), 8, "int64"), "a tensor (scalar int64, 8 bytes)"),
        (View((1024,), 2, "float16"), "a tensor (1024 float16, 2 KiB)"),
        (View((1500,), 1, "uint8"), "a tensor (1500 uint8, 1.46 KiB)"),
        (View((5 << 20,), 4, "float32"), "a tensor (5242880 float32, 20 MiB)"),
        (View((3 << 30,), 1, ""), "a tensor (3 GiB)"),
    ],
)
def test_a_tensor_has_its_shape_type_and_size(names, view, text):
    names.views.append(view)
    assert names.format((TensorRef(9, 0),)) == text


def test_a_tensor_is_described_by_the_view_from_the_backend(names):
    names.views += [View((48,), 1, ""), View((3, 4), 4, "float32")]
    names.given[NamedKind.ALLOCATION, 9] = "batch"
    assert names.format((TensorRef(9, 0),)) == "`batch` (48 bytes)"
    names.shown[9] = 1
    assert names.format((TensorRef(9, 0),)) == "`batch` (3x4 float32, 48 bytes)"
    assert names.format((TensorRef(8, -1),)) == "a tensor"


def test_a_part_of_an_allocation_has_its_own_name(names):
    names.views += [View((2,), 4, "float32"), View((4,), 4, "float32")]
    names.given[NamedKind.ALLOCATION, 9] = "weight"
    names.parts |= {(9, 0): "bias", (9, 1): ""}
    assert names.format((TensorRef(9, 0),)) == "`bias` (2 float32, 8 bytes)"
    assert names.format((TensorRef(9, 1),)) == "a tensor (4 float32, 16 bytes)"
    assert names.format((TensorCode(9),)) == "weight"


def test_code_uses_the_given_names(names):
    code = (StreamCode(2), EventCode(4), TensorCode(9), EventRef(4))
    assert [names.format((part,)) for part in code] == ["stream", "event", "tensor", "an event"]
    names.given |= {(NamedKind.STREAM, 2): "s", (NamedKind.EVENT, 4): "e", (NamedKind.ALLOCATION, 9): "t"}
    assert [names.format((part,)) for part in code] == ["s", "e", "t", "`e`"]
    assert names.format((WaitCode(5),)) == ".wait()"
    names.sites = Text(bound={5: "work"})
    assert names.format((WaitCode(5),)) == "work.wait()"


def test_the_device_is_named_unless_it_is_the_first_and_only_one(names):
    names.last_site |= {1: 5, 2: 6}
    assert names.format((DeviceSyncCode(2),)) == "torch.cuda.synchronize()"
    assert names.format((DeviceSyncCode(3),)) == "torch.cuda.synchronize(1)"
    names.last_site[3] = 7
    assert names.format((DeviceSyncCode(2),)) == "torch.cuda.synchronize(0)"


def test_names_of_deleted_events_are_forgotten_unless_a_finding_uses_them(names, monkeypatch):
    monkeypatch.setattr(messages, "_KEPT_NAMES", 2)
    for event in range(5):
        names.given[NamedKind.EVENT, event] = f"e{event}"
        names.known_at[NamedKind.EVENT, event] = 1
    names.keep([("wait for ", EventRef(0)), (EventCode(1),)])
    for event in range(5):
        names.drop(NamedKind.EVENT, event)
    assert sorted(ident for _, ident in names.given) == [0, 1, 3, 4]
    assert sorted(ident for _, ident in names.known_at) == [0, 1, 3, 4]
