"""The catalogue is complete, each page has the required parts, and rules are found by code and name."""

import importlib
import pkgutil
from itertools import pairwise
from pathlib import Path

import pytest

import syncheck.rules
from syncheck.errors import ConfigError
from syncheck.rules import page
from syncheck.rules.catalogue import CATALOGUE, find, matching
from syncheck.rules.model import Family, Rule, Severity

NOT_RULES = {"catalogue", "model", "page"}
HEADINGS = ("Why it matters", "Fix", "Source")

# A rule keeps its code, name and level forever: change a line here only to add a rule.
FOR_EVER = """
SYN101 unordered-read error
SYN102 unordered-overwrite error
SYN103 unordered-write error
SYN104 unordered-first-use error
SYN105 unordered-side-stream warning
SYN201 missing-record-stream error
SYN202 useless-record-stream advice
SYN203 record-stream-in-capture advice
SYN301 host-read-in-flight error
SYN302 host-write-in-flight error
SYN303 pageable-non-blocking advice
SYN401 wait-before-record error
SYN402 event-wait-is-not-host-sync error
SYN403 event-without-timing error
SYN404 elapsed-time-before-sync error
SYN405 lost-event-record warning
SYN406 stale-stream-handle warning
SYN407 event-waits-for-itself warning
SYN501 stream-device-mismatch warning
SYN502 wrong-device-sync error
SYN503 thread-loses-device warning
SYN601 collective-result-before-wait error
SYN602 collective-buffer-modified error
SYN603 dropped-work error
SYN604 collective-mismatch error
SYN605 rank-dependent-collective warning
SYN701 unsynchronized-timing error
SYN702 timing-on-wrong-stream warning
SYN801 host-sync-in-loop advice
SYN802 redundant-wait advice
SYN803 no-overlap advice
SYN804 serialized-peer-copy advice
SYN805 stream-in-loop advice
SYN806 device-wide-sync advice
SYN807 empty-cache-in-loop advice
SYN808 stream-pool-aliased advice
SYN901 capture-without-warmup warning
SYN902 sync-in-capture error
SYN903 graph-input-overwritten error
SYN904 graph-uses-freed-memory error
SYN905 unordered-graph-replays error
SYN906 graph-result-overwritten error
"""

BAD = '''# devices: 2
"""Adds on one stream."""
import torch

text = "# expect: SYN101"
with torch.cuda.stream(side):
    # devices of both streams
    y = x * 2  # the read  # expect: SYN101
    # miss-lint: SYN104
    z = x * 3  # expect-run: SYN101, SYN101

print(z)
'''
BAD_SHOWN = '''"""Adds on one stream."""
import torch

text = "# expect: SYN101"
with torch.cuda.stream(side):
    # devices of both streams
    y = x * 2  # the read
    z = x * 3

print(z)
'''

every_rule = pytest.mark.parametrize("rule", CATALOGUE, ids=lambda rule: rule.code)


