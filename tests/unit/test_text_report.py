import re
from dataclasses import replace

import pytest

from syncheck.findings import Finding, Frame, Location, Report, Summary
from syncheck.report import text
from tests.unit.report_samples import (
    READ,
    TRAIN,
    check_golden,
    location_at,
    lost_record,
    marks,
    missing_record,
    rich_report,
    unordered_read,
)

SEEN = Summary("1 NVIDIA H200", operators=10, streams=2, devices=1, seconds=0.5)


def show(*findings, stacks=False, color=False, width=100, **report):
    return text.render(Report(findings, **report), color=color, stacks=stacks, width=width)


def finding_at(source, marked, related=(), **more):
    return Finding(READ, location_at("a.py", source, marked), "what happened", related=tuple(related), **more)


def bare(location):
    return Finding(READ, location, "what happened")


def test_text_report_matches_the_golden_file():
    check_golden("report.txt", text.render(rich_report(), color=False, stacks=True))


def test_every_finding_has_its_code_place_message_and_page():
    shown = show(*rich_report().findings)
    for code, at in (
        ("SYN101", "train.py:9:13 in forward"),
        ("SYN201", "data/loader.py:7:3 in Prefetcher.next_batch"),
        ("SYN405", "宽.py:2:1"),
        ("SYN801", "notebook cell 3:12"),
    ):
        assert f"[{code}]" in shown
        assert re.search(rf"^ *--> {re.escape(at)}$", shown, re.MULTILINE)
        assert shown.count(f"= explain: syncheck explain {code}\n") == 1


def test_nearby_places_are_marked_in_one_excerpt():
    shown = show(unordered_read())
    label = "the default stream of cuda:0 wrote it here"
    assert marks(shown) == [("-", "torch.relu(x)", label), ("^", "y * 2", "")]
    assert shown.count("-->") == 1
    assert ":::" not in shown
    assert shown.count("with torch.cuda.stream(copy):") == 1


def test_distant_places_and_other_files_get_their_own_excerpt():
    shown = show(missing_record())
    assert "\n   |\n  ::: train.py:15:5 in step\n   |\n" in shown
    assert [label for _, _, label in marks(shown)] == [
        "",
        "allocated here on stream `side` (cuda:1)",
        "freed at the end of this function",
    ]


def test_places_of_one_file_with_different_texts_are_not_merged():
    edited = TRAIN.replace("with torch.cuda", "with  torch.cuda")
    related = location_at("a.py", edited, "torch.relu(x)", "written")
    assert ":::" in show(finding_at(TRAIN, "y * 2", [related]))


def test_two_places_on_one_line_have_two_underlines():
    source = "y = f(x) + x.sum()\n"
    related = location_at("a.py", source, "f(x)", "written here")
    shown = show(finding_at(source, "x.sum()", [related]))
    assert marks(shown) == [("^", "x.sum()", ""), ("-", "f(x)", "written here")]
    assert shown.count(source) == 1


@pytest.mark.parametrize(
    ("source", "marked", "expected"),
    [
        ("\t\ty = x * 2", "x * 2", "x * 2"),
        ("a\tb = x\t* 2", "x\t* 2", "x   * 2"),
        ("结果 = 计算(数据)", "计算(数据)", "计算(数据)"),
        ("s = '한글' + x", "x", "x"),
        ("\t结\t= x * 2  # 注", "x * 2", "x * 2"),
        ("x * 2", "x * 2", "x * 2"),
        ("é = x̂ + y", "y", "y"),
    ],
)
def test_underline_is_under_the_expression(source, marked, expected):
    assert marks(show(finding_at(source, marked))) == [("^", expected, "")]


def test_multi_line_expression_is_marked_to_the_end_of_its_first_line():
    source = "y = torch.add(\n    x,\n    1,\n)  \nz = y\n"
    shown = show(finding_at(source, "torch.add(\n    x,\n    1,\n)"))
    assert marks(shown) == [("^", "torch.add(", "")]


def test_unknown_columns_point_at_the_first_word_of_the_line():
    location = Location(Frame("a.py", 2, source="\ty = x * 2"), excerpt=((1, "if z:"), (2, "\ty = x * 2")))
    shown = show(bare(location))
    assert marks(shown) == [("^", "y", "")]
    assert "--> a.py:2\n" in shown


