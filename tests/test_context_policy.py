"""The context policy: every refusal, the gate, spent ids, exact text, hostile input, and assembly."""

import datetime
import inspect
import json
import math
import random
import sys
import tracemalloc
from collections import Counter, OrderedDict, defaultdict
from collections.abc import Callable, Iterator, MutableSet
from decimal import Decimal
from enum import IntEnum, StrEnum
from functools import partial
from itertools import product
from pathlib import Path
from types import SimpleNamespace
from typing import Any, NamedTuple, get_args
from unittest.mock import Mock

import pytest

from sidecall import _json_text
from sidecall.context_policy import (
    AssembledContext,
    ContextFragment,
    Lifetime,
    Role,
    Trust,
    assemble_context,
    validate_context_budget,
    validate_context_fragment,
)
from sidecall.errors import ContextPolicyError, ValidationError

MAX_SIZE = 2**53 - 1
DEFAULTS: dict[str, Any] = {
    "id": "doc",
    "source_id": "kb:7",
    "trust": "tool",
    "lifetime": "turn",
    "role": "user",
    "max_chars": MAX_SIZE,
    "value": "hello",
}
MISSING = object()


def fragment(**changes: Any) -> ContextFragment:
    """Make a fragment that is in order but for the changes; `MISSING` leaves a field unset."""
    made = object.__new__(ContextFragment)
    for name, value in (DEFAULTS | changes).items():
        if value is not MISSING:
            object.__setattr__(made, name, value)
    return made


def text_of(value: object) -> str:
    """Validate a fragment with this value."""
    return validate_context_fragment(fragment(value=value))


def rows_of(name: str) -> list[dict[str, Any]]:
    """Read a data file."""
    path = Path(__file__).parent / "cases" / name
    return [json.loads(line) for line in path.read_text("utf-8").splitlines()]


def nested(depth: int, innermost: object, wrap: Callable[[object], object]) -> Any:
    """Put a value under that many containers."""
    for _ in range(depth):
        innermost = wrap(innermost)
    return innermost


# --- things that lie ---


class _Sly(str):
    """Is equal to anything, has no length, and reads as something else."""

    __slots__ = ()

    def __eq__(self, other: object) -> bool:
        return True

    def __hash__(self) -> int:
        return hash("system")

    def __len__(self) -> int:
        return 0

    def __str__(self) -> str:
        return "lie"

    __repr__ = __format__ = __str__  # type: ignore[assignment]  # one lie serves for all


class _Own(str):
    """Is equal to itself alone, so that a dict takes two that read the same."""

    __slots__ = ()

    def __eq__(self, other: object) -> bool:
        return self is other

    def __hash__(self) -> int:
        return id(self)


class _Number(int):
    """Is less than nothing, and writes itself as something else."""

    def __lt__(self, other: object) -> bool:
        return False

    __gt__ = __le__ = __lt__

    def __repr__(self) -> str:
        return "lie"

    __str__ = __repr__


class _Real(float):
    def __eq__(self, other: object) -> bool:
        return True

    __hash__ = float.__hash__

    def __repr__(self) -> str:
        return "lie"


class _TwoFaced(dict[str, object]):
    """Shows other items at each look, and counts the looks."""

    looks = 0

    def items(self) -> Any:
        self.looks += 1
        return [("a", self.looks)] if self.looks == 1 else [("a", datetime.datetime.min)]


class _Broken(dict[str, object]):
    def items(self) -> Any:
        raise KeyError("secret")


class _Odd(dict[str, object]):
    def items(self) -> Any:
        return ["abc"]


class _OneList(list[object]):
    """Shows nothing to who iterates."""

    def __iter__(self) -> Iterator[object]:
        return iter(())


class _NoHash(type):
    def __eq__(cls, other: object) -> bool:
        return cls is other

    __hash__ = None  # type: ignore[assignment]  # the point of it


def _named(name: str, base: type, **members: object) -> Any:
    return type(name, (base,), dict(members))


def _liar(claim: type) -> object:
    return _named("Liar", object, __class__=property(lambda self: claim), items=lambda self: ())()


class Label(StrEnum):
    """A str enum, whose members are equal to their values."""

    TOOL = "tool"


_UNHASHABLE: Any = _NoHash("Unhashable", (), {})

_SELF: dict[str, object] = {}
_SELF["self"] = _SELF
_LOOP: list[object] = []
_LOOP.append(_LOOP)

# What the refusals' file cannot say in JSON.
OBJECTS: dict[str, Any] = {
    "None": None,
    "missing": MISSING,
    "an instance of a subclass": _named("Subclass", ContextFragment)(**DEFAULTS),
    "a lone surrogate": "\udc80",
    "ab and a lone surrogate": "ab\ud83d",
    "a list": ["doc"],
    "a frozenset": frozenset({"doc"}),
    "a str subclass equal to anything": _named("Sly", _Sly)("tool"),
    "a str enum": Label.TOOL,
    "an int of 5,000 digits": 10**5000,
    "an int subclass": _named("Number", _Number)(9),
    "a float subclass equal to infinity": _named("Real", _Real)(5),
    "a NaN that writes itself as something else": _named("Real", _Real)("nan"),
    "an int of 5,000 digits that writes itself as something else": _named("Number", _Number)(10**5000),
    "an object that claims to be a dict": _liar(dict),
    "bytes": b"secret",
    "an object that claims to be a str": _liar(str),
    "a datetime": datetime.datetime.min,
    "a tuple that holds a set": (1, {2}),
    "an object whose class has no hash": _UNHASHABLE(),
    "NaN": math.nan,
    "infinity": math.inf,
    "minus infinity": -math.inf,
    "a Decimal infinity": Decimal("Infinity"),
    "an OrderedDict of minus infinity": OrderedDict(a=-math.inf),
    "a dict with an int for a key": {1: "a", "1": "b"},
    "a dict with None for a key": {None: "a"},
    "a dict with two keys that read the same": {_Own("a"): 1, _Own("a"): 2},
    "a dict inside itself": _SELF,
    "a list inside itself": {"a": _LOOP},
    "a dict 129 deep": nested(129, 1, lambda inner: {"d": inner}),
    "lists 129 deep": {"d": nested(128, 1, lambda inner: [inner])},
    "a dict that cannot be read": _named("Broken", _Broken)(),
    "a dict whose items are no pairs": _named("Odd", _Odd)(),
    "a fragment": fragment(),
    "another fragment": fragment(id="other"),
    "UTF-8 bytes": lambda text: len(text.encode()),
    "returns None": lambda _: None,
    "returns True": lambda _: True,
    "returns 1.0": lambda _: 1.0,
    "returns -1": lambda _: -1,
    "returns an int subclass": lambda _: _named("Number", _Number)(9),
    "returns an int of 5,000 digits": lambda _: 10**5000,
    "returns 2**53 - 1": lambda _: 2**53 - 1,
    "returns a str": lambda _: "over",
    "returns an exception class": lambda _: ValueError,
    "returns what claims to be an exception": lambda _: _liar(ValueError),
}
REFUSALS = rows_of("context_refusals.jsonl")


