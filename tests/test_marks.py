"""Every mark of the tables in every situation. The outcome follows from the situation, so a new row is tested too."""

import copy
import json
import pickle
import re
from collections.abc import Callable, Iterator
from itertools import chain
from typing import Any, NamedTuple

import pytest
from corpus import AMBIGUOUS, MALFORMED, REJECTED, Shown, outcome

from sidecall import Marks, answer_text, parse_structured, pick_title, require_structured
from sidecall._marks import BLANKS, CALLS, OTHER_TURNS, REASONING, TURNS, WRAPPERS, Block

DRAFT, ANSWER = '{"title": "Draft"}', '{"title": "Answer"}'

# Marks of one's own are matched as the built-in ones are, so they are in the same products.
OWN = Marks(
    reasoning=[("<ponder>", "</ponder>"), ("{{muse}}", "{{/muse}}"), ("[[", "]]"), ("<|mull|>", "◁/mull")],
    turns=["~stop~", "<my_end>"],
)


class Mark(NamedTuple):
    """A mark of a turn, or a pair of marks of reasoning, as they stand in a reply."""

    text: str
    close: str = ""
    block: Block = Block(())
    marks: Marks | None = None

    @property
    def counts_alone(self) -> bool:
        """Whether the closing mark counts where nothing is open."""
        return self.close in map(written, self.block.closes)

    def alone(self, otherwise: Any) -> Any:
        return "Answer" if self.counts_alone else otherwise

    def word(self, otherwise: Any) -> Any:
        """What follows from the opening mark in mid-line, where nothing closes it."""
        return otherwise if self.block.is_no_word else "Answer"

    def other(self, text: str, otherwise: Any) -> Any:
        """What follows from the mark of a turn, where the text before another role's turn is the answer."""
        return Shown(text) if self.text in OTHER_TURNS else otherwise


def written(mark: str) -> str:
    """A mark as models write it: a leading word stands before a capital letter, and parts without blanks between."""
    return f"{mark}Maybe" if mark == "analysis" else mark.replace("> ", ">").replace(" <|", "<|")


def pairs_of(block: Block, marks: Marks | None = None) -> Iterator[Mark]:
    for opening in block.opens:
        for closing in block.closes + block.closes_only_opened:
            yield Mark(written(opening), written(closing), block, marks)


PAIRS = [
    *chain.from_iterable(map(pairs_of, REASONING)),
    *(Mark(*pair, block=Block(pair[:1], pair[1:]), marks=OWN) for pair in OWN.reasoning),
]
OPENS = list({pair.text: pair for pair in reversed(PAIRS)}.values())
INNER = [mark for mark in OPENS if not mark.block.is_leading]
CLOSES = [
    mark
    for mark in {(pair.close, pair.counts_alone): pair for pair in PAIRS}.values()
    if not mark.block.is_leading and (mark.counts_alone or mark.close not in TURNS)
]
ALONE = [mark for mark in CLOSES if mark.counts_alone]
TAGS = [mark for mark in INNER if re.fullmatch(r"<[\w:]+( .*)?>", mark.text)]
ENDS = [*(Mark(turn) for turn in TURNS + OTHER_TURNS), *(Mark(turn, marks=OWN) for turn in OWN.turns)]


def string(text: str) -> str:
    return json.dumps({"title": text}, ensure_ascii=False)


# A situation gives the reply, and what becomes of it.
Situations = dict[str, Callable[[Mark], tuple[str, Any]]]

