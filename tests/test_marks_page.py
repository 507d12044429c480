"""docs/marks.md and the code agree: each mark of the tables stands on the page, and each on the page does its work."""

import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import NamedTuple

import pytest

from sidecall import SPECIAL_TOKENS, answer_text, parse_structured, pick_title
from sidecall._marks import BEGINNINGS, CALLS, HEADERS, OTHER_TURNS, REASONING, TURNS, WRAPPERS

PAGE = (Path(__file__).resolve().parent.parent / "docs" / "marks.md").read_text(encoding="utf-8")
DRAFT = '{"title": "Draft"}'
ANSWER = '{"title": "Answer"}'

# Behind this, a cell has the closing marks that close only what was opened.
IF_OPEN = "if open:"


class Shown(NamedTuple):
    """A mark on the page: the heading of its column, the mark, and the opening marks of its row."""

    column: str
    mark: str
    opens: list[str]


def cells(line: str) -> list[str]:
    r"""The cells of a table's line; `\|` is a character of one."""
    return [cell.strip().replace(r"\|", "|") for cell in re.split(r"(?<!\\)\|", line.strip())[1:-1]]


def in_code(text: str) -> list[str]:
    """What a text shows as code."""
    return re.findall(r"`([^`\n]+)`", text)


def shown(text: str) -> Iterator[Shown]:
    """The marks in a page's tables: what stands as code in the columns that are for marks."""
    for table in re.findall(r"(?:^\|.*\n)+", text, re.MULTILINE):
        heading, _, *lines = table.splitlines()
        for line in lines:
            row = dict(zip(cells(heading), cells(line), strict=True))
            opens = in_code(row.get("opens", ""))
            row["closes"], _, row[IF_OPEN] = row.get("closes", "").partition(IF_OPEN)
            yield from (Shown(column, mark, opens) for column in WORK for mark in in_code(row.get(column, "")))


def title(reply: str) -> str | None:
    return parse_structured(reply, pick_title)


def ends_the_reply(mark: str) -> bool:
    """Whether nothing that stands behind an object and the mark counts."""
    return title(f"{ANSWER}{mark}\n{DRAFT}") == "Answer"


def closes(each: Shown) -> bool:
    """Whether it closes one of the opening marks of its row, if that has any."""
    return not each.opens or any(
        title(f"{opening}Maybe {DRAFT} {each.mark}\n{ANSWER}") == "Answer" for opening in each.opens
    )


def closes_alone(mark: str) -> bool:
    """Whether it ends reasoning that began before the reply did."""
    return title(f"{DRAFT}{mark}\n{ANSWER}") == "Answer"


# What a mark does, by the heading of its column.
WORK: dict[str, Callable[[Shown], bool]] = {
    "opens": lambda each: title(f"{each.mark}Maybe {DRAFT}") is None,
    "closes": lambda each: closes(each) and closes_alone(each.mark),
    IF_OPEN: lambda each: closes(each) and not closes_alone(each.mark),
    "ends a turn": lambda each: ends_the_reply(each.mark) and answer_text(f"Basil{each.mark}") == "Basil",
    "begins a turn": lambda each: ends_the_reply(each.mark) and answer_text(f"Basil{each.mark}\n") == "Basil",
    "other tokens": lambda each: answer_text(f"{each.mark} Basil") == "Basil" and not ends_the_reply(each.mark),
    "begins a call": lambda each: answer_text(f"Basil.\n{each.mark} water") == "Basil.",
}
MARKS = [*shown(PAGE)]


def unlike_the_code(marks: list[Shown]) -> list[str]:
    """The marks that do not do what their column says."""
    return [f"{each.column}: {each.mark}" for each in marks if not WORK[each.column](each)]


def test_each_mark_of_the_page_does_what_its_column_says() -> None:
    assert {each.column for each in MARKS} == set(WORK)
    assert len(MARKS) > 250
    assert unlike_the_code(MARKS) == []


@pytest.mark.parametrize("column", WORK)
def test_a_mark_that_the_code_does_not_know_is_reported(column: str) -> None:
    """In whatever column it stands."""
    assert unlike_the_code([Shown(column, "<my_own_mark>", ["<think>"])]) == [f"{column}: <my_own_mark>"]


def missing(text: str) -> list[str]:
    """The marks of the code's tables that no table of a page has. Blanks in them stand for blanks, or none."""
    reasoning = [mark for block in REASONING for mark in (*block.opens, *block.closes, *block.closes_only_opened)]
    on_page = {each.mark.replace(" ", "") for each in shown(text)}
    known = (*reasoning, *TURNS, *OTHER_TURNS, *HEADERS, *CALLS, *BEGINNINGS)
    return [mark for mark in known if mark.replace(" ", "") not in on_page]


def test_each_mark_of_the_code_is_in_a_table_of_the_page() -> None:
    assert missing(PAGE) == []
    assert missing(PAGE.replace("`[unused17]`", "").replace(r"`<\|eot_id\|>`", "")) == ["[unused17]", "<|eot_id|>"]


# On the page, and not in SPECIAL_TOKENS: common in HTML or plain text, or of a reply's shapes alone.
NOT_SPECIAL = """
<s> </s> <bos> <sop> <BOS_TOKEN> <|END_TOOL_RESULT|> <|im_kimia_text_eos|> <|tool_response_end|> <｜hy_eos:SUFFIX｜>
<｜tool▁outputs▁end｜> <｜tool▁output▁end｜> <|content_tool_error|> <|im_kimia_assistant_msg_start|>
<|im_kimia_user_msg_start|> <|iquestcoder_assistant|> <｜hy_Assistant:SUFFIX｜> <｜hy_User:SUFFIX｜>
<|begin_of_sentence|> <｜hy_begin_of_sentence:SUFFIX｜> <｜hy_begin▁of▁sentence｜>
"""


def test_the_turns_and_headers_of_the_page_are_special_tokens_but_for_a_few() -> None:
    """A row that is dropped from the tables, as the shape of tokens covers it, lets its token through what goes in."""
    columns = ("ends a turn", "begins a turn", "other tokens")
    on_page = {each.mark for each in MARKS if each.column in columns and " " not in each.mark}
    assert on_page - set(SPECIAL_TOKENS) == set(NOT_SPECIAL.split())


def test_each_wrapper_tag_of_the_code_is_on_the_page() -> None:
    assert {f"<{tag}>" for tag in WRAPPERS} <= set(in_code(PAGE))
