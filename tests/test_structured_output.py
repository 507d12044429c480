"""The schemas, what becomes of a reply without marks, the pickers and the pieces to write one with."""

import json
from collections.abc import Callable, Iterator
from typing import Any
from unittest.mock import Mock

import pytest
from corpus import AMBIGUOUS, MALFORMED, REJECTED, Shown, outcome

from sidecall import (
    QUERIES_SCHEMA,
    SUGGESTIONS_SCHEMA,
    TITLE_SCHEMA,
    ValidationError,
    answer_text,
    clean_string,
    clean_strings,
    parse_structured,
    pick_queries,
    pick_suggestions,
    pick_title,
    require_structured,
    structured_output,
)

# Any: also what is not a text, and what is not a picker
parse_anything: Callable[[Any, Any], Any] = parse_structured


def refusal(raw: str, pick: Callable[[Any], object] = pick_title) -> ValidationError:
    with pytest.raises(ValidationError) as refused:
        require_structured(raw, pick)
    return refused.value


@pytest.mark.parametrize(
    ("schema", "key", "value"),
    [
        (TITLE_SCHEMA, "title", {"type": "string"}),
        (
            SUGGESTIONS_SCHEMA,
            "suggestions",
            {"type": "array", "items": {"type": "string"}, "minItems": 3, "maxItems": 3},
        ),
        (QUERIES_SCHEMA, "queries", {"type": "array", "items": {"type": "string"}, "minItems": 1}),
    ],
    ids=["title", "suggestions", "queries"],
)
def test_a_schema_requires_its_one_key_and_forbids_others(schema: dict[str, Any], key: str, value: object) -> None:
    whole = {"type": "object", "properties": {key: value}, "required": [key], "additionalProperties": False}
    assert json.loads(json.dumps(schema)) == schema == whole


B = '{"title": "B"}'

# A whole object stands inside or behind each. It is an answer only if the brace before it does not begin an object that
# is broken.
BEGINS = [
    *(f"{{{q[0]}x{q[1]}: {B}}}" for q in ("''", "‘’", "‚‘", "“”", "„“", "„”", "«»", "‹›", "＂＂", "``", "‟‛", "'\"")),
    *(f'{{{blank}"x": {B}, oops}}' for blank in (" \n\t", "\u3000", "\xa0", "\u200e", "\u202b", "\u2066", "\u00ad")),
    *(f"{{{key}: {B}, oops}}" for key in ("“user’s draft”", "'user's draft'", "„it's“")),
    *(f"{{{word}: {B}}}" for word in ("x", "$x", "_x9", "data-x", " x ", "\u200b\ufeff\u2060x\u200f")),
    *(f"{{x: {opening}a{B}}}" for opening in ('"', "[", "{", "'", "“", '\\"')),
    *(f'{{"{key}": {B}, oops}}' for key in ("", 'a\\"', 'a\\"bc', 'a\\"b\\"c', "a\nb")),
    *(f'{{{slashes}"x{slashes}": {B}}}' for slashes in ("\\", "\\\\")),
    *(
        f"{start} {B}, oops}}"
        for start in ('{"x"\u3000:', '{"x"：', "{x： ", '{"a": oops', '{"a": \\"', '{"x": {"p>q": NaN}, "y":')
    ),
    *(f'{{"a": "{text}", "b": {B}, oops}}' for text in ('\\"}', '\\\\\\"}', "<analysis of", "{", "}")),
]
BEGINS_NOT = [
    *(
        f"{{{text} {B}}}"
        for text in ("", "x", "x: ^", "name}", "x y:", "9x:", "x.y:", "é:", "(", "%", "x,", "x;", "#x:", "-x:")
    ),
    *(f"{{{text} {B}}}" for text in ('"x"', "'x'", '"x" y:', '"a\\"b"', 'x "a": 1}', '\\x": 1}')),
    *(
        f"{text} {B}"
        for text in ("\\frac{a}{b}", "if (x) { y }", "{note: short}", "a { color: red; }", "{x: 1}", "{oops}")
    ),
    *(f'{{"a": {text}, oops}} {B}' for text in ("NaN", '"\\"}"', '"x\\\\"', '"<think "', '"<b>"', '"}"', "{}")),
]


