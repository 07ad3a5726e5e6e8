"""A project's own rules, from the settings to every place that shows findings."""

import json
import subprocess
from pathlib import Path

import pytest

from syncheck.errors import ConfigError
from syncheck.rules import catalogue
from syncheck.rules.model import Rule, Severity
from tests import warm

RULES = '''
"""Copies are made on the copy stream.

## Fix
Move it.
"""
import libcst as cst
from libcst import matchers as m
from syncheck.extend import LintRule, Rule, Severity


class Copies(LintRule):
    rule = Rule("ACME1", "copy-off-stream", Severity.WARNING, "copy on {stream}", doc=__doc__, words=("non_blocking",))

    @m.visit(m.Call(args=[m.ZeroOrMore(), m.Arg(keyword=m.Name("non_blocking")), m.ZeroOrMore()]))
    def copy(self, node: cst.Call) -> None:
        state = self.gpu_state(node)
        if state and state.current_stream and state.current_stream.is_default:
            self.report(node, stream=state.current_stream)


class Names(LintRule):
    rule = Rule("ACME2", "empty-cache", Severity.ERROR, "{name} is called", doc="No cache is emptied.")

    def visit_Call(self, node: cst.Call) -> None:
        if self.full_name(node) == "torch.cuda.empty_cache":
            self.report(node, name=self.full_name(node), help="remove it")
'''
PROGRAM = """\
from torch import cuda

side = cuda.Stream()


def load(batch):
    with cuda.stream(side):
        first = batch.to("cuda", non_blocking=True)
    second = batch.to("cuda", non_blocking=True)
    return first, second


def clean():
    cuda.empty_cache()
"""


@pytest.fixture
def project(tmp_path: Path) -> Path:
    (tmp_path / "acme").mkdir()
    (tmp_path / "acme/rules.py").write_text(RULES)
    (tmp_path / "pyproject.toml").write_text('[tool.syncheck]\nrules = ["acme.rules"]\n')
    (tmp_path / "program.py").write_text(PROGRAM)
    return tmp_path


def syncheck(folder: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    return warm.run("syncheck", *arguments, folder=folder, limit=200)


def found(folder: Path, *arguments: str) -> list[tuple[str, int]]:
    done = syncheck(folder, "lint", "--output-format", "json", *arguments)
    return [(entry["rule"], entry["line"]) for entry in json.loads(done.stdout)["findings"]]


def test_all_commands_use_the_rules_named_in_the_settings(project):
    assert found(project, "program.py") == [("ACME1", 9), ("ACME2", 14)]
    assert found(project, "program.py") == [("ACME1", 9), ("ACME2", 14)]  # from the cache
    assert found(project, "--select", "ACME2", "program.py") == [("ACME2", 14)]
    assert found(project, "--ignore", "ACME1", "program.py") == [("ACME2", 14)]
    assert "Copies are made on the copy stream." in syncheck(project, "explain", "ACME1").stdout
    assert "ACME2  empty-cache" in syncheck(project, "rules").stdout
    text = syncheck(project, "lint", "program.py").stdout
    assert "error[ACME2] empty-cache: torch.cuda.empty_cache is called" in text
    assert "= help: remove it" in text


def test_changing_a_rule_invalidates_the_cache(project):
    assert found(project, "program.py")
    (project / "acme/rules.py").write_text(RULES.replace("state.current_stream.is_default", "False"))
    assert found(project, "program.py") == [("ACME2", 14)]


def test_comments_suppress_project_rules_and_a_run_accepts_them(project):
    source = PROGRAM.replace("    cuda.empty_cache()", "    cuda.empty_cache(  # syncheck: ignore[ACME2]\n    )")
    (project / "program.py").write_text(source + "\nclean()\n")
    (project / "pyproject.toml").write_text('[tool.syncheck]\nrules = ["acme.rules"]\nignore = ["ACME1"]\n')
    assert found(project, "program.py") == []
    done = syncheck(project, "run", "--backend", "sim", "program.py")
    assert "ACME" not in done.stderr


def test_worker_processes_load_project_rules(project):
    for number in range(20):
        (project / f"part{number}.py").write_text(PROGRAM)
    assert len(found(project)) == 21 * 2


def test_a_file_without_torch_is_linted_if_a_rule_has_no_words(project):
    (project / "other.py").write_text("x = 1\n")
    rules = RULES.replace('if self.full_name(node) == "torch.cuda.empty_cache"', "if True")
    (project / "acme/rules.py").write_text(rules)
    (project / "other.py").write_text("print(1)\n")
    done = syncheck(project, "lint", "other.py")
    assert "ACME2" in done.stdout


def test_settings_of_another_project_load_no_code(project, tmp_path_factory):
    elsewhere = tmp_path_factory.mktemp("elsewhere")
    (project / "acme/rules.py").write_text("raise SystemExit(7)\n")
    done = syncheck(elsewhere, "lint", str(project / "program.py"))
    assert done.returncode == 0
    assert "ACME" not in done.stdout
    note = "names rules or models, but these are loaded only from the working directory's settings"
    assert note in " ".join(done.stdout.split())


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("import nothing_of_this_name\n", "cannot import module 'acme.rules' (setting `rules`): ModuleNotFoundError"),
        ("x = 1\n", "acme.rules has no rule"),
        (RULES.replace('"ACME2"', '"SYN101"'), "'SYN101' is not a valid code for a project's rule"),
        (RULES.replace('"ACME2"', '"ACME1"'), "two rules have the code ACME1"),
        (RULES.replace('"empty-cache"', '"unordered-read"'), "ACME2 and SYN101 are both named unordered-read"),
        (RULES.replace('"empty-cache"', '"Empty cache"'), "'Empty cache' is not a valid rule name"),
    ],
)
def test_rules_that_cannot_be_loaded_give_a_clear_error(project, text, words):
    (project / "acme/rules.py").write_text(text)
    done = syncheck(project, "lint", "program.py")
    assert (done.returncode, words in done.stderr) == (2, True), done.stderr
    assert "Traceback" not in done.stderr