@pytest.fixture
def fixtures(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Set up an installed package without examples and a checkout with examples for SYN101."""
    checkout = tmp_path / "checkout"
    (checkout / "unordered-read").mkdir(parents=True)
    (checkout / "unordered-read" / "bad.py").write_text(BAD, encoding="utf-8")
    (checkout / "unordered-read" / "bad_two_devices.py").write_text("x = 1\n", encoding="utf-8")
    (checkout / "unordered-read" / "good.py").write_text("good = True\n", encoding="utf-8")
    monkeypatch.setattr(page, "FOLDERS", (tmp_path / "package", checkout))
    return tmp_path


def modules() -> list[str]:
    return sorted(m.name for m in pkgutil.iter_modules(syncheck.rules.__path__) if m.name not in NOT_RULES)


def test_the_catalogue_is_the_agreed_list_in_code_order():
    declared = [f"{rule.code} {rule.name} {rule.severity}" for rule in CATALOGUE]
    assert declared == FOR_EVER.strip().splitlines()


def test_codes_and_names_are_unique_and_sorted():
    codes = [rule.code for rule in CATALOGUE]
    assert codes == sorted(set(codes))
    assert len({rule.name for rule in CATALOGUE}) == len(CATALOGUE)


def test_every_module_of_the_package_is_in_the_catalogue():
    assert modules() == sorted(rule.name.replace("-", "_") for rule in CATALOGUE)


@pytest.mark.parametrize("name", modules())
def test_a_module_declares_the_rule_it_is_named_after(name):
    module = importlib.import_module(f"syncheck.rules.{name}")
    assert module.RULE is find(name.replace("_", "-"))
    assert module.RULE.doc == module.__doc__


@every_rule
def test_a_code_belongs_to_a_known_family(rule: Rule):
    assert rule.family in Family
    assert rule.code[:3] == "SYN"
    assert len(rule.code) == 6


@every_rule
def test_a_page_has_a_one_sentence_summary_and_all_headings(rule: Rule):
    first, blank, *_ = rule.doc.splitlines()
    assert rule.summary == first
    assert rule.summary.endswith(".")
    assert len(rule.summary) <= 110
    assert blank == ""
    for heading in HEADINGS:
        assert rule.section(heading), f"{rule.code} has no text under {heading!r}"


@every_rule
def test_a_page_has_its_headings_in_order_and_no_others(rule: Rule):
    found = [line.removeprefix("## ") for line in rule.doc.splitlines() if line.startswith("#")]
    assert found == list(HEADINGS)


@every_rule
def test_a_message_is_one_sentence_made_of_named_facts(rule: Rule):
    worded = rule.message.format(**dict.fromkeys(rule.facts, "it"))
    assert not set("{}") & set(worded)
    assert worded == worded.strip().rstrip(".")
    assert "\n" not in worded


@every_rule
def test_a_rule_is_found_by_code_and_name_in_any_case(rule: Rule):
    spellings = (rule.code, rule.code.lower(), rule.name, rule.name.upper(), f" {rule.name} ")
    assert {find(text) for text in spellings} == {rule}


@pytest.mark.parametrize(
    ("text", "nearest"),
    [
        ("unordered-reads", "unordered-read"),
        ("unordered_read", "unordered-read"),
        ("mising-record-stream", "missing-record-stream"),
        ("SYN1O1", "SYN101"),
        ("syn2011", "SYN201"),
    ],
)
@pytest.mark.parametrize("look_up", [find, matching])
def test_a_near_miss_suggests_the_nearest_rule(look_up, text, nearest):
    with pytest.raises(ConfigError, match=text) as raised:
        look_up(text)
    assert raised.value.hint == f"did you mean {nearest}?"


@pytest.mark.parametrize("text", ["SYN999", "SYN199", "SYN000"])
def test_a_code_that_resembles_no_rule_refers_to_the_list(text):
    with pytest.raises(ConfigError) as raised:
        find(text)
    assert raised.value.hint == "`syncheck rules` lists all codes and names"


@pytest.mark.parametrize(("text", "family"), [("SIN1", "SYN1"), ("sny2", "SYN2"), ("SYN99", "SYN9")])
def test_a_near_miss_of_a_prefix_suggests_the_family(text, family):
    with pytest.raises(ConfigError) as raised:
        matching(text)
    assert raised.value.hint == f"did you mean {family}?"


@pytest.mark.parametrize("text", ["", "  ", "elephant", "0"])
@pytest.mark.parametrize("look_up", [find, matching])
def test_a_text_unlike_any_rule_hints_where_to_look(look_up, text):
    with pytest.raises(ConfigError) as raised:
        look_up(text)
    assert "syncheck rules" in raised.value.hint


def test_find_accepts_no_prefix():
    with pytest.raises(ConfigError):
        find("SYN10")


def test_a_prefix_matches_its_family_in_code_order():
    assert [rule.code for rule in matching("SYN1")] == ["SYN101", "SYN102", "SYN103", "SYN104", "SYN105"]
    assert matching("syn20") == (find("SYN201"), find("SYN202"), find("SYN203"))


def test_a_full_code_or_name_matches_one_rule():
    assert matching("SYN101") == (find("SYN101"),)
    assert matching("unordered-read") == (find("SYN101"),)


def test_part_of_a_name_does_not_match():
    with pytest.raises(ConfigError):
        matching("unordered")


@pytest.mark.parametrize("text", ["ALL", "all", "SYN"])
def test_all_and_the_common_prefix_match_every_rule(text):
    assert matching(text) == CATALOGUE


def test_an_unknown_prefix_is_an_error():
    with pytest.raises(ConfigError, match="SYN0"):
        matching("SYN0")


def test_examples_are_the_bad_and_good_programs_without_variants(fixtures):
    bad, good = page.examples(find("SYN101"))
    assert (bad.kind, bad.path.name, bad.source) == ("bad", "bad.py", BAD_SHOWN)
    assert (good.kind, good.path.name, good.source) == ("good", "good.py", "good = True\n")


def test_packaged_examples_take_precedence_over_those_of_a_checkout(fixtures):
    packaged = fixtures / "package" / "unordered-read"
    packaged.mkdir(parents=True)
    (packaged / "bad.py").write_text("packaged = True\n", encoding="utf-8")
    (bad,) = page.examples(find("SYN101"))
    assert bad.path == packaged / "bad.py"


def test_a_rule_may_have_no_examples(fixtures):
    assert page.examples(find("SYN102")) == ()


def test_examples_are_searched_in_and_beside_the_package():
    package = Path(syncheck.rules.__file__).parents[1]
    assert list(page.FOLDERS) == [package / "fixtures", package.parent / "fixtures"]


def test_only_test_markers_are_removed():
    assert page.without_markers(BAD) == BAD_SHOWN
    assert page.without_markers(BAD_SHOWN) == BAD_SHOWN


def test_a_page_begins_with_title_level_and_summary(fixtures):
    text = page.markdown(find("SYN101"), frozenset({"run", "lint"}))
    title, _, level, _, summary = text.splitlines()[:5]
    assert title == "# SYN101 unordered-read"
    assert level == "Level: error. Found by: `syncheck lint` and `syncheck run`."
    assert summary == find("SYN101").summary


def test_a_page_shows_both_examples_after_the_sections(fixtures):
    text = page.markdown(find("SYN101"), frozenset({"run"}))
    headings = [line for line in text.splitlines() if line.startswith("## ")]
    assert headings == [*(f"## {h}" for h in HEADINGS), "## Bad example", "## Good example"]
    assert f"## Bad example\n\n```python\n{BAD_SHOWN}```\n" in text
    assert text.endswith("## Good example\n\n```python\ngood = True\n```\n")


@every_rule
def test_every_page_renders_completely(rule: Rule):
    text = page.markdown(rule, frozenset({"lint"}))
    assert text.startswith(f"# {rule.code} {rule.name}\n")
    assert f"Level: {rule.severity}. Found by: `syncheck lint`.\n" in text
    assert rule.doc.strip() in text
    assert text.count("```") % 2 == 0
    assert "# expect" not in text
    assert text.endswith("\n")
    assert not text.endswith("\n\n")


def test_a_page_without_examples_has_no_example_headings(fixtures):
    assert "example\n" not in page.markdown(find("SYN102"), frozenset({"run"}))


def test_a_page_reports_when_nothing_finds_its_rule():
    assert "Found by: nothing yet." in page.markdown(find("SYN101"), frozenset())


def test_a_page_with_an_unknown_half_is_rejected():
    with pytest.raises(ValueError, match="linter"):
        page.markdown(find("SYN101"), frozenset({"linter"}))


def test_levels_are_ordered_from_most_to_least_severe():
    assert sorted(Severity, key=lambda level: level.rank) == [
        Severity.ERROR,
        Severity.WARNING,
        Severity.ADVICE,
    ]


@pytest.mark.parametrize("rule", CATALOGUE, ids=lambda rule: rule.code)
def test_the_lines_of_a_page_are_not_broken_after_a_word(rule):
    lines = rule.doc.splitlines()
    pairs = [(line, after) for line, after in pairwise(lines) if line and after and not after.startswith("Seen in")]
    assert not [line for line, _ in pairs if len(line) < 25 and line[0] not in "#-`"]
