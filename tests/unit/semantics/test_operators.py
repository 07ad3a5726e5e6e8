"""Facts about torch's operators that their schemas do not state."""

import pytest
import torch

from syncheck.semantics import operators
from syncheck.semantics.operators import display_name, is_lazy


def has_operator(name):
    return hasattr(torch.ops.aten, name)


ALMOST_ALL = {
    "METADATA": 0.6,
    "SILENT": 0.95,
    "LAZY": 0.9,
    "SIZE_ONLY": 1,
    "ALLOCATING": 1,
    "INDEXING": 1,
    "ACCEPT_HOST_TENSORS": 0.9,
}
"""Sets of operators, and the share of each that exists in torch: some belong to other versions, some are methods."""


@pytest.mark.parametrize(("names", "share"), ALMOST_ALL.items())
def test_the_operators_exist_in_torch(names, share):
    names = getattr(operators, names)
    assert sum(map(has_operator, names)) >= share * len(names)


@pytest.mark.parametrize("name", sorted(operators.SIZE_ONLY))
def test_size_only_operators_do_not_read_their_tensor(name):
    """NaN in the source does not appear in the result."""
    source = torch.full((3,), torch.nan)
    args = {"full_like": (1.0,), "new_full": ((3,), 1.0), "randint_like": (5,)}.get(name, ())
    args = args or (((3,),) if name.startswith("new") else ())
    assert not getattr(torch.ops.aten, name)(source, *args).isnan().any()


@pytest.mark.parametrize("name", sorted(operators.ALLOCATING & {"empty_like", "empty_strided", "new_empty"}))
def test_allocating_operators_are_empty_ones_and_not_random(name):
    assert "empty" in name
    assert torch.Tag.nondeterministic_seeded not in getattr(torch.ops.aten, name).default.tags


def test_running_statistics_are_written_although_the_schema_does_not_say_so():
    schema = torch.ops.aten.native_batch_norm.default._schema
    for position in operators.HIDDEN_WRITES["native_batch_norm"]:
        assert schema.arguments[position].name in {"running_mean", "running_var"}
        assert schema.arguments[position].alias_info is None
    mean = torch.zeros(2)
    torch.ops.aten.native_batch_norm(torch.rand(4, 2) + 1, None, None, mean, torch.ones(2), True, 0.1, 1e-5)
    assert (mean > 0).all()


@pytest.mark.parametrize(("name", "position"), operators.HOST_OUTPUTS.items())
def test_results_in_host_memory_are_sizes(name, position):
    returns = getattr(torch.ops.aten, name).default._schema.returns
    assert len(returns) > position


@pytest.mark.parametrize(
    ("operator", "lazy"),
    [
        ("aten::mm", True),
        ("aten::addmm.out", True),
        ("aten::lstm", True),
        ("aten::add", False),
        ("aten::_fft_r2c", True),
        ("prims::add", False),
        ("mine::kernel", True),
        ("torch.cuda._sleep", False),
    ],
)
def test_libraries_and_program_operators_initialize_lazily(operator, lazy):
    assert is_lazy(operator) is lazy


@pytest.mark.parametrize(
    ("call", "text"),
    [
        ("aten::_local_scalar_dense", "reading a value, as `.item()` does,"),
        ("aten::index", "an index with a boolean mask"),
        ("aten::nonzero", "nonzero"),
        ("torch.cuda.synchronize()", "torch.cuda.synchronize()"),
    ],
)
def test_operators_are_described_by_their_user_facing_names(call, text):
    assert display_name(call) == text
