"""The schemas, the two ways to read a reply, the pickers and the pieces to write one with."""

import json
from collections.abc import Callable, Iterator
from typing import Any
from unittest.mock import Mock

import pytest

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
from sidecall._reply import Part


def title(value: str) -> str:
    return json.dumps({"title": value}, ensure_ascii=False)


def refusal(raw: object, pick: Callable[[Any], object] = pick_title) -> ValidationError:
    with pytest.raises(ValidationError) as refused:
        require_structured(raw, pick)  # type: ignore[arg-type]  # what is no text, too
    assert parse_structured(raw, pick) is None  # type: ignore[arg-type]  # likewise
    assert len(refused.value.issues) == 1
    return refused.value


# Schemas


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
    assert schema == {
        "type": "object",
        "properties": {key: value},
        "required": [key],
        "additionalProperties": False,
    }
    assert json.loads(json.dumps(schema)) == schema


# Reading a reply


@pytest.mark.parametrize(
    ("raw", "expected"),
    [
        pytest.param('{"title": "Basil"}', "Basil", id="a clean object"),
        pytest.param('```json\n{"title": "Basil"}\n```', "Basil", id="one inside a fence"),
        pytest.param('Sure:\n{"title": "Basil"}\nDone.', "Basil", id="after a preamble and before a remark"),
        pytest.param('{"title": "Basil", "meta": {"title": "x"}}', "Basil", id="a nested object kept whole"),
        pytest.param('{"title": "Basil"', None, id="an unterminated one"),
        pytest.param("Basil", None, id="no braces"),
        pytest.param("", None, id="an empty reply"),
        pytest.param(None, None, id="None"),
        pytest.param('["a", "b"]', None, id="an array of strings"),
        pytest.param('[{"title": "Basil"}]', "Basil", id="an enclosing array"),
        pytest.param('{"title": "Bas", "title": "Basil"}', "Basil", id="of duplicate keys the last"),
        pytest.param('{{"title": "Basil"}}', "Basil", id="doubled braces"),
        pytest.param('{"x": {"title": "Basil"}}', None, id="an inner object"),
        pytest.param('{"x": {"title": "Basil"}, oops}', None, id="an inner object of a broken one"),
        pytest.param('{oops} {"title": "Basil"}', "Basil", id="after braces that begin no object"),
        pytest.param('{"a": oops} {"title": "Basil"}', "Basil", id="after a broken object that is closed"),
        pytest.param('{"a": "\\"}", oops} {"title": "Basil"}', "Basil", id="an escaped quote in a broken object"),
        pytest.param('{"a": "\\"}", "b": {"title": "Basil"}, oops}', None, id="a brace behind an escaped quote"),
        pytest.param('{"a": oops {"title": "Basil"}', None, id="after a broken object that is not closed"),
        pytest.param(
            '{"k": "<analysis of", "o": {"p>q": NaN}, "alt": {"title": "Basil"}}', None, id="behind half a tag in one"
        ),
        pytest.param('{"tag": "<think ", x}\n{"title": "Basil"} 5 > 3', "Basil", id="after half a tag in a broken one"),
        pytest.param('{"a":NaN}\n' * 99 + '{"title": "Basil </s>"}', "Basil </s>", id="after many broken objects"),
        pytest.param('{\'x\': {"title": "Basil"}}', None, id="inside a single-quoted object"),
        *(
            pytest.param(
                f'{{{quote}x{close}: {{"title": "Basil"}}}}', None, id=f"inside an object quoted {quote}{close}"
            )
            for quote, close in ("''", "‘’", "‚‘", "“”", "„“")
        ),
        pytest.param('{"x"\u3000: {"title": "Basil"}}', None, id="inside an object with wide blanks"),
        pytest.param('{"x"：{"title": "Basil"}}', None, id="inside an object with a wide colon"),
        pytest.param('{"x" {"title": "Basil"}}', "Basil", id="after a quoted word without a colon"),
        pytest.param('{\u200b"x": {"title": "Basil"}}', None, id="inside an object with an invisible blank"),
    ],
)
def test_a_reply_gives_its_one_object(raw: str | None, expected: str | None) -> None:
    assert parse_structured(raw, pick_title) == expected


