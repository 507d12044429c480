"""Every refusal of the context half: class, code, field or issue, and wording. No other test knows the wording."""

import datetime
import json
import math
from collections import OrderedDict
from decimal import Decimal
from enum import StrEnum
from pathlib import Path
from typing import Any

import pytest
from fragments import (
    CONTEXT_CODES,
    DEFAULTS,
    MISSING,
    Broken,
    Number,
    Real,
    Sly,
    fragment,
    liar,
    named,
    nested,
    text_of,
)

from sidecall import (
    ContextFragment,
    ContextPolicyError,
    ValidationError,
    assemble_context,
    validate_context_budget,
    validate_context_fragment,
)


class Own(str):
    """Is equal to itself alone, so that a dict takes two that read the same."""

    __slots__ = ()
    __hash__ = str.__hash__

    def __eq__(self, other: object) -> bool:
        return self is other


class NoHash(type):
    def __eq__(cls, other: object) -> bool:
        return cls is other

    __hash__ = None  # type: ignore[assignment]  # the point of it


class Label(StrEnum):
    __module__ = "app"
    TOOL = "tool"


UNHASHABLE: Any = NoHash("Unhashable", (), {"__module__": "app"})
SELF: dict[str, object] = {}
SELF["self"] = SELF
LOOP: list[object] = []
LOOP.append(LOOP)
TWICE = nested(22, {"a": 1}, lambda inner: {"a": inner, "b": inner})

# What the file cannot say in JSON.
OBJECTS: dict[str, Any] = {
    "None": None,
    "missing": MISSING,
    "an instance of a subclass": named("Subclass", ContextFragment)(**DEFAULTS),
    "an instance of a class of the same name": named("ContextFragment", __module__=ContextFragment.__module__)(),
    "an instance of a class with a long name": named("A" * 1_000 + "Z" * 60, __module__="app")(),
    "an instance of a class whose module is not UTF-8": named("Odd", __module__="\ud800")(),
    "a numpy bool": named("bool", __module__="numpy")(),
    "a lone surrogate": "\udc80",
    "ab and a lone surrogate": "ab\ud83d",
    "a lone surrogate and U+0000": "\ud83d\0",
    "U+0000 and a lone surrogate": "a\0\ud83d",
    "a list": ["doc"],
    "a frozenset": frozenset({"doc"}),
    "a str subclass equal to anything": named("Sly", Sly)("tool"),
    "a str enum": Label.TOOL,
    "an int of 64 digits": 10**64 - 1,
    "an int of 65 digits": 10**64,
    "minus an int of 65 digits": -(10**64),
    "an int of 5,000 digits": 10**5000,
    "an int subclass": named("Number", Number)(9),
    "a float subclass equal to infinity": named("Real", Real)(5),
    "a NaN that writes itself as something else": named("Real", Real)("nan"),
    "an int of 5,000 digits that writes itself as something else": named("Number", Number)(10**5000),
    **{f"what claims to be of type {kind.__name__}": liar(kind) for kind in (str, dict, list, tuple, int, float, bool)},
    "bytes": b"secret",
    "a datetime": datetime.datetime.min,
    "a tuple that holds a set": (1, {2}),
    "an object whose class has no hash": UNHASHABLE(),
    "NaN": math.nan,
    "infinity": math.inf,
    "minus infinity": -math.inf,
    "a Decimal infinity": Decimal("Infinity"),
    "an OrderedDict of minus infinity": OrderedDict(a=-math.inf),
    "a dict with an int for a key": {1: "a", "1": "b"},
    "a dict with None for a key": {None: "a"},
    "a dict with two keys that read the same": {Own("a"): 1, Own("a"): 2},
    "a dict inside itself": SELF,
    "a list inside itself": {"a": LOOP},
    "a dict 129 deep": nested(129, 1, lambda inner: {"d": inner}),
    "lists 129 deep": {"d": nested(128, 1, lambda inner: [inner])},
    "a dict twice in a dict, 22 times over": TWICE,
    "a dict that cannot be read": named("Broken", Broken)(),
    "a dict whose items are not pairs": named("Odd", dict, items=lambda self: ["abc"])(),
    "a fragment": fragment(),
    "another fragment": fragment(id="other", value="hi"),
    "UTF-8 bytes": lambda text: len(text.encode()),
    "returns None": lambda _: None,
    "returns True": lambda _: True,
    "returns 1.0": lambda _: 1.0,
    "returns -1": lambda _: -1,
    "returns an int subclass": lambda _: named("Number", Number)(9),
    "returns an int of 5,000 digits": lambda _: 10**5000,
    "returns a str": lambda _: "over",
    "returns an exception class": lambda _: ValueError,
    "returns what claims to be an exception": lambda _: liar(ValueError),
    "an exception": ValueError("over"),
    "an exception that can be called": named("Callable", ValueError, __call__=lambda self, limit: None)("over"),
}
FILE = Path(__file__).parent / "cases" / "context_refusals.jsonl"
ROWS = [json.loads(line) for line in FILE.read_text("utf-8").splitlines()]