def _objects(value: Any) -> Any:
    """Put objects in the place of their names, all through a value."""
    if isinstance(value, list):
        return [_objects(each) for each in value]
    if isinstance(value, dict):
        return OBJECTS[value["$py"]] if "$py" in value else {key: _objects(each) for key, each in value.items()}
    return value


def _refuse(row: dict[str, Any]) -> None:
    options = {"measure": row["measure"]} if "measure" in row else {}
    if row["call"] == "budget":
        validate_context_budget(*row["args"])
    elif row["call"] == "assemble":
        assemble_context(*row["args"], ids=row.get("ids"), **options)
    else:
        given = row["fragment"] if "fragment" in row else fragment(**row["change"])
        ids = set(row["spent"]) if "spent" in row else row.get("ids")
        validate_context_fragment(given, ids, **options)


@pytest.mark.parametrize("row", [pytest.param(_objects(row), id=row["refusal"]) for row in REFUSALS])
def test_the_refusal_names_what_where_and_by_how_much(row: dict[str, Any]) -> None:
    """The class is exact, and so is each issue or attribute, message included."""
    with pytest.raises(Exception) as caught:  # noqa: PT011 - the class is compared exactly, below
        _refuse(row)
    error = caught.value
    assert type(error).__name__ == row["raises"]
    if isinstance(error, ValidationError):
        assert {"issues": list(error.issues)} == row["with"]
    elif isinstance(error, ContextPolicyError):
        assert vars(error) == row["with"]
    else:
        assert {"message": str(error)} == row["with"]


def test_the_refusals_are_all_there() -> None:
    """Every code, field and kind of call occurs, and no name twice."""
    assert len({row["refusal"] for row in REFUSALS}) == len(REFUSALS)
    assert {row["call"] for row in REFUSALS} == {"fragment", "budget", "assemble"}
    policy = {(row["with"]["code"], row["with"]["field"]) for row in REFUSALS if "code" in row["with"]}
    assert policy == {
        *(("CONTEXT_FRAGMENT", field) for field in (None, *DEFAULTS)),
        ("CONTEXT_TRUST", "trust"),
        ("CONTEXT_TRUST", "value"),
        ("CONTEXT_VALUE", "value"),
    }
    issues = {issue["code"] for row in REFUSALS for issue in row["with"].get("issues", ())}
    assert issues == {"CONTEXT_TEXT", "CONTEXT_BUDGET"}


def test_refused_issues_are_json() -> None:
    """A caller may answer with them as they are."""
    with pytest.raises(ValidationError) as caught:
        validate_context_fragment(fragment(value="hello!", max_chars=5))
    assert json.loads(json.dumps(caught.value.issues)) == list(caught.value.issues)


SECRET = "the patient is called Jo"


@pytest.mark.parametrize(
    "changes",
    [
        pytest.param({"trust": SECRET}, id="the text for the trust"),
        pytest.param({"source_id": _Sly(SECRET)}, id="a str subclass for the source"),
        pytest.param({"role": "system", "value": SECRET}, id="tool text in the system role"),
        pytest.param({"value": [SECRET]}, id="a list"),
        pytest.param({"value": {"a": {SECRET}}}, id="a set inside"),
        pytest.param({"value": {SECRET: {1}}}, id="a key that is content"),
        pytest.param({"value": {"a": {SECRET.encode(): 1}}}, id="a key that is bytes"),
        pytest.param({"value": _named("Broken", _Broken)(a=SECRET)}, id="a dict that cannot be read"),
        pytest.param({"value": SECRET + "\ud800"}, id="a lone surrogate"),
        pytest.param({"value": {"a": SECRET + "\ud800"}}, id="a lone surrogate in a dict"),
        pytest.param({"value": SECRET, "max_chars": 3}, id="over its budget"),
    ],
)
def test_no_refusal_shows_what_was_refused(changes: dict[str, Any]) -> None:
    """Neither the message, nor an attribute, nor what hangs on the error of a failed encode."""
    with pytest.raises((ContextPolicyError, ValidationError)) as caught:
        validate_context_fragment(fragment(**changes))
    shown = f"{caught.value} {vars(caught.value)}"
    assert not any(word in shown for word in ("patient", "Jo"))
    assert not isinstance(caught.value.__context__, UnicodeError)


def test_what_a_value_raises_is_the_cause() -> None:
    """A dict that cannot be read says why to the developer, outside the message."""
    with pytest.raises(ContextPolicyError) as caught:
        text_of(_Broken())
    assert isinstance(caught.value.__cause__, KeyError)
    with pytest.raises(ContextPolicyError) as caught:
        text_of({"a": {1}})
    assert caught.value.__cause__ is None
    assert caught.value.__suppress_context__


