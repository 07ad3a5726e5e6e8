"""The links of the README lead somewhere from wherever it is shown: a clone, GitHub, PyPI."""

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
def test_a_page_of_the_site_exists(link):
    name = link.removeprefix(SITE).strip("/") or "index"
    assert (ROOT / "docs" / f"{name}.md").is_file()


@pytest.mark.parametrize("link", [link for link in LINKS if link.startswith((RAW, FILES))])
def test_a_file_of_the_repository_exists(link):
    assert (ROOT / link.removeprefix(RAW).removeprefix(FILES)).is_file()
