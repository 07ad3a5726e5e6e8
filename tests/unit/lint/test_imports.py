"""Functions that a file imports from other files of its repository."""

import ast
import os

import pytest

from syncheck.lint.engine import lint_data
from syncheck.lint.imports import Imports, Module


@pytest.fixture
def repository(tmp_path):
    """Return a function that writes the files of a repository."""
    (tmp_path / "pyproject.toml").touch()

    def write(**files):
        for name, text in files.items():
            path = tmp_path / (name.replace("__", "/").replace("/init", "/__init__") + ".py")
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text)
        return tmp_path

    return write


def where(root, importer, name):
    """Return the file of an imported function, relative to a folder, and the function's name."""
    found = Imports(str(root / importer)).function(name)
    return None if found is None else (os.path.relpath(found[0].path, root).replace(os.sep, "/"), found[1])


# -- one file


def test_only_the_requested_parts_of_a_module_are_parsed():
    module = Module("m.py", "def f():\n    return 1\n\n\nthis is no Python\n\n\nx: int = 3\n")
    assert ast.unparse(module.get("f")) == "def f():\n    return 1"
    assert ast.unparse(module.get("x")) == "x: int = 3"
    assert module.get("this") is None
    assert module.get("g") is None


def test_a_function_has_its_decorators():
    module = Module("m.py", "import a\n@a.b(\n    c,\n)\n@d\nasync def f(\n    x,\n):\n    pass\ny = f\n")
    function = module.get("f")
    assert [ast.unparse(decorator) for decorator in function.decorator_list] == ["a.b(c)", "d"]
    assert len(function.body) == 1


def test_the_last_definition_counts():
    assert ast.unparse(Module("m.py", "x = 1\nx = 2\n").get("x")) == "x = 2"


def test_names_bound_in_branches_are_found():
    text = (
        "try:\n    from fast import f\nexcept ImportError:\n    f = None\nelse:\n    g = 1\nif x:\n    def h(): pass\n"
    )
    module = Module("m.py", text)
    assert [type(module.get(name)) for name in "fgh"] == [ast.ImportFrom, ast.Assign, ast.FunctionDef]


def test_unindented_text_in_a_function_hides_only_that_function():
    module = Module("m.py", 'def f():\n    """Text\ndef g(): pass\n    """\ndef h(): pass\n')
    assert module.get("f") is None
    assert module.get("h") is not None


# -- name resolution


def test_modules_are_found_by_absolute_and_relative_names(repository):
    root = repository(p__init="", p__a="", p__q__init="", p__q__b="def f(): pass", p__c="def g(): pass")
    assert where(root, "p/a.py", "p.q.b.f") == ("p/q/b.py", "f")
    assert where(root, "p/a.py", ".q.b.f") == ("p/q/b.py", "f")
    assert where(root, "p/q/b.py", "..c.g") == ("p/c.py", "g")
    assert where(root, "p/a.py", "p.c.f") is None
    assert where(root, "p/a.py", "numpy.f") is None


def test_a_package_reexports_names(repository):
    root = repository(p__init="from .a import f as h\nfrom . import b", p__a="def f(): pass", p__b="def g(): pass")
    assert where(root, "main.py", "p.h") == ("p/a.py", "f")
    assert where(root, "main.py", "p.b.g") == ("p/b.py", "g")


def test_a_circular_import_ends_the_search(repository):
    root = repository(a="from b import f", b="from a import f")
    assert where(root, "main.py", "a.f") is None


def test_a_script_imports_files_beside_it_and_below_src(repository):
    root = repository(src__p__init="def f(): pass", tools__run="", tools__help="def g(): pass")
    assert where(root, "tools/run.py", "p.f") == ("src/p/__init__.py", "f")
    assert where(root, "tools/run.py", "help.g") == ("tools/help.py", "g")


def test_a_name_found_in_two_folders_is_ambiguous(repository):
    root = repository(utils="def f(): pass", tools__utils="def f(): pass", tools__run="")
    assert where(root, "tools/run.py", "utils.f") is None


def test_the_search_ends_at_the_repository_root(tmp_path, repository):
    (tmp_path / "utils.py").write_text("def f(): pass")
    inner = tmp_path / "inner"
    inner.mkdir()
    (inner / "setup.py").touch()
    assert where(inner, "main.py", "utils.f") is None


def test_an_installed_package_imports_only_from_itself(tmp_path):
    folder = tmp_path / "site-packages"
    for name in ("p", "q"):
        (folder / name).mkdir(parents=True)
        (folder / name / "__init__.py").write_text("def f(): pass")
    (folder / "p" / "a.py").touch()
    assert where(folder, "p/a.py", "p.f") == ("p/__init__.py", "f")
    assert where(folder, "p/a.py", "q.f") is None