OF_PAIRS: Situations = {
    "closed": lambda m: (f"{m.text} {DRAFT} {m.close}\n{ANSWER}", "Answer"),
    "closed, then text": lambda m: (f"{m.text} so {{x}} {m.close}\nNo.", Shown("No.")),
}
OF_OPENS: Situations = {
    "closed on one line": lambda m: (f"{m.text} {DRAFT} {m.close}{ANSWER}", "Answer"),
    "never closed": lambda m: (f"{m.text} {DRAFT} or\n{DRAFT}", Shown("")),
    "opened twice": lambda m: (f"{m.text} {m.text} {DRAFT} {m.close}\n{ANSWER}", "Answer"),
    "others inside": lambda m: (f"{m.text}\n[THINK]\n<think>\n<|im_end|>{m.close}\n{ANSWER}", "Answer"),
    "behind blanks at the start": lambda m: (f"\n {m.text} {DRAFT}", Shown("")),
    "behind a beginning": lambda m: (f"[gMASK]<sop> <s><s><bos>]~!b[<BOS_TOKEN>\n{m.text} {DRAFT}", Shown("")),
    "in a string": lambda m: (string(f"{m.text} {m.close}"), f"{m.text} {m.close}"),
}
OF_INNER: Situations = {
    "upper case": lambda m: (f"{m.text.upper()} {DRAFT} {m.close.upper()}{ANSWER}", "Answer"),
    "lower case": lambda m: (f"{m.text.lower()} {DRAFT} {m.close.lower()}{ANSWER}", "Answer"),
    "behind blanks": lambda m: (f"so\n \ufeff\t{m.text} {DRAFT}", Shown("so")),
    "far behind the line's beginning": lambda m: (f"so\n{' ' * 300}{m.text} {DRAFT}", Shown("so")),
    "far behind text": lambda m: (f"{'so ' * 99}{m.text} {ANSWER}", m.word(Shown(("so " * 99)[:-1]))),
    "on the last of many lines": lambda m: ("x\n" * 129 + m.text + DRAFT, Shown(("x\n" * 129)[:-1])),
    "behind tokens and a role": lambda m: (f"<s><|start|>assistant{m.text} {DRAFT}", Shown("")),
    "behind a header": lambda m: (f"<|header_start|>assistant<|header_end|>\n\n{m.text} {DRAFT}", Shown("")),
    "behind the end of a turn": lambda m: (f"So. </s>{m.text} {DRAFT}", Shown("So.")),
    "behind the answer": lambda m: (f"{ANSWER}\n{m.text} {DRAFT}", "Answer"),
    "behind the answer, on its line": lambda m: (f"So {ANSWER}{m.text} {DRAFT}", "Answer"),
    "behind a broken object": lambda m: (f'So {{"title": oops}}{m.text} {DRAFT}', MALFORMED),
    "behind a block": lambda m: (f"So [THINK] so [/THINK] {m.text} {DRAFT}", Shown("So")),
    "behind a block and text": lambda m: (f"[THINK] so [/THINK] x {m.text} {ANSWER}", m.word(Shown("x"))),
    "in a sentence": lambda m: (f"The {m.text} opens.\n{ANSWER}", m.word(Shown("The"))),
    "in a broken object's sentence": lambda m: (f'{{"title": "On {m.text} so", x}}\n{ANSWER}', m.word(MALFORMED)),
    "closed in mid-line": lambda m: (f"My {m.text} {DRAFT} {m.close} {ANSWER}", "Answer"),
    "closed in mid-line text": lambda m: (f"Red {m.text}so{m.close}roses", Shown("Red roses")),
    "closed in a broken string": lambda m: (f'so {{"title": "Dra{m.text} {DRAFT} {m.close}\n{ANSWER}', "Answer"),
}
OF_CLOSES: Situations = {
    "alone": lambda m: (f"so {DRAFT}\n{m.close} {ANSWER}", m.alone(AMBIGUOUS)),
    "quoted in its block": lambda m: (f"{m.text} '{m.close}' {DRAFT} {m.close}\n{ANSWER}", m.alone(AMBIGUOUS)),
    "in a broken string": lambda m: (f'so {{"title": "Dra {m.close}\n{ANSWER}', m.alone(MALFORMED)),
    "behind the next header": lambda m: (
        f"{ANSWER}<|im_end|>\n<|im_start|>assistant\n {m.close}\n{m.close}{DRAFT}",
        "Answer",
    ),
    "behind the header next to a text": lambda m: (f"No.</s>\n<|im_start|>assistant\n{m.close}\nYes.", Shown("No.")),
    "behind a header that ends nothing": lambda m: (f"{DRAFT}<|x|>{m.close}{ANSWER}", m.alone(AMBIGUOUS)),
    "behind an object of the next turn": lambda m: (f"{DRAFT}<|im_end|>{DRAFT} {m.close}{ANSWER}", m.alone("Draft")),
    "behind text of the next turn": lambda m: (f"{DRAFT}<|im_end|> so {m.close}{ANSWER}", m.alone("Draft")),
}
OF_ALONE: Situations = {
    "alone, before text": lambda m: (f"so{m.close} No.", Shown("No.")),
    "alone, in upper case": lambda m: (f"{DRAFT}{m.close.upper()}{ANSWER}", "Answer"),
    "behind the header that it begins": lambda m: (f"<|im_start|>assistant\n{m.close}{ANSWER}", "Answer"),
}
OF_TAGS: Situations = {
    "attributes": lambda m: (f'{m.text[:-1]} id="1" n=2>{DRAFT}', Shown("")),
    "attributes on lines": lambda m: (f'{m.text[:-1]}\n  id="1"\n>{DRAFT}', Shown("")),
    "blanks before the end": lambda m: (f"{m.text[:-1]} \n>{DRAFT}{m.close[:-1]} >{ANSWER}", "Answer"),
    "self-closing": lambda m: (f"{m.text[:-1]}/>{DRAFT}", "Draft"),
    "self-closing with attributes": lambda m: (f'{m.text[:-1]} id="1" />{DRAFT}', "Draft"),
    "a slash in an attribute": lambda m: (f'{m.text[:-1]} a="b/">{DRAFT}', Shown("")),
    "a longer name": lambda m: (f"{m.text.rstrip('>').split()[0]}ers>{DRAFT}", "Draft"),
    "unfinished": lambda m: (f"{m.text[:-1]}{DRAFT}", "Draft"),
    "a brace in it": lambda m: (f"{m.text[:-1]} {{}}>hm", Shown("")),
    "another tag in it": lambda m: (f"{m.text[:-1]} <b>{DRAFT}", "Draft"),
}
OF_ENDS: Situations = {
    "behind the answer": lambda m: (f"{ANSWER}{m.text}\n{DRAFT}", "Answer"),
    "behind a remark": lambda m: (f"{ANSWER}\nDone. {m.text}\n{DRAFT}", "Answer"),
    "upper case": lambda m: (f"{ANSWER}{m.text.upper()}{DRAFT}", "Answer"),
    "lower case": lambda m: (f"{ANSWER}{m.text.lower()}{DRAFT}", "Answer"),
    "before all": lambda m: (f" {m.text}\n{ANSWER}", m.other("", "Answer")),
    "before another turn": lambda m: (f" <|x|>\n{m.text} So. {ANSWER}<|im_start|>assistant\n{ANSWER}", "Answer"),
    "behind text": lambda m: (f"Sure. {m.text}\n{ANSWER}", m.other("Sure.", "Answer")),
    "between text and a broken object": lambda m: (f'Sure. {m.text}\n{{"ti', m.other("Sure.", MALFORMED)),
    "between two texts": lambda m: (f"No.{m.text}\nThen {{x}}", Shown("No.")),
    "around a text": lambda m: (f"{m.text}\nNo.{m.text}\nThen", m.other("", Shown("No."))),
    "behind a rejected object": lambda m: (f'{{"name": 1}}{m.text}{DRAFT}', REJECTED),
    "in a string": lambda m: (string(m.text), m.text),
    "in a broken string": lambda m: (f'{{"title": "Dra{m.text}\n{ANSWER}', MALFORMED),
    "in a broken key": lambda m: (f'Or {{"tit{m.text}"le\n{ANSWER}', MALFORMED),
    "in reasoning": lambda m: (f"<think>{DRAFT}{m.text}{DRAFT}</think>{ANSWER}{m.text}{DRAFT}", "Answer"),
    "in reasoning that began before": lambda m: (f"{DRAFT}{m.text} so</think>{ANSWER}", "Answer"),
    "before more reasoning": lambda m: (f"{ANSWER}{m.text}\n<think>{DRAFT}</think>{DRAFT}", "Answer"),
    "before reasoning on its line": lambda m: (f"{m.text}<think>{DRAFT}", Shown("")),
}

