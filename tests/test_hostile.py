"""Replies that nobody would write: random ones, the plain span's, and floods."""

import json
import random
from collections import Counter
from collections.abc import Callable
from time import process_time
from typing import Any

import pytest
from corpus import Shown, outcome

from sidecall import answer_text, parse_structured, pick_title
from sidecall._marks import CALLS, OTHER_TURNS, REASONING, TURNS
from sidecall._reply import _plain_span, _Scan
from sidecall._search import MARKS

MARK_ATOMS = [*(mark for block in REASONING for marks in block[:3] for mark in marks), *TURNS, *OTHER_TURNS, *CALLS]
VALID = ['{"title": "A"}', '{"title": "A"}', '{"title": "B"}', '{"name": "C"}', "{}", '{"x": {"title": "D"}}']
BROKEN = ['{"title": "E",}', '{"title": NaN}', '{"title": "E', "{'title': 'E'}", '{"x": {"title": "E"}, oops}', "{x: ["]
CHARACTERS = ["{", "}", '"', "\\", "[", "]", ":", ",", "\n", " ", "\0", "\ud83c", "\ufeff", "<", ">", "|", "`"]
WORDS = [
    *("analysisWe", "title", "```json\n", '"title"', '{"title"', "1e999", "1" * 5000, "<think ", "<|x|>", "é🌰"),
    *("<answer>", "</answer>", "user\n", "assistant", "<|user_x|>", "<a:think>"),
]
SEED = 20_260_501


def random_reply(rng: random.Random) -> str:
    atoms = [CHARACTERS, WORDS, BROKEN, MARK_ATOMS, VALID]
    chosen = rng.choices(atoms, weights=[4, 2, 1, 2, 2], k=rng.randint(1, 10))
    return "".join(rng.choice(each) for each in chosen)


def test_a_random_reply_has_an_outcome_whatever_the_picker_does() -> None:
    class Odd:
        def __eq__(self, other: object) -> bool:
            raise rng.choice([ValueError, RecursionError, StopIteration, MemoryError])

        __hash__ = None  # type: ignore[assignment]  # as mutable values have it

    def pick(value: dict[str, Any]) -> object:
        kind = rng.choice([None, ValueError, RecursionError, StopIteration, MemoryError, 7, "A", float("nan"), Odd()])
        if isinstance(kind, type):
            raise kind
        return kind

    rng = random.Random(SEED)
    replies = [random_reply(rng) for _ in range(8_000)]
    for reply in replies[:2_000]:
        parse_structured(reply, pick)
    outcomes = list(map(outcome, replies))
    # The mix, without which all of this would say little.
    assert sum(any(valid in reply for valid in VALID) for reply in replies) > len(replies) / 3
    assert min(sum(mark in reply for reply in replies) for mark in MARK_ATOMS) > 10
    kinds = Counter("text" if isinstance(each, Shown) and each.text else str(each)[:9] for each in outcomes)
    assert min(kinds[kind] for kind in ("A", "B", "text", "Shown(tex", "OUTPUT_MA", "OUTPUT_RE", "OUTPUT_AM")) > 100


def plain_span(reply: str) -> object:
    """The original's algorithm: what stands from the first brace to the last, if that is JSON."""
    start, end = reply.find("{"), reply.rfind("}")
    try:
        return pick_title(json.loads(reply[start : end + 1], parse_constant=lambda name: json.loads("-")))
    except ValueError:
        return None


def test_where_the_plain_span_reads_a_value_so_does_this() -> None:
    rng = random.Random(SEED)
    shells = [*" \n[],:\"\\'", "", "```", "```json\n", "Sure: ", "1. ", "<b>", "text", "é🌰"]
    inner = ["A", "A}", "A{", "{x}", '\\"', "\\\\", "\\u00e9", "[x]", "```", "<think>", "</think>", "<|im_end|>"]
    read = 0
    for _ in range(4_000):
        members = [f'"k{n}": {rng.choice(["1", "null", "[{}]", "[1, 2]"])}' for n in range(rng.randint(0, 2))]
        members.append('"title": "' + "".join(rng.choices(inner, k=rng.randint(1, 3))) + '"')
        rng.shuffle(members)
        reply = f"{''.join(rng.choices(shells, k=3))}{{{', '.join(members)}}}{''.join(rng.choices(shells, k=3))}"
        expected = plain_span(reply)
        if expected is not None:
            read += 1
            assert parse_structured(reply, pick_title) == expected, reply
    assert read > 1_300


def test_the_short_way_and_the_scan_agree() -> None:
    rng = random.Random(SEED)
    around = [*CHARACTERS, *WORDS, *MARK_ATOMS, *VALID, *BROKEN, *["Sure. "] * 200]
    short = 0
    for _ in range(10_000):
        reply = "".join(
            (*rng.choices(around, k=rng.randint(0, 2)), rng.choice(VALID), *rng.choices(around, k=rng.randint(0, 2)))
        )
        if parts := _plain_span(reply, MARKS.finder):
            short += parts[0][1] < parts[0][2]  # text stands before the object
            found = [("text" if kind == "blank" else kind, *rest) for kind, *rest in _Scan(reply, MARKS.finder).parts()]
            assert [part for part in parts if part[1] < part[2]] == found, reply
    assert short > 1_000


