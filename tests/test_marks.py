"""Every mark of the tables in every situation. The answer follows from the situation, so a new row is tested too."""

import json
from collections.abc import Callable, Iterator
from typing import NamedTuple

import pytest

from sidecall import ValidationError, answer_text, parse_structured, pick_title, require_structured
from sidecall._marks import BLANKS, REASONING, TURNS, Block, Marks
from sidecall._reply import answer

DRAFT = '{"title": "Draft"}'
ANSWER = '{"title": "Answer"}'


class Pair(NamedTuple):
    """An opening mark and one that closes it, as they stand in a reply."""

    open: str
    close: str
    counts_alone: bool  # the closing mark, with nothing open
    only_leading: bool  # the opening mark is a bare word
    in_sentence: bool

    @property
    def is_tag(self) -> bool:
        return self.open.startswith("<") and "|" not in self.open


def pairs_of(block: Block) -> Iterator[Pair]:
    for mark in block.opens:
        for close in block.closes + block.closes_only_opened:
            opening = f"{mark}Maybe" if mark.isalpha() else mark
            yield Pair(opening, close, close in block.closes, mark.isalpha(), block.in_sentence)


PAIRS = [pair for block in REASONING for pair in pairs_of(block)]


def closes_twice(pair: Pair) -> str | None:
    """The answer where the closing mark stands twice: once for the block, and once alone."""
    return "Answer" if pair.counts_alone else None


# A situation gives the reply, and the title that is its answer.
SITUATIONS: dict[str, Callable[[Pair], tuple[str, str | None]]] = {
    "closed": lambda p: (f"{p.open} {DRAFT} {p.close}\n{ANSWER}", "Answer"),
    "closed on one line": lambda p: (f"{p.open} {DRAFT} {p.close}{ANSWER}", "Answer"),
    "closed, then plain text": lambda p: (f"{p.open} {DRAFT} {p.close}\nNo.", None),
    "unclosed": lambda p: (f"{p.open} {DRAFT} or", None),
    "unclosed, with the answer inside": lambda p: (f"{p.open} {DRAFT}\n{DRAFT}", None),
    "opener missing": lambda p: (f"so {DRAFT}\n{p.close}\n{ANSWER}", closes_twice(p)),
    "upper case": lambda p: (f"{p.open.upper()} {DRAFT} {p.close.upper()}\n{ANSWER}", "Answer"),
    "lower case, unclosed": lambda p: (
        f"{p.open if p.only_leading else p.open.lower()} {DRAFT}",
        None,
    ),
    "opener twice": lambda p: (f"{p.open} {p.open} {DRAFT} {p.close}\n{ANSWER}", "Answer"),
    "closer quoted inside": lambda p: (f"{p.open} '{p.close}' {DRAFT} {p.close}\n{ANSWER}", closes_twice(p)),
    "another opener quoted inside": lambda p: (f"{p.open}\n[THINK]\n<think>\n{p.close}\n{ANSWER}", "Answer"),
    "named in a sentence": lambda p: (f"The mark {p.open} opens.\n{ANSWER}", None if p.in_sentence else "Answer"),
    "in a string of the answer": lambda p: (
        json.dumps({"title": f"On {p.open} and {p.close}"}, ensure_ascii=False),
        f"On {p.open} and {p.close}",
    ),
    "closer in a broken draft's string": lambda p: (f'so {{"title": "Dra {p.close}\n{ANSWER}', closes_twice(p)),
    "opener on a new line of a broken draft's string": lambda p: (
        f'so {{"title": "Dra\n{p.open} {p.close}\n{ANSWER}',
        closes_twice(p) if p.only_leading else "Answer",
    ),
    "in a sentence of a broken object": lambda p: (
        f'{{"title": "On {p.open} so", x}}\n{ANSWER}',
        None if p.in_sentence else "Answer",
    ),
    "after a broken object, on its line": lambda p: (
        f'{{"title": oops}}{p.open} {DRAFT}',
        "Draft" if p.only_leading else None,
    ),
    "after the answer": lambda p: (f"{ANSWER}\n{p.open} {DRAFT}", None if p.only_leading else "Answer"),
    "after the answer, on its line": lambda p: (f"{ANSWER}{p.open} {DRAFT}", None if p.only_leading else "Answer"),
    "after a block, on its line": lambda p: (
        f"{ANSWER}[THINK] so [/THINK]{p.open} {DRAFT}",
        None if p.only_leading else "Answer",
    ),
    "behind special tokens and a role": lambda p: (
        f"<s><|start|>assistant{p.open} {DRAFT}",
        "Draft" if p.only_leading else None,
    ),
    "behind a header": lambda p: (
        f"<|start_header_id|>assistant<|end_header_id|>\n\n{p.open} {DRAFT}",
        "Draft" if p.only_leading else None,
    ),
    "behind blanks": lambda p: (f"so\n \ufeff\t{p.open} {DRAFT}", "Draft" if p.only_leading else None),
}

