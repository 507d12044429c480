"""What comes out of a side call: the one JSON object in a reply, or `None`."""

import re
from collections.abc import Callable
from types import CoroutineType
from typing import Any, TypeAlias

from ._marks import BLANKS
from ._reply import Part, answer, text_of
from ._search import MARKS, Finder, Marks as Marks
from ._types import T, is_a, require, type_name
from .errors import Code, ValidationError

Pick: TypeAlias = Callable[[dict[str, Any]], T | None]


def _schema(key: str, value: dict[str, Any]) -> dict[str, Any]:
    # JSON Schema 2020-12. A grammar made of a schema without `required` lets a small model emit `{}`.
    return {"type": "object", "properties": {key: value}, "required": [key], "additionalProperties": False}


_STRINGS = {"type": "array", "items": {"type": "string"}}
TITLE_SCHEMA = _schema("title", {"type": "string"})
SUGGESTIONS_SCHEMA = _schema("suggestions", {**_STRINGS, "minItems": 3, "maxItems": 3})
QUERIES_SCHEMA = _schema("queries", {**_STRINGS, "minItems": 1})

_MESSAGES: dict[Code, str] = {
    "OUTPUT_MISSING": "the reply holds no JSON object",
    "OUTPUT_MALFORMED": "the reply's JSON is cut off, broken or no object",
    "OUTPUT_REJECTED": "the picker accepted no JSON object of the reply",
    "OUTPUT_AMBIGUOUS": "the picker accepted JSON objects with different values",
}

# Text that is JSON of another shape, or a piece of it: users would see debris. Python's lists are written so, too.
_VALUE = r"(?:[\"'{\[]|-?\d|(?:true|false|null)\b)"
_JSON_START = re.compile(
    rf"[{{]|\[[{BLANKS}]*(?:{_VALUE}|\][{BLANKS}]*\Z|\Z)|\"(?:[^\"\\]|\\.)*\"[{BLANKS}]*:[{BLANKS}]*(?:{_VALUE}|\Z)"
)
_FENCE = re.compile(r"`{3}|^[^\S\n]*~{3}", re.MULTILINE)

# A lone surrogate is not UTF-8, and breaks the database or the response later. A control character is a slip in
# escaping: "\frac" is valid JSON for a form feed and "rac".
_CORRUPT = re.compile(r"[\x00-\x08\x0b\x0c\x0e-\x1f\x7f\ud800-\udfff]")

# A model that echoes the format puts these where the value belongs.
_DOTS = ".…‥⋯"

_SUGGESTIONS = 3


def parse_structured(raw: str | None, pick: Pick[T], *, marks: Marks | None = None) -> T | None:
    """The value that `pick` takes from the one JSON object in a reply, or `None` if there is no such value.

    Args:
        raw: the reply's content as it came, without the reasoning that a server sends in a field of its own.
        pick: takes an object and gives its value. If it gives `None` or raises an error, the object is rejected.
        marks: the marks of your own model, beside the built-in ones.

    Returns:
        The value of the object that `pick` accepts. If it accepts several, their values must be equal.

    Raises:
        No `Exception`, whatever `raw` is and whatever `pick` does. `KeyboardInterrupt` and `SystemExit` pass through.

    >>> parse_structured('<think>Is {it} short?</think> Sure: {"title": "Balcony herbs"}', pick_title)
    'Balcony herbs'
    """
    try:
        return require_structured(raw, pick, marks=marks)
    except Exception:  # a ValidationError, or what a full stack or memory raised in its place
        return None


def require_structured(raw: str | None, pick: Pick[T], *, marks: Marks | None = None) -> T:
    """The same as `parse_structured`, but if there is no value, an error says why.

    Args:
        raw: as in `parse_structured`.
        pick: as in `parse_structured`; so is `marks`.

    Returns:
        As `parse_structured`, but never `None`.

    Raises:
        ValidationError: with one issue. `OUTPUT_MISSING`: the reply is plain text or empty; only then may
            `answer_text(raw)` stand in for a value. `OUTPUT_MALFORMED`: its JSON is cut off, broken, or not an object.
            `OUTPUT_REJECTED`: `pick` accepted no object; what it raised last is the `__cause__`. `OUTPUT_AMBIGUOUS`:
            `pick` accepted objects with different values.
        TypeError: `marks` is not a `Marks`.

    >>> require_structured('{"title": "Balcony he', pick_title)
    Traceback (most recent call last):
    sidecall.errors.ValidationError: the reply's JSON is cut off, broken or no object
    """
    finder = MARKS.finder if marks is None else _finder(marks)
    reply = _text_or_none(raw)
    if reply is None:
        raise _refusal("OUTPUT_MISSING", f"the reply is of type {type_name(raw)}, and not a str")
    parts = answer(reply, finder)
    accepted: list[T] = []
    cause = None
    for _, _, _, value in parts:
        if value is None:
            continue
        try:
            picked = pick(value)
            if type(picked) is CoroutineType:
                picked.close()
                raise TypeError("the picker is a coroutine function: it gives a coroutine, and not a value")
        except Exception as error:
            cause, picked = error, None
        if picked is not None and accepted and not _is_equal(accepted[0], picked):
            raise _refusal("OUTPUT_AMBIGUOUS")
        accepted += [] if picked is None else [picked]
    if accepted:
        return accepted[0]
    code = _code_without_value(reply, parts, finder)
    raised = f"{_MESSAGES[code]}; it raised {type_name(cause)}" if cause is not None else None
    raise _refusal(code, raised) from cause


