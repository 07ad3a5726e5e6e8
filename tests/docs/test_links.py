"""The README's links work wherever it is shown: in a clone, on GitHub and on PyPI."""

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
README = (ROOT / "README.md").read_text(encoding="utf-8")
FILES = "https://github.com/syncheck/syncheck/blob/main/"
SITE = "https://syncheck.github.io/syncheck/"
RAW = "https://raw.githubusercontent.com/syncheck/syncheck/main/"
LINKS = re.findall(r"(?:\]\(|\]: |(?:src|srcset|href)=\")([^\s)\"]+)", README)


def test_every_link_is_absolute():
    assert len(LINKS) > 10
    assert [link for link in LINKS if not link.startswith("https://")] == []


def test_every_reference_is_defined():
    text = re.sub(r"```.*?```|`[^`]*`", "", README, flags=re.DOTALL)
    used = {label or shown for shown, label in re.findall(r"\[([^\]\[]+)\](?![:(])(?:\[([^\]]+)\])?", text)}
    assert used - set(re.findall(r"^\[([^\]]+)\]: ", README, re.MULTILINE)) == set()


@pytest.mark.parametrize("link", [link for link in LINKS if link.startswith(SITE)])
def test_each_linked_site_page_exists(link):
    name = link.removeprefix(SITE).strip("/") or "index"
    assert (ROOT / "docs" / f"{name}.md").is_file()


@pytest.mark.parametrize("link", [link for link in LINKS if link.startswith((RAW, FILES))])
def test_each_linked_repository_file_exists(link):
    assert (ROOT / link.removeprefix(RAW).removeprefix(FILES)).is_file()