PRODUCT = [
    pytest.param(marks, situation, id=f"{kind}: {name}")
    for kind, marks, situations in (
        ("pair", PAIRS, OF_PAIRS),
        ("opening", OPENS, OF_OPENS),
        ("opening", INNER, OF_INNER),
        ("closing", CLOSES, OF_CLOSES),
        ("closing", ALONE, OF_ALONE),
        ("tag", TAGS, OF_TAGS),
        ("turn", ENDS, OF_ENDS),
    )
    for name, situation in situations.items()
]


@pytest.mark.parametrize(("marks", "situation"), PRODUCT)
def test_the_situation_of_a_mark_decides_the_outcome(
    marks: list[Mark], situation: Callable[[Mark], tuple[str, Any]]
) -> None:
    assert len(marks) > 10
    expected = {mark: situation(mark)[1] for mark in marks}
    assert {mark: outcome(situation(mark)[0], marks=mark.marks) for mark in marks} == expected


# A token is the mark of a turn by the word for it, or for a role, as well, and anything may stand behind an attribute.
BY_WORD = re.compile(r"(?i)<\|(.*[^a-z])?(eo[st]|user|system|tool|model)([^a-z].*)?\|>|=\"reasoning\"\">")


def spoilt(marks: list[str]) -> Iterator[str]:
    """The marks with one character changed, or doubled, but where that leaves a mark whole, as in `<<think>`."""
    near = (
        mark[:n] + part + mark[n + 1 :] for mark in marks for n, char in enumerate(mark) for part in ("§", char * 2)
    )
    return (
        each for each in near if not any(mark in each.replace("  ", " ") for mark in marks) and not BY_WORD.search(each)
    )


@pytest.mark.parametrize(
    ("marks", "before", "after", "expected"),
    [
        pytest.param([mark.text for mark in INNER], "", DRAFT, "Draft", id="opening marks"),
        pytest.param([mark.close for mark in ALONE], DRAFT, ANSWER, AMBIGUOUS, id="closing marks"),
        pytest.param([mark.text for mark in ENDS], DRAFT, ANSWER, AMBIGUOUS, id="marks of turns"),
    ],
)
def test_a_mark_with_one_character_changed_or_doubled_is_none(
    marks: list[str], before: str, after: str, expected: str
) -> None:
    outcomes = {each: outcome(f"{before}{each} {after}", marks=OWN) for each in spoilt(marks)}
    assert len(outcomes) > 700
    assert {each: got for each, got in outcomes.items() if got != expected} == {}


@pytest.mark.parametrize("mark", ["<|end|>", "<|eom|>", "<|start|>", "<|message|>", "<|begin|>", "<|x|>"])
def test_the_mark_of_a_channel_or_another_token_ends_no_turn(mark: str) -> None:
    assert outcome(f'{{"name": 1}}{mark}{ANSWER}') == "Answer"
    assert outcome(f"Red{mark} roses") == Shown("Red roses")


@pytest.mark.parametrize(
    ("tags", "expected"),
    [
        pytest.param(
            "think THINK Thinking seed:think mm:think longcat_think ifm|think_fast think:6124c78e think:opensource"
            " think|x think|a_b a:b_think a_b:think a1_think x:think_y a_THINKING:b 1_think xno_think aé:think",
            Shown(""),
            id="joined as a thinking tag may be",
        ),
        pytest.param(
            "no_think NO_THINK x:no_think x_no_think x|no_think think_tank thinking_mode think_:x rethink xthink"
            " thinkx thinker a:thinker a:rethink a.think a-think think-x think.x _think :think think/",
            "Draft",
            id="joined otherwise",
        ),
    ],
)
def test_what_is_joined_to_a_thinking_tag_decides_whether_it_is_one(tags: str, expected: object) -> None:
    assert {tag: got for tag in tags.split() if (got := outcome(f"<{tag}>{DRAFT}")) != expected} == {}
    closed = "Answer" if expected == Shown("") else AMBIGUOUS
    assert {tag: got for tag in tags.split() if (got := outcome(f"{DRAFT}</{tag}>{ANSWER}")) != closed} == {}


