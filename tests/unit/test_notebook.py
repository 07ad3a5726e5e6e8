"""`%%syncheck` in a notebook, with a stand-in for IPython's shell that registers magics and runs cells."""

from types import SimpleNamespace

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


def test_an_invalid_line_is_rejected_briefly_and_runs_nothing(capsys):
    shell, check_cell = magic()
    for line, wanted in (("--backend nope", "invalid choice: 'nope'"), ("--deep", "--deep"), ("'", "No closing quot")):
        assert check_cell(line, RACE) is None
        assert wanted in capsys.readouterr().err
    assert check_cell("--backend sim --select NOPE", RACE) is None
    assert "syncheck: error: " in capsys.readouterr().err
    assert shell.ran == []
