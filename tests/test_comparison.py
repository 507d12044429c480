"""docs/comparison.md: its counts of the two tools that need no other package are what the cases give now.

The other rows are a snapshot of the versions that the page names; tests/compare.py makes them, by hand.
"""

import re
from pathlib import Path

import compare
import pytest

PAGE = (Path(__file__).resolve().parent.parent / "docs" / "comparison.md").read_text(encoding="utf-8")
AGAIN = "make the page's tables again, as docs/comparison.md says"


def cells(name: str) -> list[str]:
    """A tool's cells in the table of answers, which has the version in the second column."""
    rows = [[cell.strip() for cell in line.strip("|").split("|")] for line in PAGE.splitlines() if line[:1] == "|"]
    [row] = [row[2:] for row in rows if row[0] == name]
    return row


@pytest.mark.parametrize("tool", [compare.PLAIN_SPAN, compare.SIDECALL], ids=lambda tool: tool.name)
def test_the_page_gives_the_counts_of_today(tool: compare.Tool) -> None:
    # Without the limit: some platforms that run the suite have no timers, and neither of the two needs one.
    assert cells(tool.name) == [str(count) for count in compare.counts(tool, limit=None)], AGAIN


def test_the_page_gives_the_numbers_of_cases_of_today() -> None:
    every, policy = len(compare.load_cases()), len(compare.policy_ids())
    assert re.findall(r"(\d+) cases, (\d+) of them `policy`", PAGE) == [(str(every), str(policy))], AGAIN
    assert f"right of the {every - policy} |" in PAGE, AGAIN


def test_the_page_has_a_row_for_each_tool() -> None:
    assert all(len(cells(tool.name)) == len(compare.KINDS) + 1 for tool in compare.TOOLS)