@pytest.mark.parametrize("reply", BEGINS, ids=ascii)
def test_what_is_inside_an_object_that_begins_is_not_an_answer(reply: str) -> None:
    assert outcome(reply) in (MALFORMED, REJECTED)


@pytest.mark.parametrize("reply", BEGINS_NOT, ids=ascii)
def test_a_brace_that_begins_no_object_or_is_closed_hides_nothing(reply: str) -> None:
    assert outcome(reply) == "B"


CUT_OR_BROKEN = [
    *("{", "{\n", '{"ti', '{"ti\\', '{"ti"', '{"ti" ', '{"ti":', "{'ti", "{'ti'", "{“ti”\u200f", "{ti", "{ti ", "{ti:"),
    *('{ti: "x', "{ti: [", '{\\"', '{\\"ti', '{\\"ti\\', '{\\"ti\\"', '{\\"ti\\":', "{`ti", "{</s>", "{\u200e"),
    *("{<think>x</think>", '{"title": "x', '{"title": "x<|im_end|>', '{"ti</s>\n"x"', "{'title': 'x'}", '{title: "x"}'),
    '{"a":' * 9,
    '{"a":' * 20_000,
    f'{{"a":{"1" * 5000}}}',
]


@pytest.mark.parametrize("reply", CUT_OR_BROKEN, ids=lambda reply: ascii(reply)[:30])
def test_an_object_that_is_cut_off_or_broken_is_not_plain_text(reply: str) -> None:
    assert outcome(f"So {reply}") == MALFORMED
    assert outcome(reply) == MALFORMED


# JSON of another shape, pieces of it, and fences; and text that looks like it.
DEBRIS = [
    *("null", "true", "false", '["a"]', "['a']", "[ {x}", "[[x", "[1] says", "[-1", "[true]", "[false]", "[null, x"),
    *("[]", "[\u200b]", "[ ", '"a": "b"', '"a" : [', '"a\\"b": 1', '"a": true', '"a":', '"{\\"a\\": 1}"'),
    *('"[\\"a\\"]"', '"\\n{x', '"{x"', '"\\"a\\": 1"', "```", "```json", "```json {x}", '```\n["a"]\n```'),
    *("So\n```py\nx\n```", "a ```b``` c", "~~~\nx", "So\n \t~~~~"),
]
PLAIN = [
    *("nullable", "True", "null.", "[Garden] Plums", "[x]", "[a]: b", "[] x", "[truest]", '"a": b', '"a" b', '"Plums"'),
    *('"a" said: [x]', '"Plums" [1]', "x [1]", 'a "b": 1', "- [ ] x", '"[x]"', "'a': 1", "-1", '``["a"]``', "a ~~~ b"),
    *("~~x~~", "`a` ``b``", "x[1]"),
]