# Each repeats to any length. Behind each: how more than linear time would come about.
FLOODS = {
    "open braces": "{",
    "closing braces": "}",
    "nested objects": '{"a":',
    "nested arrays of objects": '[{"a":',
    "keys without a colon": '{"title" ',
    "bare keys": "{a:",
    "bare keys and quotes": '{a: "',
    "braces before words": "{word ",
    "backslashes behind a brace": "{\\",
    "escaped keys": '{\\"a',
    "curly quotes": "{“",
    "single quotes": "{'",
    "invisible blanks behind a brace": "{\u200e\u200b",
    "opening marks": "<think>",
    "opening marks on lines": "<think>\n",
    "opening marks in sentences": "x <think> ",
    "other opening marks in sentences": "x [THINK] ◁think▷ <|START_THINKING|> <|think:start|> ",
    "opening marks of parts in sentences": 'x <|open|>think<|sep|> <|channel>thought <details type="reasoning"> ',
    "closing marks": "</think>",
    "closing marks behind headers": '{"a":1}<|im_end|><|im_start|>assistant</think>',
    "blocks with a brace": "<think>{</think>",
    "joined tags": "<a:think>",
    "unfinished joined tags": "<a:b_",
    "one long joined tag": "a:think_",
    "tags that are none": "<a:no_think>",
    "quotes": '"',
    "escaped quotes": '\\"{',
    "small objects": '{"a":1} ',
    "blanks": " ",
    "broken objects": '{"a":1,}',
    "broken objects on lines": '{"a":1,}\n',
    "broken objects with a constant": '{"a":NaN}',
    "broken objects before a mark of a turn": '{"a":1,}</s>',
    "entries of a list": '{"a":1},{"a":1,},',
    "lists with a broken entry": '[{"a":1},{"a":1,}]',
    "braces as keys": '{"}":',
    "braces in text": "{x {y} ",
    "backslashes": "\\",
    "open attributes": '<details type="reasoning" ',
    "other open attributes": "<details x ",
    "attributes": 'type="reasoning" ',
    "unfinished tags": "<think<<<",
    "channels": "<|channel|>analysis",
    "blanks in marks": "<|channel|>   ",
    "ends of turns": "<|im_end|>",
    "turns of roles": "<|user|>x[INST]<|im_start|>tool\n",
    "headers": "<|start|>assistant to=me<|message|>",
    "headers of reasoning": "<|start|>assistant to=self",
    "words of a header": "<|x|>word word word ",
    "marks in keys": '{"</think>":',
    "cut objects": '{"a":</think>',
    "tokens": "<|a|>",
    "unfinished tokens": "<|a",
    "tokens that join": "<|im_<|x|>end|>",
    "wrappers": "<answer>",
    "ends of wrappers": "x</answer>",
    "calls": "<tool_call>",
    "unfinished calls": "<function_call",
    "one long call": "tool_",
    "lines": "\n",
    "words": "assistantfinal",
    "backticks": "`",
    "tildes": "~~ ",
    "commas": ",",
}
STARTS = ["", '{"', '{"title": "x', "x", "<answer>", "analysisA", "<|", "<a:", "["]


def both(reply: str) -> None:
    parse_structured(reply, pick_title)
    answer_text(reply)


def seconds(reply: str) -> float:
    begin = process_time()
    both(reply)
    return process_time() - begin


def is_linear(make: Callable[[int], str], size: int) -> bool:
    """Whether four times the size takes about four times as long. A square would take sixteen times as long."""
    return any(seconds(make(4 * size)) < 7 * seconds(make(size)) for _ in range(5))


@pytest.mark.parametrize("flood", FLOODS.values(), ids=FLOODS)
def test_four_times_a_flood_takes_about_four_times_as_long(flood: str) -> None:
    def repeated(size: int) -> str:
        return start + flood * (size // len(flood))

    # As long as is needed to see a mild square, and that is no longer than a fifth of a second.
    start = ""
    size = round(12_000 * min(9, max(1, 0.02 / min(seconds(repeated(12_000)) for _ in range(2)))))
    assert is_linear(repeated, size)
    for start in STARTS if len(flood) < 4 else STARTS[1:3]:
        assert is_linear(repeated, 6_000), start


# A search for a line break finds half of one in U+0A0A, so it takes as long as any search can.
@pytest.mark.parametrize("before", ["\u0a0a", "x\n", '{"a": "'], ids=["a line", "lines", "a string"])
@pytest.mark.parametrize("unit", ["<think> ", "</think>", '{"a":1,}', "<|x|> ", "[{},{a:[", "<|im_end|>"])
def test_what_stands_behind_a_long_text_is_not_looked_at_again(before: str, unit: str) -> None:
    assert is_linear(lambda size: before * size + "x " + unit * (size // 400), 120_000 // len(before))


@pytest.mark.parametrize(
    ("opening", "core", "closing"),
    [
        # The decoder reads all levels, and the mark in the first key makes the rest be read again, and so on.
        *(pytest.param('{"</think>":', core, "}", id=f"marks in keys around {core}") for core in ("1", "oops", "NaN")),
        pytest.param('{"</think>":', "1", "", id="marks in keys, cut off"),
        pytest.param("<|a", "<|x|>", "b|>", id="tokens in tokens"),
    ],
)
def test_no_level_of_what_is_nested_is_read_again(opening: str, core: str, closing: str) -> None:
    assert is_linear(lambda depth: opening * depth + core + closing * depth, 220)