@pytest.mark.parametrize("columns", [(90, 95), (3, 2), (1, 99)])
def test_columns_outside_the_line_are_clamped(columns):
    frame = Frame("a.py", 1, columns[0], 1, columns[1], source="y = x")
    shown = show(bare(Location(frame)))
    (mark,) = re.findall(r"^  \| ( *\^+)$", shown, re.MULTILINE)
    assert len(mark) <= len("y = x") + 1


def test_unreadable_source_shows_location_and_message():
    frame = Frame("<string>", 7, function="reuse")
    finding = replace(bare(Location(frame)), related=(Location(frame, "it was written here"),))
    assert show(finding).splitlines()[1:6] == [
        " --> <string>:7 in reuse",
        "  |",
        " ::: <string>:7 in reuse",
        "  = it was written here",
        "  |",
    ]


def test_source_line_of_the_frame_replaces_a_missing_excerpt():
    frame = Frame("a.py", 7, 5, 7, 6, source="y = x")
    assert marks(show(bare(Location(frame)))) == [("^", "x", "")]


def test_message_of_a_place_outside_its_excerpt_is_not_lost():
    related = Location(Frame("a.py", 9), "written here", ((1, "y = x"), (2, "")))
    shown = show(finding_at("y = x", "x", [related]))
    assert "1 | y = x\n  |     ^\n  = written here\n  |\n" in shown


def test_recursion_shows_every_frame():
    frame = Frame("a.py", 2, function="f", source="f(n - 1)")
    finding = bare(Location(frame, stack=(frame, frame, frame)))
    assert show(finding, stacks=True).count("from a.py:2 in f: f(n - 1)\n") == 2


def test_omitted_lines_of_an_excerpt_are_shown_as_dots():
    location = Location(Frame("a.py", 9, 1, 9, 2, source="y"), excerpt=((1, "def f():"), (9, "y")))
    assert "1 | def f():\n...\n9 | y\n" in show(bare(location))


def test_blank_lines_at_the_ends_of_an_excerpt_are_omitted():
    source = "\n\ny = x\n\nz = y\n\n"
    shown = show(finding_at(source, "y = x", [location_at("a.py", source, "z = y", "then")]))
    assert "  |\n3 | y = x\n  | ^^^^^\n4 |\n5 | z = y\n  | ----- then\n  |\n" in shown


def test_an_excerpt_of_blank_lines_only_is_omitted():
    location = Location(Frame("a.py", 9), excerpt=((1, ""), (2, " ")))
    assert show(bare(location)).splitlines()[1:4] == [
        " --> a.py:9",
        "  |",
        "  = explain: syncheck explain SYN101",
    ]


def test_count_and_rank_are_shown_only_where_informative():
    assert "(seen 3 times)" in show(unordered_read()).replace("\n", " ")
    assert "(rank 1)" in " ".join(show(missing_record()).split())
    both = replace(bare(Location(Frame("a.py", 1))), count=1200, rank=2)
    assert show(both).startswith("error[SYN101] unordered-read: what happened (seen 1,200 times, rank 2)\n")
    assert show(bare(Location(Frame("a.py", 1)))).startswith("error[SYN101] unordered-read: what happened\n")


def test_help_of_several_lines_keeps_its_indentation():
    lines = show(missing_record()).splitlines()
    start = next(i for i, line in enumerate(lines) if "= help: " in line)
    column = lines[start].index("add this line")
    assert lines[start + 1] == " " * (column + 4) + "batch.record_stream(torch.cuda.current_stream())"


def test_prose_is_wrapped_between_words_but_never_inside_code():
    code = "`copy.wait_stream(torch.cuda.current_stream()) # one`"
    shown = show(replace(bare(Location(Frame("a.py", 1))), help=f"{'word ' * 20}{code} end"), width=60)
    assert code in shown
    assert max(len(line) for line in shown.splitlines() if "`" not in line) <= 60


def test_source_lines_longer_than_the_width_are_cut_and_not_wrapped():
    source = "y = [" + "0, " * 2000 + "x * 2, " + "1, " * 2000 + "]"
    shown = show(finding_at(source, "x * 2"), width=80)
    assert marks(shown) == [("^", "x * 2", "")]
    assert max(len(line) for line in shown.splitlines()) <= 80
    assert re.search(r"^1 \| ….*…$", shown, re.MULTILINE)