@pytest.mark.parametrize(
    ("reply", "expected"),
    [
        pytest.param(f"So {B}\nDone.", "B", id="an object in text"),
        pytest.param('{"title": "B", "meta": {"title": "x"}}', "B", id="a nested object kept whole"),
        pytest.param('{"x": {"title": "B"}}', REJECTED, id="an inner object"),
        pytest.param('{"title": "A", "title": "B"}', "B", id="of duplicate keys the last"),
        pytest.param(f"{{{B}}}", "B", id="doubled braces"),
        pytest.param('{"a":NaN}\n' * 99 + '{"title": "B </s>"}', "B </s>", id="after many broken objects"),
        pytest.param(f"x {{a}} {B}" + " y}" * 9, "B", id="stray braces"),
        pytest.param("{} {}", REJECTED, id="empty objects"),
        pytest.param('{"title": 42} {"ti', REJECTED, id="a rejected object, then a broken one"),
        pytest.param('{"title": "a"} {"title": "b"}', AMBIGUOUS, id="two different answers"),
        pytest.param(f'{B} {B} {{"title": "C"}}', AMBIGUOUS, id="the third different"),
        pytest.param(f'{B} {{"title": " B ", "n": 1}}', "B", id="different objects with equal values"),
        pytest.param(f'{{"title": oops}} {B}', "B", id="a broken object, then the answer"),
        # Entries of one list, one of them broken: which was meant is not known.
        pytest.param(f"[{B}]", "B", id="a list"),
        pytest.param(f'[{B}, {{"title": "C', MALFORMED, id="a list whose last entry is cut off"),
        pytest.param(f'[{B}, {{"title": NaN}}]', MALFORMED, id="a list with a broken entry"),
        pytest.param(f'[{{"a": NaN}}\n,\u200b{B}]', MALFORMED, id="a list that begins with one"),
        pytest.param(f'[{{"a": NaN}} {B}]', "B", id="a list without a comma"),
        pytest.param(f'so [ {B}, {{"a": NaN}}, {{"title": "C"}}] {B}', "B", id="a list with one, then an answer"),
        pytest.param(f'[{B}, {{"a": NaN}}] [{B}, {{"a": NaN}}]', MALFORMED, id="two lists with one"),
        pytest.param(f'x] [{B}, {{"a": NaN}}]', MALFORMED, id="a list with one behind a stray bracket"),
        pytest.param(f'[[{B}, {{"a": NaN}}]]', MALFORMED, id="a list in a list"),
        pytest.param(f'["x", {B}, {{"a": NaN}}]', MALFORMED, id="a list of more than objects"),
        pytest.param(f'[x] {B}, {{"a": NaN}}', "B", id="a list that is closed before them"),
        pytest.param(f'[{{"x": "]"}}, "n", {B}, {{"a": NaN}}]', MALFORMED, id="a list with a bracket in a string"),
        pytest.param(f'[{B},<think>x</think>\n{B}] {{"a": NaN}}', "B", id="a list with reasoning and a line break"),
        pytest.param(f'{B}, {{"a": NaN}}', "B", id="neighbours in no list"),
        pytest.param(f'[{B}; {{"a": NaN}}]', "B", id="neighbours with more than a comma between them"),
        pytest.param(f'[{B}] {{"a": NaN}}', "B", id="a list, then a broken object"),
        pytest.param(f'[{B}<|x|>{{"a": NaN}}]', "B", id="neighbours with a token between them"),
        pytest.param(f'[{{"x": 1}}, "n", {B}, {{"title": "C', MALFORMED, id="neighbours behind other entries"),
        pytest.param(f"[{{{B}}}]", "B", id="doubled braces in a list"),
        pytest.param(f'[{B}\n{B}] {{"a": NaN}}', "B", id="a list without commas, then a broken object"),
        pytest.param(f"{{<|x|></s>{B}", "B", id="a brace before a token"),
        pytest.param("Plums {name <think>a</think>}", Shown("Plums {name }"), id="a brace before a block"),
        pytest.param("Plums {name\n<think>a", MALFORMED, id="a brace before a block that hides the rest"),
        # What may be shown, and what is debris.
        pytest.param("I can't help with that.", Shown("I can't help with that."), id="a refusal"),
        pytest.param("", Shown(""), id="nothing"),
        pytest.param(" \n\ufeff", Shown(""), id="blanks"),
        pytest.param(None, Shown(""), id="None"),
        pytest.param(b'{"title": "x"}', Shown(""), id="bytes"),
        pytest.param(7, Shown(""), id="a number"),
        pytest.param(Mock(spec=str), Shown(""), id="what claims to be a str"),
        pytest.param("Use {name} here", Shown("Use {name} here"), id="braces in plain text"),
        pytest.param("{title: x}", MALFORMED, id="text that starts with a brace"),
        *(pytest.param(f" {text} ", MALFORMED, id=f"debris {text!r}") for text in DEBRIS),
        *(pytest.param(text, Shown(text), id=f"text {text!r}") for text in PLAIN),
        pytest.param('<think>x</think>\n```\n["a"]', MALFORMED, id="debris behind reasoning"),
        pytest.param("<answer>[1]</answer>", MALFORMED, id="debris in a wrapper"),
        pytest.param("<answer>B</answer>", Shown("B"), id="text in a wrapper"),
        pytest.param('Hi {</s>', MALFORMED, id="a brace before the end of the turn"),
        pytest.param('{title: \\"x {"title": "B"}', MALFORMED, id="a bare key before an escaped quote"),
        pytest.param('Hi {<|x|> there', Shown("Hi { there"), id="a brace before a token"),
        # Sixteen objects that a mark cut off are one reply's share: the next that holds a mark is broken, as well.
        pytest.param('{"a":<think>x</think>' * 15 + '{"title": "B </s>"}', "B </s>", id="fifteen cut objects"),
        pytest.param('{"a":<think>x</think>' * 16 + '{"title": "B </s>"}', MALFORMED, id="sixteen cut objects"),
        pytest.param('{"a":<think>x</think>' * 16 + B, "B", id="sixteen cut objects, and no more marks"),
    ],
)  # fmt: skip
def test_a_reply_gives_a_value_or_a_code_or_text(reply: Any, expected: object) -> None:
    assert outcome(reply) == expected


