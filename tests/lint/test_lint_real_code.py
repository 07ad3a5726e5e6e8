"""What the linter finds in code of the style of real libraries: guards, parameters, classes, unknown devices."""

import textwrap

import pytest

from syncheck.lint.engine import lint_source
from syncheck.lint.files import Text
from syncheck.lint.prefilter import can_matter


def found(source):
    source = textwrap.dedent(source)
    result = lint_source("m.py", Text(source))
    assert not result.problem, result.problem
    assert not result.findings or can_matter(source.encode())
    return [(f.rule.code, f.place.frame.line) for f in result.findings]


# -- guards


@pytest.mark.parametrize(
    "guard",
    [
        "if world_size == 1:\n        return tensor",
        "if tensor.numel() > limit:\n        raise ValueError(limit)",
        "if mode == 'off':\n        return None\n    elif mode == 'bad':\n        raise ValueError(mode)",
        "if mode:\n        pass\n    else:\n        return tensor",
        "if a:\n        return 1\n    if b:\n        return 2\n    if c:\n        return 3\n    if d:\n        return",
        "assert mode, mode\n    if mode is None:\n        return tensor",
    ],
)
def test_guards_are_passed(guard):
    source = f"""
import torch

def scale(tensor, world_size, limit, mode, a, b, c, d):
    {guard}
    side = torch.cuda.Stream()
    x = torch.ones(4, device="cuda")
    with torch.cuda.stream(side):
        return x * 2
"""
    assert [code for code, _ in found(source)] == ["SYN101"]


def test_guards_in_loops_are_passed():
    assert found(
        """
        import torch

        def scale(batches):
            side = torch.cuda.Stream()
            for batch in batches:
                if batch is None:
                    continue
                if batch.stop:
                    break
                x = torch.ones(4, device="cuda")
                with torch.cuda.stream(side):
                    y = x * 2
        """
    )[0] == ("SYN101", 13)


def test_a_guard_that_ends_a_called_function_may_have_waited():
    assert not found(
        """
        import torch

        side = torch.cuda.Stream()

        def ready(fast):
            if fast:
                side.wait_stream(torch.cuda.current_stream())
                return
            torch.cuda.synchronize()

        def scale(fast):
            x = torch.ones(4, device="cuda")
            ready(fast)
            with torch.cuda.stream(side):
                return x * 2
        """
    )


def test_what_is_behind_a_guard_is_followed_too():
    assert found(
        """
        import torch

        def scale(tensor, many):
            side = torch.cuda.Stream()
            if many:
                x = torch.ones(4, device="cuda")
                with torch.cuda.stream(side):
                    return x * 2
            return tensor
        """
    ) == [("SYN101", 9)]
