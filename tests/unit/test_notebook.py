"""`%%syncheck` in a notebook, with a stand-in for IPython's shell that registers magics and runs cells."""

from types import SimpleNamespace

import pytest

import syncheck

RACE = """
import torch
side = torch.cuda.Stream()
x = torch.ones(4, device="cuda")
with torch.cuda.stream(side):
    y = x * 2
"""


class Shell:
    """The part of `IPython.core.interactiveshell.InteractiveShell` that the extension uses."""

    def __init__(self):
        self.magics, self.ran = {}, []
        self.compile = self
        self.names = {}

    def register_magic_function(self, function, magic_kind="line", magic_name=None):
        self.magics[magic_kind, magic_name] = function

    def format_code_name(self, name):
        return ("Cell", "In[1]") if name == "<input-1>" else None

    def run_cell(self, cell):
        self.ran.append(cell)
        exec(compile(cell, "<input-1>", "exec"), self.names)


def magic():
    shell = Shell()
    syncheck.load_ipython_extension(shell)
    return shell, shell.magics["cell", "syncheck"]


def test_a_cell_is_checked_and_its_report_returned():
    shell, check_cell = magic()
    report = check_cell("--backend sim --devices 1", RACE)
    assert report.codes == ("SYN101",)
    assert "SYN101" in report._repr_html_()
    shown = []
    report._repr_pretty_(SimpleNamespace(text=shown.append), cycle=False)
    assert "SYN101" in "".join(shown)
    assert "y" in shell.names


def test_a_finding_names_the_cell():
    _, check_cell = magic()
    report = check_cell("--backend sim", RACE)
    assert report.findings[0].location.frame.path == "cell In[1]"


def test_options_match_those_of_check():
    _, check_cell = magic()
    assert check_cell("--backend sim --ignore SYN101,SYN102", RACE).codes == ()
    assert check_cell("--backend sim --select SYN2", RACE).codes == ()


@pytest.mark.parametrize(
    ("line", "message", "hint"),
    [
        ("--backend simm", "invalid value for --backend: 'simm'", "did you mean sim?"),
        ("--backned sim", "no such option: --backned", "did you mean --backend?"),
        ("--xyz", "no such option: --xyz", "`%syncheck --help` lists the options"),
        ("sim", "unexpected argument: sim", "`%syncheck --help` lists the options"),
        ("--devices", "missing value for --devices", "`%syncheck --help` lists the options"),
        ("--devices=0", "invalid value for --devices: '0'", "expected a whole number from 1 to 64"),
        ("--stacks=1", "--stacks takes no value", "`%syncheck --help` lists the options"),
        ("--select SYN1O1", "no rule matches 'SYN1O1'", "did you mean SYN101?"),
        ("'", 'cannot read the options "\'": No closing quotation', "close the quotation mark"),
    ],
)
def test_an_invalid_line_is_rejected_as_on_the_command_line(capsys, line, message, hint):
    shell, check_cell = magic()
    assert check_cell(line, RACE) is None
    assert capsys.readouterr().err == f"syncheck: error: {message}\n  hint: {hint}\n"
    assert shell.ran == []


def test_options_can_be_repeated_and_given_with_an_equals_sign():
    _, check_cell = magic()
    assert check_cell("--backend=sim --ignore SYN101 --ignore=SYN102 --no-stacks", RACE).codes == ()


@pytest.mark.parametrize("line", ["--help", "--backend sim -h"])
def test_help_lists_the_options_and_runs_nothing(capsys, line):
    shell, check_cell = magic()
    assert check_cell(line, RACE) is None
    shown = capsys.readouterr().out
    assert shown.startswith("Check the GPU synchronization of a cell.\n")
    for option in ("--backend BACKEND", "--devices N", "--select RULES", "--ignore RULES", "--stacks"):
        assert f"  {option} " in shown
    assert max(map(len, shown.splitlines())) <= 100
    assert shell.ran == []
    assert check_cell.__doc__ == shown  # what `%%syncheck?` shows


def test_the_line_magic_only_shows_the_help(capsys):
    shell, _ = magic()
    show = shell.magics["line", "syncheck"]
    show("")
    show("--help")
    assert capsys.readouterr().out.count("Options:") == 2
    show("y = x * 2")
    assert "write %%syncheck" in capsys.readouterr().err
