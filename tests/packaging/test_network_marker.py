"""Tests with the `network` marker run only if pip can download packages."""

import pytest

from tests import network


@pytest.fixture
def no_index(monkeypatch, tmp_path):
    for name in ("PIP_FIND_LINKS", "PIP_EXTRA_INDEX_URL"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("PIP_CONFIG_FILE", "/dev/null")
    monkeypatch.setenv("PIP_INDEX_URL", tmp_path.as_uri())
    network.has_package_index.cache_clear()
    yield
    network.has_package_index.cache_clear()


def test_there_is_no_network_without_an_index(no_index):
    assert not network.has_package_index()


@pytest.mark.network
def test_a_marked_test_can_reach_an_index():
    assert network.has_package_index()


@pytest.mark.parametrize(("reachable", "outcome"), [(True, "passed"), (False, "skipped")])
def test_the_marker_skips_tests_without_network(pytester, monkeypatch, reachable, outcome):
    monkeypatch.setattr(network, "has_package_index", lambda: reachable)
    pytester.makeini("[pytest]\nmarkers = network: needs it")
    pytester.makepyfile("import pytest\n\n@pytest.mark.network\ndef test_it(): pass\n")
    result = pytester.runpytest_inprocess("-p", "tests.conftest", "-p", "no:syncheck", "-p", "no:asyncio")
    result.assert_outcomes(**{outcome: 1})
