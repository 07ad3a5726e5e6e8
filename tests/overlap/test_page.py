"""The timeline page is one file, can be used without a mouse, and is fast with 100,000 operators."""

import re
from dataclasses import replace

import pytest

from syncheck.findings import Finding, Frame, Location
from syncheck.overlap.report import EdgeLine, LinkLine, OverlapReport
from syncheck.overlap.timeline import MAX_BOXES, Arrow, Box, Lane, Mark, Timeline
from syncheck.report import html
from syncheck.rules import catalogue
from syncheck.witness.proofs import Difference, Proof, ProofOutcome
from tests import warm
from tests.overlap import browser
from tests.overlap.test_perfetto import timeline_of
from tests.overlap.test_perfetto import trace as trace  # noqa: PLC0414  a fixture

HOSTILE = "</script><script>window.hacked=1</script><img src=x onerror='window.hacked=1'>"
LANES = (Lane("host", -1), Lane("the default stream of cuda:0", 0), Lane("stream `copy` (cuda:0)", 0))


def words(**changes):
    return OverlapReport(
        **{
            "backend": "a GPU", "times": "measured", "operations": 2, "makespan": 3000, "shortest": 2000,
            "verdicts": (), "uses": (), "pairs": (), "edges": (), "links": (), "path": (), **changes,
        }
    )  # fmt: skip


def location(text="train.py"):
    frame = Frame(text, 3, function=text, source=text)
    return Location(frame, excerpt=((2, "a"), (3, text)), stack=(frame, frame))


def small(name="aten::mm", **changes):
    boxes = (Box(1, 0, 2000, name, 1), Box(2, 1000, 3000, name, 1, is_critical=True))
    finding = Finding.of(catalogue.find("SYN101"), location(name), reader=name, writer=name, tensor=name)
    given = {
        "lanes": LANES, "boxes": boxes, "arrows": (Arrow(0, 1, name, is_missing=True),), "marks": (Mark(1, finding),),
        "locations": {1: location(name)}, "report": words(), "operations": 2, "notes": (),
    }  # fmt: skip
    return Timeline(**{**given, **changes})


@pytest.fixture(scope="module")
def chromium():
    if browser.DRIVER is None or browser.CHROMIUM is None:
        pytest.skip("chromium or chromedriver is not installed")
    one = browser.Browser()
    yield one
    one.close()


@pytest.fixture
def page(chromium, tmp_path):
    """Return a function that opens a timeline in the browser."""

    def show(timeline, title="a run"):
        path = tmp_path / "page.html"
        path.write_text(html.render(timeline, title), encoding="utf-8")
        chromium.open(path)
        return chromium

    return show


def selected(page):
    return page.run("return window.syncheck.selected()")


def shown(page):
    """Return the visible time range in microseconds."""
    return page.run("return window.syncheck.range()")


# -- the file


def test_the_page_loads_no_other_file():
    text = html.render(small())
    assert not re.search(r"<(?:script|img|link|iframe)[^>]*\s(?:src|href)=", text)
    assert "@import" not in text
    assert "default-src 'none'" in text


def test_names_from_the_program_are_escaped():
    text = html.render(small(HOSTILE, report=words(edges=(edge(HOSTILE),), verdicts=(HOSTILE,))), HOSTILE)
    assert "<script>window" not in text
    assert "<img" not in text


def edge(text):
    return EdgeLine("wait_stream", text, location(text), 1, 1000, 1000, text, False, 1.5, text)


def test_a_missing_jinja2_gives_an_installation_hint(monkeypatch):
    monkeypatch.setitem(__import__("sys").modules, "jinja2", None)
    with pytest.raises(html.BackendError) as caught:
        html.render(small())
    assert "syncheck[html]" in caught.value.hint


def test_the_language_is_made_valid_before_it_is_used():
    shown = html.render(small(), "a run")
    assert 0 < shown.index('"language", { value: "en-US" }') < shown.index("uPlot=")


def test_the_tables_describe_the_picture_in_words():
    text = html.render(small(report=words(edges=(edge("a wait"),), verdicts=("nothing overlaps",))))
    assert "nothing overlaps." in text
    assert "1.50x" in text
    assert "a wait" in text


def test_a_finding_includes_the_effect_of_its_race():
    proof = Proof(
        ProofOutcome.SHOWN, "schedule", "s1-abc-1.1-ff", "", (Difference("loss", "2", "nan"),), "syncheck run a.py"
    )
    finding = replace(small().marks[0].finding, proof=proof)
    text = html.render(small(marks=(Mark(1, finding),)))
    listed, drawn = text.split('<ol class="findings">')[1].split("</ol>", 1)
    assert "loss: nan, not 2; reproduce with: syncheck run a.py" in listed
    assert "loss: nan, not 2; reproduce with: syncheck run a.py" in drawn


def test_a_partial_page_says_so():
    text = html.render(small(notes=("100,000 of 1,000,000 operators are drawn",)))
    assert '<p class="note">100,000 of 1,000,000 operators are drawn.</p>' in text


def test_the_critical_path_is_an_ordered_table():
    needless = LinkLine("a wait", location(), 1000, "not needed", is_needed=False, is_edge=True)
    text = html.render(small(report=words(links=(LinkLine("the work", location(), 2000), needless))))
    table = text[text.index("from start to end") :]
    assert table.index("the work") < table.index("a wait") < table.index("not needed")


def test_the_command_writes_a_page(trace, tmp_path):
    done = warm.run("syncheck", "replay", "--html", "out.html", "--exit-zero", str(trace), folder=tmp_path)
    assert done.returncode == 0, done.stderr
    assert "SYN101" in (tmp_path / "out.html").read_text()


