"""Hooks on unknown modules and parameters."""

import pytest

from syncheck.lint.interp.values import Call
from syncheck.lint.models import hooks
from syncheck.lint.models.hooks import is_called_later
from tests.unit.lint.program import calls_of, follow

STREAM = "s = torch.cuda.Stream()\n"


def hooked(method, parameters, body, before=STREAM):
    return calls_of(f"def hook({parameters}):\n    {body}\nf().{method}(hook)", before)


@pytest.mark.parametrize(
    ("method", "parameters", "used"),
    [
        ("register_hook", "grad", "grad"),
        ("register_post_accumulate_grad_hook", "p", "p.grad"),
        ("register_forward_hook", "module, args, output", "output"),
        ("register_forward_hook", "module, args, output", "args[0]"),
        ("register_forward_pre_hook", "module, args", "args[0]"),
        ("register_full_backward_hook", "module, before, after", "after[0]"),
        ("register_full_backward_pre_hook", "module, after", "after[0]"),
    ],
)
def test_a_hook_is_called_with_freshly_computed_values(method, parameters, used):
    calls = hooked(method, parameters, f"{used}.sin_()")
    assert any("autograd" in call for call in calls)
    assert any("sin_" in call and "w" in call for call in calls)
    assert "all complete" in calls


def test_all_hook_registration_methods_are_tested():
    (tried,) = test_a_hook_is_called_with_freshly_computed_values.pytestmark
    assert {method for method, _, _ in tried.args[1]} == hooks._ARGUMENTS.keys()


def test_a_hook_is_not_called_without_side_streams():
    assert hooked("register_hook", "grad", "grad.sin_()", before="") == []


@pytest.mark.parametrize(("context", "is_called"), [("torch.cuda.stream(s)", False), ("torch.no_grad()", True)])
def test_a_gradient_hook_is_not_called_if_a_backward_pass_may_run_on_a_side_stream(context, is_called):
    before = f"{STREAM}with {context}:\n    f().backward()\n"
    calls = hooked("register_post_accumulate_grad_hook", "p", "p.grad.sin_()", before)
    assert any("sin_" in call for call in calls) is is_called


def test_other_methods_do_not_register_hooks():
    assert not any("sin_" in call for call in hooked("register_buffer", "grad", "grad.sin_()"))


def test_a_hook_that_is_interpreted_later_is_only_registered():
    program = follow("class A:\n    def hook(self, grad): pass\na = A()\nb = a.hook")
    call = Call(program.tree, [program.scope.names["b"]])
    machine = program.machine
    assert not is_called_later(machine, "register_hook", call)
    machine.called_later = frozenset({program.tree.body[0].body[0]})
    assert is_called_later(machine, "register_hook", call)
    assert not is_called_later(machine, "submit", call)


def test_registered_hooks_can_run_again():
    program = follow(STREAM + "def hook(grad): grad.sin_()\nf().register_hook(hook)\nf().register_hook(unknown)")
    n = len(program.calls)
    assert len(program.machine.hooks) == 1
    hooks.run_hooks(program.interpreter)
    assert any("sin_" in call for call in program.calls[n:])
    assert "all complete" not in program.calls[n:]
    assert len(program.machine.hooks) == 1