# Only tags can be written in these ways.
TAG_SITUATIONS: dict[str, Callable[[Pair], tuple[str, str | None]]] = {
    "attributes": lambda p: (f'{p.open[:-1]} id="1" n=2>{DRAFT}', None),
    "attributes on lines": lambda p: (f'{p.open[:-1]}\n  id="1"\n>{DRAFT}', None),
    "blanks before the end": lambda p: (f"{p.open[:-1]} \n>{DRAFT}{p.close[:-1]} >{ANSWER}", "Answer"),
    "self-closing": lambda p: (f"{p.open[:-1]}/>{DRAFT}", "Draft"),
    "self-closing with attributes": lambda p: (f'{p.open[:-1]} id="1" />{DRAFT}', "Draft"),
    "a longer name": lambda p: (f"{p.open.split()[0].rstrip('>')}ers>{DRAFT}", "Draft"),
    "unfinished": lambda p: (f"{p.open[:-1]}{DRAFT}", "Draft"),
}

PRODUCT = [
    pytest.param(situation, pair, id=f"{pair.open} {pair.close} {name}")
    for situations, pairs in ((SITUATIONS, PAIRS), (TAG_SITUATIONS, [pair for pair in PAIRS if pair.is_tag]))
    for name, situation in situations.items()
    for pair in pairs
]


def test_the_product_is_of_all_rows() -> None:
    assert len(REASONING) >= 9
    assert len(PRODUCT) > 2000
    assert {pair.open for pair in PAIRS} >= {"<think>", "[THINK]", "◁think▷", "analysisMaybe"}


@pytest.mark.parametrize(("situation", "pair"), PRODUCT)
def test_a_situation_decides_the_answer(situation: Callable[[Pair], tuple[str, str | None]], pair: Pair) -> None:
    reply, expected = situation(pair)
    assert parse_structured(reply, pick_title) == expected, reply


@pytest.mark.parametrize("pair", PAIRS, ids=lambda pair: f"{pair.open} {pair.close}")
def test_the_text_of_an_answer_is_free_of_reasoning(pair: Pair) -> None:
    assert answer_text(f"{pair.open} so {{x}} {pair.close}\nI cannot.") == "I cannot."
    assert answer_text(f"{pair.open} so {{x}}") == ""


# As the makers of models document them, so that no row goes missing.
KNOWN = {
    "<think>": "</think>",
    "<thinking>": "</thinking>",
    "<thought>": "</thought>",
    "<thoughts>": "</thoughts>",
    "<thought_process>": "</thought_process>",
    "<reasoning>": "</reasoning>",
    "<reflection>": "</reflection>",
    "<analysis>": "</think>",
    "<think id='1'>": "</analysis>",
    "<scratchpad>": "</scratchpad>",
    "<seed:think>": "</seed:think>",
    "[THINK]": "[/THINK]",
    "◁think▷": "◁/think▷",
    "<|START_THINKING|>": "<|END_THINKING|>",
    "<|begin_of_thought|>": "<|end_of_thought|>",
    '<details type="reasoning" done="true">': "</details>",
    "<details open type='reasoning'>": "</details>",
    "<|channel|>analysis<|message|>": "<|end|>",
    "<|channel|>commentary": "<|channel|>final",
    "analysisWe": "assistantfinal",
    "AnalysisWe": "AssistantFinal",
    "analysisÉtape": "ASSISTANTFINAL",
    "<|channel>thought": "<channel|>",
}


@pytest.mark.parametrize(("opening", "closing"), KNOWN.items())
def test_the_reasoning_of_known_models_is_no_answer(opening: str, closing: str) -> None:
    assert parse_structured(f"{opening} {DRAFT}", pick_title) is None
    assert parse_structured(f"{opening} {DRAFT} {closing}\n{ANSWER}", pick_title) == "Answer"