def test_a_failing_rule_does_not_hide_other_findings(project):
    (project / "acme/rules.py").write_text(RULES.replace("self.report(node, name=", "self.report(node, nam="))
    done = syncheck(project, "lint", "program.py")
    assert "ACME1" in done.stdout
    assert "the rule ACME2 failed: ValueError" in done.stdout
    assert done.returncode != 0


def test_a_fix_of_a_rule_is_applied_and_an_impossible_one_hides_no_findings(project):
    rules = RULES.replace("import LintRule", "import Applicability, Edit, EditKind, Fix, LintRule").replace(
        'help="remove it")', "fix=self.fix(node))"
    )
    fix = """
    def fix(self, node):
        where = self.location(node).frame
        kind = EditKind.INSERT_BEFORE if where.line == 4 else EditKind.REPLACE_CALL
        edit = Edit(kind, where.path, where.line, where.column, "cuda.init()", "empty_cache")
        return Fix((edit,), Applicability.SAFE)
"""
    (project / "acme/rules.py").write_text(rules + fix)
    elif_program = "from torch import cuda\nif cuda:\n    pass\nelif cuda.empty_cache():\n    pass\n"
    (project / "elif.py").write_text(elif_program)
    done = syncheck(project, "lint", "--fix", "--output-format", "concise", ".")
    assert (done.returncode, "Traceback" in done.stderr) == (1, False), done.stderr
    assert "elif.py:4:6: ACME2" in done.stdout
    assert (project / "elif.py").read_text() == elif_program
    assert (project / "program.py").read_text().endswith("    cuda.init()\n")


def test_an_unknown_code_is_an_error_even_with_project_rules(project):
    done = syncheck(project, "lint", "--select", "ACME7", "program.py")
    assert done.returncode == 2
    assert "no rule matches 'ACME7'" in done.stderr


def test_registering_a_rule_twice_keeps_one_rule(monkeypatch):
    monkeypatch.setattr(catalogue, "_of_projects", {})
    rule = Rule("OWN1", "own-rule", Severity.ADVICE, "text", doc="A page.")
    catalogue.register(rule)
    catalogue.register(rule)
    assert [found.code for found in catalogue.all_rules()][-1] == "OWN1"
    assert catalogue.find("own-rule") is rule
    assert rule.family is None
    with pytest.raises(ConfigError, match="two rules have the code OWN1"):
        catalogue.register(Rule("OWN1", "other-rule", Severity.ADVICE, "text", doc="A page."))
