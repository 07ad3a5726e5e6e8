"""`%%syncheck` in a notebook, with a stand-in for IPython's shell that registers magics and runs cells."""

from types import SimpleNamespace

import pytest

import syncheck
from syncheck.findings import NOTHING_SEEN

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
        try:
            exec(compile(cell, "<input-1>", "exec"), self.names)
        except RuntimeError as error:
            return SimpleNamespace(error_in_exec=error)
        return SimpleNamespace(error_in_exec=None)


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


# -- several cells


SIM = "--backend sim"
SETUP = """
import torch
model = torch.nn.Linear(4, 4).cuda()
x = torch.ones(4, device="cuda")
side, event = torch.cuda.Stream(), torch.cuda.Event()
"""


def cells():
    """Return a shell, and a function that checks a cell, after a first cell with a model and a stream."""
    shell, check_cell = magic()
    first = check_cell(SIM, SETUP)
    assert (first.codes, first.incomplete) == ((), ())
    return shell, lambda cell, line=SIM: check_cell(line, cell)


def test_a_cell_uses_tensors_of_an_earlier_one():
    shell, check_cell = cells()
    report = check_cell("y = model(x)\nwhere = str(y.device)")
    assert (report.codes, report.incomplete, report.summary.operators) == ((), (), 1)
    assert shell.names["where"] == "cuda:0"


def test_gradients_flow_between_cells():
    shell, check_cell = cells()
    check_cell("loss = model(x).sum()")
    check_cell("loss.backward()\nwhere = str(model.weight.grad.device)")
    assert shell.names["where"] == "cuda:0"


def test_nothing_is_simulated_between_cells():
    shell, check_cell = cells()
    shell.run_cell("between = (str(x.device), torch.cuda.is_available(), (x + 1).sum().item())")
    assert shell.names["between"] == ("cpu", False, 8)
    assert check_cell("y = x + 1").summary.operators == 1


def test_streams_and_events_of_an_earlier_cell_order_work():
    _, check_cell = cells()
    use = "with torch.cuda.stream(side):\n    z = y + 1\n"
    assert check_cell("y = x * 2\n" + use).codes == ("SYN101",)
    assert check_cell(f"y = x * 2\nside.wait_stream(torch.cuda.current_stream())\n{use}").codes == ()
    assert check_cell(f"y = x * 2\nevent.record()\nside.wait_event(event)\n{use}").codes == ()
    assert check_cell(f"side.wait_event(event)\n{use}").codes == ()


def test_work_of_earlier_cells_is_complete():
    _, check_cell = cells()
    assert check_cell("with torch.cuda.stream(side):\n    y = x * 2").codes == ()
    assert check_cell("z = y + 1").codes == ()


def test_memory_freed_between_cells_is_freed():
    shell, check_cell = cells()
    check_cell("y = x * 2\nbefore = torch.cuda.memory_allocated()")
    shell.run_cell("del y")
    check_cell("after = torch.cuda.memory_allocated()")
    assert shell.names["after"] < shell.names["before"]


def test_the_same_mistake_is_reported_each_time_its_cell_runs():
    _, check_cell = cells()
    race = "y = x * 2\nwith torch.cuda.stream(side):\n    z = y + 1"
    wait = "side.wait_stream(torch.cuda.current_stream())\n"
    redundant = f"y = x * 2\n{wait * 2}with torch.cuda.stream(side):\n    z = y + 1"
    never = "side.wait_event(torch.cuda.Event())\ny = x * 2"
    for cell, codes in ((race, ("SYN101",)), (never, ("SYN401",)), (redundant, ("SYN802",))) * 2:
        assert check_cell(cell).codes == codes


def test_each_cell_has_its_own_rules_and_limits():
    _, check_cell = cells()
    race = "y = x * 2\nwith torch.cuda.stream(side):\n    z = y + 1"
    assert check_cell(race, f"{SIM} --ignore SYN101").codes == ()
    assert check_cell(race).codes == ("SYN101",)
    assert check_cell(race, f"{SIM} --select SYN2").codes == ()