# --- the gate ---

GATE = rows_of("context_gate.jsonl")
GATE_VALUES: dict[str, tuple[Any, str]] = {
    "str": ("hi", "hi"),
    "str over budget": ("hello, world", "hello, world"),
    "str subclass": (_Sly("hi"), "hi"),
    "dict": ({"a": 1}, '{"a":1}'),
    "dict over budget": ({"a": 123456789}, '{"a":123456789}'),
    "dict subclass": (OrderedDict(a=1), '{"a":1}'),
    "list": (["hi"], ""),
    "None": (None, ""),
    "claims to be a str": (_liar(str), ""),
    "claims to be a dict": (_liar(dict), ""),
}
GIVEN: dict[str, Callable[..., Any]] = {
    "fragment": ContextFragment,
    "dict of the fields": dict,
    "object with the fields": SimpleNamespace,
    "subclass of the fragment": _named("Subclass", ContextFragment),
    "mock of a fragment": lambda **changes: Mock(spec=ContextFragment, **changes),
}
VERDICTS: dict[str, tuple[str, str | None]] = {
    "sent as a system message": ("system", None),
    "sent as a user message": ("user", None),
    "refused: this trust has no place in the system role": ("CONTEXT_TRUST", "trust"),
    "refused: the system role takes text alone": ("CONTEXT_TRUST", "value"),
    "refused: neither text nor dict": ("CONTEXT_VALUE", "value"),
    "refused: over its budget": ("CONTEXT_BUDGET", None),
    "refused: no fragment": ("CONTEXT_FRAGMENT", None),
}


def _outcome(call: Callable[[], str]) -> tuple[str, str | None]:
    try:
        return call(), None
    except (ContextPolicyError, ValidationError) as error:
        return error.code, getattr(error, "field", None)


def _role_of(given: ContextFragment, text: str) -> str:
    (message,) = assemble_context([given]).messages
    assert message["content"] == text
    return message["role"]


def test_the_gate_comes_to_the_verdict_of_each_row() -> None:
    """One call a row, and assembly as well where budgets are checked."""
    for row in GATE:
        value, text = GATE_VALUES[row["value"]]
        names = ("role", "trust", "lifetime")
        given = GIVEN[row["given"]](
            id="doc", source_id="kb:7", max_chars=10, value=value, **{name: row[name] for name in names}
        )
        expected = VERDICTS[row["verdict"]]
        sent = row["verdict"].startswith("sent")

        assert _outcome(partial(validate_context_fragment, given, check_budget=row["check_budget"])) == (
            (text, None) if sent else expected
        ), row
        if row["check_budget"]:
            assert _outcome(partial(_role_of, given, text)) == expected, row


def test_the_gate_has_a_row_for_the_whole_product() -> None:
    """A trust, role or lifetime that is added needs its rows, and each verdict occurs."""
    names = ("trust", "role", "lifetime", "value", "check_budget")
    rows = Counter(tuple(row[name] for name in names) for row in GATE if row["given"] == "fragment")
    whole = product(get_args(Trust), get_args(Role), get_args(Lifetime), GATE_VALUES, (True, False))
    assert rows == Counter(whole)
    others = Counter((row["given"], row["trust"], row["role"]) for row in GATE if row["given"] != "fragment")
    assert others == Counter(product([*GIVEN][1:], get_args(Trust), get_args(Role)))
    assert {row["verdict"] for row in GATE} == set(VERDICTS)


# --- the order of the checks, and spent ids ---


def test_the_first_check_that_fails_is_the_one_reported() -> None:
    """A fragment that breaks everything is mended from the first check to the last."""
    ids = {"spent"}
    surrogate = {"a": "\ud800" * 20}
    steps: list[tuple[dict[str, Any], str, str | None]] = [
        ({"id": "Spent"}, "CONTEXT_FRAGMENT", "id"),
        ({"id": "spent"}, "CONTEXT_FRAGMENT", "source_id"),
        ({"source_id": "s"}, "CONTEXT_FRAGMENT", "trust"),
        ({"trust": "tool"}, "CONTEXT_FRAGMENT", "lifetime"),
        ({"lifetime": "turn"}, "CONTEXT_FRAGMENT", "role"),
        ({"role": "system"}, "CONTEXT_FRAGMENT", "max_chars"),
        ({"max_chars": 5}, "CONTEXT_FRAGMENT", "value"),
        ({"value": surrogate | {"b": {1}}}, "CONTEXT_FRAGMENT", "id"),
        ({"id": "doc-1"}, "CONTEXT_TRUST", "trust"),
        ({"id": "doc-2", "trust": "server"}, "CONTEXT_TRUST", "value"),
        ({"id": "doc-3", "role": "user"}, "CONTEXT_VALUE", "value"),
        ({"id": "doc-4", "value": surrogate}, "CONTEXT_TEXT", None),
        ({"id": "doc-5", "value": {"a": "\ue000" * 20}}, "CONTEXT_BUDGET", None),
    ]
    wrong: dict[str, Any] = dict.fromkeys(DEFAULTS, None) | {"value": MISSING}
    for change, code, field in steps:
        wrong |= change
        call = partial(validate_context_fragment, fragment(**wrong), ids)
        assert _outcome(call) == (code, field), change
    assert ids == {"spent", "doc-1", "doc-2", "doc-3", "doc-4", "doc-5"}


def test_an_empty_set_of_the_caller_is_filled() -> None:
    """It is falsy, and still the caller's accumulator."""
    ids: set[str] = set()
    validate_context_fragment(fragment(), ids)
    assert ids == {"doc"}
    assemble_context([fragment(id="other")], ids=ids)
    assert ids == {"doc", "other"}


