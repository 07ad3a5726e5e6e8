"""The files that git ignores, compared with git."""

import os
import shutil
import subprocess

import pytest

from syncheck.config.options import Options
from syncheck.lint import gitignore
from syncheck.lint.files import discover

FILES = """
a.py b_gen.py keep_gen.py data/x.py data/keep.py data/deep/keep.py sub/b_gen.py sub/keep_gen.py sub/deep/keep_gen.py
sub/deep/x.py sub/data/x.py odd[1]/a.py odd[1]/b.py odd1/b.py sub/#a.py sub/!a.py
""".split()

CASES = {
    "an inner file includes what an outer one ignores": {".gitignore": "*_gen.py", "sub/.gitignore": "!keep_gen.py"},
    "an inner file ignores what an outer one includes": {".gitignore": "!*_gen.py", "sub/.gitignore": "*_gen.py"},
    "an inner folder is included": {".gitignore": "data/", "sub/.gitignore": "!data/"},
    "an included folder does not include its files": {".gitignore": "x.py", "sub/.gitignore": "!deep/"},
    "nothing in an ignored folder is included": {".gitignore": "sub/", "sub/.gitignore": "!*.py"},
    "a pattern with a slash applies to one folder": {"sub/.gitignore": "/b_gen.py\ndeep/x.py\n/data"},
    "a pattern without a slash applies to all below": {"sub/.gitignore": "keep_gen.py\ndata/"},
    "all but some": {".gitignore": "*\n!*/\n!keep*.py", "sub/.gitignore": "!x.py"},
    "all in an inner folder": {"sub/.gitignore": "*\n!.gitignore\n!/deep/\n!/deep/x.py"},
    "the content of a folder": {".gitignore": "data/**\n!data/keep.py\n**/deep/**"},
    "the direct content of a folder": {".gitignore": "data/*\n!data/keep.py\nsub/*/x.py"},
    "two stars": {"sub/.gitignore": "**/x.py\n**"},
    "a folder with special characters": {"odd[1]/.gitignore": "/b.py", ".gitignore": "odd\\[1\\]/a.py"},
    "special characters": {"sub/.gitignore": "\\#a.py\n\\!a.py\n# a comment\n\n/\n!/\n   \nx.py   \ndeep/\\ "},
    "sets of characters": {".gitignore": "[ab].py\n[!a-k]*_gen.py\nodd[[]1]/[^a].py\n?ata/d[e]ep/\nsub/[||&&~~x].py"},
    "a byte order mark": {".gitignore": "\ufeffa.py\r\nx.py\r\n"},
    "invalid lines": {".gitignore": "!\n\\\na.py\n[\n", "sub/.gitignore": "b_gen.py\\\nx.py"},
}


@pytest.fixture
def folder(tmp_path, monkeypatch):
    for name in FILES:
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("")
    (tmp_path / ".git").mkdir()
    monkeypatch.chdir(tmp_path)
    return tmp_path


def write(folder, files):
    for name, text in files.items():
        (folder / name).write_text(text)


def found(*paths, **options):
    return {os.path.relpath(path) for path in discover(paths, lambda _: Options(**options))}


@pytest.mark.skipif(shutil.which("git") is None, reason="git is not installed")
@pytest.mark.parametrize("files", CASES.values(), ids=CASES)
def test_the_same_files_are_ignored_as_by_git(folder, files):
    (folder / ".git").rmdir()
    subprocess.run(["git", "init", "-q"], check=True)
    write(folder, files)
    command = ["git", "ls-files", "-z", "--others", "--exclude-standard", "*.py"]
    listed = subprocess.run(command, check=True, capture_output=True, text=True)
    expected = set(listed.stdout.split("\0")) - {""}
    assert found(".") == expected
    assert found(*FILES, force_exclude=True) == expected


def test_an_inner_file_takes_precedence(folder):
    write(folder, CASES["an inner file includes what an outer one ignores"])
    assert {"sub/keep_gen.py", "sub/deep/keep_gen.py"} <= found(".")
    assert not {"keep_gen.py", "sub/b_gen.py"} & found(".")
    assert found("sub/deep") == {"sub/deep/keep_gen.py", "sub/deep/x.py"}
    assert found("sub/keep_gen.py", "sub/b_gen.py", force_exclude=True) == {"sub/keep_gen.py"}


def test_links_to_the_folder_do_not_matter(folder, tmp_path_factory):
    write(folder, {".gitignore": "/sub/deep/\n", "sub/.gitignore": "/data/\n"})
    link = tmp_path_factory.mktemp("links") / "link"
    link.symlink_to(folder / "sub")
    names = {os.path.relpath(path, link) for path in discover((str(link),), lambda _: Options())}
    assert names == {"b_gen.py", "keep_gen.py", "#a.py", "!a.py"}
    assert gitignore.file_ignoring(str(link / "data" / "x.py")) == str(folder / "sub" / ".gitignore")
