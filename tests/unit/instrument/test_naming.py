"""The program's names for its streams, events and tensors."""

import gc
import sys
import weakref
from types import SimpleNamespace
from typing import NamedTuple

import pytest
import torch

from syncheck.instrument.naming import (
    bound_name,
    counted_name,
    is_passed_on,
    listed_once,
    name_in_frame,
    name_of_tensor,
    stored_name,
)


@pytest.mark.parametrize(
    ("name", "iteration", "counted"),
    [
        ("streams[...]", 2, "streams[2]"),
        ("copy", 2, "copy"),
        ("(a, b)[...]", 1, "b"),
        ("(a, b)[...]", 2, "a"),
        ("pairs[...][1]", 2, "pairs[2][1]"),
    ],
)
def test_objects_of_a_comprehension_are_numbered(name, iteration, counted):
    assert counted_name(name, iteration) == counted


def test_an_instruction_is_found_in_the_source():
    def here():
        frame = sys._getframe(1)
        return frame.f_code, frame.f_lasti

    found = here()
    assert bound_name(found) == "found"
    assert bound_name(here()) == ""
    assert bound_name(None) == ""


class _RecordsFree:
    """Records where it is freed."""

    def __init__(self, lines):
        self._lines = lines

    def __del__(self):
        frame = sys._getframe(1)
        self._lines.append((frame.f_code, frame.f_lasti))


def test_values_dropped_by_an_unpacking_are_named_by_their_targets():
    lines = []
    first, second = _RecordsFree(lines), _RecordsFree(lines)
    for _ in range(1):
        (first, [second, _]) = (1, (2, 3))
    # from Python 3.13 on, one instruction binds `second` and `_`
    assert [stored_name(*found) for found in lines] == ["first", "second" if sys.version_info < (3, 13) else ""]
    assert (first, second) == (1, 2)


def of(tensor, is_wanted=None):
    return name_of_tensor(sys._getframe(1), is_wanted or (lambda value: value is tensor))


def test_a_tensor_is_named_by_the_variable_of_the_running_line():
    x = other = torch.ones(1)
    assert of(x) == "x"
    assert of(other) == "other"


def names_of_addresses(frame, addresses):
    """Return the name of the tensor at each address; the caller holds the tensors only in its containers."""
    return [
        name_of_tensor(
            frame, lambda value, wanted=wanted: isinstance(value, torch.Tensor) and value.data_ptr() == wanted
        )
        for wanted in addresses
    ]


def test_items_and_attributes_are_named():
    class Holder:
        def __init__(self):
            self.buffer = torch.ones(1)

        def name_of_buffer(self):
            return name_of_tensor(sys._getframe(), lambda value: value is self.buffer)

    assert Holder().name_of_buffer() == "self.buffer"
    batch, items = {"image": torch.ones(1)}, [torch.ones(1)]
    addresses = batch["image"].data_ptr(), items[0].data_ptr()
    assert names_of_addresses(sys._getframe(), addresses) == ["batch['image']", "items[0]"]


def test_a_tensor_held_by_an_object_is_named_by_attribute():
    class Batch:
        pass

    batch = Batch()
    batch.image, batch.boxes = torch.ones(1), {"left": torch.ones(2)}
    assert of(None, lambda value: value is vars(batch)["image"]) == "batch.image"
    assert of(None, lambda value: value is vars(batch)["boxes"]["left"]) == "batch.boxes['left']"
    image = vars(batch)["image"]
    assert of(image) == "image"  # a variable takes precedence


def test_parameters_and_gradients_are_named_by_their_module():
    net = torch.nn.Linear(1, 1)
    net.weight.grad = torch.ones(1, 1)
    assert of(None, lambda value: value is net.weight) == "net.weight"
    assert of(None, lambda value: value is net.weight.grad) == "net.weight.grad"


def test_a_value_that_nothing_holds_has_no_name():
    name = of(object())
    assert name == ""


def test_objects_of_a_frame_are_searched_for_their_members():
    class Loader:
        pass

    loader = Loader()
    loader.stream, loader.streams, loader.ready = object(), [object(), object()], {7: object()}
    frame = sys._getframe()
    assert name_in_frame(frame, lambda value: value is vars(loader)["ready"][7]) == "loader.ready[7]"
    assert name_in_frame(frame, lambda value: value is vars(loader)["stream"]) == "loader.stream"
    assert name_in_frame(frame, lambda value: value is vars(loader)["streams"][1]) == "loader.streams[1]"
    assert name_in_frame(frame, lambda value: False) == ""