def test_wide_characters_in_a_cut_line_do_not_move_the_mark():
    source = "y = '" + "漢字" * 80 + "' + x * 2 + '" + "漢字" * 80 + "'"
    assert marks(show(finding_at(source, "x * 2"), width=70)) == [("^", "x * 2", "")]


def test_long_label_goes_below_its_underline():
    source = f"y = {'x' * 70} + z\n"
    related = location_at("a.py", source, "x" * 70, "the default stream of cuda:0 wrote it here, long before")
    lines = show(finding_at(source, "z", [related])).splitlines()
    assert max(map(len, lines)) <= 100
    assert f"  |     {'-' * 70}" in lines
    assert any(line.endswith(" the default stream of cuda:0 wrote it here, long before") for line in lines)


def test_stacks_are_shown_only_on_request():
    assert "step" not in show(unordered_read())
    shown = show(unordered_read(), stacks=True)
    assert shown.count("from train.py:14:11 in step: out = forward(batch)\n") == 2
    assert shown.count("into torch/_tensor.py:52 in _wrapped: return f(self, *args)\n") == 1
    assert shown.index("into torch") < shown.index("from train.py:14") < shown.index("from train.py:18")


def test_summary_counts_levels_and_reports_what_was_checked():
    lines = text.render(rich_report(), color=False, stacks=False).splitlines()
    assert lines[-5:] == [
        "syncheck: 2 errors, 1 warning, 1 suggestion in 4 files",
        "checked: 1,234 operators on 3 streams of 2 devices in 1.2 s (2 simulated GPUs)",
        "incomplete: 2 operators of the library `fastops` are not understood: fastops::scan, fastops::sort",
        "note: torch.compile ran eagerly",
        "3 more findings are hidden: raise --max-findings",
    ]


def test_clean_report_has_two_lines():
    assert show(summary=SEEN) == (
        "syncheck: no findings\nchecked: 10 operators on 2 streams of 1 device in 0.5 s (1 NVIDIA H200)\n"
    )


@pytest.mark.parametrize(
    "report",
    [
        Report(),
        Report(summary=Summary("2 simulated GPUs")),
        Report(summary=SEEN, incomplete=("a hook failed",)),
        Report(summary=Summary(), incomplete=("a hook failed",)),
        Report(summary=SEEN, hidden=2),
    ],
)
def test_no_findings_never_stands_alone_when_something_may_be_missing(report):
    shown = text.render(report, color=False, stacks=False)
    assert not re.search(r"no findings$", shown, re.MULTILINE)
    assert re.search("incomplete|nothing (was checked|to check)|hidden", shown)


def test_every_reason_for_incompleteness_has_its_own_line():
    shown = show(summary=SEEN, incomplete=("a hook failed", "no callback"))
    assert "\nincomplete: a hook failed\nincomplete: no callback\n" in shown


def test_report_is_deterministic():
    assert text.render(rich_report(), color=True, stacks=True) == text.render(rich_report(), color=True, stacks=True)


def test_color_adds_only_escape_codes():
    colored = text.render(rich_report(), color=True, stacks=True)
    plain = text.render(rich_report(), color=False, stacks=True)
    assert "\x1b" not in plain
    assert "\x1b[1;31merror[SYN101]\x1b[0m" in colored
    assert re.sub(r"\x1b\[[\d;]*m", "", colored) == plain


@pytest.mark.parametrize("stacks", [False, True])
@pytest.mark.parametrize("width", [0, 60, 100, 300])
def test_no_line_has_trailing_blanks(stacks, width):
    shown = text.render(rich_report(), color=False, stacks=stacks, width=width)
    assert [line for line in shown.split("\n") if line != line.rstrip()] == []


def test_text_of_the_program_is_neither_interpreted_nor_lost():
    source = "x = '[bold red]' + '\x1b[31m' + '\udcff\u202e' + y"
    shown = show(finding_at(source, "y"))
    assert "x = '[bold red]' + '␛[31m' + '\ufffd\ufffd' + y" in shown
    assert marks(shown) == [("^", "y", "")]
    shown.encode()


def test_wide_characters_and_multi_line_expressions_together():
    assert marks(show(lost_record())) == [
        ("-", "done.record(流)", "recorded here first"),
        ("^", "done.record(", ""),
    ]
