"""Models of communication helpers of accelerate, Megatron and fairscale."""

import pytest

from syncheck.lint.models.parallel import BROADCAST_IN_PLACE, GATHER
from tests.unit.lint.program import call, calls_of, constant, follow, value_of

X = "x = torch.ones(4, device='cuda')\nh = torch.ones(4)\n"


def calls(expression, imported, before=X):
    made = calls_of(f"y = {expression}", f"{imported}\n{before}")
    return [call for call in made if not call.startswith(("name", "describe", "alloc"))]


@pytest.mark.parametrize(
    ("imported", "expression"),
    [
        ("from accelerate.utils import gather", "gather(x)"),
        ("from accelerate.utils.operations import gather", "gather(tensor=x)"),
        ("from accelerate import Accelerator\na = Accelerator(cpu=False)", "a.gather(x)"),
        ("import accelerate\na = accelerate.Accelerator()", "a.gather_for_metrics(x)"),
        ("from megatron.core.tensor_parallel.mappings import _gather_along_first_dim as g", "g(x, group)"),
        ("from megatron.core import tensor_parallel as tp", "tp.gather_from_sequence_parallel_region(x)"),
        ("from fairscale.nn.model_parallel.mappings import _gather", "_gather(x)"),
        ("from fairscale.nn.model_parallel import gather_from_model_parallel_region as g", "g(x)"),
    ],
)
def test_a_gather_runs_on_the_current_stream_and_creates_a_tensor(imported, expression):
    assert calls(expression, imported) == ["launch cuda:0 c10d::_allgather_base_ r1 w2"]


@pytest.mark.parametrize(
    ("imported", "expression", "operator", "touched"),
    [
        ("from accelerate.utils import reduce", "reduce(x, 'mean')", "c10d::allreduce_", "r1 w2"),
        ("from accelerate.utils import broadcast", "broadcast(x)", "c10d::broadcast_", "w1"),
        ("from megatron.core.tensor_parallel.mappings import _reduce", "_reduce(x, g)", "c10d::allreduce_", "w1"),
        ("from fairscale.nn.model_parallel.mappings import _reduce", "_reduce(ctx, x)", "c10d::allreduce_", "w1"),
        ("from fairscale.nn.model_parallel.mappings import _split", "_split(x)", "clone", "r1 w2"),
        (
            "from megatron.core import tensor_parallel as t",
            "t.reduce_scatter_to_sequence_parallel_region(x)",
            "c10d::_reduce_scatter_base_",
            "r1 w2",
        ),
        ("from megatron.core import tensor_parallel as t", "t.all_to_all(g, x)", "c10d::alltoall_base_", "r1 w2"),
    ],
)
def test_other_helpers_run_on_the_current_stream(imported, expression, operator, touched):
    assert calls(expression, imported, X + "ctx = g = None\n") == [f"launch cuda:0 {operator} {touched}"]


def test_a_helper_that_only_affects_the_backward_pass_returns_its_tensor():
    imported = "from megatron.core.tensor_parallel import copy_to_tensor_model_parallel_region as c"
    assert calls("c(x)", imported) == []
    assert constant("c(x)", f"{imported}\n{X}") == "tensor"


def test_a_nested_structure_is_preserved():
    before = f"from accelerate.utils import gather\n{X}y = gather({{'a': [x, h], 'b': (x, 3)}})"
    assert constant("y", before) == {"a": ["tensor", "unknown"], "b": ["tensor", "unknown"]}


def test_padding_reads_sizes_on_the_host():
    imported = "from accelerate import Accelerator\na = Accelerator()"
    made = calls("a.pad_across_processes(x, dim=1)", imported)
    assert made == ["sync cuda:0", "launch cuda:0 constant_pad_nd r1 w2"]


@pytest.mark.parametrize(
    ("imported", "expression"),
    [
        ("from accelerate import Accelerator\na = Accelerator()", "a.wait_for_everyone()"),
        ("from accelerate.utils import wait_for_everyone", "wait_for_everyone()"),
    ],
)
def test_waiting_for_everyone_is_a_barrier(imported, expression):
    assert calls(expression, imported) == calls("dist.barrier()", "")


def test_other_methods_of_an_accelerator_are_unknown_code():
    imported = "from accelerate import Accelerator\na = Accelerator()"
    assert "all complete" in calls("a.prepare(x)", imported)


@pytest.mark.parametrize(
    ("imported", "one", "other"),
    [
        ("from megatron.core import parallel_state as p", "data_parallel", "tensor_model_parallel"),
        ("from megatron.core import mpu as p", "data_parallel", "context_parallel"),
        ("from fairscale.nn.model_parallel import initialize as p", "data_parallel", "model_parallel"),
    ],
)
def test_each_group_has_its_own_stream(imported, one, other):
    start = "dist.all_reduce(x, group=p.get_{}_group(), async_op=True)\n"
    made = calls_of(start.format(one) + start.format(other) + start.format(one), f"{imported}\n{X}")
    streams = [call.split()[1] for call in made if call.startswith("launch")]
    assert streams[0] == streams[2] != streams[1]


def test_group_arguments_that_select_another_group_are_respected():
    before = "from megatron.core import parallel_state as p\n"
    get = "p.get_data_parallel_group({})"
    plain = value_of(get.format(""), before)
    assert value_of(get.format("check_initialized=False"), before) is plain
    assert value_of(get.format("with_context_parallel=True"), before) is not plain


def test_gather_creates_a_new_tensor_but_an_in_place_broadcast_does_not():
    program = follow(X)
    x = program.scope.names["x"]
    gathered, changed = (run(program.interpreter, x, call()) for run in (GATHER, BROADCAST_IN_PLACE))
    assert gathered.block is not x.block
    assert changed.block is x.block


@pytest.mark.parametrize("library", ["horovod", "byteps"])
@pytest.mark.parametrize("method", ["step", "synchronize"])
def test_stepping_a_distributed_optimizer_waits_for_the_gradients(library, method):
    imported = f"import {library}.torch as lib"
    made = "o = lib.DistributedOptimizer(torch.optim.SGD(p, lr=1), named_parameters=p)\n"
    assert "sync cuda:0" in calls(f"o.{method}()", imported, X + made)
    assert calls("o.state", imported, X + made) == []