@pytest.mark.parametrize(
    ("reply", "expected"),
    [
        pytest.param(f"{DRAFT}assistantfinal {ANSWER}", "Answer", id="the remains of a final channel alone"),
        pytest.param(f"{DRAFT}ASSISTANTFINAL {ANSWER}", "Answer", id="in capitals"),
        pytest.param(f"{DRAFT}AssistantFinal {ANSWER}", AMBIGUOUS, id="in mixed case"),
        pytest.param(f"{DRAFT}assistantfinaljson{ANSWER}", "Answer", id="with json behind"),
        pytest.param(f"{DRAFT}assistantfinalSo {ANSWER}", "Answer", id="with a capital behind"),
        pytest.param(f"{DRAFT}assistantfinally {ANSWER}", AMBIGUOUS, id="with a letter behind"),
        pytest.param(f"{DRAFT}assistantfinalщ {ANSWER}", AMBIGUOUS, id="with another small letter behind"),
        pytest.param(f"{DRAFT} myassistantfinal {ANSWER}", AMBIGUOUS, id="with a letter before"),
        pytest.param(f"{DRAFT} Éassistantfinal {ANSWER}", AMBIGUOUS, id="with a capital before"),
        pytest.param(f"{DRAFT} 7assistantfinal {ANSWER}", "Answer", id="with a number before"),
        pytest.param(f"\u200b \n analysisWe {ANSWER}", Shown(""), id="the remains of a channel behind blanks"),
        pytest.param(f"<s>analysisWe {ANSWER}", Shown(""), id="behind a beginning"),
        pytest.param(f"So analysisWe {ANSWER}", "Answer", id="behind text"),
        pytest.param(f"{ANSWER}\nanalysisWe {DRAFT}", AMBIGUOUS, id="behind an object"),
        pytest.param(f"analysis {ANSWER}", "Answer", id="the word analysis"),
        pytest.param(f"analysiswe {ANSWER}", "Answer", id="a word that begins with it"),
        pytest.param(f"analysisŁódź {DRAFT}assistantfinal{ANSWER}", "Answer", id="before another capital letter"),
        pytest.param(f"AnalysisWe {DRAFT}", Shown(""), id="with a capital letter"),
        pytest.param(f"to=self<|message|>{DRAFT}", Shown(""), id="Glimmer's header at the start"),
        pytest.param(f"So to=self<|message|>{ANSWER}", "Answer", id="behind text, where it is none"),
        pytest.param(f"<|message_user|>{DRAFT}<|message_model|>{ANSWER}", "Answer", id="a message of the model's"),
        pytest.param(f"So <|start|>assistant to=self<|message|>{DRAFT}", Shown("So"), id="behind a header"),
        pytest.param(f"<|start|>to=self<|message|>{DRAFT}<|eom|>{ANSWER}", "Answer", id="behind a token"),
        pytest.param(f" to=user<|message|>{ANSWER}", "Answer", id="Glimmer's header of an answer"),
        pytest.param(f"to=self<|message|>{DRAFT}to=user<|message|>{ANSWER}", "Answer", id="one behind the other"),
        pytest.param(" to=user<|message|>Basil<|eot|>", Shown("Basil"), id="Glimmer's header of a text"),
        pytest.param(f"<details>type=reasoning {ANSWER}", "Answer", id="details without an attribute"),
        pytest.param(f'<details type="reasonings">{ANSWER}', "Answer", id="details of another type"),
        pytest.param(f'<details type="x-reasoning">{ANSWER}', "Answer", id="details of a type that ends so"),
        pytest.param(f'<details data-type="reasoning">{ANSWER}', "Answer", id="details with another attribute"),
        pytest.param(f"<details type=reasoning>{ANSWER}", Shown(""), id="details without quotes"),
        pytest.param(f"<details open Type = 'Reasoning' n>{ANSWER}", Shown(""), id="details with other attributes"),
        pytest.param(f'<details type="reasoning" <b>{ANSWER}', "Answer", id="details with a tag inside"),
        pytest.param(f'<details type="reasoning"/>{ANSWER}', "Answer", id="details that close themselves"),
        pytest.param(f"<|channel|> \n analysis {ANSWER}", Shown(""), id="blanks behind a channel's mark"),
        pytest.param(f"So <|channel|>commentary {ANSWER}", Shown("So"), id="a channel in mid-line"),
        pytest.param(f"So <|channel|>final {ANSWER}", "Answer", id="a final channel in mid-line"),
        pytest.param(f"> <think> {ANSWER}", "Answer", id="a mark behind another character"),
        pytest.param(f'{DRAFT}</think {{"x": 1}}>{ANSWER}', "Answer", id="a tag with an object in it"),
        pytest.param(f"x <think>\n<think>{DRAFT}", Shown("x <think>"), id="a mark on the line behind a named one"),
        pytest.param(f"The <think> and <think> {ANSWER}", "Answer", id="two marks named on a line"),
        pytest.param(f"<|x|><think>{DRAFT}", Shown(""), id="a mark behind an unknown token"),
        pytest.param(f"So <|x|><think>{ANSWER}", "Answer", id="a mark behind text and an unknown token"),
    ],
)
def test_where_a_mark_stands_decides_whether_it_is_one(reply: str, expected: object) -> None:
    assert outcome(reply) == expected


