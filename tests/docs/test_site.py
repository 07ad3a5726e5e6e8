"""Every page, link and anchor of the site exists, and nothing is loaded from other hosts."""

import json
import os
import re
import subprocess
import sys
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urldefrag

import pytest

from syncheck.config.settings import SETTINGS
from syncheck.rules.catalogue import CATALOGUE

ROOT = Path(__file__).parents[2]
LOADED = {"script": "src", "img": "src", "iframe": "src", "source": "srcset", "link": "href"}
RELATIONS = {"stylesheet", "icon", "preload", "preconnect", "dns-prefetch"}


class Page(HTMLParser):
    """The links of a page, the resources it loads, and its link targets."""

    def __init__(self, path):
        super().__init__()
        self.links, self.loads, self.ids = [], [], set()
        self.feed(path.read_text(encoding="utf-8"))

    def handle_starttag(self, tag, attrs):
        found = dict(attrs)
        self.ids |= {found[key] for key in ("id", "name") if found.get(key)}
        if tag == "a" and found.get("href"):
            self.links.append(found["href"])
        address = found.get(LOADED.get(tag, ""))
        if address and (tag != "link" or RELATIONS & set(found.get("rel", "").split())):
            self.loads.append(address)


@pytest.fixture(scope="module")
def site(tmp_path_factory):
    """Build the site without running any program."""
    pytest.importorskip("material", reason="the group `docs` is not installed")
    folder = tmp_path_factory.mktemp("site")
    command = [sys.executable, "-m", "mkdocs", "build", "--strict", "--quiet", "--site-dir", str(folder)]
    environment = {**os.environ, "NO_MKDOCS_2_WARNING": "1"}
    done = subprocess.run(
        command, cwd=ROOT, capture_output=True, text=True, check=False, timeout=200, env=environment
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    return folder


@pytest.fixture(scope="module")
def pages(site):
    """Parse all pages, by path, except the error page, whose addresses are those of the deployed site."""
    return {path: Page(path) for path in sorted(site.rglob("*.html")) if path.name != "404.html"}


def is_elsewhere(address):
    return re.match(r"[a-z]+:|//", address) is not None


def missing(page, address, pages):
    """Return why a link is broken, or "" if it works."""
    path, anchor = urldefrag(address)
    target = (page.parent / unquote(path)).resolve() if path else page
    target = target / "index.html" if target.is_dir() else target
    if not target.is_file():
        return f"{page}: no such file: {address}"
    if anchor and target in pages and unquote(anchor) not in pages[target].ids:
        return f"{page}: no such anchor: {address}"
    return ""


def test_every_link_and_anchor_exists(pages):
    wrong = [
        missing(path, address, pages)
        for path, page in pages.items()
        for address in (*page.links, *page.loads)
        if not is_elsewhere(address)
    ]
    assert [text for text in wrong if text] == []


def test_links_into_the_repository_point_to_existing_files(pages):
    there = "https://github.com/syncheck/syncheck/blob/main/"
    links = {link.removeprefix(there) for page in pages.values() for link in page.links if link.startswith(there)}
    assert links
    assert [link for link in links if not (ROOT / urldefrag(link)[0]).exists()] == []


def test_nothing_is_loaded_from_other_hosts(site, pages):
    assert [(path, address) for path, page in pages.items() for address in page.loads if is_elsewhere(address)] == []
    for sheet in site.rglob("*.css"):
        assert re.findall(r"(?:@import|url\()\s*[\"']?(?:https?:)?//", sheet.read_text(encoding="utf-8")) == []
    # The theme's script queries GitHub for stars if it finds this attribute.
    assert not [path for path in pages if 'data-md-component="source"' in path.read_text(encoding="utf-8")]


def test_the_site_contains_the_generated_references(site):
    for rule in CATALOGUE:
        page = (site / "rules" / rule.code / "index.html").read_text()
        assert rule.name in page
        assert "Why it matters" in page
    settings = (site / "settings" / "index.html").read_text()
    assert all(setting.key in settings for setting in SETTINGS if setting.is_in_file)
    assert "--third-party" in (site / "commands" / "index.html").read_text()
    assert json.loads((site / "report-1.schema.json").read_text())["title"]
    assert (site / "pictures" / "race.svg").read_text().startswith("<svg")


def test_a_rule_shows_its_examples_side_by_side(site):
    page = (site / "rules" / "SYN101" / "index.html").read_text()
    bad, good = page.index('class="example bad"'), page.index('class="example good"')
    assert page.index('class="examples"') < bad < good
    marked = re.findall(r'<span class="hll">(.*?)\n', page[good:])
    assert [re.sub(r"<[^>]*>", "", line) for line in marked] == ["torch.cuda.current_stream().wait_stream(side)"]
    assert "expect" not in page[bad:]


def test_reports_are_colored_and_linked(site):
    page = (site / "index.html").read_text()
    assert re.search(r'<a class="t-error" href="rules/SYN201/">error\[SYN201\]</a>', page)
    assert page.count('class="terminal"') == 1
    assert "only-dark" in page
    assert "only-light" in page


def test_pictures_use_the_colors_of_the_page(site):
    assert (site / "model" / "index.html").read_text().count('<svg class="lanes"') == 4


def test_a_site_built_without_versions_requests_no_version_list(pages):
    assert not [path for path, page in pages.items() for address in page.loads if address.endswith("versions.js")]