@pytest.mark.parametrize(
    ("reply", "text"),
    [
        pytest.param('Sure: {"a": "<|x|>"}', 'Sure: {"a": "<|x|>"}', id="a token in an object"),
        pytest.param(' {"a": 1} <|x|>Done. ', '{"a": 1} Done.', id="a token after an object"),
        pytest.param('<think>{"a": 1}</think>{"b": 2}', '{"b": 2}', id="reasoning with an object"),
        pytest.param('So {"a": <|x|>} then', 'So {"a": <|x|>} then', id="a token in a broken object"),
        pytest.param('<answer>\n{"a": 1}\n</answer>', '{"a": 1}', id="a wrapper around an object"),
        pytest.param('A{"a": 1}B{"b": 2}C', 'A{"a": 1}B{"b": 2}C', id="text around objects"),
        pytest.param('A<tool_call>{"a": 1}</tool_call>B', "A", id="an object in the call of a tool"),
    ],
)
def test_the_text_keeps_objects_as_they_stand(reply: str, text: str) -> None:
    assert answer_text(reply) == text


def test_no_message_holds_text_of_the_reply() -> None:
    for raw in ("secret", '{"secret', '{"secret": 1}', '{"title": "secret"}{"title": "Secret"}', '{"secret": NaN}'):
        error = refusal(raw)
        assert "secret" not in repr(error).lower()
        assert error.issues[0].keys() == {"code", "message"}
        assert error.__cause__ is None
        assert "raised" not in str(error)


class LyingStr(str):
    """Its methods lie; its text does not."""

    __slots__ = ()

    def find(self, *_: object) -> int:
        raise RuntimeError

    def __getitem__(self, _: object) -> str:
        return "lie"

    def __str__(self) -> str:
        return '{"title": "lie"}'


def test_a_subclass_of_str_is_read_by_its_text() -> None:
    assert outcome(LyingStr(f"Sure: {B}")) == "B"
    assert answer_text(LyingStr("Sure.<eos>")) == "Sure."
    for cleaned in (clean_string(LyingStr(" basil ")), clean_string(LyingStr("basil"))):
        assert (type(cleaned), cleaned) == (str, "basil")


@pytest.mark.parametrize(
    ("token", "value"),
    [
        ("0", 0), ("-0", 0), ("10", 10), ("-7", -7), ("1.5", 1.5), ("1e2", 100.0), ("1E+2", 100.0), ("1e-2", 0.01),
        ("1e999", float("inf")), ("true", True), ("false", False), ("null", None), ("[]", []), ("{}", {}),
        ("[1, 2]", [1, 2]), ('""', ""), (r'"\u00e9"', "é"), (r'"\ud83c\udf30"', "🌰"), (r'"\ud83c"', "\ud83c"),
        (r'"\"\\\/\b\f\n\r\t"', '"\\/\b\f\n\r\t'), ('"\x7f"', "\x7f"), ('"\u2028"', "\u2028"), (" \t\n\r1", 1),
        ('"a\n\t\r\0\x1fb"', "a\n\t\r\0\x1fb"),
    ],
)  # fmt: skip
def test_a_token_of_json_is_accepted_and_raw_control_characters(token: str, value: object) -> None:
    assert require_structured(f'{{"v": {token}}}', lambda found: (found["v"],)) == (value,)


