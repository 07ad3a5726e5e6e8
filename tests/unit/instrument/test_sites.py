"""Call sites."""

import os
import sys
import sysconfig
import threading
from dataclasses import dataclass
from pathlib import Path

import pytest

from syncheck.filters.ignore_block import ignore
from syncheck.instrument.sites import SiteTable
from syncheck.rules.catalogue import CATALOGUE

RULES = {rule.code: rule for rule in CATALOGUE}


@pytest.fixture
def sites():
    return SiteTable()


def capture(sites):
    return sites.capture(sys._getframe(1))


def capture_innermost(sites, outer=0):
    return sites.capture_innermost(sys._getframe(1), outer)


def test_each_place_has_its_own_number(sites):
    first, second = [capture(sites) for _ in range(2)], capture(sites)
    assert first[0] == first[1] != second
    assert 0 not in first


def test_capture_distinguishes_callers_of_a_line_but_near_does_not(sites):
    def here(look):
        return look(sites)

    assert here(capture) != here(capture)
    assert here(capture_innermost) == here(capture_innermost)


def test_only_the_innermost_frames_of_a_deep_stack_count(sites):
    def deep(n_frames):
        return deep(n_frames - 1) if n_frames else capture(sites)

    found = [deep(n_frames) for n_frames in (60, 61, 200, 60)]
    assert len(set(found)) == 1
    assert deep(3) != found[0]
    assert {frame.function.rpartition(".")[2] for frame in sites.location(found[0]).stack} == {"deep"}


def test_a_place_is_the_line_of_the_program(sites):
    made = capture(sites)
    location = sites.location(made)
    assert location.frame.source.strip() == "made = capture(sites)"
    assert location.frame.function == "test_a_place_is_the_line_of_the_program"
    assert location.frame.path.endswith("tests/unit/instrument/test_sites.py")
    assert location.frame in location.stack
    assert location.frame.line in dict(location.excerpt)
    assert sites.bound(made) == "made"
    assert sites.bound_directly(made) == "made"
    assert (location.frame.path, location.frame.line) in sites.lines()
    assert sites.lines(len(sites)) == set()


def test_lines_are_those_of_the_call_and_its_callers(sites):
    def inner():
        return capture(sites)

    lines = sites.lines_of(inner())
    assert [line.function.rpartition(".")[2] for line in lines[:2]] == [
        "inner",
        "test_lines_are_those_of_the_call_and_its_callers",
    ]
    assert lines[0].scopes is not None
    assert sites.lines_of(0)[0].number == 0


def test_without_user_frames_the_line_is_the_librarys(sites):
    scope = {"capture": capture, "sites": sites}
    code = compile("\n\nfound = []\ndef work():\n    found.append(capture(sites))", threading.__file__, "exec")
    exec(code, scope)
    thread = threading.Thread(target=scope["work"])
    thread.start()
    thread.join()
    (line,) = sites.lines_of(scope["found"][0])
    assert (line.path.rpartition("/")[2], line.number, line.is_user_code) == ("threading.py", 5, False)


def test_site_zero_is_an_unknown_place(sites):
    assert sites.location(0).frame.path == "<unknown>"
    assert sites.capture_innermost(None, 5) == 5
    assert sites.bound(0) == ""


def test_a_call_inside_a_library_is_attributed_to_the_program(sites):
    namespace, library = {}, os.path.join(sysconfig.get_paths()["purelib"], "library.py")
    exec(compile("def call(f): return f()", library, "exec"), namespace)
    made = namespace["call"](lambda: capture(sites))
    assert sites.location(made).frame.is_user
    assert not sites.location(made).stack[1].is_user


def test_the_generated_method_of_a_dataclass_is_not_user_code(sites):
    @dataclass
    class CapturesSites:
        sites: SiteTable

        def __post_init__(self):
            self.frames = sites.location(capture(self.sites)).stack

    frames = CapturesSites(sites).frames
    generated = next(frame for frame in frames if frame.path == "<string>")
    assert (generated.function, generated.is_user) == ("__create_fn__.<locals>.__init__", False)


def test_code_that_the_program_runs_from_a_string_is_user_code(sites):
    names = {"look": lambda: capture(sites)}
    exec("made = look()", names)
    frames = sites.location(names["made"]).stack
    assert next(frame for frame in frames if frame.path == "<string>").is_user


def test_a_place_inside_an_ignore_block_has_another_number(sites):
    def here():
        return capture_innermost(sites)

    plain = here()
    with ignore("SYN101"):
        inside = here()
    assert inside != plain
    assert sites.ignored(inside, RULES["SYN101"])
    assert not sites.ignored(inside, RULES["SYN102"])
    assert not sites.ignored(plain, RULES["SYN101"])
    assert sites.ignored_codes(inside) == ["SYN101"]
    assert sites.location(inside) == sites.location(plain)


def test_a_user_folder_may_lie_inside_an_installed_package():
    path = Path(sysconfig.get_paths()["purelib"], "mine", "train.py")
    code = compile("def f(look): return look()", str(path), "exec")
    namespace = {}
    exec(code, namespace)
    for roots, is_user in (((), False), ((str(path.parent),), True)):
        table = SiteTable(roots)
        site = namespace["f"](lambda table=table: table.capture(sys._getframe(1)))
        assert table.location(site).stack[0].is_user is is_user
