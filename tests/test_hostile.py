"""Replies that nobody would write: random ones, the plain span's, and floods."""

import json
import random
import subprocess
import sys
from collections import Counter
from typing import Any

import pytest

from sidecall import ValidationError, _marks, _reply, answer_text, parse_structured, pick_title, require_structured
from sidecall._marks import REASONING, TURNS

MARKS = [
    *(mark for block in REASONING for marks in block[:3] for mark in marks),
    *TURNS,
]
VALID = ['{"title": "A"}', '{"title": "A"}', '{"title": "B"}', '{"name": "C"}', "{}", '{"x": {"title": "D"}}']
BROKEN = ['{"title": "E",}', '{"title": NaN}', '{"title": "E', "{'title': 'E'}", '{"x": {"title": "E"}, oops}']
CHARACTERS = ["{", "}", '"', "\\", "[", "]", ":", ",", "\n", " ", "\0", "\ud83c", "\ufeff", "<", ">", "|", "`"]
WORDS = ["analysisWe", "title", "```json\n", '"title"', '{"title"', "1e999", "1" * 5000, "<think ", "<|x|>", "é🌰"]
SEED = 20_260_501


def random_reply(rng: random.Random) -> str:
    atoms = [CHARACTERS, WORDS, BROKEN, MARKS, VALID]
    chosen = rng.choices(atoms, weights=[4, 2, 1, 2, 2], k=rng.randint(1, 10))
    return "".join(rng.choice(each) for each in chosen)


def outcome(reply: str) -> str:
    """The code, or `value`. Nothing but a `ValidationError` may come from it."""
    parsed = parse_structured(reply, pick_title)
    try:
        title = require_structured(reply, pick_title)
    except ValidationError as error:
        return error.code if parsed is None else "a value that was refused"
    return "value" if parsed == title else "another value"


def test_a_random_reply_gives_a_value_or_a_code() -> None:
    rng = random.Random(SEED)
    replies = [random_reply(rng) for _ in range(20_000)]
    outcomes = Counter(map(outcome, replies))
    texts = list(map(answer_text, replies))
    # The mix, without which all of this would say little.
    assert sum(any(valid in reply for valid in VALID) for reply in replies) > len(replies) / 3
    assert min(sum(mark in reply for reply in replies) for mark in MARKS) > 100
    assert outcomes.keys() == {
        "value", "OUTPUT_MISSING", "OUTPUT_MALFORMED", "OUTPUT_REJECTED", "OUTPUT_AMBIGUOUS"
    }  # fmt: skip
    assert min(outcomes.values()) > 300
    assert sum(not text for text in texts) > 100
    assert sum(bool(text) for text in texts) > 10_000


def test_a_picker_may_do_anything() -> None:
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
    outcomes = Counter[str]()
    for _ in range(3_000):
        try:
            require_structured(random_reply(rng), pick)
        except ValidationError as error:
            outcomes[error.code] += 1
        else:
            outcomes["value"] += 1
    assert len(outcomes) == 5
    assert min(outcomes.values()) > 100


def plain_span(reply: str) -> object:
    """The original's algorithm: what stands from the first brace to the last, if that is JSON."""
    start, end = reply.find("{"), reply.rfind("}")
    if not 0 <= start < end:
        return None
    try:
        return pick_title(json.loads(reply[start : end + 1], parse_constant=lambda name: json.loads("-")))
    except ValueError:
        return None


def test_where_the_plain_span_reads_a_value_so_does_this() -> None:
    rng = random.Random(SEED)
    shells = [
        "",
        " ",
        "\n",
        "```",
        "```json\n",
        "Sure: ",
        "1. ",
        "<b>",
        "[",
        "]",
        '"',
        "\\",
        ",",
        ":",
        "text",
        "é🌰",
        "'",
    ]
    inner = ["A", "A}", "A{", "{x}", '\\"', "\\\\", "\\u00e9", "[x]", "```", "<think>", "</think>", "<|im_end|>"]
    read = 0
    for _ in range(6_000):
        members = [f'"k{n}": {rng.choice(["1", "null", "[{}]", "[1, 2]"])}' for n in range(rng.randint(0, 2))]
        members.append('"title": "' + "".join(rng.choices(inner, k=rng.randint(1, 3))) + '"')
        rng.shuffle(members)
        reply = f"{''.join(rng.choices(shells, k=3))}{{{', '.join(members)}}}{''.join(rng.choices(shells, k=3))}"
        expected = plain_span(reply)
        if expected is not None:
            read += 1
            assert parse_structured(reply, pick_title) == expected, reply
    assert read > 2_000


