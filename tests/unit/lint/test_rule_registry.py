"""Syntactic rules of syncheck and of projects."""

from types import ModuleType

import pytest

from syncheck.errors import ConfigError
from syncheck.lint import rule_registry
from syncheck.lint.rule_registry import all_rules, can_matter, find, in_module, own_rules, register
from syncheck.lint.rules.host_sync_in_loop import HostSyncInLoop
from syncheck.rules import catalogue
from syncheck.rules.model import Rule, Severity

OF_SYNCHECK = {"SYN605", "SYN801", "SYN806", "SYN807"}


@pytest.fixture(autouse=True)
def no_project_rules(monkeypatch):
    """Start without rules of projects."""
    monkeypatch.setattr(rule_registry, "_of_projects", {})
    monkeypatch.setattr(catalogue, "_of_projects", {})


def kind(code="ACME1", words=(), name="", module="acme"):
    rule = Rule(code, name or f"rule-{code.lower()}", Severity.ERROR, "wrong", doc="A rule.", words=words)
    return type("Kind", (), {"rule": rule, "__module__": module})


def codes(kinds):
    return [kind.rule.code for kind in kinds]


def test_own_rules_are_those_with_a_module():
    assert {rule.code for rule in own_rules()} == OF_SYNCHECK


def test_a_text_is_checked_by_the_rules_whose_words_it_contains():
    assert find("loss.backward()\nloss.item()") == [HostSyncInLoop]
    assert set(codes(find("x.backward(); x.item(); rank == 0; dist.broadcast(x)"))) == {"SYN801", "SYN605"}
    assert find("x = 1") == []


def test_each_syncheck_rule_has_its_own_visitor():
    text = "\n".join(word for rule in own_rules() for words in rule.words for word in words)
    assert sorted(codes(find(text))) == sorted(OF_SYNCHECK)


def test_project_rules_come_last_and_without_words_apply_to_every_text():
    everywhere, here = kind("ACME1"), kind("ACME2", words=("here",))
    register(everywhere)
    register(here)
    assert all_rules() == (*own_rules(), everywhere.rule, here.rule)
    assert find("x = 1") == [everywhere]
    assert find("x = here") == [everywhere, here]


def test_the_latest_visitor_of_a_rule_counts():
    first, second = kind(), kind()
    register(first)
    register(second)
    assert find("") == [second]


@pytest.mark.parametrize("wrong", [{"code": "SYN101"}, {"code": "acme"}, {"name": "Not A Name"}])
def test_a_rule_rejected_by_the_catalogue_is_not_registered(wrong):
    with pytest.raises(ConfigError, match=r"is not a valid (code|rule name)"):
        register(kind(**wrong))
    assert all_rules() == own_rules()


# -- modules


def test_the_rules_of_a_module_are_the_classes_it_defines():
    module = ModuleType("acme")
    own, imported = kind(), kind("ACME2", module="other")
    abstract = type("Base", (), {"__module__": "acme"})
    odd = type("Odd", (), {"__module__": "acme", "rule": "ACME3"})
    vars(module).update(own=own, imported=imported, abstract=abstract, odd=odd, instance=own(), rule=own.rule)
    assert in_module(module) == [own]


# -- relevant files


@pytest.mark.parametrize(
    ("data", "matters"),
    [
        (b"import torch\nloss.backward()\nloss.item()", True), (b"loss.backward()\nloss.item()", False),
        (b"import torch\nloss.backward()", False), (b"import torch\nloss.item()", False), (b"", False),
        (b"import torch\n\xff loss.backward() loss.item()", True),
    ],
)  # fmt: skip
def test_syncheck_rules_need_torch_and_all_words_of_a_rule(data, matters):
    assert can_matter(data) is matters


@pytest.mark.parametrize(
    ("words", "data", "matters"),
    [
        ((), b"", True), (("here",), b"x = here", True), (("here",), b"x", False), (("a", "b"), b"b", True),
        ((("one", "two"),), b"one", False), ((("one", "two"),), b"two", False), ((("one", "two"),), b"two one", True),
    ],
)  # fmt: skip
def test_project_rules_choose_their_own_words(words, data, matters):
    register(kind(words=words))
    assert can_matter(data) is matters