@pytest.mark.parametrize(
    ("raw", "code", "text"),
    [
        pytest.param("Basil care", "OUTPUT_MISSING", "Basil care", id="plain text"),
        pytest.param("I can't help with that.", "OUTPUT_MISSING", "I can't help with that.", id="a refusal"),
        pytest.param("", "OUTPUT_MISSING", "", id="nothing"),
        pytest.param(" \n\ufeff", "OUTPUT_MISSING", "", id="blanks"),
        pytest.param(None, "OUTPUT_MISSING", "", id="None"),
        pytest.param(b'{"title": "x"}', "OUTPUT_MISSING", "", id="bytes"),
        pytest.param(Mock(spec=str), "OUTPUT_MISSING", "", id="what claims to be a str"),
        pytest.param("Use {name} here", "OUTPUT_MISSING", "Use {name} here", id="braces in plain text"),
        pytest.param("{", "OUTPUT_MALFORMED", None, id="a lone brace"),
        pytest.param('{"title', "OUTPUT_MALFORMED", None, id="cut in the key"),
        pytest.param('Sure: {"ti', "OUTPUT_MALFORMED", None, id="cut in the key, after text"),
        pytest.param('{"title": "x', "OUTPUT_MALFORMED", None, id="cut in the value"),
        pytest.param("{'title': 'x'}", "OUTPUT_MALFORMED", None, id="single quotes"),
        pytest.param("Sure: {'title': 'x'}", "OUTPUT_MALFORMED", None, id="single quotes, after text"),
        pytest.param("Sure: {“title”: “x”}", "OUTPUT_MALFORMED", None, id="curly quotes, after text"),
        pytest.param("{title: x}", "OUTPUT_MALFORMED", None, id="an answer that starts with a brace"),
        pytest.param('["a"]', "OUTPUT_MALFORMED", None, id="an array"),
        pytest.param('```json\n["a"]\n```', "OUTPUT_MALFORMED", None, id="a fenced array"),
        pytest.param('~~~\n["a"]\n~~~', "OUTPUT_MALFORMED", None, id="an array in another fence"),
        pytest.param('<think>x</think>\n```\n["a"]', "OUTPUT_MALFORMED", None, id="an array after reasoning"),
        pytest.param('<|im_start|>assistant\n["a"]', "OUTPUT_MALFORMED", None, id="an array after a header"),
        pytest.param('{"title": "x<|im_end|>', "OUTPUT_MALFORMED", None, id="cut by the end of the turn"),
        pytest.param('So {"ti<|im_end|>\n"x"', "OUTPUT_MALFORMED", None, id="a key cut by the end of the turn"),
        pytest.param('So {"ti"', "OUTPUT_MALFORMED", None, id="cut behind a key"),
        pytest.param("So {'ti'", "OUTPUT_MALFORMED", None, id="cut behind a single-quoted key"),
        pytest.param("So {</s>", "OUTPUT_MALFORMED", None, id="a brace cut by the end of the turn"),
        pytest.param('{"a":' * 9, "OUTPUT_MALFORMED", None, id="nested and unclosed"),
        pytest.param('{"a":' * 100_000, "OUTPUT_MALFORMED", None, id="nested too deep"),
        pytest.param(f'{{"a":{"1" * 5000}}}', "OUTPUT_MALFORMED", None, id="an integer of too many digits"),
        pytest.param("<think>Basil {", "OUTPUT_MISSING", "", id="unclosed reasoning"),
        pytest.param("No.\n<think>Basil {", "OUTPUT_MISSING", "No.", id="text, then unclosed reasoning"),
        pytest.param("<think>{x}</think>\nBasil.", "OUTPUT_MISSING", "Basil.", id="reasoning, then plain text"),
        pytest.param("So {x}</think>Basil.", "OUTPUT_MISSING", "Basil.", id="reasoning that began before"),
        pytest.param(
            "<|channel|>analysis<|message|>x<|end|><|start|>assistant<|channel|>final<|message|>No.<|return|>",
            "OUTPUT_MISSING",
            "No.",
            id="channels",
        ),
        pytest.param(
            "<|channel|>final <|constrain|>json<|message|>No.", "OUTPUT_MISSING", "No.", id="a channel with a format"
        ),
        pytest.param('Basil.<|im_end|>\n<|im_start|>user\n{"ti', "OUTPUT_MISSING", "Basil.", id="a turn that follows"),
        pytest.param("<|im_start|>assistant\nBasil.<|im_end|>", "OUTPUT_MISSING", "Basil.", id="a ChatML turn"),
        pytest.param("\n<|im_start|>assistant\nBasil.<|im_end|>", "OUTPUT_MISSING", "Basil.", id="a turn after blanks"),
        pytest.param("<start_of_turn>model\nBasil.<end_of_turn>", "OUTPUT_MISSING", "Basil.", id="a Gemma turn"),
        pytest.param(
            "<|start_header_id|>assistant<|end_header_id|>\n\nBasil.<|eot_id|>",
            "OUTPUT_MISSING",
            "Basil.",
            id="a Llama turn",
        ),
        pytest.param("<s>Basil<|pad|>.</s>", "OUTPUT_MISSING", "Basil.", id="special tokens"),
        pytest.param("<｜Assistant｜>Basil.", "OUTPUT_MISSING", "Basil.", id="tokens with wide bars"),
        pytest.param(
            "<|message|>User settings.", "OUTPUT_MISSING", "User settings.", id="a role name that begins a sentence"
        ),
        pytest.param("The <think> mark", "OUTPUT_MISSING", "The <think> mark", id="a mark named in a sentence"),
        pytest.param("<b>Basil</b>", "OUTPUT_MISSING", "<b>Basil</b>", id="other tags"),
        pytest.param("<think {}>x", "OUTPUT_MISSING", "", id="an object in an opening mark"),
        pytest.param('```json title="a.json"\n["a"]\n```', "OUTPUT_MALFORMED", None, id="a fence with more words"),
        pytest.param("<|channel|>final<|message|>JSON", "OUTPUT_MISSING", "JSON", id="a word that headers have"),
        pytest.param("<|im_start|>Users ask.", "OUTPUT_MISSING", "Users ask.", id="a word that begins as a role"),
        *(
            pytest.param(f"{token}{word}\nBasil.", "OUTPUT_MISSING", "Basil.", id=f"a header {token}{word}")
            for token in ("<|start|>", "<|im_start|>", "<|start_header_id|>", "<start_of_turn>", "<|turn>")
            for word in ("assistant", "developer", "model", "system", "tool", "user")
        ),
        pytest.param("<bos>Basil.", "OUTPUT_MISSING", "Basil.", id="a token that begins a reply"),
        pytest.param("Use <s> here", "OUTPUT_MISSING", "Use <s> here", id="the same in the middle of one"),
        pytest.param("f <| x |> g", "OUTPUT_MISSING", "f <| x |> g", id="operators that look like a token"),
        pytest.param(f"Basil<|{'x' * 40}|>.", "OUTPUT_MISSING", "Basil.", id="a long token"),
        *(
            pytest.param(f'```{word}["a"]```', "OUTPUT_MALFORMED", None, id=f"an array in a {word!r} fence on one line")
            for word in ("", " ", "json", "JSON ", "jsonc ")
        ),
        pytest.param("```Use [x] here```", "OUTPUT_MISSING", "```Use [x] here```", id="a fence on one line"),
        pytest.param('So {"ti\\', "OUTPUT_MALFORMED", None, id="cut in an escape of a key"),
        pytest.param("<s>Tool\nbelt", "OUTPUT_MISSING", "Tool\nbelt", id="a line that is a role name"),
        pytest.param("<|turn>model\nBasil.<turn|>", "OUTPUT_MISSING", "Basil.", id="a Gemma 4 turn"),
        pytest.param("[1] says", "OUTPUT_MALFORMED", None, id="text that starts with a bracket"),
        pytest.param("{}", "OUTPUT_REJECTED", None, id="an empty object"),
        pytest.param('{"name": "x"}', "OUTPUT_REJECTED", None, id="an object without the key"),
        pytest.param('{"title": 42} {"ti', "OUTPUT_REJECTED", None, id="a rejected object, then a broken one"),
        pytest.param('{"title": "a"} {"title": "b"}', "OUTPUT_AMBIGUOUS", None, id="two different answers"),
        pytest.param(
            '{"title": "a"} {"title": "a"} {"title": "b"}', "OUTPUT_AMBIGUOUS", None, id="the third different"
        ),
    ],
)
def test_a_refusal_says_why_and_what_may_be_shown(raw: str | None, code: str, text: str | None) -> None:
    assert refusal(raw).code == code
    if text is not None:
        assert answer_text(raw) == text