# -- in a browser


def test_the_page_opens_from_disk_without_network_access_or_errors(page, trace):
    opened = page(timeline_of(trace))
    assert opened.errors() == []
    assert opened.run("return performance.getEntriesByType('resource').length") == 0
    assert opened.run("return window.syncheck.drawn") > 0


def test_hostile_names_are_harmless(page):
    opened = page(small(HOSTILE, report=words(edges=(edge(HOSTILE),))), HOSTILE)
    opened.click("[data-finding='0']")
    assert "<script>" in opened.text("#details")
    assert opened.run("return window.hacked === undefined")
    assert opened.errors() == []


def test_a_finding_links_to_its_operator_and_source(page, trace):
    opened = page(timeline_of(trace))
    opened.click("[data-finding='1']")
    details = opened.text("#details")
    assert "aten::add" in details
    assert "total = product + moved" in details
    assert "missing: " in details


def test_a_click_selects_an_operator(page):
    opened = page(small())
    x, y, width = opened.run(
        "const area = document.querySelector('.u-over').getBoundingClientRect(); return [area.x, area.y, area.width]"
    )
    opened.click_at(x + width / 6, y + 34 * 1.5)
    assert selected(opened) == 0
    opened.click_at(x + width / 20, y + 34 * 2.5)
    assert selected(opened) == -1


def test_dragging_zooms_in_and_a_key_resets_the_view(page):
    opened = page(small())
    x, y, width = opened.run(
        "const area = document.querySelector('.u-over').getBoundingClientRect(); return [area.x, area.y, area.width]"
    )
    opened.drag(x + width / 3, x + width / 2, y + 40)
    low, high = shown(opened)
    assert 0.8 < low < 1.2
    assert 1.3 < high < 1.7
    opened.run("document.getElementById('plot').focus()")
    opened.press("0")
    assert shown(opened) == [0, 3]


@pytest.mark.parametrize("span", [(0, 3), (1.00001, 1.00002), (0, 3_000_000), (2_999_999, 3_000_000)])
def test_ticks_are_distinct_at_every_zoom_level(page, span):
    opened = page(small(boxes=(Box(1, 0, 3_000_000_000, "aten::mm", 1),), arrows=(), marks=()))
    opened.run("window.syncheck.zoom(...arguments)", *span)
    opened.run("return new Promise(done => requestAnimationFrame(() => setTimeout(done)))")
    ticks = opened.run("return window.syncheck.ticks()")
    assert len(ticks) > 3
    assert len(set(ticks)) == len(ticks)


def test_everything_can_be_done_with_the_keyboard(page):
    opened = page(small())
    opened.run("document.getElementById('plot').focus()")
    opened.press("+")
    low, high = shown(opened)
    assert high - low == pytest.approx(1.5)
    opened.press("n")
    assert selected(opened) == 1
    opened.press("\ue013")  # arrow up
    assert selected(opened) == 0
    opened.press("\ue00c")  # escape
    assert selected(opened) == -1


def test_search_finds_operators_and_source_lines(page, trace):
    opened = page(timeline_of(trace))
    opened.type("#search", "mul", enter=True)
    assert opened.text("#found") == "2 found"
    assert "aten::mul" in opened.text("#details")
    opened.run("document.getElementById('search').value = ''")
    opened.type("#search", ".py:13")
    assert opened.text("#found") == "1 found"


def test_the_theme_can_be_dark_or_light(page):
    opened = page(small())
    colour = "return getComputedStyle(document.body).backgroundColor"
    before = opened.run(colour)
    opened.click("[data-do='theme']")
    assert opened.run(colour) != before


def test_the_page_fits_a_phone(page, trace):
    opened = page(timeline_of(trace))
    with opened.width(390):
        opened.run("window.syncheck.select(0)")
        width = "return [...arguments[0]].map(q => document.querySelector(q).getBoundingClientRect().width)"
        assert opened.run("return document.documentElement.scrollWidth") == 390
        lanes, plot, cell = opened.run(width, ["#lanes", "#plot", "td"])
        assert plot > lanes
        assert cell > 100  # a table scrolls instead of breaking its words
    assert opened.run("return document.documentElement.scrollWidth") > 390  # the other tests share the browser


def test_the_page_can_be_printed(page):
    assert page(small()).pdf().startswith(b"%PDF")


def test_the_picture_is_drawn(page):
    opened = page(small())
    count = """
        const canvas = document.querySelector('canvas'), context = canvas.getContext('2d');
        const pixels = new Uint32Array(context.getImageData(0, 0, canvas.width, canvas.height).data.buffer);
        return new Set(pixels).size"""
    assert opened.run(count) > 5


def test_a_hundred_thousand_operators_are_drawn(page):
    boxes = tuple(
        Box(1 + n % 2, n * 1000, n * 1000 + 900, f"aten::op{n % 50}", n % 500, is_critical=n % 3 == 0)
        for n in range(MAX_BOXES)
    )
    arrows = tuple(Arrow(n, n + 1, "waits", 100, n % 2 == 0) for n in range(0, 40_000, 2))
    locations = {number: location(f"file{number}.py") for number in range(500)}
    opened = page(small(boxes=boxes, arrows=arrows, locations=locations, operations=10 * MAX_BOXES))
    assert opened.errors() == []
    assert shown(opened) == [0, pytest.approx(MAX_BOXES, rel=0.001)]
    opened.type("#search", "op7", enter=True)
    assert opened.text("#found") == "2,000 found"
    opened.run("window.syncheck.zoom(50000, 50010)")
    assert opened.run("return window.syncheck.drawn") > 0
