"""The metadata in pyproject.toml for package indexes and installers."""

import tomllib
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="module")
def settings():
    return tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))


def test_the_metadata_links_to_the_project(settings):
    urls = settings["project"]["urls"]
    assert {"Documentation", "Source", "Issues", "Changelog"} <= set(urls)
    site = (ROOT / "mkdocs.yml").read_text(encoding="utf-8")
    assert f"site_url: {urls['Documentation']}" in site
    assert f"repo_url: {urls['Source']}" in site
    assert settings["project"]["authors"]


def test_no_dependency_has_an_upper_bound(settings):
    project = settings["project"]
    needed = [
        *project["dependencies"],
        *(name for names in project["optional-dependencies"].values() for name in names),
    ]
    assert [name for name in needed if "<" in name or "==" in name] == []


def test_development_dependencies_are_not_extras(settings):
    assert set(settings["project"]["optional-dependencies"]) == {"torch", "lsp", "html", "native"}
    assert {"dev", "docs"} <= set(settings["dependency-groups"])
