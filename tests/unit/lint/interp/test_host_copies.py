"""Copies to the host that the host does not wait for."""

import ast

import pytest

from syncheck.lint.interp.host_copies import host_copy_source


@pytest.mark.parametrize(
    ("call", "source"),
    [
        ("x.to('cpu', non_blocking=True)", "x"),
        ("x.to(self.cpu_device, non_blocking=True)", "x"),
        ("x.to(self.home, non_blocking=True)", "x"),
        ("pinned.copy_(self.out, non_blocking=True)", "self.out"),
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
