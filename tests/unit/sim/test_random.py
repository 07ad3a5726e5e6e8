"""Each virtual device has its own random number generator."""

import pickle

import pytest
import torch

from syncheck.sim.random import Random


def test_each_device_draws_its_own_numbers(gpus):
    torch.manual_seed(1)
    a = torch.rand(3, device="cuda:0").tolist()
    b = torch.rand(3, device="cuda:1").tolist()
    assert a == b
    assert torch.rand(3, device="cuda:0").tolist() != a
    torch.cuda.manual_seed(1)
    assert torch.rand(3, device="cuda:0").tolist() == a


def test_cpu_random_numbers_are_independent(gpu):
    torch.manual_seed(1)
    expected = torch.rand(3).tolist()
    torch.manual_seed(1)
    torch.rand(7, device="cuda")
    torch.nn.functional.dropout(torch.ones(4, device="cuda"))
    assert torch.rand(3).tolist() == expected


def test_operators_without_a_generator_draw_from_the_devices(gpu):
    random = Random(1)
    random.generator(0).manual_seed(9)
    torch.default_generator.manual_seed(5)
    before = torch.default_generator.get_state()
    drawn = []
    for _ in range(2):
        with random.drawing_from(0, 5):
            drawn.append(torch.rand(5))
    random.generator(0).manual_seed(9)
    with random.drawing_from(0, 5):
        again = torch.rand(5)
    assert torch.equal(torch.default_generator.get_state(), before)
    assert torch.equal(drawn[0], again)
    assert not torch.equal(drawn[1], again)
    assert random.generator(0).initial_seed() == 9
    assert random.generator(0).get_offset() == 8


def test_a_generator_is_created_for_a_device(gpus):
    assert torch.Generator("cuda:1").device == torch.device("cuda", 1)
    assert torch.Generator().device.type == "cpu"
    assert isinstance(torch.Generator("cuda"), torch.Generator)


def test_a_pickled_generator_continues_where_it_was(gpu):
    generator = torch.Generator("cuda").manual_seed(3)
    torch.rand(8, device="cuda", generator=generator)
    restored = pickle.loads(pickle.dumps(generator))
    assert restored.device == generator.device
    one, other = (torch.rand(8, device="cuda", generator=each) for each in (generator, restored))
    assert torch.equal(one, other)


def test_a_generator_switches_between_states(gpu):
    generator = torch.Generator("cuda")
    generator.manual_seed(0)
    old, new = generator.graphsafe_get_state(), generator.clone_state()
    generator.graphsafe_set_state(new)
    torch.rand(4, device="cuda", generator=generator)
    assert (generator.get_offset(), new.get_offset(), old.get_offset()) == (4, 4, 0)
    generator.graphsafe_set_state(old)
    torch.rand(8, device="cuda", generator=generator)
    assert (generator.get_offset(), new.get_offset(), old.get_offset()) == (8, 4, 8)


def test_a_replay_draws_from_the_states_of_its_capture(gpu):
    generator, graph = torch.cuda.default_generators[0], torch.cuda.CUDAGraph()
    old, new = generator.graphsafe_get_state(), generator.clone_state()
    for state in (old, new):
        state.manual_seed(7)
        graph.register_generator_state(state)
    drawn = []
    with torch.cuda.graph(graph):
        for state in (new, old):
            generator.graphsafe_set_state(state)
            drawn.append(torch.rand(4, device="cuda", generator=generator))
    assert (old.get_offset(), new.get_offset()) == (0, 0)
    graph.replay()
    assert (old.get_offset(), new.get_offset()) == (4, 4)
    assert torch.equal(*drawn)


def test_rng_states_can_be_saved_and_restored(gpu):
    state = torch.cuda.get_rng_state()
    first = torch.rand(3, device="cuda").tolist()
    torch.cuda.set_rng_state(state)
    assert torch.rand(3, device="cuda").tolist() == first


def test_the_offset_of_a_generator_is_a_multiple_of_four(gpu):
    generator = Random(1).generator(0)
    assert generator.set_offset(12).get_offset() == 12
    with pytest.raises(RuntimeError, match="multiple of 4"):
        generator.set_offset(6)