def test_without_ids_each_call_starts_afresh() -> None:
    """No call leaves anything to the next."""
    for _ in range(2):
        assert validate_context_fragment(fragment()) == "hello"
        assert assemble_context([fragment()]).sizes == {"doc": 5}


class _Log(MutableSet[str]):
    """A set of the caller's own kind, which also keeps the order."""

    def __init__(self) -> None:
        self.log: list[str] = []

    def __contains__(self, item: object) -> bool:
        return item in self.log

    def __iter__(self) -> Iterator[str]:
        return iter(self.log)

    def __len__(self) -> int:
        return len(self.log)

    def add(self, value: str) -> None:
        self.log.append(value)

    def discard(self, value: str) -> None:
        raise AssertionError("a spent id stays spent")


def test_any_mutable_set_is_an_accumulator() -> None:
    """A ledger that remembers the order, or lives in a store, does as well."""
    ids = _Log()
    assemble_context([fragment(id="b"), fragment(id="a")], ids=ids)
    with pytest.raises(ContextPolicyError, match="spent"):
        validate_context_fragment(fragment(id="a"), ids)
    assert ids.log == ["b", "a"]


def test_a_wrong_accumulator_is_refused_before_the_fragment() -> None:
    """It is the first thing that is looked at."""
    wrong: Any = ["doc"]
    with pytest.raises(TypeError, match="ids"):
        validate_context_fragment(fragment(id="Bad"), wrong)


# What may be wrong with a fragment, and the code of its refusal.
FAULTS: dict[str, tuple[dict[str, Any], str]] = {
    "nothing": ({}, ""),
    "fields": ({"max_chars": 0}, "CONTEXT_FRAGMENT"),
    "trust": ({"role": "system"}, "CONTEXT_TRUST"),
    "value": ({"value": None}, "CONTEXT_VALUE"),
    "text": ({"value": "\udfff"}, "CONTEXT_TEXT"),
    "size": ({"max_chars": 1}, "CONTEXT_BUDGET"),
}


def _model(spent: set[str], steps: list[tuple[str, str]]) -> str:
    """Spend ids as the policy says, knowing ids alone; give the fault that stops the call, if one does."""
    for name, fault in steps:
        if fault == "fields" or name in spent:
            return fault if fault == "fields" else "duplicate"
        spent.add(name)
        if fault in ("trust", "value"):
            return fault
    return "none"


def _spending(made: list[ContextFragment], ids: set[str], single: bool) -> tuple[str, str | list[str], bool]:
    """Make the call, and give the code of a breach and whether it is the id's, or the codes of the issues."""
    try:
        if single:
            validate_context_fragment(made[0], ids)
        else:
            assemble_context(made, ids=ids)
    except ContextPolicyError as error:
        return "policy", error.code, error.field == "id"
    except ValidationError as error:
        return "data", [issue["code"] for issue in error.issues], False
    return "data", [], False


def test_ids_are_spent_as_the_model_says() -> None:
    """2,500 sequences of calls, single and assembled, on one accumulator each."""
    rng = random.Random(20)
    seen: Counter[str] = Counter()
    for _ in range(2500):
        ids: set[str] = set()
        spent: set[str] = set()
        for _ in range(rng.randint(2, 5)):
            single = rng.random() < 0.5
            count = 1 if single else rng.randint(0, 3)
            steps = [(rng.choice("abcdef"), rng.choice([*FAULTS, "nothing"])) for _ in range(count)]
            made = [fragment(id=name, **FAULTS[fault][0]) for name, fault in steps]
            stop = _model(spent, steps)
            codes = [FAULTS[fault][1] for _, fault in steps if fault in ("text", "size")]
            seen.update([stop, "single" if single else "assembled", *(codes if stop == "none" else ())])
            assert _spending(made, ids, single) == (
                ("policy", "CONTEXT_FRAGMENT" if stop == "duplicate" else FAULTS[stop][1], stop == "duplicate")
                if stop != "none"
                else ("data", codes, False)
            )
            assert ids == spent
    kinds = ("duplicate", "fields", "trust", "value", "CONTEXT_TEXT", "CONTEXT_BUDGET", "single", "assembled", "none")
    assert all(seen[kind] > 100 for kind in kinds), seen


# --- hostile and unusual input ---


def test_a_str_subclass_is_sent_as_what_it_is() -> None:
    """Neither its length nor its conversions are asked."""
    text = text_of(_Sly("the real text"))
    assert type(text) is str
    assert text == "the real text"
    with pytest.raises(ValidationError, match="measures 13"):
        validate_context_fragment(fragment(value=_Sly("the real text"), max_chars=12))


def test_a_fragment_is_read_once() -> None:
    """Who changes it while it is being checked changes nothing."""
    given = fragment(role="user", trust="tool", value="before", id="doc")

    class _Meddling(_Log):
        def add(self, value: str) -> None:
            super().add(value)
            for name, change in {"role": "system", "value": "after", "id": "other", "max_chars": 1}.items():
                object.__setattr__(given, name, change)

    context = assemble_context([given], ids=_Meddling())
    assert context == ([{"role": "user", "content": "before"}], {"doc": 6})


def test_a_dict_subclass_is_read_once() -> None:
    """What was checked is what is sent, though it shows other items at each look."""
    value = _TwoFaced()
    assert text_of(value) == '{"a":1}'
    assert value.looks == 1
    inner = _TwoFaced()
    assert text_of({"in": [inner]}) == '{"in":[{"a":1}]}'
    assert inner.looks == 1


class _Point(NamedTuple):
    x: int
    y: int


class _Level(IntEnum):
    HIGH = 3


