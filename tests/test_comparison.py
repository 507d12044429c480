"""docs/comparison.md: its counts of the two tools that need no other package are what the cases give now.

The other rows are a snapshot of the versions that the page names; tests/compare.py makes them, by hand.
"""

import re
from pathlib import Path

import compare
import pytest
from corpus import load_cases

PAGE = (Path(__file__).resolve().parent.parent / "docs" / "comparison.md").read_text(encoding="utf-8")
AGAIN = "make the page's tables again, as docs/comparison.md says"


def cells(name: str) -> list[str]:
    """A tool's counts in the table of answers, which alone has a column of numbers for each of them."""
    rows = re.findall(
        rf"^\| {re.escape(name)} \| [^|]+((?:\| \d+ ){{{len(compare.KINDS) + 1}}})\|$", PAGE, re.MULTILINE
    )
    [row] = rows
    return re.findall(r"\d+", row)


@pytest.mark.parametrize("tool", [compare.PLAIN_SPAN, compare.SIDECALL], ids=lambda tool: tool.name)
def test_the_page_gives_the_counts_of_today(tool: compare.Tool) -> None:
    # Without the limit: some platforms that run the suite have no timers, and neither of the two needs one.
    assert cells(tool.name) == [str(count) for count in compare.counts(tool, limit=None)], AGAIN


def test_the_page_gives_the_numbers_of_cases_of_today() -> None:
    every, policy = len(load_cases()), len(compare.policy_ids())
    assert re.findall(r"(\d+) cases, (\d+) of them `policy`", PAGE) == [(str(every), str(policy))], AGAIN
    assert re.findall(r"right of the (\d+)", PAGE) == [str(every - policy)] * 2, AGAIN


def test_the_page_has_a_row_for_each_tool() -> None:
    assert all(cells(tool.name) for tool in compare.TOOLS)
