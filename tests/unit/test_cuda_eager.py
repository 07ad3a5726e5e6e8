"""torch.compile while a program is checked on real GPUs."""

import pytest
import torch

from syncheck.capture.patching import Patches
from syncheck.cuda.eager import install_eager


@pytest.fixture
def patches():
    patches = Patches()
    yield patches
    patches.undo()


@pytest.fixture
def graphs():
    """Graphs that were compiled, by `backend`."""
    torch._dynamo.reset()
    return []


@pytest.fixture
def backend(graphs):
    def compile_graph(graph, _):
        graphs.append(graph)
        return graph

    return compile_graph


def test_compiled_functions_run_eagerly_until_the_check_ends(patches, graphs, backend):
    notes = []
    install_eager(notes.append, patches)

    @torch.compile(backend=backend, fullgraph=True)
    def double(x):
        return x + x

    assert double(torch.ones(2)).tolist() == [2, 2]
    assert graphs == []
    assert len(set(notes)) == 1
    patches.undo()
    assert double(torch.ones(2)).tolist() == [2, 2]
    assert len(graphs) == 1


def test_functions_that_were_compiled_before_run_eagerly_too(patches, graphs, backend):
    @torch.compile(backend=backend)
    def double(x):
        return x + x

    double(torch.ones(2))
    assert graphs
    install_eager(lambda _: None, patches)
    graphs.clear()
    double(torch.ones(3, 3))
    assert graphs == []


def test_a_program_that_sets_the_compilers_stance_runs_eagerly_too(patches, graphs, backend):
    install_eager(lambda _: None, patches)
    double = torch.compile(lambda x: x + x, backend=backend)
    with torch.compiler.set_stance("fail_on_recompile"):
        double(torch.ones(2))
    torch.compiler.set_stance("default")
    double(torch.ones(2))
    assert graphs == []
    patches.undo()
    double(torch.ones(2))
    assert len(graphs) == 1
