"""The site keeps every version, with the newest at the root."""

import importlib.util
import json
import re
import subprocess

import pytest
import yaml

from tests.docs.blocks import ROOT
from tests.overlap import browser

_SPEC = importlib.util.spec_from_file_location("publish", ROOT / "docs/publish.py")
publishing = importlib.util.module_from_spec(_SPEC)
_SPEC.loader.exec_module(publishing)


def fake_build(folder, version, versions):
    folder.mkdir()
    (folder / "index.html").write_text(f"{version} {versions}")
    (folder / f"new-in-{version}").mkdir()


def published_versions(folder):
    text = (folder / "versions.js").read_text()
    return json.loads(re.fullmatch(r"var syncheckVersions = (.*);\n", text)[1])


def test_the_newest_version_is_at_the_root_and_all_versions_are_kept(tmp_path):
    for version in ("0.9.0rc1", "0.9.0", "0.10.0", "0.8.0"):
        publishing.publish(tmp_path, version, fake_build)
    assert published_versions(tmp_path) == ["0.10.0", "0.9.0", "0.9.0rc1", "0.8.0"]
    assert (tmp_path / "index.html").read_text() == "0.10.0 versions.js"
    assert (tmp_path / "new-in-0.10.0").is_dir()
    assert not (tmp_path / "new-in-0.9.0").exists()
    assert (tmp_path / "0.9.0/index.html").read_text() == "0.9.0 ../versions.js"
    assert not list(tmp_path.glob(".fresh"))


def test_files_that_are_not_part_of_the_site_are_kept(tmp_path):
    (tmp_path / ".git").mkdir()
    (tmp_path / "CNAME").write_text("docs.example.org")
    publishing.publish(tmp_path, "0.1.0", fake_build)
    assert (tmp_path / ".git").is_dir()
    assert (tmp_path / "CNAME").exists()


def test_a_version_can_be_published_again(tmp_path):
    def build(folder, version, versions):
        folder.mkdir(exist_ok=True)
        (folder / "index.html").write_text("again")

    publishing.publish(tmp_path, "0.1.0", fake_build)
    publishing.publish(tmp_path, "0.1.0", build)
    assert published_versions(tmp_path) == ["0.1.0"]
    assert (tmp_path / "index.html").read_text() == "again"


def test_the_workflow_publishes_tags():
    workflow = yaml.safe_load((ROOT / ".github/workflows/docs.yml").read_text())
    assert workflow[True] == {"push": {"tags": ["v*"]}}  # YAML 1.1 parses `on` as a boolean
    assert workflow["permissions"] == {"contents": "write"}
    steps = [step["run"] for step in workflow["jobs"]["publish"]["steps"] if "run" in step]
    assert any(re.search(r"python docs/publish\.py site\b", step) for step in steps)
    for step in steps:
        subprocess.run(["bash", "-n"], input=step, text=True, check=True)


@pytest.fixture(scope="module")
def sites(tmp_path_factory):
    pytest.importorskip("material", reason="the group `docs` is not installed")
    if browser.DRIVER is None or browser.CHROMIUM is None:
        pytest.skip("chromium or chromedriver is not installed")
    folder = tmp_path_factory.mktemp("sites")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("NO_MKDOCS_2_WARNING", "1")
        publishing.publish(folder, "0.2.0")
        publishing.publish(folder, "0.1.0")
    return folder


@pytest.mark.slow
@pytest.mark.parametrize(
    ("page", "own"), [("index.html", "0.2.0"), ("lint/index.html", "0.2.0"), ("0.1.0/rules/SYN101/index.html", "0.1.0")]
)
def test_each_page_offers_a_choice_of_versions(sites, page, own):
    chromium = browser.Browser()
    try:
        chromium.open(sites / page)
        read = "return [...document.querySelectorAll('.versions option')].map(o => [o.text, o.selected, o.value])"
        choice = chromium.run(read)
        assert [(text, chosen) for text, chosen, _ in choice] == [("0.2.0", own == "0.2.0"), ("0.1.0", own == "0.1.0")]
        assert [address for *_, address in choice] == [f"file://{sites}/", f"file://{sites}/0.1.0/"]
        hints = chromium.run("return [...document.querySelectorAll('.old-version a')].map(a => a.href)")
        assert hints == ([] if own == "0.2.0" else [f"file://{sites}/"])
    finally:
        chromium.close()