@pytest.mark.parametrize(
    ("raw", "text"),
    [
        pytest.param('Sure: {"a": "<|x|>"}', 'Sure: {"a": "<|x|>"}', id="a token in an object"),
        pytest.param(' {"a": 1} <|x|>Done. ', '{"a": 1} Done.', id="a token after an object"),
        pytest.param('<think>{"a": 1}</think>{"b": 2}', '{"b": 2}', id="reasoning with an object"),
        pytest.param('So {"a": <|x|>} then', 'So {"a": <|x|>} then', id="a token in a broken object"),
    ],
)
def test_the_text_keeps_objects_as_they_stand(raw: str, text: str) -> None:
    assert answer_text(raw) == text


def test_a_mistake_of_the_caller_is_named() -> None:
    assert str(refusal(b"{}")) == "the reply is a bytes, and not a str"
    assert str(refusal(None)) == "the reply is a NoneType, and not a str"
    assert str(refusal("{}", pick={})).endswith("; it raised a TypeError")  # type: ignore[arg-type]  # at run time


class Nameless(type):
    @property
    def __name__(cls) -> str:  # type: ignore[override]  # a class may do so
        raise RuntimeError


class FalsyError(Exception, metaclass=Nameless):
    def __bool__(self) -> bool:
        raise RuntimeError


