"""Follows a few lines of a program and returns the backend calls they cause (see `tests/unit/recording.py`)."""

import ast
import textwrap
from types import SimpleNamespace

from syncheck.lint import models
from syncheck.lint.engine import lint_source
from syncheck.lint.files import Text
from syncheck.lint.imports import Module
from syncheck.lint.interp.interpreter import Interpreter
from syncheck.lint.interp.machine import N_DEVICES, Machine
from syncheck.lint.interp.scope import Scope
from syncheck.lint.interp.sites import SourceSites
from syncheck.lint.interp.values import Call, Constant, Key, Symbol
from syncheck.lint.lifetimes import by_reference_count
from syncheck.lint.source_file import SourceFile
from syncheck.rules.catalogue import CATALOGUE
from tests.unit.recording import Recording

ALL = frozenset(rule.code for rule in CATALOGUE)


def new_program(source="", flipped=frozenset(), steps=4000, others=""):
    """Return a program and its interpreter; torch is imported, and `others` is the text of `others.py`."""
    models.load()
    file = SourceFile("program.py", textwrap.dedent(source))
    sites = SourceSites(file)
    machine = Machine(ALL, sites)
    recording = machine.session = Recording(machine.session, N_DEVICES)
    machine.assume_synchronized = lambda: recording.calls.append("all complete")
    module = Module("others.py", "import torch\n" + textwrap.dedent(others))

    def find(path, _importer):
        name = path.removeprefix("others.")
        return (module, name) if module.get(name) is not None else None

    interpreter = Interpreter(machine, flipped, steps, find)
    scope = Scope()
    scope.names |= {"torch": Symbol("torch"), "dist": Symbol("torch.distributed"), "__name__": Constant("__main__")}
    return SimpleNamespace(
        tree=file.tree, machine=machine, interpreter=interpreter, scope=scope, recording=recording, sites=sites,
        calls=recording.calls,
    )  # fmt: skip


def follow(source, flipped=frozenset(), steps=4000, others=""):
    """Follow a program as a script; objects it holds at the end stay alive."""
    program = new_program(source, flipped, steps, others)
    with by_reference_count():
        program.interpreter.run(program.tree.body, program.scope)
    return program


def calls_of(source, before="", **kwargs):
    """Return the calls that a program makes, excluding those of the lines before it."""
    before = textwrap.dedent(before)
    with by_reference_count():  # a collection would free what a program has lost
        program, start = follow(before + textwrap.dedent(source), **kwargs), follow(before, **kwargs)
        calls, made = list(program.calls), list(start.calls)  # without the frees caused by deleting the programs
    assert calls[: len(made)] == made
    return calls[len(made) :]


def value_of(expression, before=""):
    """Return the value of an expression after some lines."""
    program = follow(textwrap.dedent(before))
    return program.interpreter.evaluate(ast.parse(expression, mode="eval").body, program.scope)


def constant(expression, before=""):
    """Return the constant value of an expression, or a word for any other value."""
    return plain(value_of(expression, before))


def plain(value):
    if isinstance(value, Constant):
        return value.value
    items = getattr(value, "items", None)
    if isinstance(items, list):
        return [*map(plain, items), *(["..."] if value.is_open else [])]
    if isinstance(items, dict):
        known = {f"[{key.text}]" if isinstance(key, Key) else key: plain(item) for key, item in items.items()}
        return known | ({"...": "..."} if value.is_open else {})
    return type(value).__name__.lower() if type(value).__name__ != "Value" else "unknown"


def call(*args, **kwargs):
    """Return a call with these arguments."""
    node = ast.parse("f()", mode="eval").body
    return Call(node, list(args), kwargs)


def reported(source, changes, words):
    """Return the code and the line of each finding whose message contains some words, in a file with some changes."""
    for old, new in changes:
        assert old in source
        source = source.replace(old, new)
    result = lint_source("m.py", Text(source))
    assert not result.problem, result.problem
    return [(each.rule.code, each.location.frame.line) for each in result.findings if words in each.message]