@pytest.mark.parametrize(
    ("value", "text"),
    [
        pytest.param({}, "{}", id="nothing"),
        pytest.param({"b": 1, "a": 2}, '{"b":1,"a":2}', id="key order"),
        pytest.param({"é": "水 \u2028"}, '{"é":"水 \u2028"}', id="non-ASCII characters"),
        pytest.param({"a": ()}, '{"a":[]}', id="a tuple"),
        pytest.param({"a": [True, False, None]}, '{"a":[true,false,null]}', id="the three words"),
        pytest.param({"a": [1.0, -0.0, 1e300]}, '{"a":[1.0,-0.0,1e+300]}', id="floats"),
        pytest.param({"a": 10**400}, '{"a":1' + "0" * 400 + "}", id="a long int"),
        pytest.param({"a": _Sly("x")}, '{"a":"x"}', id="a str subclass"),
        pytest.param({_Sly("a"): 1}, '{"a":1}', id="a key of a str subclass"),
        pytest.param({Label.TOOL: Label.TOOL}, '{"tool":"tool"}', id="a str enum"),
        pytest.param({"a": [_Number(7), _Real(0.5)]}, '{"a":[7,0.5]}', id="numbers that write themselves"),
        pytest.param({"a": _Level.HIGH}, '{"a":3}', id="an int enum"),
        pytest.param({"a": _Point(1, 2)}, '{"a":[1,2]}', id="a named tuple"),
        pytest.param({"a": _OneList([1, 2])}, '{"a":[1,2]}', id="a list that hides its items"),
        pytest.param(defaultdict(list, a=[1]), '{"a":[1]}', id="a defaultdict"),
        pytest.param({"a": OrderedDict(b=True, c=None)}, '{"a":{"b":true,"c":null}}', id="an OrderedDict"),
    ],
)
def test_a_value_that_is_json_becomes_its_text(value: Any, text: str) -> None:
    """Compact, in order, and never as a subclass would have it."""
    assert text_of(value) == text


def test_an_ordered_dict_keeps_its_own_order() -> None:
    """Its order is not that of the dict beneath."""
    value = OrderedDict(a=1, b=2)
    value.move_to_end("a")
    assert text_of(value) == '{"b":2,"a":1}'


def test_a_value_may_be_shared() -> None:
    """Twice the same list is no cycle, in exact types and in others."""
    shared = [1]
    assert text_of({"a": shared, "b": [shared, shared]}) == '{"a":[1],"b":[[1],[1]]}'
    assert text_of(OrderedDict(a=shared, b=[shared, shared])) == '{"a":[1],"b":[[1],[1]]}'


DEEP: dict[str, Callable[[int], Any]] = {
    "dicts": lambda depth: nested(depth, 1, lambda inner: {"d": inner}),
    "dicts of a subclass": lambda depth: nested(depth, 1, lambda inner: OrderedDict(d=inner)),
    "lists in a dict": lambda depth: {"d": nested(depth - 1, 1, lambda inner: [inner])},
    "tuples in a dict of a subclass": lambda depth: OrderedDict(d=nested(depth - 1, 1, lambda inner: (inner,))),
    "a subclass at the bottom": lambda depth: nested(depth - 1, OrderedDict(a=1), lambda inner: {"d": inner}),
    "nothing at the bottom": lambda depth: nested(depth - 1, {}, lambda inner: {"d": inner}),
}


@pytest.mark.parametrize("kind", DEEP)
def test_a_value_may_be_128_deep_and_no_deeper(kind: str) -> None:
    """The outermost dict counts as the first."""
    text = text_of(DEEP[kind](128))
    assert text.count("{") + text.count("[") == 128
    with pytest.raises(ContextPolicyError, match="more than 128 deep") as caught:
        text_of(DEEP[kind](129))
    assert caught.value.code == "CONTEXT_VALUE"


def _less_deep(frames: int, call: Callable[[], object]) -> object:
    return _less_deep(frames - 1, call) if frames else call()


@pytest.mark.parametrize("left", [30, 60, 100, 150])
def test_a_full_stack_is_no_stray_recursion_error(left: int) -> None:
    """Near the recursion limit a deep value is refused, and no RecursionError escapes."""
    value = DEEP["dicts of a subclass"](128)
    frames = sys.getrecursionlimit() - len(inspect.stack(0)) - left
    with pytest.raises(ContextPolicyError, match="too little of the stack") as caught:
        _less_deep(frames, lambda: text_of(value))
    assert caught.value.code == "CONTEXT_VALUE"


@pytest.mark.parametrize(
    "wrap",
    [
        pytest.param(lambda inner: [inner, inner], id="lists"),
        pytest.param(lambda inner: {"a": inner, "b": inner}, id="dicts"),
    ],
)
def test_shared_parts_do_not_multiply_the_check(wrap: Callable[[object], object]) -> None:
    """Sixteen containers, each holding the next one twice, are refused in the room of a few."""
    value = {"a": nested(16, {1}, wrap)}
    tracemalloc.start()
    try:
        with pytest.raises(ContextPolicyError, match="is a set"):
            text_of(value)
        assert tracemalloc.get_traced_memory()[1] < 200_000
    finally:
        tracemalloc.stop()


def test_a_lower_limit_of_digits_is_heeded() -> None:
    """What this Python does not write is refused by its path, whatever its limit."""
    before = sys.get_int_max_str_digits()
    sys.set_int_max_str_digits(700)
    try:
        with pytest.raises(ContextPolicyError, match=r"\$\.a is an int of too many digits"):
            text_of({"a": 10**800})
    finally:
        sys.set_int_max_str_digits(before)


@pytest.mark.parametrize(
    ("key", "step"),
    [
        pytest.param("at", ".at", id="a name"),
        pytest.param("content-Type_2", ".content-Type_2", id="a name with marks"),
        pytest.param("k" * 64, "." + "k" * 64, id="64 letters"),
        pytest.param("", "[key 1]", id="nothing"),
        pytest.param("a.b", "[key 1]", id="a point, which would read as two steps"),
        pytest.param("at\n", "[key 1]", id="a newline last"),
        pytest.param("größe", "[key 1]", id="letters that are not ASCII"),
    ],
)
def test_a_path_shows_a_key_that_is_a_short_name(key: str, step: str) -> None:
    """Any other key may be content, and its place is shown instead."""
    with pytest.raises(ContextPolicyError) as caught:
        text_of({"first": 1, key: b""})
    assert str(caught.value) == f"fragment doc of source 'kb:7': ${step} is a bytes"