def test_an_error_that_fails_who_looks_at_it_is_a_rejection() -> None:
    def pick(value: dict[str, Any]) -> str:
        raise FalsyError

    assert str(refusal("{}", pick)).endswith("; it raised a FalsyError")


def test_no_message_holds_text_of_the_reply() -> None:
    for raw in ("secret", '{"secret', '{"secret": 1}', '{"title": "secret"}{"title": "Secret"}', '{"secret": NaN}'):
        error = refusal(raw)
        assert "secret" not in repr(error).lower()
        assert error.issues[0].keys() == {"code", "message"}


# The picker


def test_a_picker_that_raises_rejects_and_its_error_is_the_cause() -> None:
    def pick(value: dict[str, Any]) -> str:
        raise KeyError(value["n"])

    error = refusal('{"n": 1} {"n": 2}', pick)
    assert error.code == "OUTPUT_REJECTED"
    assert isinstance(error.__cause__, KeyError)
    assert error.__cause__.args == (2,)


def test_a_rejection_without_an_error_has_no_cause() -> None:
    assert refusal('{"n": 1}').__cause__ is None


def test_a_validation_error_of_the_picker_is_a_rejection() -> None:
    def pick(value: dict[str, Any]) -> str:
        raise ValidationError([{"code": "MINE", "message": "mine"}])

    assert refusal('{"n": 1}', pick).code == "OUTPUT_REJECTED"


def test_what_a_picker_rejects_blocks_nothing() -> None:
    def pick(value: dict[str, Any]) -> int:
        return 10 // int(value["n"])

    assert parse_structured('{"n": 0} {"n": 5} {"m": 1}', pick) == 2


@pytest.mark.parametrize("falsy", [0, "", [], False])
def test_a_falsy_value_is_a_value(falsy: object) -> None:
    assert require_structured("{}", lambda _: falsy) == falsy


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
    assert refusal("{} {}", lambda _: kind()).code == "OUTPUT_AMBIGUOUS"


def test_equal_values_of_different_objects_are_one_answer() -> None:
    assert parse_structured('{"title": "Basil"} {"title": " Basil ", "n": 1}', pick_title) == "Basil"


def test_of_equal_values_the_first_is_given() -> None:
    assert parse_structured('{"n": 1} {"n": true} {"n": 1.0}', lambda value: (value["n"],)) == (1,)
    assert parse_structured('{"n": 1} {"n": true}', lambda value: value["n"]) is not True


def test_the_picker_is_called_for_no_more_than_it_takes() -> None:
    seen: list[int] = []

    def pick(value: dict[str, int]) -> int:
        seen.append(value["n"])
        return value["n"]

    assert refusal('{"n": 1} {"n": 2} {"n": 3}', pick).code == "OUTPUT_AMBIGUOUS"
    assert seen[:2] == [1, 2]
    assert 3 not in seen