# Each repeats to any length. Behind each: how quadratic time would come about.
FLOODS = {
    "open braces": "{",
    "closing braces": "}",
    "nested objects": '{"a":',
    "nested arrays of objects": '[{"a":',
    "keys without a colon": '{"title" ',
    "opening marks": "<think>",
    "opening marks on lines": "<think>\n",
    "opening marks in sentences": "x <think> ",
    "closing marks": "</think>",
    "blocks with a brace": "<think>{</think>",
    "quotes": '"',
    "escaped quotes": '\\"{',
    "small objects": '{"a":1} ',
    "blanks": " ",
    "broken objects": '{"a":1,}',
    "broken objects on lines": '{"a":1,}\n',
    "broken objects with a constant": '{"a":NaN}',
    "broken objects before a mark of a turn": '{"a":1,}</s>',
    "braces as keys": '{"}":',
    "braces in text": "{x {y} ",
    "backslashes": "\\",
    "open attributes": '<details type="reasoning" ',
    "attributes": 'type="reasoning" ',
    "unfinished tags": "<think<<<",
    "channels": "<|channel|>analysis",
    "ends of turns": "<|im_end|>",
    "marks in keys": '{"</think>":',
    "cut objects": '{"a":</think>',
    "curly quotes": "{“",
    "single quotes": "{'",
    "tokens": "<|a|>",
    "lines": "\n",
    "words": "assistantfinal",
    "backticks": "`",
    "tildes": "~",
}
STARTS = ["", '{"', '{"title": "x', '{"title": "A"}', "x", "<details ", "analysisA"]

FLOOD_RUN = """
import sys
sys.path[:] = {path!r}
from test_hostile import FLOODS, STARTS
from sidecall import parse_structured, pick_title
for name, flood in list(FLOODS.items())[{part}::4]:
    for start in STARTS if len(flood) < 3 else STARTS[:1]:
        reply = start + flood * ({length} // len(flood))
        parse_structured(reply, pick_title)
print(parse_structured("".join('{{"title": "t%d"}}' % n for n in range({length} // 16)), pick_title))
"""


@pytest.mark.parametrize("part", range(4))
def test_no_flood_takes_more_than_linear_time(part: int) -> None:
    # Four million characters each: some seconds, and hours where each brace, quote or mark costs the length of a reply.
    code = FLOOD_RUN.format(path=sys.path, length=4_000_000, part=part)
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=120, check=True)
    assert run.stdout == "None\n"


@pytest.mark.parametrize("closed", [True, False], ids=["closed", "cut off"])
@pytest.mark.parametrize("core", ["1", "oops", "NaN"])
def test_marks_in_nested_keys_make_no_level_be_read_again(
    core: str, closed: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    whole = 0

    def counted(document: str, start: int) -> tuple[dict[str, Any] | None, int]:
        nonlocal whole
        whole += len(document) == len(reply)
        return decode(document, start)

    decode = _reply._decode
    monkeypatch.setattr(_reply, "_decode", counted)
    # The decoder reads all levels, and the mark in the first key makes the rest be read again, and so on.
    reply = ('{"</think>":' * 700 + core + "}" * 700 * closed) * 50 + '{"title": "A"}'
    assert parse_structured(reply, pick_title) == "A"
    assert whole < 70  # of 35,000 levels


def test_the_short_way_and_the_scan_agree() -> None:
    rng = random.Random(SEED)
    short = 0
    for _ in range(20_000):
        reply = "".join(rng.choices([*CHARACTERS, *WORDS, *VALID, *BROKEN, "Sure. "], k=rng.randint(1, 4)))
        if parts := _reply._plain_span(reply, _marks.MARKS):
            short += 1
            scanned = _reply._Scan(reply, _marks.MARKS).parts()
            assert [part for part in parts if part[1] < part[2]] == scanned
    assert short > 1_000
