"""Definitions of classes."""

import pytest

from syncheck.lint.interp.class_definitions import decorated
from syncheck.lint.interp.identities import is_unknown
from syncheck.lint.interp.values import Class
from tests.unit.lint.program import calls_of, follow


def defined(source):
    return follow(source).scope.names["A"]


@pytest.mark.parametrize("source", ["class A: pass", "import abc\nclass A(metaclass=abc.ABCMeta): pass"])
def test_a_plain_class_is_known(source):
    assert isinstance(defined(source), Class)


@pytest.mark.parametrize(
    "source", ["class A(metaclass=f()): pass", "class A:\n    def __del__(self): pass", "@unknown()\nclass A: pass"]
)
def test_a_class_that_other_code_may_change_is_unknown(source):
    assert is_unknown(defined(source))


def test_decorators_run_from_the_last_to_the_first():
    program = follow("def f(kind): return 1\ndef g(kind): return kind\n@f\n@g\nclass A: pass\nclass B: pass")
    made = program.scope.names["B"]
    made.node.decorator_list = program.tree.body[2].decorator_list
    assert decorated(program.interpreter, made, program.scope).value == 1


def test_a_base_may_run_code_for_each_subclass():
    before = """
        x = torch.empty(3, device="cuda")
        class B:
            def __init_subclass__(cls): x.sin_()
    """
    assert any("sin_" in call for call in calls_of("class A(B): pass", before))