# Turns of roles, by the shape of a token and what stands behind it: no row names these.
ROLES = (
    "user",
    "human",
    "system",
    "developer",
    "observation",
    "environment",
    "ipython",
    "tool",
    "tools",
    "tool_response",
)
HEADERS_OF_A_ROLE = {
    "the name behind a token": "<|x|>{}\n",
    "the name on its line": "<|im_start|>{}\n",
    "the name before a token": "<|start_header_id|>{}<|end_header_id|>\n\n",
    "the name before words and a token": "<|start|>{} to=me<|message|>",
    "the name before a bracket": "<|turn>{}[x]",
    "the name before a tag": "<start_of_turn>{}<b>",
    "the name before an attribute": '<|open|>message role="{}" x=1<|sep|>',
    "the name in a token": "<|{}|>",
    "the name in a wide token": "<｜{}｜>",
    "the name in a longer token": "<|my_{}_start|>",
    "the name at a token's end": "<|message_{}|>",
    "the name in an upper case token": "<|{}_TOKEN|>",
}


@pytest.mark.parametrize("header", HEADERS_OF_A_ROLE.values(), ids=HEADERS_OF_A_ROLE)
def test_the_turn_of_another_role_is_never_the_answer(header: str) -> None:
    for role in ROLES:
        begin = header.format(role.upper() if "TOKEN" in header else role)
        assert outcome(f"{begin}{DRAFT}") == Shown("")
        assert outcome(f"{begin}Red {DRAFT}<|im_start|>assistant\n{ANSWER}") == "Answer"
        assert outcome(f"Sure. {begin}{DRAFT}") == Shown("Sure.")
        assert outcome(f"{ANSWER}{begin}{DRAFT}") == "Answer"
        assert outcome(f"<think>{begin}</think>{ANSWER}{begin}") == "Answer"


@pytest.mark.parametrize("header", HEADERS_OF_A_ROLE.values(), ids=HEADERS_OF_A_ROLE)
def test_a_header_of_the_assistant_is_not_part_of_the_answer(header: str) -> None:
    for role in ("assistant", "model", "bot", "chatbot"):
        begin = header.format(role.upper() if "TOKEN" in header else role)
        expected = re.sub(r".*(\[x\]|<b>)|.*", r"\1", begin.strip())
        assert outcome(f"{begin}Basil.") == Shown(f"{expected}Basil.")
        assert outcome(f"{begin}{ANSWER}") == "Answer"
        assert outcome(f"{begin}<think>{DRAFT}") == ("Draft" if expected else Shown(""))