@pytest.mark.parametrize("text", ["f = 3", "x = '\0'", "# -*- coding: nonsense -*-\ndef f(): pass"])
def test_a_name_that_is_not_a_function_is_unknown(repository, text):
    assert where(repository(a=text), "main.py", "a.f") is None


def test_a_function_is_parsed_only_when_it_is_needed_and_has_no_code_if_it_cannot_be(repository):
    found = Imports(str(repository(a="def f(:\n    pass") / "main.py")).function("a.f")
    assert found is not None
    assert found[0].is_function("f")
    assert found[0].get("f") is None


def test_a_call_of_a_function_that_cannot_be_parsed_is_unknown_code(repository):
    source = "import torch\nfrom a import f\ndef g():\n    s = torch.cuda.Stream()\n    f(s)\n"
    root = repository(a="def f(stream:\n    stream.synchronize()")
    (root / "main.py").write_text(source)
    assert lint_data(str(root / "main.py"), source.encode()).findings == ()


def test_a_file_that_is_too_large_is_not_read(repository):
    assert where(repository(a="def f(): pass\n" + "#" * 1_000_000), "main.py", "a.f") is None


def test_looked_up_files_are_recorded_with_their_state(repository):
    root = repository(a="def f(): pass")
    imports = Imports(str(root / "main.py"))
    imports.function("a.f")
    assert {os.path.basename(path): stamp is None for path, stamp in imports.asked.items()} == {"a.py": False}


# -- code that may leave work running

WORK = "def side(x):\n    with torch.cuda.stream(s):\n        return x + 1\n"


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (WORK + "f = 1\n", False),
        ("def f(x): return x.to('cuda', non_blocking=True)\n", True),
        ("def f(x, non_blocking=False): return x.to('cuda', non_blocking=non_blocking)\n", False),
        (WORK + "def f(x): return side(x)\n", True),
        (WORK + "def g(x): return side(x)\ndef f(x): return g(x)\n", False),
        ("class f(torch.nn.Module):\n    def __init__(self): self.s = torch.cuda.Stream()\n", False),
        ("def f(): return time.perf_counter()\n", False),
        ("@contextmanager\ndef f():\n    yield time.perf_counter()\n", True),
        ("class f:\n    def tic(self): self.begin = time.time()\n", False),  # by its name, no timer
        ("def f(x): return f(x)\n", False),
        ("def f(x):\n    s = torch.cuda.Stream()\n" + "    x = x + 1\n" * 2000, False),
    ],
)
def test_a_definition_may_leave_work_running(repository, text, expected):
    root = repository(other=text)
    importer = "import torch\nfrom other import (f,\n    g)\n"
    assert Imports(str(root / "m.py")).import_work(importer) is expected
    assert Imports(str(root / "m.py")).is_asynchronous("other.f") is expected


@pytest.mark.parametrize(
    ("kind", "start", "expected"),
    [
        ("Timer", "time.time()", True), ("StepTimer", "time.perf_counter()", True), ("Stopwatch", "monotonic()", True),
        ("timer", "default_timer()", True), ("Timer", "0", False), ("Meter", "time.time()", False),
        ("Timer", "(torch.cuda.synchronize(), time.time())", False),
    ],
)  # fmt: skip
def test_a_timer_that_waits_for_nothing_matters_to_the_files_that_use_it(repository, kind, start, expected):
    root = repository(other=f"class {kind}:\n    def tic(self): self.begin = {start}\n")
    assert Imports(str(root / "m.py")).import_work(f"from other import {kind}\n") is expected


@pytest.mark.parametrize(
    "importer", ["import other", "from torch import nn", "from missing import f", "from . import f"]
)
def test_imports_without_such_a_definition(repository, importer):
    root = repository(other=WORK)
    assert not Imports(str(root / "m.py")).import_work(importer)


def test_a_definition_that_is_used_from_a_third_file_counts(repository):
    root = repository(other=WORK, between="from other import side\ndef f(x): return side(x)\n")
    assert Imports(str(root / "m.py")).is_asynchronous("between.f")
    imports = Imports(str(root / "pkg" / "m.py"))
    assert imports.function("other.side", str(root / "between.py")) is not None


def test_a_class_is_found_by_its_full_name(repository):
    imports = Imports(str(repository(a="class A: pass\ndef f(): pass") / "main.py"))
    kind = imports.kind("a.A")
    assert kind is not None
    assert kind.name == "A"
    assert imports.kind("a.f") is imports.kind("a.B") is None