def test_the_values_of_a_frame_are_listed_once_in_a_block():
    class Thing:
        pass

    def name_of(value):
        return name_in_frame(sys._getframe(1), lambda held: held is value)

    things = [Thing()]
    with listed_once():
        assert (name_of(things[0]), name_of(Thing())) == ("things[0]", "")
        things.append(Thing())
        assert name_of(things[1]) == ""
        with listed_once():
            assert name_of(things[1]) == "things[1]"
        assert name_of(things[1]) == ""
    assert name_of(things[1]) == "things[1]"
    alive = weakref.ref(things[0])
    things.clear()
    gc.collect()
    assert alive() is None


def test_no_code_of_a_value_runs():
    class Watched:
        def __getattribute__(self, name):
            raise AssertionError(name)

    class Proxy:  # as of a request outside of a server's request
        __class__ = __dict__ = property(Watched.__getattribute__)

    class Items(list):
        __iter__ = __getitem__ = __len__ = Watched.__getattribute__

    self, proxy, items = Watched(), Proxy(), Items([1])
    x = torch.ones(1)
    assert name_in_frame(sys._getframe(), lambda value: value is x) == "x"
    assert name_of_tensor(sys._getframe(), lambda value: value is x) == "x"
    assert name_in_frame(sys._getframe(), lambda value: value == 2) == ""
    del self, proxy, items


def test_dict_keys_are_not_printed():
    class Key:
        def __repr__(self):
            raise AssertionError

    class Optimizer:
        pass

    x, opt, state = torch.ones(1), Optimizer(), {Key(): torch.ones(1), "step": torch.ones(1)}
    vars(opt)["state"] = {Key(): torch.ones(1)}
    frame = sys._getframe()
    assert name_of_tensor(frame, lambda value: False) == ""
    assert name_in_frame(frame, lambda value: value is state["step"]) == "state['step']"
    assert name_in_frame(frame, lambda value: False) == ""
    del x


def test_pytests_assertion_variables_are_not_names_of_the_program():
    def names_of(value):
        frame = sys._getframe(1)
        return name_in_frame(frame, lambda held: held is value), name_of_tensor(frame, lambda held: held is value)

    assert names_of(torch.ones(2)) == ("", "")


def repeated(value):
    return value


def made_here():
    frame = sys._getframe(1)
    return frame.f_code, frame.f_lasti


def test_call_arguments_and_lambda_results_are_handed_over():
    direct = made_here()
    wrapped = [made_here()]
    given = repeated(made_here())
    makers = [lambda: repeated(0) or made_here()]
    later = makers[0]()
    (counted,) = tuple(made_here() for _ in range(1))
    assert [is_passed_on(found) for found in (direct, wrapped[0], given, later, counted)] == [
        False, False, True, True, False,
    ]  # fmt: skip
    assert not is_passed_on(None)


class Pair(NamedTuple):
    left: object
    right: object


class Slotted:
    __slots__ = ("empty", "held")

    def __init__(self, held):
        self.held = held


def test_fields_of_a_named_tuple_have_their_names():
    wanted = object()
    pair = Pair(None, wanted)
    del wanted
    assert name_in_frame(sys._getframe(), lambda value: value is pair.right) == "pair.right"


def test_attributes_in_slots_are_found():
    item = Slotted(object())
    assert name_in_frame(sys._getframe(), lambda value: value is item.held) == "item.held"


def test_attributes_of_objects_in_a_list_are_found():
    stages = [Slotted(object()), Slotted(object())]
    assert name_in_frame(sys._getframe(), lambda value: value is stages[1].held) == "stages[1].held"


def test_the_name_used_by_the_function_takes_precedence():
    def use():
        return name_in_frame(sys._getframe(), lambda value: value is box.held)

    box = Slotted(object())
    other = box.held
    assert use() == "box.held"
    assert other


def test_items_of_containers_in_containers_are_named():
    batch = {"images": [torch.ones(1), torch.ones(2)]}
    holder = SimpleNamespace(batch={"masks": (torch.ones(3),)})
    wanted = [batch["images"][1].data_ptr(), holder.batch["masks"][0].data_ptr()]
    assert names_of_addresses(sys._getframe(), wanted) == ["batch['images'][1]", "holder.batch['masks'][0]"]
