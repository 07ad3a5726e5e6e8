"""Comments that suppress nothing are removed, and nothing else is."""

import pytest

from syncheck.lint.fixes.unused_ignores import without_unused

HEAD = 'import torch\nside = torch.cuda.Stream()\nx = torch.ones(4, device="cuda")\n'


@pytest.mark.parametrize(
    ("line", "rest"),
    [
        ("y = x * 2  # syncheck: ignore[SYN101] a reason\n", "y = x * 2\n"),
        ("y = x * 2  # syncheck: ignore\r\n", "y = x * 2\r\n"),
        ("y = x * 2  # noqa: F841  # syncheck: ignore[SYN1]\n", "y = x * 2  # noqa: F841\n"),
        ("y = x * 2  # syncheck: ignore[SYN1] why # type: ignore\n", "y = x * 2  # type: ignore\n"),
        ("# syncheck: ignore-file[SYN7]\ny = x\n", "y = x\n"),
        ("y = x  # syncheck: ignore[SYN1] see issue #42 of the tracker\n", "y = x\n"),
        ("y = x  # syncheck: ignore[SYN1] see #4, acme/lib#5, a.org/page#part  # noqa\n", "y = x  # noqa\n"),
        ("y = x  # syncheck: ignore[SYN1]# noqa\n", "y = x  # noqa\n"),
        ("y = x  # syncheck: ignore[SYN1] #42 #noqa: E501 #43\n", "y = x  #noqa: E501 #43\n"),
        ("y = x  # syncheck: ignore-lint[SYN101]", "y = x"),
    ],
)
def test_an_unused_comment_is_removed_with_its_reason(line, rest):
    assert without_unused("a.py", HEAD + line) == (HEAD + rest, 1)


@pytest.mark.parametrize(
    "line",
    [
        "with torch.cuda.stream(side):\n    y = x * 2  # syncheck: ignore[SYN101] the scheduler has waited\n",
        "y = x  # syncheck: ignore-run[SYN101]\n",
        "y = x  # syncheck: ignore[SYN1\n",
        "y = x  # syncheck: ignore[SYN999]\n",
        'y = "# syncheck: ignore[SYN101]"\n',
    ],
)
def test_other_comments_are_kept(line):
    assert without_unused("a.py", HEAD + line) == (HEAD + line, 0)


def test_two_comments_on_one_line_are_told_apart():
    head = HEAD + "with torch.cuda.stream(side):\n    y = x * 2  "
    unused, used = "#syncheck: ignore[SYN7] why #1", "#syncheck: ignore[SYN101] for #42"
    assert without_unused("a.py", f"{head}{unused}{used}\n") == (f"{head}{used}\n", 1)
    assert without_unused("a.py", f"{head}{used} {unused}\n") == (f"{head}{used}\n", 1)


def test_names_are_removed_from_a_comment_whose_reason_contains_a_number():
    head = HEAD + "with torch.cuda.stream(side):\n    y = x * 2  "
    source = f"{head}# syncheck: ignore[SYN101, SYN7] issue #42 [SYN7]\n"
    assert without_unused("a.py", source) == (f"{head}# syncheck: ignore[SYN101] issue #42 [SYN7]\n", 1)


def test_several_comments_are_removed_at_once():
    source = HEAD + "y = x  # syncheck: ignore[SYN101]\nz = y  # syncheck: ignore[SYN2]\n"
    assert without_unused("a.py", source) == (HEAD + "y = x\nz = y\n", 2)
