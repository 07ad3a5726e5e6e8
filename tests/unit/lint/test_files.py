"""File discovery and decoding."""

import json
import os

import pytest

from syncheck.config.options import Options
from syncheck.errors import ConfigError
from syncheck.lint.files import decode, discover, lines_of


def tree(root, **files):
    for name, text in files.items():
        path = root / name.replace("__", "/").replace("_py", ".py").replace("_nb", ".ipynb")
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)


@pytest.fixture
def folder(tmp_path, monkeypatch):
    tree(tmp_path, a_py="", pkg__b_py="", pkg__deep__c_py="", note_nb="", build__d_py="", readme="")
    monkeypatch.chdir(tmp_path)
    return tmp_path


def found(*paths, **options):
    return [os.path.relpath(path) for path in discover(paths, lambda path: Options(**options))]


def test_a_folder_is_searched_in_order_for_python_files_and_notebooks(folder):
    assert found(".") == ["a.py", "note.ipynb", "pkg/b.py", "pkg/deep/c.py"]


def test_a_named_file_is_linted_once_regardless_of_its_name(folder):
    assert found("readme", "build/d.py", ".", "a.py") == [
        "readme", "build/d.py", "a.py", "note.ipynb", "pkg/b.py", "pkg/deep/c.py",
    ]  # fmt: skip


def test_a_missing_path_is_an_error(folder):
    with pytest.raises(ConfigError, match="no such file or folder: 'gone'"):
        found("gone")


def test_files_ignored_by_git_are_excluded(folder):
    (folder / ".gitignore").write_text("*.ipynb\n/pkg/deep/\n")
    (folder / "pkg" / ".gitignore").write_text("b.py\n")
    assert found(".") == ["a.py"]
    assert found(".", respect_gitignore=False) == ["a.py", "note.ipynb", "pkg/b.py", "pkg/deep/c.py"]


def test_gitignore_files_above_apply_up_to_the_repository_root(folder):
    (folder / ".gitignore").write_text("c.py\n")
    assert found("pkg") == ["pkg/b.py", "pkg/deep/c.py"]  # there is no repository
    (folder / ".git").mkdir()
    assert found("pkg") == ["pkg/b.py"]


@pytest.mark.parametrize("root", ["pkg", "pkg/", "./pkg"])
def test_the_spelling_of_a_folder_does_not_matter(folder, root):
    (folder / "pkg" / ".gitignore").write_text("c.py\n")
    assert found(root) == ["pkg/b.py"]


def test_settings_exclude_files(folder):
    assert found(".", exclude=("pkg/",)) == ["a.py", "note.ipynb"]
    assert found(".", exclude=("*.ipynb", "deep")) == ["a.py", "pkg/b.py"]
    assert found("pkg/b.py", exclude=("pkg/",)) == ["pkg/b.py"]
    assert found("pkg/b.py", exclude=("pkg/",), force_exclude=True) == []
    assert found("build/d.py", force_exclude=True) == []
    assert found("a.py", force_exclude=True) == ["a.py"]


@pytest.mark.parametrize("named", [".", "a.py"])
def test_an_invalid_pattern_to_exclude_is_an_error(folder, named):
    with pytest.raises(ConfigError, match=r"invalid value for exclude: .*'!'"):
        found(named, exclude=("b.py", "!"), force_exclude=True)


def test_a_package_is_searched_even_if_it_has_the_name_of_a_folder_of_built_files(folder):
    tree(folder, pkg__dist__e_py="", pkg__venv__f_py="", dist__g_py="")
    for package in ("pkg/dist", "pkg/venv"):
        (folder / package / "__init__.py").write_text("")
    packages = ["pkg/dist/__init__.py", "pkg/dist/e.py", "pkg/venv/__init__.py", "pkg/venv/f.py"]
    assert [path for path in found(".") if "dist" in path or "venv" in path] == packages
    assert found("pkg/dist/e.py", "dist/g.py", force_exclude=True) == ["pkg/dist/e.py"]


def test_a_folder_of_installed_packages_is_skipped_even_if_it_is_a_package(folder):
    (folder / "site-packages").mkdir()
    (folder / "site-packages" / "__init__.py").write_text("")
    assert found(".") == ["a.py", "note.ipynb", "pkg/b.py", "pkg/deep/c.py"]


def test_links_to_a_file_are_the_same_file(folder):
    (folder / "link.py").symlink_to(folder / "a.py")
    assert found("a.py", "link.py") == ["a.py"]


def test_links_to_files_that_do_not_exist_are_skipped_unless_they_are_named(folder):
    (folder / ".#a.py").symlink_to("user@host.1234:5678")
    (folder / "loop.py").symlink_to("loop.py")  # reported like any file that cannot be read
    skipped = []
    everything = [
        os.path.relpath(path) for path in discover((".",), lambda _: Options(), lambda *why: skipped.append(why))
    ]
    assert everything == ["a.py", "loop.py", "note.ipynb", "pkg/b.py", "pkg/deep/c.py"]
    assert ("./.#a.py", "it is a link to a file that does not exist") in skipped
    assert found(".#a.py") == [".#a.py"]


# -- text


@pytest.mark.parametrize(
    ("data", "text"),
    [
        (b"x = 1\n", "x = 1\n"), (b"x = 1\r\ny = 2\r", "x = 1\ny = 2\n"), (b"\xef\xbb\xbfx = 1", "x = 1"),
        ("# coding: latin-1\nx = 'ä'".encode("latin-1"), "# coding: latin-1\nx = 'ä'"),
    ],
)  # fmt: skip
def test_text_is_decoded_by_its_declared_encoding_with_normalized_line_ends(data, text):
    assert decode(data, "a.py").source == text


@pytest.mark.parametrize(
    ("data", "problem"),
    [(b"\n\nx = '\xff'", "it is not utf-8"), (b"# coding: no-such\n", "unknown encoding"), (b"x\0", "NUL")],
)
def test_undecodable_text_is_rejected(data, problem):
    with pytest.raises(SyntaxError, match=problem):
        decode(data, "a.py")


def test_the_code_cells_of_a_notebook_form_one_text():
    cells = [
        {"cell_type": "markdown", "source": "text"},
        {"cell_type": "code", "source": ["x = 1\n", "  !ls\n", "%timeit"]},
        {"cell_type": "code", "source": ""},
        {"cell_type": "code", "source": "z = 2"},
    ]
    text = decode(json.dumps({"cells": cells}).encode(), "a.ipynb")
    assert text.source == "x = 1\n  pass\npass\n\nz = 2\n"
    assert text.cells == ((1, 2), (4, 3), (5, 4))
    assert {n: line.written for n, line in text.replaced.items()} == {2: "  !ls", 3: "%timeit"}


@pytest.mark.parametrize("data", [b"{", b"[]", b'{"cells": 3}', b'{"cells": [{}]}'])
def test_an_invalid_notebook_is_rejected(data):
    with pytest.raises(SyntaxError, match="it is not a notebook"):
        decode(data, "a.ipynb")


def test_lines_end_where_they_do_in_python():
    assert lines_of("a\x0cb\nc\r\nd") == ["a\x0cb\n", "c\r\n", "d"]


def test_a_named_folder_is_searched_even_if_git_ignores_it(folder):
    (folder / ".git").mkdir()
    (folder / ".gitignore").write_text("/pkg/\n*.ipynb\n")
    tree(folder, pkg__deep__e_nb="")
    assert found(".") == ["a.py"]
    assert found("pkg") == ["pkg/b.py", "pkg/deep/c.py"]
    assert found("pkg/deep") == ["pkg/deep/c.py"]
