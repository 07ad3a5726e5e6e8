"""Models and optimizers that a constructor is assumed to get."""

import pytest

from syncheck.lint.assumed_models import assumed_models, trained_models
from syncheck.lint.interp.values import Module, Optimizer
from tests.unit.lint.program import follow


def made(parameter, use="self.given = given", method="pass", stream="torch.cuda.Stream()"):
    """Return what the constructor of a class is assumed to get."""
    program = follow(
        f"class A:\n    def __init__(self, {parameter}):\n        {use}\n        self.side = {stream}\n"
        f"    def update(self):\n        {method}\n"
    )
    begin = program.scope.find("A").find("__init__")
    return assumed_models(program.machine, begin)


@pytest.mark.parametrize("annotation", ["torch.nn.Module", "nn.Module", "Module", "'nn.Module'", "nn.Module | None"])
def test_a_model_whose_parameters_are_used_has_a_parameter_on_the_gpu(annotation):
    model = made(f"given: {annotation}", method="list(self.given.parameters())")["given"]
    assert isinstance(model, Module)
    assert model.weight.block.device == 0
    assert model.weight.is_argument


def test_a_parameter_of_an_optimizer_has_a_gradient():
    optimizer = made("given: torch.optim.Optimizer", method="self.given.step()")["given"]
    assert isinstance(optimizer, Optimizer)
    (weight,) = optimizer.parameters
    assert weight.grad.block.device == 0


def test_an_optimizer_may_call_hooks_of_the_class():
    hooked = made("given: torch.optim.Optimizer", "given.register_step_pre_hook(self.update)")
    assert isinstance(hooked["given"], Optimizer)


@pytest.mark.parametrize(
    "method",
    [
        "self.given(x)",  # may wait for a stream
        "self.given.layers[0]",
        "f(self.given)",
        "self.given.forward(x)",
        "return self.given",
    ],
)
def test_a_model_used_otherwise_is_unknown(method):
    assert made("given: torch.nn.Module", method=method) == {}


@pytest.mark.parametrize("use", ["f(given)", "self.given = f(given)", "self.all = [given]"])
def test_a_model_passed_on_by_the_constructor_is_unknown(use):
    assert made("given: torch.nn.Module", use) == {}


@pytest.mark.parametrize(
    "parameter",
    [
        "given",
        "given: torch.Tensor",
        "given: dict",
        "given: type[nn.Module]",
        "given: list[nn.Module]",
        "given: Callable[[nn.Module], None]",
        "given: tuple[type[torch.optim.Optimizer], dict]",
    ],
)
def test_other_arguments_are_unknown(parameter):
    assert made(parameter) == {}


def test_a_class_without_streams_gets_nothing():
    assert made("given: torch.nn.Module", stream="None") == {}


def test_only_constructors_get_models():
    program = follow("class A:\n    side = torch.cuda.Stream()\n    def f(self, given: torch.nn.Module): pass\n")
    assert assumed_models(program.machine, program.scope.find("A").find("f")) == {}
    program = follow("def __init__(given: torch.nn.Module): torch.cuda.Stream()\n")
    assert assumed_models(program.machine, program.scope.find("__init__")) == {}


def trained(body, parameters="model, opt", stream="torch.cuda.Stream()"):
    """Return what a function is assumed to get that also does work on a side stream."""
    program = follow(
        f"def train({parameters}):\n    side = {stream}\n    with torch.cuda.stream(side):\n        pass\n    {body}\n"
    )
    return trained_models(program.machine, program.scope.find("train"))


def test_a_function_trains_the_model_that_it_runs():
    made = trained("model(x); f(model.parameters()); opt.step()")
    assert isinstance(made["model"], Module)
    assert made["opt"].parameters == [made["model"].weight]
    assert made["model"].weight.grad.block.device == 0


def test_a_model_that_is_not_run_has_no_optimizer():
    made = trained("model(x); list(copy.parameters()); model.named_parameters(); opt.step()", "model, copy, opt")
    assert made["opt"].parameters == [made["model"].weight]
    assert list(trained("model.parameters(); opt.step()")) == ["model"]
    assert list(trained("a(x); b(a.parameters(), b.parameters()); opt.step()", "a, b, opt")) == ["a", "b"]


@pytest.mark.parametrize(
    "body",
    ["model(x)", "f(model); model.parameters()", "model.parameters(); model.layers", "model = f(); model.parameters()"],
)
def test_what_is_used_otherwise_is_no_model(body):
    assert trained(body) == {}


def test_a_function_on_one_stream_gets_no_model():
    assert trained("model.parameters()", stream="other") == {}