# --- random values ---

WORDS = ["", "a", "two words", 'quote " and \\', "\x00\t\n", "水の浄化", "é\u2028", "😀"]


def _leaf(rng: random.Random) -> object:
    return rng.choice(
        [None, True, False, rng.randint(-(10**20), 10**20), rng.uniform(-1e9, 1e9), rng.choice(WORDS)]
        + [_Sly(rng.choice(WORDS)), _Level.HIGH, _Real(rng.random())] * (rng.random() < 0.1)
    )


def _random_dict(rng: random.Random, depth: int) -> dict[str, object]:
    keys = rng.sample([*WORDS, "b", "c", "key"], rng.randint(0, 5))
    made = {key: _random_value(rng, depth - 1) for key in keys}
    return OrderedDict(made) if rng.random() < 0.1 else made


def _random_value(rng: random.Random, depth: int) -> object:
    kind = rng.choice(["dict", "list", "tuple", "leaf"]) if depth else "leaf"
    if kind == "leaf":
        return _leaf(rng)
    if kind == "dict":
        return _random_dict(rng, depth)
    items = [_random_value(rng, depth - 1) for _ in range(rng.randint(0, 4))]
    return tuple(items) if kind == "tuple" else items


def _shape(value: Any) -> object:
    """Put a value into what JSON keeps of it: pairs in order for a dict, a list for a tuple, plain scalars."""
    if isinstance(value, dict):
        return ("dict", [(str.__str__(key), _shape(item)) for key, item in value.items()])
    if isinstance(value, list | tuple):
        return [_shape(item) for item in value]
    if isinstance(value, str):
        return str.__str__(value)
    if isinstance(value, bool) or value is None:
        return value
    return float.__float__(value) if isinstance(value, float) else int.__int__(value)


def _parsed(text: str) -> object:
    return json.loads(text, object_pairs_hook=lambda pairs: ("dict", pairs))


def _kinds(value: Any) -> Iterator[str]:
    yield type(value).__name__
    if isinstance(value, dict | list | tuple):
        for item in value.values() if isinstance(value, dict) else value:
            yield from _kinds(item)


def test_json_text_says_what_the_value_is_and_no_more() -> None:
    """2,000 random values come back from their text, which is compact, ordered, and UTF-8."""
    rng = random.Random(41)
    seen: Counter[str] = Counter()
    for _ in range(2000):
        value = _random_dict(rng, 5)
        seen.update(_kinds(value))
        text = validate_context_fragment(fragment(value=value))
        assert _parsed(text) == _shape(value)
        assert text == json.dumps(json.loads(text), ensure_ascii=False, separators=(",", ":"))
        assert text.encode().decode() == text
    kinds = ("dict", "list", "tuple", "str", "int", "float", "bool", "NoneType", "OrderedDict", "_Sly", "_Real")
    assert all(seen[kind] > 100 for kind in kinds), seen


NO_JSON: dict[str, tuple[object, str]] = {
    "datetime": (datetime.datetime.min, "is a datetime"),
    "set": ({1}, "is a set"),
    "bytes": (b"", "is a bytes"),
    "Decimal": (Decimal(1), "is a Decimal"),
    "object": (object(), "is an object"),
    "NaN": (math.nan, "is a float that is not finite"),
    "infinity": (-math.inf, "is a float that is not finite"),
    "int": (10**4300, "is an int of too many digits"),
    "key": ({7: 1}, "has an int for a key"),
    "loop": (_LOOP, "is a list inside itself"),
}


def _planted(rng: random.Random, depth: int, bad: object) -> tuple[Any, str]:
    """Put a bad value that many steps into a random one, at a random place; give both the value and the path."""
    if not depth:
        return bad, ""
    inner, path = _planted(rng, depth - 1, bad)
    around = [_random_value(rng, 2) for _ in range(rng.randint(0, 3))]
    place = rng.randint(0, len(around))
    if depth == 1 or rng.random() < 0.6:
        names = rng.sample("abcdefgh", len(around) + 1)
        items = dict(zip(names, [*around[:place], inner, *around[place:]], strict=True))
        return OrderedDict(items) if rng.random() < 0.1 else items, f".{names[place]}{path}"
    made = [*around[:place], inner, *around[place:]]
    return tuple(made) if rng.random() < 0.3 else made, f"[{place}]{path}"


def test_what_is_no_json_is_refused_by_its_path_wherever_it_stands() -> None:
    """2,000 random values, each with one bad part, at every depth from 1 to 12."""
    rng = random.Random(42)
    seen: Counter[object] = Counter()
    for _ in range(2000):
        kind, depth = rng.choice([*NO_JSON]), rng.randint(1, 12)
        bad, what = NO_JSON[kind]
        inner, path = _planted(rng, depth, bad)
        value = {"top": inner}
        end = "[0]" if kind == "loop" else ""
        with pytest.raises(ContextPolicyError) as caught:
            text_of(value)
        assert (caught.value.code, caught.value.field) == ("CONTEXT_VALUE", "value")
        assert str(caught.value) == f"fragment doc of source 'kb:7': $.top{path}{end} {what}"
        seen.update([kind, depth])
    assert all(seen[each] > 50 for each in [*NO_JSON, *range(1, 13)]), seen


# --- measure ---


def _utf16_units(text: str) -> int:
    return len(text.encode("utf-16-le")) // 2


