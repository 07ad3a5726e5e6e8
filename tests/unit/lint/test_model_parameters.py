"""Parameters of models that a class or a method works on."""

import ast

import pytest

from syncheck.lint.model_parameters import kept_parameters, parameters_in


def kept(body, signature="self, model"):
    (kind,) = ast.parse(f"class A:\n    def __init__({signature}):\n        {body}\n").body
    return sorted(kept_parameters(kind))


def variables(body, signature="self, model", held=()):
    (method,) = ast.parse(f"def f({signature}):\n    {body}\n").body
    return sorted(parameters_in(method, frozenset(held)))


@pytest.mark.parametrize(
    "body",
    [
        "self.params = list(model.parameters())", "self.params = [p for p in model.parameters() if p.requires_grad]",
        "self.params = dict(model.named_parameters())",
        "for name, p in model.named_parameters(): self.names.append(name); self.params.append(p)",
        "self.params = [p.detach() for p in model.parameters()]",
    ],
)  # fmt: skip
def test_a_class_keeps_the_parameters_of_a_model(body):
    assert kept(body) == ["params"]


def test_a_class_keeps_parameters_that_it_is_given():
    assert kept("self.params = list(given)", "self, given: Iterable[nn.Parameter]") == ["params"]
    assert kept("self.params = list(given)", "self, given: list[str]") == []


@pytest.mark.parametrize("body", ["self.model = model", "self.n = len(list(model.parameters()))", "self.x = [1, 2]"])
def test_other_attributes_hold_no_parameters(body):
    assert kept(body) == []


@pytest.mark.parametrize(
    ("body", "names"),
    [
        ("for p in self.params: pass", ["p"]), ("for p in model.parameters(): pass", ["p"]),
        ("for i, p in enumerate(self.params): pass", ["p"]), ("for s, p in zip(self.shadow, self.params): pass", ["p"]),
        ("live = [p.detach() for p in self.params]", ["live", "p"]), ("ps = self.params", ["ps"]),
        ("for x in self.shadow: pass", []), ("for s, t in zip(self.shadow, self.other): pass", []),
        ("n = [1 for p in self.params]", ["p"]),
    ],
)  # fmt: skip
def test_variables_that_are_parameters(body, names):
    assert variables(body, held=["params"]) == names