@pytest.mark.parametrize(
    ("reply", "expected"),
    [
        *(
            pytest.param(f"{ANSWER}<|{name}|>{DRAFT}", "Answer", id=f"{name}, which names the assistant, ends a turn")
            for name in ("im_assistant", "CHATBOT_TOKEN", "Bot")
        ),
        pytest.param(f"{ANSWER}<|x|>assistant\n{DRAFT}", AMBIGUOUS, id="its name behind another token does not"),
        pytest.param(f"<|user_end|>{ANSWER}<|user_end|>{DRAFT}", "Answer", id="the end of another's turn"),
        pytest.param(f"<|/user|>{ANSWER}<|/user|>{DRAFT}", "Answer", id="the end of another's turn, by a slash"),
        pytest.param(f"<|tool_calls_begin|>{ANSWER}", "Answer", id="the call of a tool is the assistant's"),
        pytest.param(f"<|tool_list_x|>{ANSWER}", "Answer", id="so is a list of tools"),
        pytest.param(f"<|my_eos|>{ANSWER}<|my_eos|>{DRAFT}", "Answer", id="an end by the word for it"),
        pytest.param(f"<|my_eot|>{ANSWER}<|my_eot|>{DRAFT}", "Answer", id="an end by another word for it"),
        pytest.param(f"<|users|>{ANSWER}<|users|>{DRAFT}", AMBIGUOUS, id="a longer word in a token"),
        pytest.param("<|message|>User settings.", Shown("User settings."), id="a role that begins a sentence"),
        pytest.param("<|message|>user guide", Shown("user guide"), id="a role that begins a title"),
        pytest.param("<|im_start|>users\nask", Shown("users\nask"), id="a word that begins as a role"),
        pytest.param(f"<|im_start|>user Name it {DRAFT}", Shown(""), id="a role and text in a header"),
        pytest.param(f"<|im_start|>User\n{DRAFT}", Shown(""), id="a role with a capital in a header"),
        pytest.param(f"<｜tool▁call▁begin｜>function<｜tool▁sep｜>set\n{ANSWER}", "Answer", id="the words of a call"),
        pytest.param(f"<|start|>user<|message|>{DRAFT}<|end|><|start|>assistant{ANSWER}", "Answer", id="a new header"),
        pytest.param("<|x|>users\nask", Shown("users\nask"), id="such a word behind another token"),
        pytest.param("<|x|>assistant \t\nBasil", Shown("Basil"), id="a role before blanks"),
        pytest.param(
            "assistant<|message|>Basil", Shown("Basil"), id="a role at the start, whose token was in the prompt"
        ),
        pytest.param("<|im_start|>assistant to=me\nBasil", Shown("Basil"), id="a role with an attribute"),
        pytest.param("<|im_start|>assistant to=me", Shown("to=me"), id="a role before what may be an attribute"),
        pytest.param(f"<|im_start|>function\n{DRAFT}", Shown(""), id="a role that counts in a header alone"),
        pytest.param("<|x|>function\nBasil", Shown("function\nBasil"), id="such a role behind another token"),
        *(
            pytest.param(f"{token}User Name it {DRAFT}", Shown(""), id=f"a header that {token} begins")
            for token in (
                *(
                    "<|start|>",
                    "<|im_start|>",
                    "<|im:start|>",
                    "<|header_start|>",
                    "<|role_start|>",
                    "<|start_of_role|>",
                ),
                *(
                    "<|start_header_id|>",
                    "<|begin|>",
                    "<|plamo:tag|>",
                    "<start_of_turn>",
                    "<|turn>",
                    "]~b]",
                    "<seed:bos>",
                ),
                *("<beginning_of_sentence>", "<|open|>", "<|close|>", "<|constrain|>", "<|channel|>"),
            )
        ),
        pytest.param("<|x|>ai\nBasil", Shown("Basil"), id="the role ai"),
        pytest.param("so<|END_THINKING|>assistant\nBasil", Shown("Basil"), id="a role behind a closing mark"),
        pytest.param("<|x|>assistant", Shown(""), id="a role at the end"),
        pytest.param("<|x|> \tuser\nBasil", Shown("user\nBasil"), id="a role behind blanks"),
        pytest.param("<s>Tool\nbelt", Shown("Tool\nbelt"), id="a line that is a role name"),
        pytest.param("user\nguide", Shown("user\nguide"), id="a role without a token"),
        pytest.param("So <|x|>assistant{note}", Shown("So {note}"), id="a role before a brace"),
        pytest.param("<|x|>assistant◁think▷so", Shown(""), id="a role before a mark"),
        pytest.param("<|channel|>final <|constrain|>json<|message|>No.", Shown("No."), id="the words of a header"),
        pytest.param(f"<|open|>{'w' * 64}<|sep|>No.", Shown("No."), id="64 characters of a header"),
        pytest.param(f"<|open|>{'w' * 65}<|sep|>No.", Shown(f"{'w' * 65}No."), id="65 characters of a header"),
        pytest.param("<|start|>a b\nc<|message|>No.", Shown("a b\ncNo."), id="two lines are not a header"),
        pytest.param("<|start|>a b<|x|>No.", Shown("a bNo."), id="words before a token that ends no header"),
        *(
            pytest.param(f"<|start|>some words{end}No.", Shown("No."), id=f"a header that {end} ends")
            for end in (
                *("<|message|>", "<|sep|>", "<|im_sep|>", "<|im_middle|>", "<|end_header_id|>", "<|header_end|>"),
                *("<|end_of_role|>", "<|role_sep|>", "<|im:content|>", "<|plamo:msg|>"),
            )
        ),
        pytest.param("<|channel|>final<|message|>JSON", Shown("JSON"), id="a word that headers have"),
        pytest.param(f"A <s>strike</s> {ANSWER}", "Answer", id="a turn mark that is HTML"),
    ],
)
def test_what_stands_in_and_behind_a_token_is_its_own(reply: str, expected: object) -> None:
    assert outcome(reply) == expected


NAMED_CALLS = """
<tool_call> <tool_calls> <function_call> <function_calls> <x:function_call> <|tool_call|> <|tool_call>
<｜tool▁calls▁begin｜> <|tool_calls_section_begin|> <|tool_call_begin|> <TOOL_CALL> <function=
"""


@pytest.mark.parametrize("call", [*CALLS, *NAMED_CALLS.split(), "<function name="])
def test_the_call_of_a_tool_is_not_for_showing(call: str) -> None:
    assert outcome(f"Basil.\n{call}x>y [1]\nmore") == Shown("Basil.")
    assert outcome(f"{call}x>y") == Shown("")
    # Behind `<|open|>`, `tools` is a role: what is in it is the turn of a tool.
    assert outcome(f"{call}x>\n{ANSWER}") == (Shown("") if call == "<|open|>tools<|sep|>" else "Answer")


@pytest.mark.parametrize(
    "text", ["<my_tool_caller>", "</tool_call>", "tool_call", "<a tool_call>", "<b>call</b>", "[TOOLS]"]
)
def test_what_is_not_a_call_stays(text: str) -> None:
    assert outcome(f"Basil {text} here") == Shown(f"Basil {text} here")


@pytest.mark.parametrize("tag", [*WRAPPERS])
def test_one_pair_of_wrapper_tags_is_not_for_showing(tag: str) -> None:
    assert set(WRAPPERS) >= {"answer", "response", "output", "final", "final_answer", "result"}
    pairs = ((f"<{tag}>", f"</{tag}>"), (f"<{tag.upper()} a='1'>\n", f"\n</{tag} >"), (f" <{tag}>", ""))
    for opening, closing in pairs:
        assert outcome(f"{opening}Basil <b>care</b>{closing}") == Shown("Basil <b>care</b>")
        assert outcome(f"<think>x</think>\n{opening}Basil{closing}<|im_end|>") == Shown("Basil")
    pair = f"<{tag}>A</{tag}>"
    for kept in (f"So {pair}", f"{pair} B", pair * 2, f"<{tag}s>A</{tag}s>", f"<{tag}>{pair}</{tag}>"):
        assert outcome(kept) == Shown(kept)
    other = "result" if tag == "answer" else "answer"
    assert outcome(f"<{other}>{pair}</{other}>") == Shown(pair)


