"""Rules and library descriptions named in the settings."""

import sys

import pytest

from syncheck.config.options import Options
from syncheck.errors import ConfigError
from syncheck.lint import prefilter, rule_registry
from syncheck.lint.extensions import Extensions
from syncheck.lint.interp import registry
from syncheck.rules import catalogue
from syncheck.semantics import library
from tests.descriptions import isolate_descriptions

RULES = """
from syncheck.extend import LintRule, Rule, Severity

class Calls(LintRule):
    rule = Rule("ACME{number}", "calls-{number}", Severity.ERROR, "{{name}}", doc="No calls.")
"""
MODELS = """
from syncheck.extend import describe

describe("acme_of_a_test.copy_rows(x, out)", reads="x", writes="out")
"""


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """Return a project folder; whatever it registers is removed afterwards."""
    isolate_descriptions(monkeypatch)
    for owner in (rule_registry, catalogue):
        monkeypatch.setattr(owner, "_of_projects", {})
    yield tmp_path
    for name in [
        name for name, module in sys.modules.items() if str(tmp_path) in (getattr(module, "__file__", "") or "")
    ]:
        del sys.modules[name]


def extensions(folder, *, rules=(), models=()):
    return Extensions(rules, models, str(folder))


def write(folder, name, text):
    (folder / f"{name}.py").write_text(text)
    return name


def test_the_settings_determine_what_is_loaded():
    options = Options(rules=("acme.rules",), models=("acme.models",), root="/project")
    assert Extensions.of(options) == (("acme.rules",), ("acme.models",), "/project")


def test_without_extensions_nothing_is_loaded(folder):
    assert extensions(folder).load() == ""
    assert rule_registry.all_rules() == rule_registry.own_rules()


def test_rules_are_found_in_the_project_folder_and_registered(folder):
    name = write(folder, "rules_a", RULES.format(number=1) + RULES.format(number=2).replace("Calls", "Others"))
    extensions(folder, rules=(name,)).load()
    assert [rule.code for rule in rule_registry.all_rules()[-2:]] == ["ACME1", "ACME2"]
    assert catalogue.find("calls-1").code == "ACME1"
    assert str(folder) not in sys.path


def test_loading_again_changes_nothing(folder):
    name = write(folder, "rules_b", RULES.format(number=1))
    first = extensions(folder, rules=(name,)).load()
    assert extensions(folder, rules=(name,)).load() == first
    assert [rule.code for rule in rule_registry.all_rules()].count("ACME1") == 1


def test_descriptions_register_models_for_the_linter(folder):
    name = write(folder, "models_a", MODELS)
    extensions(folder, models=(name,)).load()
    assert [effect.name for effect in library.described()] == ["acme_of_a_test.copy_rows"]
    assert "acme_of_a_test.copy_rows" in registry._functions
    assert prefilter.can_matter(b"copy_rows(1)")


def test_the_digest_changes_with_the_loaded_modules(folder):
    names = [write(folder, "rules_c", RULES.format(number=1)), write(folder, "models_c", MODELS)]
    loaded = extensions(folder, rules=(names[0],), models=(names[1],))
    before = loaded.load()
    assert len(before.split()) == 2
    for name in names:
        write(folder, name, (folder / f"{name}.py").read_text() + "\n# changed\n")
        after = loaded.load()
        assert after != before
        before = after


def test_a_rule_module_without_a_rule_is_rejected(folder):
    name = write(folder, "rules_d", "from syncheck.extend import LintRule\n")
    with pytest.raises(ConfigError, match="rules_d has no rule") as error:
        extensions(folder, rules=(name,)).load()
    assert "LintRule" in error.value.hint


def test_a_module_of_descriptions_needs_no_rule(folder):
    assert extensions(folder, models=(write(folder, "models_d", "x = 1\n"),)).load()


def test_two_rules_with_the_same_code_are_rejected(folder):
    names = [write(folder, f"rules_{n}", RULES.format(number=1).replace("calls-1", f"calls-{n}")) for n in "ef"]
    with pytest.raises(ConfigError, match="ACME1"):
        extensions(folder, rules=tuple(names)).load()


@pytest.mark.parametrize("role", ["rules", "models"])
def test_a_module_that_cannot_be_imported_is_named(folder, role):
    with pytest.raises(ConfigError, match=rf"cannot import module 'acme_nowhere' \(setting `{role}`\)"):
        extensions(folder, **{role: ("acme_nowhere",)}).load()
