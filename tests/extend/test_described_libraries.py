"""Descriptions of libraries, used by the linter and by runs on simulated GPUs."""

import sys
from pathlib import Path

import pytest

from syncheck.errors import ConfigError
from syncheck.semantics import library
from syncheck.semantics.library import Effect, describe
from syncheck.testing import check_lint, check_run
from tests import warm
from tests.descriptions import isolate_descriptions

NATIVE = '''
"""Stands for compiled code: it works on addresses."""
import ctypes
import torch

def _numbers(tensor):
    return (ctypes.c_float * tensor.numel()).from_address(tensor.data_ptr())

def add_one(x, out, stream=None):
    for index, value in enumerate(_numbers(x)):
        _numbers(out)[index] = value + 1

class Prefetcher:
    def __init__(self, table):
        self.table = table
        self.stream = torch.cuda.Stream()

    def fetch(self, out):
        add_one(self.table, out)
        return out

    def wait(self):
        pass

@torch.library.custom_op("acme_lib::scale", mutates_args=("out",))
def scale(x: torch.Tensor, out: torch.Tensor) -> None:
    out.copy_(x * 2)
'''
MODELS = """
from syncheck.extend import describe

describe("acme_lib.add_one(x, out, stream=None)", reads="x", writes="out", stream="stream")
describe("acme_lib.Prefetcher.fetch(self, out)", writes="out", stream="self.stream", waits_for="current", returns="out")
describe("acme_lib.Prefetcher.wait(self)", stream="self.stream", then_waits="current")
describe("acme_lib::scale(x, out)", reads="x", writes="out", then_waits="host")
"""
HEAD = """
import torch
import acme_lib

side = torch.cuda.Stream()
x = torch.ones(8, device="cuda")
out = torch.empty(8, device="cuda")
"""
PROGRAMS = {
    "a stream that is given": """
acme_lib.add_one(x, out, stream=side)  # expect: SYN101
side.synchronize()
""",
    "the current stream, where none is given": """
acme_lib.add_one(x, out)
with torch.cuda.stream(side):
    y = out * 2  # expect: SYN101
torch.cuda.synchronize()
""",
    "a stream of an object": """
fetcher = acme_lib.Prefetcher(x)
rows = fetcher.fetch(out)
y = rows * 2  # expect: SYN101
torch.cuda.synchronize()
""",
    "a method that waits": """
fetcher = acme_lib.Prefetcher(x)
rows = fetcher.fetch(out)
fetcher.wait()
y = rows * 2
torch.cuda.synchronize()
""",
    "an operator that waits on the host": """
torch.ops.acme_lib.scale(x, out)
with torch.cuda.stream(side):
    y = out * 2
torch.cuda.synchronize()
""",
}


@pytest.fixture(autouse=True)
def _runs_are_forked(monkeypatch):
    monkeypatch.setattr(sys, "executable", warm.PYTHON)


@pytest.fixture(autouse=True)
def _no_descriptions(monkeypatch):
    isolate_descriptions(monkeypatch)


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    (tmp_path / "acme_lib.py").write_text(NATIVE)
    (tmp_path / "acme_models.py").write_text(MODELS)
    monkeypatch.setenv("PYTHONPATH", f"{tmp_path}:{Path(__file__).parents[2]}")
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.delitem(sys.modules, "acme_models", raising=False)
    return tmp_path


@pytest.mark.parametrize("program", PROGRAMS.values(), ids=PROGRAMS)
def test_the_linter_and_a_run_report_the_same_findings(folder, program):
    path = folder / "program.py"
    path.write_text(HEAD + program)
    check_lint(path, models=["acme_models"])
    check_run(path, models=["acme_models"])


def test_a_wrong_expectation_fails(folder):
    path = folder / "program.py"
    path.write_text(HEAD + PROGRAMS["a method that waits"].replace("y = rows * 2", "y = rows * 2  # expect: SYN101"))
    with pytest.raises(AssertionError, match="SYN101 is expected and was not found"):
        check_lint(path, models=["acme_models"])
    with pytest.raises(AssertionError, match="SYN101 is expected and was not found"):
        check_run(path, models=["acme_models"])


def test_without_a_description_nothing_is_reported(folder):
    path = folder / "program.py"
    path.write_text(HEAD + PROGRAMS["a stream of an object"].replace("  # expect: SYN101", ""))
    check_run(path)


def test_describe_parses_a_signature():
    effect = describe("acme.cache.Store.put(self, x, *, stream=None)", reads=("x",), stream="stream", returns="x")
    assert effect == Effect("acme.cache.Store.put", ("self", "x", "stream"), ("x",), (), "stream", (), (), "x")
    assert effect.owner == "acme.cache.Store"
    assert not effect.is_operator
    assert describe("acme::put(x)").is_operator
    assert library.operator("acme::put") in library.described()


@pytest.mark.parametrize(
    ("signature", "more", "words"),
    [
        ("add_one(x)", {}, "is not the signature of a function with its full name"),
        ("acme.add_one", {}, "is not the signature of a function with its full name"),
        ("acme.add_one(x, 1)", {}, "is not the signature of a function with its full name"),
        ("acme.add_one(*x)", {}, "has * or ** parameters"),
        ("acme.add_one(x)", {"reads": "y"}, "acme.add_one has no parameter 'y'"),
        ("acme.add_one(x)", {"stream": "side"}, "acme.add_one: 'side' names no stream"),
        ("acme.add_one(x)", {"returns": "y"}, "acme.add_one has no parameter 'y'"),
    ],
)
def test_an_invalid_description_raises_a_clear_error(signature, more, words):
    with pytest.raises(ConfigError) as error:
        describe(signature, **more)
    assert words in str(error.value)
    assert error.value.hint
    assert library.described() == ()
