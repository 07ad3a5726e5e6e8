"""torch.compile while a program is checked on real GPUs."""

import subprocess
import sys

import pytest
import torch
import torch._dynamo

from syncheck.cuda.eager import install_eager
from syncheck.instrument.patching import Patches
from syncheck.instrument.torch_internals import current_dispatch_modes


@pytest.fixture
def patches():
    patches = Patches()
    yield patches
    patches.undo()


@pytest.fixture
def graphs():
    """Return the list of graphs compiled by `backend`."""
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


def test_functions_compiled_before_the_check_run_eagerly_too(patches, graphs, backend):
    @torch.compile(backend=backend)
    def double(x):
        return x + x

    double(torch.ones(2))
    assert graphs
    install_eager(lambda _: None, patches)
    graphs.clear()
    double(torch.ones(3, 3))
    assert graphs == []


def stance():
    return torch._dynamo.eval_frame._stance.stance


@pytest.mark.parametrize("set_stance", [torch.compiler.set_stance, torch._dynamo.set_stance], ids=["public", "dynamo"])
def test_functions_run_eagerly_even_if_the_program_sets_the_compiler_stance(patches, graphs, backend, set_stance):
    double = torch.compile(lambda x: x + x, backend=backend)
    install_eager(lambda _: None, patches)

    @set_stance("fail_on_recompile")
    def four_times(x):
        return double(double(x))

    four_times(torch.ones(2))
    with set_stance("eager_on_recompile"):
        double(torch.ones(2))
    set_stance("default")
    double(torch.ones(2))
    assert graphs == []
    patches.undo()
    double(torch.ones(2))
    assert len(graphs) == 1


def test_the_programs_stance_is_restored_after_the_check(patches):
    install_eager(lambda _: None, patches)
    inner = Patches()
    install_eager(lambda _: None, inner)
    context = torch.compiler.set_stance("fail_on_recompile")
    torch.compiler.set_stance("eager_on_recompile")
    assert stance() == "force_eager"
    inner.undo()
    assert stance() == "force_eager"
    patches.undo()
    assert stance() == "eager_on_recompile"
    context.__exit__(None, None, None)
    assert stance() == "default"


def test_fullgraph_functions_run_under_the_dispatch_mode(gpu, patches, graphs):
    install_eager(lambda _: None, patches)
    double = torch.compile(lambda x: x + x, backend="eager", fullgraph=True)
    assert double(torch.ones(2)).tolist() == [2, 2]
    assert [call[0] for call in gpu.monitor.launches()] == ["aten::ones", "aten::add"]


def test_a_compiler_imported_later_is_patched(tmp_path):
    program = """
import sys, torch
from torch import compile
from syncheck.instrument.patching import Patches
from syncheck.cuda.eager import install_eager

patches = Patches()
assert "torch._dynamo" not in sys.modules
install_eager(print, patches)
graphs = []
double = compile(lambda x: x + x, backend=lambda graph, _: graphs.append(graph) or graph)
double(torch.ones(2))
assert not graphs
patches.undo()
double(torch.ones(2))
assert graphs
"""
    done = subprocess.run([sys.executable, "-c", program], cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


def test_transformed_branches_compute_correctly_but_are_not_checked(gpu, patches):
    notes = []
    install_eager(notes.append, patches)
    x = torch.tensor([[1.0, 2.0], [-1.0, -2.0]])
    each = torch.func.vmap(lambda choice, row: torch.cond(choice, torch.sin, torch.cos, (row,)))
    assert torch.equal(each(torch.tensor([True, False]), x), torch.stack([x[0].sin(), x[1].cos()]))
    assert [note for note in notes if "not checked" in note] == notes
    assert [mode is gpu.mode for mode in current_dispatch_modes()] == [True]
