"""Functions that use code which may leave work running."""

import ast
import textwrap

import pytest

from syncheck.lint.asynchronous_code import AsynchronousCode
from syncheck.lint.imports import Imports

OTHER = """
import torch
class Loader:
    def __init__(self): self.side = torch.cuda.Stream()
def make(): return Loader()
def plain(): return 1
"""


@pytest.fixture
def code(tmp_path):
    """Return a function that returns a file's asynchronous code, and its functions by name."""
    (tmp_path / "pyproject.toml").touch()
    (tmp_path / "other.py").write_text(OTHER)

    def read(text):
        text = textwrap.dedent(text)
        tree = ast.parse(text)
        functions = {node.name: node for node in ast.walk(tree) if isinstance(node, ast.FunctionDef)}
        return AsynchronousCode(tree, text, Imports(str(tmp_path / "m.py"))), functions, tree

    return read


def test_functions_that_use_code_of_the_same_file(code):
    found, functions, _ = code("""
        class Stage:
            def __init__(self): self.buffer = torch.empty(3, pin_memory=True)
        class User:
            def __init__(self): self.stage = Stage()
            def run(self): self.stage.fill()
            def idle(self): return 1
        def send(x): return dist.isend(x, 1)
        def relay(x): return send(x)
    """)
    used = {name for name, function in functions.items() if found.is_used_by(function)}
    assert used == {"run", "relay", "send"}  # the signature of `send` looks like a call
    assert not any(map(found.is_linked_to, functions.values()))


def test_functions_that_are_given_objects_of_the_same_file(code):
    found, functions, tree = code("""
        class Link:
            def send(self, x): self.work = dist.isend(x, 1)
        class Stage:
            def __init__(self, link: Link): self.link = link
            def run(self): self.link.send(1)
            def idle(self): return 1
        def use(link: Link): link.send(1)
        def other(link: int): return link
    """)
    used = {name for name, function in functions.items() if found.is_used_by(function)}
    assert used == {"run", "use"}
    linked = {node.name for node in tree.body if isinstance(node, ast.ClassDef) and found.are_linked(node)}
    assert linked == {"Stage"}


def test_functions_that_use_code_of_another_file(code):
    found, functions, tree = code("""
        from other import Loader, make, plain
        class User:
            def __init__(self, loader: Loader):
                self.loader = loader
                self.made = make()
            def given(self): return self.loader.next()
            def created(self): return self.made.next()
            def idle(self): return plain()
        class Idle:
            def idle(self): return plain()
        class Many:
            def __init__(self, loaders: list[Loader]):
                self.loaders = list(loaders)
            def all(self):
                for loader in self.loaders: loader.next()
        def annotated(loader: Loader): return loader.next()
        def calling(): return make()
    """)
    assert {name for name, function in functions.items() if found.is_linked_to(function)} == {
        "given", "created", "all", "annotated", "calling",
    }  # fmt: skip
    kinds = {node.name: found.are_linked(node) for node in tree.body if isinstance(node, ast.ClassDef)}
    assert kinds == {"User": True, "Idle": False, "Many": True}


def test_a_file_without_such_code_has_no_such_functions(code):
    found, functions, _ = code("def f(): return 1\ndef g(): return f()")
    assert not any(found.is_used_by(function) or found.is_linked_to(function) for function in functions.values())