def answer_text(raw: str | None, *, marks: Marks | None = None) -> str:
    """The answer of a reply as plain text, to show in place of a value, but only after `OUTPUT_MISSING`.

    Args:
        raw: as in `parse_structured`; so is `marks`.

    Returns:
        The reply without reasoning, other turns, special tokens and calls of tools, trimmed. One pair of tags such
        as `<answer>` around all of it is left out, too. `""` if nothing is left. `clean_string` tells whether the text
        is fit for use.

    Raises:
        TypeError: `marks` is not a `Marks`.

    >>> answer_text("<think>Must I refuse?</think>\\nI can't name this chat.<|im_end|>")
    "I can't name this chat."
    """
    finder = MARKS.finder if marks is None else _finder(marks)
    reply = _text_or_none(raw) or ""
    return text_of(reply, answer(reply, finder), finder)


def pick_title(value: object) -> str | None:
    """The `title` of an object that follows `TITLE_SCHEMA`.

    Args:
        value: the object. Other keys in it do no harm.

    Returns:
        The title, as `clean_string` gives it; `None` if there is none, or if `value` is not a dict.

    >>> pick_title({"title": " Balcony herbs ", "emoji": "🌿"})
    'Balcony herbs'
    """
    return clean_string(_member(value, "title"))


def pick_suggestions(value: object) -> list[str] | None:
    """The first three usable `suggestions` of an object that follows `SUGGESTIONS_SCHEMA`.

    Args:
        value: the object. Other keys in it do no harm.

    Returns:
        One to three strings, as `clean_strings` gives them; `None` if there is none, or if `value` is not a dict.

    >>> pick_suggestions({"suggestions": ["How often?", "", "Which soil?", "Indoors?", "When?"]})
    ['How often?', 'Which soil?', 'Indoors?']
    """
    return (clean_strings(_member(value, "suggestions")) or [])[:_SUGGESTIONS] or None


def pick_queries(value: object) -> list[str] | None:
    """All usable `queries` of an object that follows `QUERIES_SCHEMA`, best first.

    Args:
        value: the object. Other keys in it do no harm.

    Returns:
        One string or more, as `clean_strings` gives them; `None` if there is none, or if `value` is not a dict.

    >>> pick_queries({"queries": ["", "herbs for a shady balcony"]})
    ['herbs for a shady balcony']
    """
    return clean_strings(_member(value, "queries"))


def clean_string(value: object) -> str | None:
    """A string that is fit for use, trimmed. It is a piece to write your own picker with.

    Args:
        value: anything. What is not a string is never turned into one: `42` is not a title.

    Returns:
        The string without blanks at its ends: all that Python and JavaScript trim, U+200B and U+2060. `None` if only
        dots or nothing is left, or if the string is corrupt: it has a lone surrogate, or a control character other
        than tab, LF and CR.

    >>> pick_summary = lambda value: clean_string(value.get("summary"))
    >>> parse_structured('{"summary": "Basil needs sun."}', pick_summary)
    'Basil needs sun.'
    """
    text = _text_or_none(value)
    if text is None or _CORRUPT.search(text):
        return None
    text = text.strip(BLANKS)
    return text if text.strip(_DOTS + BLANKS) else None


def clean_strings(value: object) -> list[str] | None:
    """The strings of a list that are fit for use.

    Args:
        value: anything. What is not a list is never turned into one: `"a, b"` is not a list.

    Returns:
        What `clean_string` gives for each entry, in order, without the `None`s. `None` if no entry is left.

    >>> clean_strings([" basil ", 7, None, "..."])
    ['basil']
    """
    if not is_a(value, list):
        return None
    return [text for entry in list.__iter__(value) if (text := clean_string(entry)) is not None] or None


def _text_or_none(value: object) -> str | None:
    # Of a subclass the text itself, which nothing that it overrides can change.
    return str.__str__(value) if is_a(value, str) else None


def _member(value: object, key: str) -> object:
    return dict.get(value, key) if is_a(value, dict) else None


def _finder(marks: Marks) -> Finder:
    require(is_a(marks, Marks), "marks", "a Marks", marks)
    return marks.finder


def _is_equal(one: object, other: object) -> bool:
    try:
        return (one == other) is True
    except Exception:
        return False


def _code_without_value(reply: str, parts: list[Part], finder: Finder) -> Code:
    kinds = {kind for kind, *_ in parts}
    if "object" in kinds:
        return "OUTPUT_REJECTED"
    is_debris = "broken" in kinds or _is_debris(text_of(reply, parts, finder))
    return "OUTPUT_MALFORMED" if is_debris else "OUTPUT_MISSING"


def _is_debris(text: str) -> bool:
    """Whether text is JSON of another shape, or a piece of it."""
    # A JSON string may hold JSON.
    starts = (text, re.sub(r"^(?:\\[nrt])+", "", text[1:].replace('\\"', '"'))) if text.startswith('"') else (text,)
    return text in ("null", "true", "false") or bool(_FENCE.search(text)) or any(map(_JSON_START.match, starts))


def _refusal(code: Code, message: str | None = None) -> ValidationError:
    return ValidationError([{"code": code, "message": message or _MESSAGES[code]}])