@pytest.mark.parametrize(
    "token",
    [
        "NaN", "Infinity", "-Infinity", "nan", "+1", "01", "-01", "1.", ".5", "1e", "0x1", "1_000", "١", "True", "None",
        "undefined", "'x'", '"x', r'"\x41"', r'"\u12"', r'"\'"', "[1,]", "[,1]", "[1 2]", "",
        "1,", '1, "v"', "1, 2", "/* c */ 1", "1 // c\n", "# c\n1", "\u00a01", "\ufeff1", "\f1", "“x”", "(1)", "{1: 2}",
        "[1", "-", "--1", "1e+", "tru",
    ],
)  # fmt: skip
def test_what_is_not_a_token_of_json_is_refused(token: str) -> None:
    assert outcome(f'{{"v": {token}}}', lambda found: found) == MALFORMED


# The picker


class Nameless(type):
    @property
    def __name__(cls) -> str:  # type: ignore[override]  # a class may do so
        raise RuntimeError


class FalsyError(Exception, metaclass=Nameless):
    def __bool__(self) -> bool:
        raise RuntimeError


ERRORS = [KeyError, RecursionError, MemoryError, StopIteration, ValidationError]


@pytest.mark.parametrize("error", [*ERRORS, pytest.param(FalsyError, id="one that fails who looks at it")])
def test_a_picker_that_raises_rejects_and_its_last_error_is_the_cause(error: type[Exception]) -> None:
    raised: list[Exception] = []

    def pick(value: dict[str, Any]) -> str:
        if value["n"] == 3:
            return "B"
        raised.append(
            ValidationError([{"code": "OUTPUT_MISSING", "message": "m"}]) if error is ValidationError else error()
        )
        raise raised[-1]

    refused = refusal('{"n": 1} {"n": 2}', pick)
    assert (refused.code, refused.__cause__) == (REJECTED, raised[1])
    assert "raised" in str(refused)
    assert outcome('{"n": 1} {"n": 3} {"n": 2}', pick) == "B"


def test_a_picker_may_be_no_function_and_may_interrupt() -> None:
    assert parse_anything("{}", None) is None

    def pick(value: dict[str, Any]) -> str:
        raise interrupt

    for interrupt in (KeyboardInterrupt, SystemExit, GeneratorExit):
        with pytest.raises(interrupt):
            parse_structured("{}", pick)


def test_a_coroutine_function_is_refused_for_a_picker() -> None:
    async def pick(value: dict[str, Any]) -> str:
        return "B"

    # A warning that it was never awaited would be an error here.
    refused = refusal("{} {}", pick)
    assert (refused.code, type(refused.__cause__)) == (REJECTED, TypeError)
    assert "coroutine" in str(refused.__cause__)


@pytest.mark.parametrize("falsy", [0, "", [], False])
def test_a_falsy_value_is_a_value(falsy: object) -> None:
    assert require_structured("{} {}", lambda _: falsy) == falsy


class Unequal:
    def __eq__(self, other: object) -> bool:
        raise RuntimeError

    __hash__ = None  # type: ignore[assignment]  # as mutable values have it


class Elementwise:
    def __eq__(self, other: object) -> list[bool]:  # type: ignore[override]  # as arrays compare
        return [True]

    __hash__ = None  # type: ignore[assignment]  # as mutable values have it


@pytest.mark.parametrize("kind", [Unequal, Elementwise])
def test_values_that_do_not_compare_are_different(kind: type) -> None:
    assert isinstance(parse_structured("{}", lambda _: kind()), kind)
    assert refusal("{} {}", lambda _: kind()).code == AMBIGUOUS


def test_of_equal_values_the_first_is_given() -> None:
    assert repr(parse_structured('{"n": 1} {"n": true} {"n": 1.0}', lambda value: value["n"])) == "1"