@pytest.mark.parametrize(
    ("measure", "size"),
    [
        pytest.param(len, 7, id="Python characters"),
        pytest.param(lambda text: len(text.encode()), 13, id="UTF-8 bytes"),
        pytest.param(_utf16_units, 8, id="UTF-16 units"),
        pytest.param(lambda text: len(text.split()), 4, id="words, for a tokenizer"),
    ],
)
def test_budgets_are_in_the_unit_of_measure(measure: Callable[[str], int], size: int) -> None:
    """A text of that size fits, one less does not, and no message names a unit it does not know."""
    text = "😀 é 水 x"
    exact = fragment(value=text, max_chars=size)
    assert validate_context_fragment(exact, measure=measure) == text
    assert assemble_context([exact], size, measure=measure).sizes == {"doc": size}
    with pytest.raises(ValidationError) as total:
        assemble_context([exact], size - 1, measure=measure)
    small = fragment(value=text, max_chars=size - 1)
    with pytest.raises(ValidationError) as single:
        validate_context_fragment(small, measure=measure)
    for error in (total.value, single.value):
        assert (error.issues[0]["size"], error.issues[0]["limit"]) == (size, size - 1)
        assert "character" not in str(error)


def test_what_measure_raises_passes_through() -> None:
    """Be it even a ValidationError, which is then not gathered."""
    own = ValidationError([{"code": "OWN", "message": "tokenizer"}])

    def measure(text: str) -> int:
        raise own

    with pytest.raises(ValidationError) as caught:
        validate_context_fragment(fragment(), measure=measure)
    assert caught.value is own
    with pytest.raises(ValidationError) as caught:
        assemble_context([fragment(max_chars=1), fragment(id="other")], measure=measure)
    assert caught.value is own


def test_nothing_is_measured_where_no_budget_is_checked() -> None:
    """Nor where the text is refused already."""

    def measure(text: str) -> int:
        raise AssertionError("not to be called")

    assert validate_context_fragment(fragment(max_chars=1), check_budget=False, measure=measure) == "hello"
    with pytest.raises(ValidationError, match="surrogate"):
        assemble_context([fragment(value="\ud800")], measure=measure)


# --- the budget of the sum ---


class _FalsyError(Exception):
    def __bool__(self) -> bool:
        return False


def test_the_budget_is_the_most_that_is_allowed() -> None:
    """Equal is within it, and infinity is no budget."""
    for size, budget in [(0, 0), (5, 5), (MAX_SIZE, MAX_SIZE), (MAX_SIZE, math.inf)]:
        validate_context_budget(size, budget)
    for size, budget in [(1, 0), (MAX_SIZE, MAX_SIZE - 1)]:
        with pytest.raises(ValidationError):
            validate_context_budget(size, budget)


@pytest.mark.parametrize(
    "error",
    [
        pytest.param(LookupError("over"), id="an exception"),
        pytest.param(_FalsyError("over"), id="an exception that is falsy"),
        pytest.param(KeyboardInterrupt(), id="one that is no Exception"),
    ],
)
def test_the_exception_of_exceeded_is_raised(error: BaseException) -> None:
    """It is called once, with the budget."""
    budgets: list[int] = []

    def exceeded(budget: int) -> BaseException:
        budgets.append(budget)
        return error

    with pytest.raises(type(error)) as caught:
        validate_context_budget(6, 5, exceeded)
    assert caught.value is error
    with pytest.raises(type(error)) as caught:
        assemble_context([fragment()], 4, exceeded=exceeded)
    assert caught.value is error
    assert budgets == [5, 4]


def test_an_exceeded_that_returns_none_leaves_the_default() -> None:
    """Such a one may only count or log."""
    budgets: list[int] = []
    with pytest.raises(ValidationError, match="measures 6, over its max_input_chars of 5"):
        validate_context_budget(6, 5, budgets.append)
    assert budgets == [5]


def test_exceeded_is_not_called_within_the_budget() -> None:
    """Nor for a fragment over its own."""

    def exceeded(budget: int) -> BaseException:
        raise AssertionError("not to be called")

    validate_context_budget(5, 5, exceeded)
    assert assemble_context([fragment()], 5, exceeded=exceeded).sizes == {"doc": 5}
    with pytest.raises(ValidationError):
        assemble_context([fragment(max_chars=1)], 0, exceeded=exceeded)


# --- assembly ---


def test_a_request_is_assembled_in_order() -> None:
    """One message a fragment, with its role and exact text, and the sizes that the budget saw."""
    counts: dict[str, int] = {"n": 1}
    given = (
        ContextFragment(id=name, source_id="s", trust="server", lifetime="step", role=role, max_chars=20, value=value)
        for name, role, value in _three(counts)
    )
    context = assemble_context(given, 21)
    assert isinstance(context, AssembledContext)
    assert context.messages == [
        {"role": "system", "content": "Be brief."},
        {"role": "user", "content": '{"n":1}'},
        {"role": "user", "content": "水の浄化?"},
    ]
    assert list(context.sizes.items()) == [("rules", 9), ("counts", 7), ("question", 5)]
    assert sum(context.sizes.values()) == 21


def _three(counts: dict[str, int]) -> list[tuple[str, Role, str | dict[str, int]]]:
    return [("rules", "system", "Be brief."), ("counts", "user", counts), ("question", "user", "水の浄化?")]


def test_no_fragments_give_no_messages() -> None:
    """Even with a budget of 0."""
    assert assemble_context([], 0) == ([], {})
    assert assemble_context(iter(())) == ([], {})


def test_the_fragments_are_read_once() -> None:
    """Any iterable does, and it is asked for one iterator."""

    class _Counted:
        asked = 0

        def __iter__(self) -> Iterator[ContextFragment]:
            self.asked += 1
            return iter([fragment(id="a"), fragment(id="b")])

    counted = _Counted()
    assert assemble_context(counted).sizes == {"a": 5, "b": 5}
    assert counted.asked == 1


