"""The sums of `docs/lint-sets.md`, and the pages that quote them."""

import re

import pytest

from tests.docs.blocks import ROOT

REPORTS, FOUND, PLANTED = (
    "Errors and warnings, judged one by one", "Bugs of public code that it found", "Bugs planted by other authors",
)  # fmt: skip


def rows_of(title):
    """Return the rows of a table, without its head; the last one has the sums."""
    section = (ROOT / "docs" / "lint-sets.md").read_text().partition(f"## {title}\n")[2].partition("\n## ")[0]
    lines = [line for line in section.splitlines() if line.startswith("| ") and "---" not in line]
    return [line.strip("|").split("|") for line in lines[1:]]


def numbers(cell):
    """Return the numbers in a cell; "7 of 8" is short for "7, then 7 of 8" in the table of planted bugs."""
    return [int(number.replace(",", "")) for number in re.findall(r"\d[\d,]*", cell)]


@pytest.mark.parametrize("title", [REPORTS, FOUND, PLANTED])
def test_the_last_row_has_the_sums(title):
    *rows, last = rows_of(title)
    for column in range(2, len(last)):
        sums = numbers(last[column])
        cells = [found for row in rows if (found := numbers(row[column]))]
        full = [[cell[0], *cell] if len(cell) < len(sums) else cell for cell in cells]
        assert [sum(each) for each in zip(*full, strict=True)] == sums


def test_the_home_page_quotes_the_sums():
    home = (ROOT / "docs" / "index.md").read_text()
    reports, found = rows_of(REPORTS), rows_of(FOUND)
    assert f"{numbers(reports[-1][4])[0]} of {numbers(reports[-1][3])[0]} errors in {len(reports) - 1} sets" in home
    for cell in found[-1][2:5]:
        n_found, n_all = numbers(cell)
        assert f"{round(100 * n_found / n_all)} %" in home


def test_the_page_on_certainty_quotes_the_sums():
    page = (ROOT / "docs" / "how-sure.md").read_text()
    _, _, _, n_errors, n_false, _, n_warnings, n_false_warnings, _ = rows_of(REPORTS)[-1]
    for all_reports, false in ((n_errors, n_false), (n_warnings, n_false_warnings)):
        assert f"{numbers(false)[0]} of {numbers(all_reports)[0]} false" in page
    for title in (FOUND, PLANTED):
        *n_found, n_all = numbers(rows_of(title)[-1][2])
        assert f"| {n_all} | {n_all - n_found[0]}" in page
