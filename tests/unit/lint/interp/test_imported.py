"""Functions of other files."""

import pytest

from syncheck.lint.imports import Module
from syncheck.lint.interp.imported import ImportedFunctions
from tests.unit.lint.program import call, calls_of, follow, new_program, plain

X = "import others\nx = torch.ones(4, device='cuda')\n"


def value(source, others, **kwargs):
    """Return the value of `r` at the end of a program."""
    return plain(follow(source, others=others, **kwargs).scope.names["r"])


def test_a_missing_or_irrelevant_function_is_left_to_the_caller():
    module = Module("others.py", "def log(text): print(text)\ndef made(): return 3\n")
    functions = ImportedFunctions(
        new_program().interpreter, lambda path, _: (module, path) if module.get(path) is not None else None
    )
    assert functions.call("nowhere", call()) is None
    assert functions.call("log", call()) is None
    assert plain(functions.call("made", call())) == 3


def test_work_of_an_imported_function_is_attributed_to_its_call():
    program = follow(X + "def f(t):\n    others.g(t)\nf(x)", others="def g(t):\n    h(t)\n\n\n\ndef h(t): t.sin_()")
    assert program.calls[-1] == "launch cuda:0 sin_ w1"
    frames = [program.sites.location(site).frame for site in range(1, len(program.sites.nodes) + 1)]
    assert (frames[-1].line, frames[-1].function) == (4, "f")


def test_return_values_are_passed_back():
    assert value("import others\nr = others.f(2)", "def f(n, m=3): return [n, m, MORE]\nMORE = 'c'") == [2, 3, "c"]


@pytest.mark.parametrize("body", ["raise ValueError", "return g(others.f)"])
def test_results_of_calls_that_cannot_be_followed_are_unknown(body):
    assert value("import others\nr = others.f()", f"def f():\n    {body}\n") == "unknown"


def test_imports_of_imported_files_are_followed():
    assert "launch cuda:0 sin_ w1" in calls_of(
        "others.f(x)", X, others="from others import g\ndef f(t): g(t)\ndef g(t): t.sin_()"
    )


def test_an_imported_class_creates_objects_whose_methods_are_followed():
    others = "class A:\n    def __init__(self, t): self.t = t\n    def f(self): self.t.sin_()"
    program = follow(X + "a = others.A(x)\na.f()", others=others)
    assert program.calls[-1] == "launch cuda:0 sin_ w1"
    assert program.sites.location(len(program.sites.nodes)).frame.line == 4


def test_the_items_of_an_imported_generator_are_computed_when_they_are_used():
    others = "def f(t):\n    yield t.sin_()\n    yield 3"
    program = follow(X + "g = others.f(x)\nn = 1\nr = [i for i in g]", others=others)
    assert program.calls[-1] == "launch cuda:0 sin_ w1"
    assert plain(program.scope.names["r"])[1:] == [3]


def test_networks_of_other_files_are_unknown_code():
    others = "class Net(torch.nn.Module):\n    def __init__(self): self.n = 3"
    assert value("import others\nr = others.Net()", others) == "unknown"


def test_a_long_comprehension_of_another_file_is_not_followed_to_the_end():
    rows = "ROWS = [n for n in range(12)]\n"
    others = rows + "def f(n): return [[[n for r in ROWS] for r in ROWS] for r in ROWS], 2"
    assert value("import others\nr = others.f(1)[1]", others) == "unknown"


def test_returned_functions_run_in_their_caller():
    others = "def f():\n    def g(t): t.sin_()\n    return [g, torch.cuda.stream(None), (n for n in [1])]"
    program = follow(X + "r = others.f()\nr[0](x)", others=others)
    assert program.calls[-1] == "launch cuda:0 sin_ w1"
    assert program.sites.location(len(program.sites.nodes)).frame.line == 4
    assert plain(program.scope.names["r"])[1:] == ["context", "unknown"]


def test_the_number_of_statements_per_call_is_limited():
    assert value("import others\nr = others.f()", "def f():\n" + "    a = 1\n" * 290 + "    return 2") == 2
    assert value("import others\nr = others.f()", "def f():\n" + "    a = 1\n" * 310 + "    return 2") == "unknown"


def test_the_number_of_statements_of_all_calls_is_limited():
    source = "import others\nfor n in range(12):\n    r = others.f()"
    assert value(source, "def f():\n" + "    a = 1\n" * 240 + "    return 2") == 2
    assert value(source, "def f():\n" + "    a = 1\n" * 290 + "    return 2") == "unknown"


def test_imported_calls_do_not_use_up_the_files_own_statements():
    source = "import others\nr = 0\n" + "others.f()\n" * 5 + "r = 1"
    assert value(source, "def f():\n" + "    a = 1\n" * 200, steps=8) == 1


def test_conditions_of_imported_functions_open_no_paths():
    others = "def f(a):\n    if a: return 1\n    if not a: return 2\n    return 3"
    program = follow("import others\nr = others.f(b)", others=others)
    assert program.interpreter.decisions.others() == []
    assert program.interpreter.decisions.are_open


@pytest.mark.parametrize(
    ("name", "body", "given", "is_moved"),
    [
        ("move_to_device", "return g(b)", "b", True),
        ("batch_to_cuda", "return g(b)", "b, non_blocking=True", True),
        ("to_cpu_from_cuda", "return g(b)", "b", False),
        ("convert", "return g(b)", "b", False),
        ("move_to_device", "r = g(b)\n    torch.cuda.synchronize()\n    return r", "b", False),
        ("move_to_device", "b.record_stream(torch.cuda.current_stream())\n    return b", "b", False),
        ("move_to_device", "if s is not None:\n        b.record_stream(s)\n    return g(b)", "b", True),
        ("move_to_device", "if s is not None:\n        b.record_stream(s)\n    return g(b)", "b, s=t", False),
    ],
)
def test_a_result_moved_according_to_the_functions_name_is_allocated_on_the_stream(name, body, given, is_moved):
    source = (
        f"import others\nb = t = f()\nwith torch.cuda.stream(torch.cuda.Stream()):\n    r = others.{name}({given})\n"
    )
    program = follow(source, others=f"def {name}(b, s=None, **words):\n    {body}\n")
    assert (plain(program.scope.names["r"]) != "unknown") == is_moved
    assert len(program.machine.moves) == is_moved


def test_on_the_default_stream_no_move_is_assumed():
    assert (
        value("import others\nb = f()\nr = others.move_to_device(b)", "def move_to_device(b): return g(b)") == "unknown"
    )