def test_a_cell_without_gpu_work_is_not_checked():
    _, check_cell = cells()
    assert check_cell("1 + 1").incomplete == (NOTHING_SEEN,)


def test_reasons_for_incomplete_reports_concern_one_cell_unless_syncheck_failed():
    shell, check_cell = cells()
    kept = shell.magics["cell", "syncheck"].__closure__[0].cell_contents._simulated
    kept.session.incomplete("a reason")
    assert check_cell("y = x * 2").incomplete == ()
    kept.backend.runtime.gpus.guarded.fail(ValueError("broken"))
    kept.backend.runtime.gpus.guarded.fail(ValueError("again"))
    for _ in range(2):
        (reason, *_) = check_cell("y = x * 2").incomplete
        assert "broken" in reason


def test_threads_of_two_cells_are_told_apart():
    _, check_cell = cells()
    work = """
import threading
def work():
    with torch.cuda.stream(side):
        global y
        y = x * 2
thread = threading.Thread(target=work)
thread.start()
thread.join()
"""
    assert check_cell(work).codes == ()
    assert check_cell(f"{work}z = y + 1").codes == ("SYN101",)


def test_an_unused_comment_is_noted_for_its_own_cell_only(monkeypatch):
    _, check_cell = cells()
    monkeypatch.setattr("linecache.getlines", lambda *_: ["y = x * 2  # syncheck: ignore[SYN101]\n"])
    assert len(check_cell("y = x * 2").report.notes) == 1
    assert check_cell("\n\nz = x * 2").report.notes == ()


def test_another_number_of_gpus_is_rejected(capsys):
    shell, check_cell = cells()
    assert check_cell("y = x", f"{SIM} --devices 4") is None
    error = (
        "syncheck: error: the simulated GPUs of this notebook were made with --devices 2\n  hint: leave out --devices"
    )
    assert capsys.readouterr().err.startswith(error)
    assert check_cell("n = torch.cuda.device_count()", f"{SIM} --devices 2") is not None
    syncheck.load_ipython_extension(shell)  # as %reload_ext does
    assert shell.magics["cell", "syncheck"](f"{SIM} --devices 4", "n = torch.cuda.device_count()") is not None
    assert shell.names["n"] == 4


def test_the_number_of_gpus_is_that_of_the_first_cell():
    shell, check_cell = magic()
    check_cell(f"{SIM} --devices 3", SETUP)
    check_cell(SIM, "n = torch.cuda.device_count()")
    assert shell.names["n"] == 3


def test_a_tensor_made_without_a_check_is_explained(capsys):
    shell, check_cell = cells()
    shell.run_cell("t = x + 1")
    check_cell("y = model(t)")
    assert "begin each cell that computes on simulated GPUs with %%syncheck" in capsys.readouterr().err


# -- the line


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


def test_only_the_result_of_a_cell_shows_its_report(monkeypatch):
    shown = []
    monkeypatch.setattr("rich.console._is_jupyter", lambda: True)  # as in the kernel of a notebook
    monkeypatch.setattr("rich.jupyter.display", lambda segments, text: shown.append(text))
    _, check_cell = magic()
    report = check_cell("--backend sim --devices 1", RACE)
    assert "SYN101" in report._repr_html_()
    assert shown == []


@pytest.mark.parametrize("number_while_running", [3, 4])  # before and since IPython 9
def test_a_cell_has_its_own_number(number_while_running):
    shell, check_cell = magic()
    shell.execution_count = number_while_running
    shell.history_manager = SimpleNamespace(input_hist_parsed=["", "%load_ext syncheck", "import torch", "%%syncheck"])
    numbers = []
    run_cell = shell.run_cell

    def run_and_note(cell):
        numbers.append(shell.execution_count)
        return run_cell(cell)

    shell.run_cell = run_and_note
    check_cell("--backend sim --devices 1", RACE)
    assert numbers == [3]
    assert shell.execution_count == number_while_running
