"""The project is consistent: everything declared in one place is found in the places derived from it."""

import re
import subprocess
import sys
from pathlib import Path

from syncheck.commands.rules import sources
from syncheck.rules.catalogue import CATALOGUE

ROOT = Path(__file__).parents[1]
RUN_RULES = """SYN101 SYN102 SYN103 SYN104 SYN201 SYN202 SYN301 SYN302 SYN303 SYN401 SYN402 SYN403 SYN404 SYN405 SYN406
SYN501 SYN502 SYN503 SYN601 SYN602 SYN603 SYN604 SYN701 SYN702 SYN801 SYN802 SYN803 SYN804 SYN805 SYN806 SYN807
SYN808 SYN901 SYN902 SYN903 SYN904 SYN905 SYN906""".split()


def test_the_sanitizer_reports_its_documented_rules():
    assert [rule.code for rule in CATALOGUE if "run" in sources(rule)] == RUN_RULES


def test_importing_the_package_loads_only_its_version():
    code = "import sys; before = set(sys.modules); import syncheck; print(sorted(set(sys.modules) - before))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "['syncheck', 'syncheck.version']"


def test_the_readme_names_every_command_and_option():
    readme = (ROOT / "README.md").read_text()
    done = subprocess.run(
        [sys.executable, "-m", "syncheck", "run", "--help"], capture_output=True, text=True, check=True
    )
    options = set(re.findall(r"--[a-z][a-z-]*\b(?!-)", done.stdout)) - {"--help"}
    assert len(options) > 8
    assert [option for option in sorted(options) if option not in readme] == []
    for command in ("run", "replay", "rules", "explain", "doctor"):
        assert f"`syncheck {command}" in readme


def test_no_module_of_the_package_is_too_long():
    long = {str(path.relative_to(ROOT)): n for path in ROOT.glob("syncheck/**/*.py") if (n := _lines(path)) > 400}
    assert long == {}


def _lines(path):
    return len(path.read_text().splitlines())


def test_source_is_parsed_in_one_place():
    """`syncheck.source.text` parses without warnings about the text."""
    modules = {
        str(path.relative_to(ROOT)) for path in ROOT.glob("syncheck/**/*.py") if "ast.parse(" in path.read_text()
    }
    assert modules == {"syncheck/source/text.py"}