def test_the_picker_is_called_in_order_and_for_no_more_than_it_takes() -> None:
    seen: list[int] = []

    def pick(value: dict[str, int]) -> int:
        seen.append(value["n"])
        return value["n"]

    assert refusal('{"n": 1} {"n": 2} {"n": 3}', pick).code == AMBIGUOUS
    assert seen == [1, 2]


def test_no_error_of_the_machine_leaves(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(structured_output, "answer", Mock(side_effect=MemoryError))
    assert parse_structured("{}", lambda _: 1) is None


# Pickers, and the pieces to write one with


@pytest.mark.parametrize("pick", [pick_title, pick_suggestions, pick_queries])
def test_a_picker_gives_none_for_what_is_not_a_dict(pick: Callable[[object], object]) -> None:
    assert not any(map(pick, ([], "title", 7, None, [{"title": "a"}], Mock(spec=dict), {})))


@pytest.mark.parametrize(
    ("value", "title", "suggestions", "queries"),
    [
        pytest.param(" a\n", "a", None, None, id="a string, trimmed"),
        pytest.param(42, None, None, None, id="a number"),
        pytest.param({"a": "b"}, None, None, None, id="a dict"),
        pytest.param(["a"], None, ["a"], ["a"], id="a list of one"),
        pytest.param([" a ", "b", "c", "d"], None, ["a", "b", "c"], ["a", "b", "c", "d"], id="a list of four"),
        pytest.param(
            [7, "a", None, "", "b", "b", "..."], None, ["a", "b", "b"], ["a", "b", "b"], id="unusable entries"
        ),
        pytest.param([" ", "\ufeff", None], None, None, None, id="only unusable entries"),
        pytest.param([], None, None, None, id="an empty list"),
        pytest.param(("a",), None, None, None, id="a tuple, which no JSON gives"),
    ],
)
def test_a_picker_takes_what_is_of_its_type(value: object, title: object, suggestions: object, queries: object) -> None:
    whole = {"title": value, "suggestions": value, "queries": value, "n": 1}
    assert (pick_title(whole), pick_suggestions(whole), pick_queries(whole)) == (title, suggestions, queries)


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        pytest.param("\ufeff\u200b\u2060\u00a0\u3000 basil\u2028\n", "basil", id="all blanks trimmed"),
        pytest.param("a \u200b b", "a \u200b b", id="inner blanks kept"),
        pytest.param("a.", "a.", id="a dot at the end"),
        pytest.param("?", "?", id="another mark"),
        *(pytest.param(f" {dots} .", None, id=f"the dots {dots}") for dots in ".…‥⋯"),
        pytest.param("", None, id="an empty string"),
        pytest.param("\u200b", None, id="an invisible string"),
        pytest.param("\frac", None, id="a form feed at the start, which is a blank as well"),
        pytest.param("a🌰", "a🌰", id="an emoji"),
        pytest.param(42, None, id="a number"),
        pytest.param(Mock(spec=str), None, id="what claims to be a str"),
    ],
)
def test_a_string_is_cleaned(value: object, expected: str | None) -> None:
    assert clean_string(value) == expected


def test_a_string_with_a_control_character_or_half_a_surrogate_pair_is_corrupt() -> None:
    corrupt = {chr(code) for code in (*range(0x20), 0x7F, 0xD800, 0xDFFF)} - set("\t\n\r")
    codes = (*range(0x100), 0xD7FF, 0xD800, 0xDFFF, 0xE000)
    assert {char for char in map(chr, codes) if clean_string(f"a{char}b") is None} == corrupt


class Hostile(dict[str, object]):
    """A dict that fails whoever asks it."""

    def get(self, *_: object) -> object:
        raise RuntimeError


class HostileList(list[object]):
    def __iter__(self) -> Iterator[object]:
        raise RuntimeError


def test_a_picker_reads_what_is_in_a_subclass() -> None:
    assert pick_title(Hostile(title="Basil")) == "Basil"
    assert pick_queries(Hostile(queries=HostileList(["basil"]))) == ["basil"]
    assert clean_strings(Mock(spec=list)) is None