def objects(value: Any) -> Any:
    """Put objects in the place of their names, all through a value."""
    if isinstance(value, list):
        return [objects(each) for each in value]
    if isinstance(value, dict):
        return OBJECTS[value["$py"]] if "$py" in value else {key: objects(each) for key, each in value.items()}
    return value


def refuse(row: dict[str, Any]) -> None:
    """Make the call of a row."""
    options = row.get("options", {})
    if row["call"] == "budget":
        validate_context_budget(*row["args"], **options)
    elif row["call"] == "assemble":
        assemble_context(*row["args"], **options)
    else:
        given = row["fragment"] if "fragment" in row else fragment(**row["change"])
        validate_context_fragment(given, **{"ids": set(row["spent"])} if "spent" in row else options)


def told(error: Exception) -> dict[str, Any]:
    """What an error tells, in the words of the file."""
    if isinstance(error, ValidationError):
        return {"issues": list(error.issues)}
    return vars(error) if isinstance(error, ContextPolicyError) else {"message": str(error)}


@pytest.mark.parametrize("row", [pytest.param(objects(row), id=row["refusal"]) for row in ROWS])
def test_the_refusal_names_what_where_and_by_how_much(row: dict[str, Any]) -> None:
    with pytest.raises(Exception) as caught:  # noqa: PT011 - the class is compared exactly, below
        refuse(row)
    assert type(caught.value).__name__ == row["raises"]
    assert told(caught.value) == row["with"]
    if isinstance(caught.value, ValidationError) and not row["refusal"].endswith("5,000 digits"):
        # As a web framework writes an answer: no escapes, in UTF-8.
        sent = json.dumps(caught.value.issues, ensure_ascii=False).encode()
        assert json.loads(sent) == list(caught.value.issues)


def test_the_refusals_are_all_there() -> None:
    """Every code, field and kind of call occurs, and no name twice."""
    assert len({row["refusal"] for row in ROWS}) == len(ROWS)
    assert {row["call"] for row in ROWS} == {"fragment", "budget", "assemble"}
    policy = {(row["with"]["code"], row["with"]["field"]) for row in ROWS if "code" in row["with"]}
    assert policy == {
        *(("CONTEXT_FRAGMENT", field) for field in (None, *DEFAULTS)),
        *(("CONTEXT_TRUST", field) for field in ("trust", "value")),
        ("CONTEXT_VALUE", "value"),
    }
    issues = {issue["code"] for row in ROWS for issue in row["with"].get("issues", ())}
    assert issues | {code for code, _ in policy} == CONTEXT_CODES


SECRET = "the patient is called Jo"


@pytest.mark.parametrize(
    "changes",
    [
        pytest.param({"trust": SECRET}, id="the text for the trust"),
        pytest.param({"source_id": Sly(SECRET)}, id="a str subclass for the source"),
        pytest.param({"role": "system", "value": SECRET}, id="tool text in the system role"),
        pytest.param({"value": [SECRET]}, id="a list"),
        pytest.param({"value": {"a": {SECRET}}}, id="a set inside"),
        pytest.param({"value": {SECRET: {1}}}, id="a key that is content"),
        pytest.param({"value": {"a": {SECRET.encode(): 1}}}, id="a key that is bytes"),
        pytest.param({"value": Broken(a=SECRET)}, id="a dict that cannot be read"),
        pytest.param({"value": SECRET + "\ud800"}, id="a lone surrogate"),
        pytest.param({"value": {"a": SECRET + "\ud800"}}, id="a lone surrogate in a dict"),
        pytest.param({"value": SECRET + "\0"}, id="U+0000"),
        pytest.param({"value": SECRET + "<x>"}, id="a special token"),
        pytest.param({"value": SECRET, "max_chars": 3}, id="over its budget"),
    ],
)
def test_no_refusal_shows_what_was_refused(changes: dict[str, Any]) -> None:
    """Neither the message, nor an attribute, nor what hangs on the error of a failed encode."""
    with pytest.raises((ContextPolicyError, ValidationError)) as caught:
        validate_context_fragment(fragment(**changes), special_tokens=["<x>"])
    shown = f"{caught.value} {vars(caught.value)}"
    assert not any(word in shown for word in ("patient", "Jo"))
    assert not isinstance(caught.value.__context__, UnicodeError)


def test_what_a_value_raises_is_the_cause() -> None:
    """A dict that cannot be read says why to the developer, outside the message."""
    with pytest.raises(ContextPolicyError) as caught:
        text_of(Broken())
    assert isinstance(caught.value.__cause__, KeyError)
    with pytest.raises(ContextPolicyError) as caught:
        text_of({"a": {1}})
    assert caught.value.__cause__ is None
    assert caught.value.__suppress_context__


def test_the_repr_of_a_fragment_goes_without_its_value() -> None:
    """A repr may reach a log."""
    assert "secret" not in repr(fragment(value="secret"))