@pytest.mark.parametrize("error", [KeyboardInterrupt, SystemExit, GeneratorExit])
def test_an_interrupt_leaves(error: type[BaseException]) -> None:
    def pick(value: dict[str, Any]) -> str:
        raise error

    with pytest.raises(error):
        parse_structured("{}", pick)


def test_no_error_of_the_machine_leaves(monkeypatch: pytest.MonkeyPatch) -> None:
    def exhausted(reply: str) -> list[Part]:
        raise MemoryError

    monkeypatch.setattr(structured_output, "answer", exhausted)
    assert parse_structured("{}", lambda _: 1) is None


def test_a_picker_that_is_none_rejects() -> None:
    assert parse_structured("{}", None) is None  # type: ignore[arg-type]  # at run time anything comes


@pytest.mark.parametrize("raw", [b"{}", bytearray(b"{}"), 7, 1.5, [], {}, object(), str, lambda: "{}"])
def test_what_is_no_text_has_no_answer(raw: object) -> None:
    assert refusal(raw, lambda _: 1).code == "OUTPUT_MISSING"
    assert answer_text(raw) == ""  # type: ignore[arg-type]  # at run time anything comes


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
    raw = LyingStr('Sure: {"title": "Basil"}')
    assert require_structured(raw, pick_title) == "Basil"
    assert answer_text(raw) == 'Sure: {"title": "Basil"}'


def test_a_large_reply_is_read() -> None:
    prose = "Some words of {it}.\n" * 500_000
    assert parse_structured(prose + '{"title": "Basil"}', pick_title) == "Basil"


# JSON, and nothing else


@pytest.mark.parametrize(
    ("token", "value"),
    [
        ("0", 0), ("-0", 0), ("10", 10), ("-7", -7), ("1.5", 1.5), ("1e2", 100.0), ("1E+2", 100.0), ("1e-2", 0.01),
        ("1e999", float("inf")), ("true", True), ("false", False), ("null", None), ("[]", []), ("{}", {}),
        ("[1, 2]", [1, 2]), ('""', ""), (r'"\u00e9"', "é"), (r'"\ud83c\udf30"', "🌰"), (r'"\ud83c"', "\ud83c"),
        (r'"\"\\\/\b\f\n\r\t"', '"\\/\b\f\n\r\t'), ('"\x7f"', "\x7f"), ('"\u2028"', "\u2028"), (" \t\n\r1", 1),
    ],
)  # fmt: skip
def test_a_token_of_json_is_accepted(token: str, value: object) -> None:
    assert require_structured(f'{{"v": {token}}}', lambda found: (found["v"],)) == (value,)


@pytest.mark.parametrize(
    "token",
    [
        "NaN", "Infinity", "-Infinity", "nan", "+1", "01", "-01", "1.", ".5", "1e", "0x1", "1_000", "١", "True", "None",
        "undefined", "'x'", '"x', '"\n"', '"\t"', '"\0"', r'"\x41"', r'"\u12"', r'"\'"', "[1,]", "[,1]", "[1 2]", "",
        "1,", '1, "v"', "1, 2", "/* c */ 1", "1 // c\n", "# c\n1", "\u00a01", "\ufeff1", "\f1", "“x”", "(1)", "{1: 2}",
        "[1", "-", "--1", "1e+", "tru",
    ],
)  # fmt: skip
def test_what_is_no_token_of_json_is_refused(token: str) -> None:
    assert refusal(f'{{"v": {token}}}', lambda found: found).code == "OUTPUT_MALFORMED"


# Pickers


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        pytest.param({"title": "Basil"}, "Basil", id="a title"),
        pytest.param({"title": " Basil\n"}, "Basil", id="trimmed"),
        pytest.param({"title": "Basil", "n": 1}, "Basil", id="extra keys"),
        pytest.param({"title": 42}, None, id="a number"),
        pytest.param({"title": ["Basil"]}, None, id="a list"),
        pytest.param({"title": " \t"}, None, id="blanks"),
        pytest.param({"Title": "Basil"}, None, id="a missing key"),
        pytest.param(["title"], None, id="no dict"),
        pytest.param(None, None, id="nothing"),
    ],
)
def test_a_title_is_picked(value: object, expected: str | None) -> None:
    assert pick_title(value) == expected