@pytest.mark.parametrize("marks", [INNER, ALONE, ENDS], ids=["opening", "closing", "turn"])
def test_a_mark_that_the_end_cut_off_is_not_for_showing(marks: list[Mark]) -> None:
    texts = {mark.close if marks is ALONE else mark.text: mark.marks for mark in marks if "{" not in mark.text}
    left = {
        text[:n]: outcome(f"Basil\n{text[:n]}", marks=own) for text, own in texts.items() for n in range(3, len(text))
    }
    assert {cut: got for cut, got in left.items() if got != Shown("Basil")} == {}


def nested(depth: int) -> str:
    return f"<|a{nested(depth - 1)}b|>" if depth else "<|x|>"


@pytest.mark.parametrize(
    ("reply", "text"),
    [
        pytest.param("Basil<|im_en", "Basil", id="a cut token"),
        pytest.param("Basil<|", "Basil", id="a token cut at its first characters"),
        pytest.param("Basil<｜Ass", "Basil", id="a cut token with wide bars"),
        pytest.param("Basil</mm:thin", "Basil</mm:thin", id="half a name that anything may be joined to"),
        pytest.param("Basil</mm:think", "Basil", id="a joined tag cut behind its name"),
        pytest.param("Basil\n<think:61", "Basil", id="a joined tag cut in its name"),
        pytest.param("Basil\n<think id='1' n", "Basil", id="a tag cut in its attributes"),
        pytest.param("Basil</THIN", "Basil", id="a cut mark in upper case"),
        pytest.param("<answer>Basil</answ", "Basil", id="a cut wrapper"),
        pytest.param("Basil <b", "Basil <b", id="two characters, which may be anything"),
        pytest.param("1 <", "1 <", id="a bare sign"),
        pytest.param("if a <|b| then", "if a <|b| then", id="what looks like half a token but ends"),
        pytest.param("</thin then", "</thin then", id="half a mark that is not at the end"),
        pytest.param("Basil</thin{x", "Basil</thin{x", id="half a mark before a brace"),
        pytest.param('So {"a": 1}</thin', 'So {"a": 1}', id="a cut mark behind an object"),
        pytest.param('So {"a": "</thin', 'So {"a": "</thin', id="half a mark in a broken object"),
        pytest.param("Basil</thin<|im_end|>", "Basil</thin", id="half a mark before the end of the turn"),
        pytest.param("No.</s><|x|></think>{}", "No.{}", id="a mark that closes nothing in the next turn"),
        pytest.param("x</think>model\nBasil", "model\nBasil", id="a role behind what is not a special token"),
        pytest.param("Basil<|im_<|x|>end|>", "Basil", id="a token that the removal of another joins"),
        pytest.param("Basil<|im_<|x|>en", "Basil", id="a cut one that it joins"),
        pytest.param(f"Basil{nested(15)}.", "Basil.", id="tokens sixteen deep"),
        pytest.param(f"Basil{nested(16)}.", "", id="tokens so deep that nobody means well"),
        pytest.param(f"Basil<|{'x' * 64}|>.", "Basil.", id="64 characters of a token"),
        pytest.param(f"Basil<|{'x' * 65}|>.", f"Basil<|{'x' * 65}|>.", id="65 characters"),
        pytest.param("f <| x |> g <||> <|a<b|>", "f <| x |> g <||> <|a<b|>", id="operators that look like a token"),
        pytest.param("<b>Basil</b> 1 < 2", "<b>Basil</b> 1 < 2", id="HTML and a sign"),
        pytest.param("<bos><s>Basil [gMASK]", "Basil [gMASK]", id="what begins a reply, and is text elsewhere"),
        pytest.param("Use <s> here", "Use <s> here", id="a beginning in the middle of a text"),
        pytest.param("Cleaning glass", "Cleaning glass", id="a word that ends as a mark begins"),
    ],
)
def test_the_text_of_an_answer_is_free_of_tokens_and_cut_marks(reply: str, text: str) -> None:
    assert answer_text(reply) == text


# Marks of one's own


def test_own_marks_count_beside_the_built_in_ones_and_nowhere_else() -> None:
    assert outcome(f"<ponder> {DRAFT}</ponder>{ANSWER}") == AMBIGUOUS
    assert outcome(f"{DRAFT}</think>{ANSWER}~stop~{DRAFT}", marks=OWN) == "Answer"
    assert outcome(f"{ANSWER}~stop~{DRAFT}") == AMBIGUOUS
    assert outcome(f"<think>{DRAFT}", marks=Marks()) == Shown("")


def test_an_own_mark_that_is_a_word_counts_in_any_case() -> None:
    marks = Marks([("hmmm", "okay"), ("hmph", "fine")])
    assert outcome(f"HMMM {DRAFT}", marks=marks) == Shown("")
    assert outcome(f"hmph {DRAFT} Fine {ANSWER}", marks=marks) == "Answer"


def test_an_own_mark_may_share_one_with_the_tables() -> None:
    marks = Marks([("<ponder>", "</think>"), ("<|im_start|>", "<|go|>")])
    assert outcome(f"<ponder>{DRAFT}</think>{ANSWER}", marks=marks) == "Answer"
    assert outcome(f"<|im_start|>{DRAFT}<|go|>{ANSWER}", marks=marks) == "Answer"
    assert outcome(f"{DRAFT}</think>{ANSWER}", marks=marks) == "Answer"
    marks = Marks([("<think>", "[done]"), ("<p>", "</p>"), ("<P>", "[end]")], ["<e end>", "<q>>"])
    for closing in ("</think>", "[done]"):
        assert outcome(f"<think>{DRAFT}{closing}{ANSWER}", marks=marks) == "Answer"
    for closing in ("</p>", "[end]"):
        assert outcome(f"<p>{DRAFT}{closing}{ANSWER}", marks=marks) == "Answer"
    for turn in ("<e end>", "<q>>"):
        assert outcome(f"{ANSWER}{turn}{DRAFT}", marks=marks) == "Answer"