@pytest.mark.parametrize(
    ("reply", "expected"),
    [
        pytest.param(f"{ANSWER}</details>", "Answer", id="the end of other details"),
        pytest.param(f"{ANSWER}<|end|>", "Answer", id="the end of another channel"),
        pytest.param(f"{DRAFT}<|channel|>final {ANSWER}", "Answer", id="a final channel alone"),
        pytest.param(f"{DRAFT}assistantfinal {ANSWER}", "Answer", id="its remains alone"),
        pytest.param(f"{DRAFT}ASSISTANTFINAL {ANSWER}", "Answer", id="its remains alone, in capitals"),
        pytest.param(f"So <|channel|>analysis {ANSWER}", None, id="a channel in the middle of a line"),
        pytest.param(f"So <|channel>thought {ANSWER}", "Answer", id="another channel in the middle of a line"),
        pytest.param(f"analysis {ANSWER}", "Answer", id="the word analysis"),
        pytest.param(f"analysiswe {ANSWER}", "Answer", id="a word that begins with analysis"),
        pytest.param(f" analysisWe {ANSWER}", "Answer", id="a bare word that is not at the very start"),
        pytest.param(f'<details type="reasonings">{ANSWER}', "Answer", id="details of another type"),
        pytest.param(f'<details data-type="reasoning">{ANSWER}', "Answer", id="details with another attribute"),
        pytest.param(f"<details>type=reasoning {ANSWER}", "Answer", id="details without attributes"),
        pytest.param(f"> <think> {ANSWER}", "Answer", id="a mark behind another character"),
        pytest.param(f"So{' ' * 300}<think> {ANSWER}", "Answer", id="a mark far behind another character"),
        pytest.param(f"So\n{' ' * 200}<think> {ANSWER}", None, id="a mark far behind the line's beginning"),
        pytest.param(f"{' ' * 300}<think> {ANSWER}", "Answer", id="a mark farther into its line than is read"),
        pytest.param(f"So. </s><think> {ANSWER}", None, id="a mark that begins a turn"),
        pytest.param(f"analysisŁódź {ANSWER}", None, id="another capital letter"),
        pytest.param(f'{DRAFT}</think {{"x": 1}}>{ANSWER}', "Answer", id="a tag with an object in it"),
        pytest.param("<think {}>hm", None, id="a tag with an empty object in it"),
    ],
)
def test_what_is_a_mark_and_what_is_none(reply: str, expected: str | None) -> None:
    assert parse_structured(reply, pick_title) == expected


def test_the_turns_of_known_models_are_marks() -> None:
    assert set(TURNS) == {
        "<|im_end|>", "<|eot_id|>", "<|eom_id|>", "<|endoftext|>", "<|end_of_text|>", "<|END_OF_TURN_TOKEN|>",
        "<｜end▁of▁sentence｜>", "<end_of_turn>", "[|endofturn|]", "<eos>", "<|return|>", "</s>", "<|im_start|>",
        "<|start_header_id|>", "<start_of_turn>", "<|user|>", "<｜User｜>", "[INST]", "<turn|>", "<|turn>",
    }  # fmt: skip


TURN_SITUATIONS: dict[str, Callable[[str], tuple[str, str | None]]] = {
    "after the answer": lambda t: (f"{ANSWER}{t}\n{DRAFT}", "Answer"),
    "after the answer and a remark": lambda t: (f"{ANSWER}\nDone. {t}\n{DRAFT}", "Answer"),
    "upper case": lambda t: (f"{ANSWER}{t.upper()}{DRAFT}", "Answer"),
    "lower case": lambda t: (f"{ANSWER}{t.lower()}{DRAFT}", "Answer"),
    "before all": lambda t: (f"{t}\n{ANSWER}", "Answer"),
    "after text, before the answer": lambda t: (f"Sure. {t}\n{ANSWER}", "Answer"),
    "after an object that is rejected": lambda t: (f'{{"name": 1}}{t}{DRAFT}', None),
    "in a string of the answer": lambda t: (json.dumps({"title": t}, ensure_ascii=False), t),
    "in a string of a broken draft": lambda t: (f'{{"title": "Dra{t}\n{ANSWER}', "Answer"),
    "in a key of a broken draft": lambda t: (f'Or {{"tit{t}"le\n{ANSWER}', "Answer"),
    "in reasoning": lambda t: (f"<think>{DRAFT}{t}{DRAFT}</think>{ANSWER}{t}{DRAFT}", "Answer"),
    "pasted into reasoning that began before the reply": lambda t: (f"{DRAFT}{t} so</think>{ANSWER}", "Answer"),
    "after the answer, before more reasoning": lambda t: (f"{ANSWER}{t}\n<think>{DRAFT}</think>{DRAFT}", "Answer"),
    "before reasoning on its line": lambda t: (f"{t}<think>{DRAFT}", None),
}


