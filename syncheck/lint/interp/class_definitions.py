"""Definitions of classes."""

import ast

from syncheck.lint.interp.evaluator import Evaluator
from syncheck.lint.interp.scope import Scope
from syncheck.lint.interp.values import UNKNOWN, Call, Class, Function, Value


def decorated(evaluator: Evaluator, made: Class, scope: Scope) -> Value:
    """Return a class after its decorators and metaclass have been applied."""
    node = made.node
    metaclass = next((ast.unparse(word.value) for word in node.keywords if word.arg == "metaclass"), "ABCMeta")
    known = metaclass.endswith("ABCMeta") and "__del__" not in made.members
    begin = next((base.find("__init_subclass__") for base in made.bases if isinstance(base, Class)), None)
    if isinstance(begin, Function):
        evaluator.call_function(begin, Call(node, [made], {}, is_complete=False))
    value: Value = made if known else UNKNOWN
    for decorator in reversed(node.decorator_list):
        value = evaluator.decorate(value, decorator, scope)
    return value
