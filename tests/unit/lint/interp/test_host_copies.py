"""Copies that the host does not wait for."""

import ast

import pytest

from syncheck.lint.interp.host_copies import host_copy_source, is_free_move


@pytest.mark.parametrize(
    ("call", "source"),
    [
        ("x.to('cpu', non_blocking=True)", "x"),
        ("x.to(self.cpu_device, non_blocking=True)", "x"),
        ("x.to(self.home, non_blocking=True)", "x"),
        ("pinned.copy_(self.out, non_blocking=True)", "self.out"),
        ("self.home[:n].copy_(self.out, non_blocking=True)", "self.out"),
        ("_copy_state_dict(state, memory, non_blocking=True)", "state"),
        ("_copy_state_dict(state, memory)", None),
        ("x.to('cpu')", None),
        ("x.to(self.device, non_blocking=True)", None),
        ("out.copy_(pinned, non_blocking=True)", None),
        ("x.cuda(non_blocking=True)", None),
        ("x.to(non_blocking=True)", None),
        ("to('cpu', non_blocking=True)", None),
        ("x", None),
    ],
)
def test_the_source_of_a_copy_to_the_host_is_recognized(call, source):
    found = host_copy_source(ast.parse(call, mode="eval").body, {"self.home"})
    assert (found and ast.unparse(found)) == source


@pytest.mark.parametrize(
    ("call", "is_free"),
    [
        ("x.to(device, non_blocking=True)", True),
        ("x.cuda(non_blocking=flag)", True),
        ("x.copy_(y)", True),
        ("x.to(device)", False),
        ("x.to(device, non_blocking=False)", False),
        ("x.copy_(y, non_blocking=False)", False),
        ("x.move(device, non_blocking=True)", False),
        ("x", False),
    ],
)
def test_a_copy_that_may_still_run_is_recognized(call, is_free):
    assert is_free_move(ast.parse(call, mode="eval").body) is is_free