@pytest.mark.parametrize(
    ("suggestions", "expected"),
    [
        pytest.param([" a ", "b", "c", "d"], ["a", "b", "c"], id="the first three, trimmed"),
        pytest.param([7, "a", None, "", "b", "c", "d"], ["a", "b", "c"], id="the first three usable ones"),
        pytest.param(["a"], ["a"], id="fewer than three"),
        pytest.param([], None, id="an empty list"),
        pytest.param([" ", "\ufeff"], None, id="only blanks"),
        pytest.param("a, b", None, id="a plain string"),
        pytest.param({"a": "b"}, None, id="a dict"),
        pytest.param(None, None, id="nothing"),
    ],
)
def test_suggestions_are_picked(suggestions: object, expected: list[str] | None) -> None:
    assert pick_suggestions({"suggestions": suggestions}) == expected


@pytest.mark.parametrize(
    ("queries", "expected"),
    [
        pytest.param(["a", "b", "c", "d", "e"], ["a", "b", "c", "d", "e"], id="all, in order"),
        pytest.param([" ", "a"], ["a"], id="a leading blank dropped, so that the first is never empty"),
        pytest.param(["a", "a"], ["a", "a"], id="doubles kept"),
        pytest.param([], None, id="an empty list"),
        pytest.param("a", None, id="a plain string"),
    ],
)
def test_queries_are_picked(queries: object, expected: list[str] | None) -> None:
    assert pick_queries({"queries": queries}) == expected


@pytest.mark.parametrize("pick", [pick_title, pick_suggestions, pick_queries])
def test_a_picker_gives_none_for_what_is_no_dict(pick: Callable[[object], object]) -> None:
    for value in ([], "title", 7, None, [{"title": "a"}]):
        assert pick(value) is None


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        pytest.param("basil", "basil", id="a string"),
        pytest.param("\ufeff\u200b\u2060\u00a0\u3000 basil\u2028\n", "basil", id="all blanks trimmed"),
        pytest.param("a \u200b b", "a \u200b b", id="inner blanks kept"),
        pytest.param("a\tb\r\nc", "a\tb\r\nc", id="tab, CR and LF"),
        pytest.param("a.", "a.", id="a dot at the end"),
        pytest.param("...", None, id="dots"),
        *(pytest.param(f"{dots} .", None, id=f"the dots {dots}") for dots in "…‥⋯"),
        pytest.param(" . .. ", None, id="dots and blanks"),
        pytest.param("?", "?", id="another mark"),
        pytest.param("", None, id="an empty string"),
        pytest.param("\u200b", None, id="an invisible string"),
        pytest.param("a\x00b", None, id="NUL"),
        pytest.param("\frac", None, id="a form feed at the start"),
        pytest.param("a\v", None, id="a vertical tab at the end"),
        pytest.param("a\x1f", None, id="a unit separator"),
        pytest.param("a\x7f", None, id="DEL"),
        pytest.param("a\x80", "a\x80", id="a C1 control"),
        pytest.param("a\ud83c", None, id="a lone surrogate"),
        pytest.param("a🌰", "a🌰", id="an emoji"),
        pytest.param(42, None, id="a number"),
        pytest.param(b"basil", None, id="bytes"),
        pytest.param(None, None, id="nothing"),
        pytest.param(Mock(spec=str), None, id="what claims to be a str"),
    ],
)
def test_a_string_is_cleaned(value: object, expected: str | None) -> None:
    assert clean_string(value) == expected


def test_a_cleaned_string_is_a_plain_str() -> None:
    assert type(clean_string(LyingStr(" basil "))) is str
    assert type(clean_string(LyingStr("basil"))) is str


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
    assert pick_title(Mock(spec=dict)) is None
    assert clean_strings(Mock(spec=list)) is None


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        pytest.param([" a ", 7, None, "...", "b"], ["a", "b"], id="unusable ones dropped"),
        pytest.param([], None, id="an empty list"),
        pytest.param([None], None, id="nothing usable"),
        pytest.param(("a",), None, id="a tuple, which no JSON gives"),
        pytest.param("ab", None, id="a string"),
    ],
)
def test_strings_are_cleaned(value: object, expected: list[str] | None) -> None:
    assert clean_strings(value) == expected