@pytest.mark.parametrize("pairs", [[("[[", "]]"), ("[[[", "]]]")], [("[[[", "]]]"), ("[[", "]]")]])
def test_of_own_marks_that_begin_alike_the_longest_counts(pairs: list[tuple[str, str]]) -> None:
    marks = Marks(pairs)
    assert outcome(f"[[[{DRAFT}]] or {DRAFT}", marks=marks) == Shown("")
    assert outcome(f"[[{DRAFT}]]{ANSWER}", marks=marks) == "Answer"


def test_half_an_own_mark_is_known_up_to_64_characters() -> None:
    marks = Marks(turns=["~" + "x" * 99])
    assert answer_text("Basil~" + "x" * 63, marks=marks) == "Basil"
    assert answer_text("Basil~" + "x" * 64, marks=marks) == "Basil~" + "x" * 64


class SubStr(str):
    __slots__ = ()


def test_marks_are_values() -> None:
    pairs = [["<a>", "</a>"]]
    made = Marks((pair for pair in pairs), iter([SubStr("<e>")]))  # type: ignore[misc]  # a list will do at run time
    same = Marks(reasoning=[("<a>", "</a>")], turns=("<e>",))
    pairs.clear()
    for other in (same, copy.copy(made), copy.deepcopy(made), pickle.loads(pickle.dumps(made))):
        assert other == made
        assert hash(other) == hash(made)
        assert repr(other) == "Marks(reasoning=(('<a>', '</a>'),), turns=('<e>',))"
        assert outcome(f"<a>{DRAFT}</a>{ANSWER}<e>{DRAFT}", marks=other) == "Answer"
    assert made != Marks([("<a>", "</b>")], ["<e>"]) != Marks()
    assert type(made.turns[0]) is str  # type: ignore[index]  # a tuple, whatever it was made from
    for name in ("reasoning", "turns", "finder", "other"):
        with pytest.raises((AttributeError, TypeError)):
            setattr(made, name, ())


@pytest.mark.parametrize(
    ("reasoning", "turns", "error", "named"),
    [
        pytest.param("<secret>", (), TypeError, "reasoning ", id="a str of pairs"),
        pytest.param(7, (), TypeError, "reasoning ", id="no iterable of pairs"),
        pytest.param(["<secret>"], (), TypeError, "reasoning[0] ", id="a str for a pair"),
        pytest.param([("<a>", "</a>"), ("<secret>",)], (), TypeError, "reasoning[1] ", id="a pair of one"),
        pytest.param([("<secret>", "<secret>", "<secret>")], (), TypeError, "reasoning[0] ", id="a pair of three"),
        pytest.param([{"<secret>", "</secret>"}], (), TypeError, "reasoning[0] ", id="a pair without an order"),
        pytest.param([(b"<secret>", "</a>")], (), TypeError, "reasoning[0][0] ", id="bytes"),
        pytest.param([("<a>", None)], (), TypeError, "reasoning[0][1] ", id="no closing mark"),
        pytest.param([("<a>", "</secret> ")], (), ValueError, "reasoning[0][1] ", id="a blank at the end"),
        pytest.param([("\u2060<secret>", "</a>")], (), ValueError, "reasoning[0][0] ", id="an invisible blank before"),
        pytest.param((), "secret", TypeError, "turns ", id="a str of turns"),
        pytest.param((), None, TypeError, "turns ", id="None"),
        pytest.param((), ["<a>", 7], TypeError, "turns[1] ", id="a number"),
        pytest.param((), ["  "], ValueError, "turns[0] ", id="a blank mark"),
        pytest.param((), [""], ValueError, "turns[0] ", id="an empty mark"),
        pytest.param((), ["§"], ValueError, "turns[0] ", id="a mark of one character"),
    ],
)
def test_what_is_not_a_mark_is_refused_and_the_entry_named(
    reasoning: Any, turns: Any, error: type[Exception], named: str
) -> None:
    with pytest.raises(error) as refused:
        Marks(reasoning, turns)
    assert str(refused.value).startswith(named)
    assert "secret" not in str(refused.value)


@pytest.mark.parametrize("marks", [["<a>"], "<a>", Marks, 7])
def test_what_is_not_a_marks_object_is_refused(marks: Any) -> None:
    with pytest.raises(TypeError, match="marks must be a Marks"):
        require_structured("{}", pick_title, marks=marks)
    with pytest.raises(TypeError, match="marks must be a Marks"):
        answer_text("", marks=marks)
    assert parse_structured(ANSWER, pick_title, marks=marks) is None


def test_blanks_are_what_python_and_javascript_trim_and_two_more() -> None:
    trimmed_by_python = {chr(code) for code in range(0x110000) if chr(code).isspace()}
    assert set(BLANKS) == trimmed_by_python | {"\ufeff", "\u200b", "\u2060"}
    assert len(set(BLANKS)) == len(BLANKS)
