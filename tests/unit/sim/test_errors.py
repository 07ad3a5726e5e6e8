"""Errors that the simulator raises in the user's program."""

import pytest
import torch

from syncheck.sim.errors import (
    NotSimulatedError,
    cuda_error,
    misplaced_index,
    mixed_devices,
    not_simulated,
    out_of_memory,
)


def test_a_not_simulated_error_says_what_to_do():
    error = NotSimulatedError("an interprocess event", "there is one process")
    assert str(error).startswith("an interprocess event is not simulated: there is one process. Skip it if")
    assert isinstance(error, NotImplementedError)
    assert "simulated. Skip" in str(NotSimulatedError("x"))


def test_a_rejected_function_takes_any_arguments_and_keeps_its_name():
    function = not_simulated("torch.cuda.nccl.all_reduce()")
    assert function.__name__ == "all_reduce()"
    with pytest.raises(NotSimulatedError, match=r"torch.cuda.nccl.all_reduce\(\) is not simulated"):
        function(1, a=2)


@pytest.mark.parametrize(
    ("devices", "text"),
    [
        (("cuda:1", "cuda:0"), "cuda:0 and cuda:1!"),
        (("cpu", "cuda:0"), "cpu and cuda:0!"),
        (("cuda:0", "cpu"), "cuda:0 and cpu!"),
    ],
)
def test_mixed_devices_are_named_in_torchs_order(devices, text):
    assert str(mixed_devices(*devices)).endswith(text)


def test_errors_have_torchs_types():
    assert isinstance(out_of_memory(1, 5, 0, 9), torch.OutOfMemoryError)
    text = str(out_of_memory(1, 3 << 29, 5, 80 << 30))
    assert "Tried to allocate 1.50 GiB. GPU 1 has a total capacity of 80.00 GiB of which" in text
    assert "5 bytes is allocated" in text
    assert "Tried to allocate more than 1EB memory" in str(out_of_memory(1, 1 << 60, 0, 9))
    assert isinstance(cuda_error("invalid device ordinal"), RuntimeError)
    assert "CUDA error: invalid device ordinal" in str(cuda_error("invalid device ordinal"))
    assert "(cuda:0)" in str(misplaced_index("cuda:0"))


def test_what_is_not_simulated_is_noted_even_if_the_program_handles_the_error(gpu):
    def catch():
        with pytest.raises(NotSimulatedError):
            torch.cuda.Event(interprocess=True)

    assert gpu.calls_of(catch) == ["incomplete"]
