"""Spelling of an item that a function selects by index."""

import sys

import torch

from syncheck.instrument.items import name_of_item, with_source_index


class Ring:
    def __init__(self, slots, n):
        self.slots, self.n, self.by_name = slots, n, {}


def test_the_index_expression_of_the_function_is_used():
    slots, turn = ["a", "b"], 3
    assert slots[turn % 2] == "b"
    assert with_source_index("slots[1]", sys._getframe()) == "slots[turn % 2]"


def test_attributes_are_read_without_running_code():
    ring = Ring(["a", "b", "c"], 5)
    assert ring.slots[ring.n // 2 - 1] == "b"
    assert with_source_index("ring.slots[1]", sys._getframe()) == "ring.slots[ring.n // 2 - 1]"


def test_an_index_that_selects_another_item_is_not_used():
    slots, turn = ["a", "b"], 0
    assert slots[turn] == "a"
    assert with_source_index("slots[1]", sys._getframe()) == "slots[1]"


def test_an_ambiguous_index_is_not_used():
    slots, i, j = ["a", "b"], 1, 1
    assert slots[i] == slots[j]
    assert with_source_index("slots[1]", sys._getframe()) == "slots[1]"


def test_an_item_that_is_not_selected_has_the_index_of_a_parallel_container():
    frame = sys._getframe()
    events, buffers, slot, turn = ["a", "b"], [[1], [2]], 1, 1
    assert [buffers[slot], with_source_index("events[1]", frame)] == [[2], "events[slot]"]
    assert [buffers[0], with_source_index("events[1]", frame)] == [[1], "events[1]"]
    assert [buffers[slot], buffers[turn], with_source_index("events[1]", frame)] == [[2], [2], "events[1]"]
    assert events


def test_the_index_of_a_container_with_more_items_is_not_used():
    frame = sys._getframe()
    events, batches, number = ["a", "b"], [1, 2, 3], 1
    assert [batches[number], with_source_index("events[1]", frame)] == [2, "events[1]"]
    assert events


def test_the_index_of_another_line_is_not_used_for_a_parallel_container():
    events, buffers, slot = ["a", "b"], [[1], [2]], 1
    assert buffers[slot] == [2]
    assert with_source_index("events[1]", sys._getframe()) == "events[1]"
    assert events


def test_a_dict_key_is_an_index_too():
    ring, name = Ring([], 0), "left"
    ring.by_name[name] = 1
    assert with_source_index("ring.by_name['left']", sys._getframe()) == "ring.by_name[name]"


def test_an_index_from_another_function_or_with_calls_is_not_used():
    slots, n = ["a", "b"], 1

    def other(k):
        return slots[k]

    assert other(1) == slots[len(slots) - n]
    assert slots[int(1 / n)] == "b"
    assert slots[n % 2 if n else 0] == "b"
    assert with_source_index("slots[1]", sys._getframe()) == "slots[1]"


def test_an_index_that_cannot_be_evaluated_is_not_used():
    slots, turn, none = ["a"], 0, 0
    if turn:
        assert slots[turn % none] == slots["x" + slots]
    assert with_source_index("slots[0]", sys._getframe()) == "slots[0]"


def test_other_names_are_unchanged():
    assert with_source_index("side", sys._getframe()) == "side"
    assert with_source_index("", sys._getframe()) == ""
    assert with_source_index("slots[turn]", sys._getframe()) == "slots[turn]"


def test_a_dict_item_is_named_by_the_variable_that_selects_it():
    device = torch.device("cpu")
    streams = {torch.device("cpu"): "a", torch.device("meta"): "b"}
    assert streams[device] == "a"
    assert name_of_item(lambda value: value == "a", sys._getframe()) == "streams[device]"
    assert name_of_item(lambda value: value == "b", sys._getframe()) == ""


def test_a_dict_item_of_an_attribute_is_named_by_the_key_object():
    ring, key = Ring([], 0), object()
    ring.by_name[key] = "thing"
    assert ring.by_name[key] == "thing"
    assert name_of_item(lambda value: value == "thing", sys._getframe()) == "ring.by_name[key]"


def test_keys_of_the_program_are_not_compared():
    class Key:
        def __eq__(self, other):
            raise AssertionError

        __hash__ = object.__hash__

    key, kept = Key(), {Key(): "thing"}
    if not kept:
        kept[key]
    assert name_of_item(lambda value: isinstance(value, str) and value == "thing", sys._getframe()) == ""


def test_without_a_matching_key_the_index_expression_is_the_name():
    slots, turn = ["a", "b"], 3
    assert slots[turn % 2] == "b"
    assert name_of_item(lambda value: value == "b", sys._getframe()) == "slots[turn % 2]"