@pytest.mark.parametrize("turn", TURNS)
@pytest.mark.parametrize("situation", TURN_SITUATIONS.values(), ids=TURN_SITUATIONS)
def test_the_mark_of_a_turn_ends_an_answer(situation: Callable[[str], tuple[str, str | None]], turn: str) -> None:
    reply, expected = situation(turn)
    assert parse_structured(reply, pick_title) == expected, reply


@pytest.mark.parametrize("turn", TURNS)
def test_the_mark_of_a_turn_ends_plain_text(turn: str) -> None:
    reply = f'I cannot.{turn}\nuser: then {{"title'
    with pytest.raises(ValidationError) as refused:
        require_structured(reply, pick_title)
    assert refused.value.code == "OUTPUT_MISSING"
    assert answer_text(reply) == "I cannot."
    assert answer_text(f"{turn}\n{reply}") == "I cannot."


def test_the_end_of_a_channel_ends_no_turn() -> None:
    assert parse_structured(f'{{"name": 1}}<|end|>{ANSWER}', pick_title) == "Answer"


@pytest.mark.parametrize(
    ("row", "opening"),
    [
        pytest.param(Block(("<ponder>",), ("</ponder>",)), '<Ponder id="1">', id="a tag"),
        pytest.param(Block(("<|musing|>",), ("<|/musing|>",)), "<|MUSING|>", id="a token"),
        pytest.param(Block(("{{muse}}",), ("{{/muse}}",)), "{{muse}}", id="a mark of another first character"),
        pytest.param(Block(("((",), ("))",)), "((", id="a mark of two characters"),
        pytest.param(Block(("musing",), ("assistantend",)), "musingSo", id="a bare word"),
        pytest.param(
            Block(('<details type="musing">',), ("</musing>",)),
            '<details type="musing" n="1">',
            id="a tag of another type",
        ),
    ],
)
def test_a_new_mark_is_one_new_row(row: Block, opening: str) -> None:
    reply = f"{opening} {DRAFT} {row.closes[0]} {ANSWER}"
    alone = f"so {DRAFT} {row.closes[0]} {ANSWER}"
    marks = Marks((*REASONING, row), TURNS)
    for text in (reply, alone):
        assert objects(text, marks) == [{"title": "Answer"}]
        assert objects(text, Marks(REASONING, TURNS)) == [{"title": "Draft"}, {"title": "Answer"}]


def test_a_new_row_may_share_a_mark() -> None:
    marks = Marks((*REASONING, Block(("<ponder>",), ("</think>",))), TURNS)
    assert objects(f"<ponder> {DRAFT}</think>{ANSWER}", marks) == [{"title": "Answer"}]
    assert objects(f"{DRAFT}</think>{ANSWER}", marks) == [{"title": "Answer"}]


def test_a_new_mark_of_a_turn_is_one_new_row() -> None:
    reply = f"{ANSWER}~stop~{DRAFT}"
    assert objects(reply, Marks(REASONING, (*TURNS, "~stop~"))) == [{"title": "Answer"}]
    assert objects(reply, Marks(REASONING, TURNS)) == [{"title": "Answer"}, {"title": "Draft"}]


def objects(reply: str, marks: Marks) -> list[object]:
    return [value for kind, _, _, value in answer(reply, marks) if kind == "object"]


def test_blanks_are_what_python_and_javascript_trim_and_two_more() -> None:
    trimmed_by_python = {chr(code) for code in range(0x110000) if chr(code).isspace()}
    assert set(BLANKS) == trimmed_by_python | {"\ufeff", "\u200b", "\u2060"}
    assert len(set(BLANKS)) == len(BLANKS)
