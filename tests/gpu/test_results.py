"""A check changes no result: torch's own operator samples, with and without a check."""

from contextlib import nullcontext

import pytest
import torch

from syncheck.api import checking
from syncheck.config.options import Options
from tests.torch_samples import are_alike, comparable_samples, result_of

pytestmark = [pytest.mark.gpu, pytest.mark.filterwarnings("ignore")]


@pytest.mark.parametrize("autocast", [False, True])
@pytest.mark.parametrize("context", [nullcontext, torch.inference_mode])
@pytest.mark.parametrize("recorder", ["python", "native"])
def test_operators_give_the_same_results(recorder, context, autocast, operator_table):
    samples = list(comparable_samples(operator_table, "cuda", 1))

    def run():
        with torch.autocast("cuda", torch.bfloat16, enabled=autocast), context():
            return [result_of(entry, sample) for entry, sample in samples]

    first, second = run(), run()
    with checking(Options(backend="cuda", recorder=recorder)):
        watched = run()
    names = [entry.full_name for entry, _ in samples]
    compared = [
        (name, are_alike(plain, again))
        for name, plain, other, again in zip(names, first, second, watched, strict=True)
        if are_alike(plain, other)
    ]
    assert {name for name, is_alike in compared if not is_alike} == set()
    assert len(compared) > 500
