"""Use of a class by a program."""

import ast

import pytest

from syncheck.lint.assumed_objects import AssumedObjects
from syncheck.lint.classes import order
from syncheck.lint.uses_of_class import follow
from tests.unit.lint.program import follow as script

CLASS = """
class Reducer:
    def __init__(self, p):
        self.side = torch.cuda.Stream()
        {registered}
    def hook(self, p): p.sin_()
    def step(self): torch.ones(3, device="cuda").cos_()
    def wait(self): self.side.synchronize()
"""


def launched(registered):
    """Return the operators and waits of a class's methods, in the order in which they run."""
    program = script(CLASS.format(registered=registered))
    made = program.scope.find("Reducer")
    steps = [method for method in made.node.body if method.name in {"step", "wait"}]
    n = len(program.calls)
    follow(program.interpreter, made, steps, AssumedObjects())
    words = ("sin_", "cos_", "sync s1", "all complete")
    return [word for call in program.calls[n:] for word in words if word in call]


def test_hooks_run_before_methods_and_a_careful_caller_waits_after_them():
    found = launched("p.register_post_accumulate_grad_hook(lambda p: p.sin_())")
    assert found == ["sin_", "all complete", "all complete", "sin_", "sync s1", "cos_", "sync s1"]


@pytest.mark.parametrize("registered", ["pass", "p.register_post_accumulate_grad_hook(unknown)"])
def test_without_hooks_only_the_methods_run(registered):
    assert launched(registered)[-2:] == ["cos_", "sync s1"]
    assert "sin_" not in launched(registered)


@pytest.mark.parametrize("get", ["self.slots[{}]", "self.slots.get({})", "self.slots.pop({})"])
def test_a_caller_passes_the_same_index_to_several_methods(get):
    def found(begin, end):
        lines = [
            "class Pool:",
            "    def __init__(self): self.slots = {}",
            f"    def begin(self, {begin}): self.slots[{begin}] = torch.ones(3, device='cuda')",
            f"    def end(self, {end}): {get.format(end)}.sin_()",
        ]
        program = script("\n".join(lines))
        made = program.scope.find("Pool")
        follow(program.interpreter, made, made.node.body[1:], AssumedObjects())
        return any("sin_" in call for call in program.calls)

    assert found("slot", "slot")
    assert not found("slot", "other")


def test_a_method_that_is_a_hook_is_one_of_the_steps():
    tree = ast.parse(CLASS.format(registered="p.register_hook(self._ready)").replace("def hook", "def _ready"))
    assert "_ready" in [method.name for method in order(tree.body[0])]