@pytest.mark.parametrize(
    "value",
    [
        pytest.param({"a": [1, 0.5, True, None, "é", (2, {"b": ()})]}, id="every kind"),
        pytest.param(DEEP["dicts"](128), id="128 deep"),
    ],
)
def test_exact_json_is_not_copied(value: dict[str, object], monkeypatch: pytest.MonkeyPatch) -> None:
    """The copy takes several times as long as the encoding, and is for subclasses and refusals alone."""

    def no_copy(*_: object) -> None:
        raise AssertionError("not to be copied")

    monkeypatch.setattr(_json_text, "_plain", no_copy)
    assert json.loads(text_of(value)) == json.loads(json.dumps(value))
    with pytest.raises(AssertionError):
        text_of(OrderedDict(value))


def test_nothing_is_measured_or_written_twice(monkeypatch: pytest.MonkeyPatch) -> None:
    """One call of each for one text, whether it is exact JSON or a subclass."""
    calls: Counter[str] = Counter()
    encode = json.JSONEncoder.encode

    def counted_encode(self: json.JSONEncoder, value: object) -> str:
        calls["encode"] += 1
        return encode(self, value)

    def measure(text: str) -> int:
        calls[text] += 1
        return len(text)

    monkeypatch.setattr(json.JSONEncoder, "encode", counted_encode)
    values = ["text", {"a": 1}, OrderedDict(b=1)]
    assemble_context([fragment(id=f"f{n}", value=value) for n, value in enumerate(values)], 100, measure=measure)
    assert calls == {"encode": 2, "text": 1, '{"a":1}': 1, '{"b":1}': 1}
    validate_context_fragment(fragment(value={"c": 1}), measure=measure)
    assert calls["encode"] == 3
    assert calls['{"c":1}'] == 1


def test_all_refused_fragments_are_in_one_error() -> None:
    """In order, for text and size, before the sum is looked at, and every id is spent."""
    ids: set[str] = set()
    given = [
        fragment(id="long", value="hello!", max_chars=5),
        fragment(id="fine"),
        fragment(id="broken", value="\ud800", max_chars=1),
        fragment(id="large", value={"a": 1}, max_chars=6),
    ]
    with pytest.raises(ValidationError) as caught:
        assemble_context(given, 0, ids=ids)
    found = [(issue["code"], issue.get("fragment_id")) for issue in caught.value.issues]
    assert found == [("CONTEXT_BUDGET", "long"), ("CONTEXT_TEXT", "broken"), ("CONTEXT_BUDGET", "large")]
    assert ids == {"long", "fine", "broken", "large"}


def test_a_breach_of_policy_ends_the_assembly_at_once() -> None:
    """What was refused before it is not reported, and what comes after is not read."""
    ids: set[str] = set()

    def given() -> Iterator[ContextFragment]:
        yield fragment(id="long", max_chars=1)
        yield fragment(id="sly", role="system")
        raise AssertionError("not to be read")

    with pytest.raises(ContextPolicyError, match="tool text has no place in the system role"):
        assemble_context(given(), ids=ids)
    assert ids == {"long", "sly"}


def test_arguments_are_checked_before_any_fragment_is_read() -> None:
    """A wrong call spends no id and consumes no iterator."""
    given = iter([fragment()])
    wrong: Any = None
    with pytest.raises(TypeError, match="max_input_chars"):
        assemble_context(given, wrong)
    wrong = ["doc"]
    with pytest.raises(TypeError, match="ids"):
        assemble_context(given, ids=wrong)
    assert assemble_context(given).sizes == {"doc": 5}


def test_what_the_iterable_raises_passes_through() -> None:
    """It is no fault of a fragment's."""

    def given() -> Iterator[ContextFragment]:
        yield fragment()
        raise LookupError("the database is away")

    with pytest.raises(LookupError, match="away"):
        assemble_context(given())


def test_a_fragment_cannot_be_changed_by_accident() -> None:
    """It is frozen, has no room for other attributes, and takes its fields by name."""
    given: Any = fragment()
    with pytest.raises(AttributeError):
        given.trust = "server"
    assert not hasattr(given, "__dict__")
    make: Any = ContextFragment
    with pytest.raises(TypeError):
        make(*DEFAULTS.values())
    assert make(**DEFAULTS) == given
    with pytest.raises(TypeError):
        make(id="doc")


def test_without_a_budget_no_sum_is_too_large() -> None:
    """Not even one that JSON cannot carry."""
    pair = [ContextFragment(**{**DEFAULTS, "id": name}) for name in ("a", "b")]
    assert assemble_context(pair, measure=lambda _: MAX_SIZE).sizes == {"a": MAX_SIZE, "b": MAX_SIZE}


@pytest.mark.parametrize("changes", [{"value": 7}, {"source_id": ""}], ids=["value", "source_id"])
def test_a_long_id_is_cut_in_a_message_and_whole_in_the_attribute(changes: dict[str, Any]) -> None:
    """Messages reach logs."""
    given = ContextFragment(**{**DEFAULTS, "id": "a" * 1_000, **changes})
    with pytest.raises(ContextPolicyError) as refused:
        validate_context_fragment(given)
    assert len(str(refused.value)) < 300
    assert refused.value.fragment_id == "a" * 1_000


def test_the_name_of_a_type_is_cut_in_a_message() -> None:
    """A type may have any name."""
    given = ContextFragment(**{**DEFAULTS, "value": type("A" * 1_000, (), {})()})
    with pytest.raises(ContextPolicyError, match=rf"it is an A{{{64}}}$"):
        validate_context_fragment(given)


def test_the_repr_of_a_fragment_goes_without_its_value() -> None:
    """A repr may reach a log."""
    assert "secret" not in repr(ContextFragment(**{**DEFAULTS, "value": "secret"}))
