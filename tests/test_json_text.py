"""The text of a dict: what is JSON as it stands is written so, and all else is refused by its place."""

import inspect
import json
import random
import sys
import tracemalloc
from collections import Counter, OrderedDict, defaultdict
from collections.abc import Callable, Iterator
from enum import IntEnum, StrEnum
from itertools import count
from typing import Any, NamedTuple

import pytest
from fragments import Number, Real, Sly, fragment, named, nested, text_of

from sidecall import ContextPolicyError, _json_text, assemble_context


def refusal(value: object) -> str:
    """What is said of a value that is refused."""
    with pytest.raises(ContextPolicyError) as caught:
        text_of(value)
    assert (caught.value.code, caught.value.field) == ("CONTEXT_VALUE", "value")
    return str(caught.value).removeprefix("fragment doc of source 'kb:7': value is ").removeprefix("not JSON: ")


class Point(NamedTuple):
    x: int
    y: int


class Level(IntEnum):
    HIGH = 3


class Label(StrEnum):
    TOOL = "tool"


class Hiding(list[object]):
    """Shows nothing to who iterates, and has no length."""

    def __iter__(self) -> Iterator[object]:
        return iter(())

    def __len__(self) -> int:
        return 0


@pytest.mark.parametrize(
    ("value", "text"),
    [
        pytest.param({}, "{}", id="nothing"),
        pytest.param({"b": 1, "a": 2}, '{"b":1,"a":2}', id="key order"),
        pytest.param({"é": "水 \u2028"}, '{"é":"水 \u2028"}', id="non-ASCII characters"),
        pytest.param({"a": "\0"}, r'{"a":"\u0000"}', id="U+0000, which JSON escapes"),
        pytest.param({"a": ()}, '{"a":[]}', id="a tuple"),
        pytest.param({"a": [True, False, None]}, '{"a":[true,false,null]}', id="the three words"),
        pytest.param({"a": [1.0, -0.0, 1e300]}, '{"a":[1.0,-0.0,1e+300]}', id="floats"),
        pytest.param({"a": 10**400}, '{"a":1' + "0" * 400 + "}", id="a long int"),
        pytest.param({"a": Sly("x")}, '{"a":"x"}', id="a str subclass"),
        pytest.param({Sly("a"): 1}, '{"a":1}', id="a key of a str subclass"),
        pytest.param({Label.TOOL: Label.TOOL}, '{"tool":"tool"}', id="a str enum"),
        pytest.param({"a": [Number(7), Real(0.5)]}, '{"a":[7,0.5]}', id="numbers that write themselves"),
        pytest.param({"a": Level.HIGH}, '{"a":3}', id="an int enum"),
        pytest.param({"a": Point(1, 2)}, '{"a":[1,2]}', id="a named tuple"),
        pytest.param({"a": Hiding([1, 2])}, '{"a":[1,2]}', id="a list that hides its items"),
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


def test_a_dict_subclass_is_read_once() -> None:
    """What was checked is what is sent, though it shows other items at each look."""
    looks = count(1)
    value = named("TwoFaced", dict, items=lambda self: [("a", next(looks) if next(looks) < 3 else {1})])
    assert text_of({"in": [value(), 1]}) == '{"in":[{"a":2},1]}'


def test_a_value_may_be_shared() -> None:
    """Twice the same list is not a cycle, in exact types and in others."""
    shared = [1]
    assert text_of({"a": shared, "b": [shared, shared]}) == '{"a":[1],"b":[[1],[1]]}'
    assert text_of(OrderedDict(a=shared, b=[shared, shared])) == '{"a":[1],"b":[[1],[1]]}'


@pytest.mark.parametrize(
    "value",
    [
        pytest.param({"a": [1, 0.5, True, None, "é", (2, {"b": ()})]}, id="every kind"),
        pytest.param(nested(128, 1, lambda inner: {"d": inner}), id="128 deep"),
    ],
)
def test_exact_json_is_not_copied(value: dict[str, object], monkeypatch: pytest.MonkeyPatch) -> None:
    """The copy takes several times as long as the encoding, and is for subclasses and refusals alone."""
    monkeypatch.delattr(_json_text._Copy, "plain")
    assert json.loads(text_of(value)) == json.loads(json.dumps(value))
    with pytest.raises(AttributeError):
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


# --- how deep, and how many ---

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
    assert "more than 128 deep" in refusal(DEEP[kind](129))
    assert "more than 128 deep" in refusal(DEEP[kind](100_000 if "subclass" in kind else 1_000))


def less_deep(frames: int, call: Callable[[], object]) -> object:
    """Make a call with that many frames around it."""
    return less_deep(frames - 1, call) if frames else call()


@pytest.mark.parametrize("left", [30, 60, 100])
@pytest.mark.parametrize("kind", ["dicts", "dicts of a subclass"])
def test_a_full_stack_is_not_a_stray_recursion_error(kind: str, left: int) -> None:
    """Near the recursion limit a deep value is refused, and no RecursionError escapes."""
    value = DEEP[kind](128)
    frames = sys.getrecursionlimit() - len(inspect.stack(0)) - left
    assert less_deep(frames, lambda: refusal(value)) == "too deep for what is left of the stack"


MANY: dict[str, Callable[[int], Any]] = {
    "a dict": lambda total: dict.fromkeys(map(str, range(total)), 0),
    "a dict of a subclass": lambda total: OrderedDict.fromkeys(map(str, range(total)), 0),
    "a list in a dict": lambda total: {"a": [0] * (total - 1)},
    "a tuple in a dict of a subclass": lambda total: OrderedDict(a=(0,) * (total - 1)),
    "one list in ten places": lambda total: {"a": [[0] * 89] * 10, "b": [0] * (total - 902)},
    "one list in ten places, in a dict of a subclass": lambda total: OrderedDict(
        a=[[0] * 89] * 10, b=[0] * (total - 902)
    ),
    "empty lists": lambda total: {"a": [[]] * (total - 1)},
}


@pytest.mark.parametrize("kind", MANY)
def test_values_are_counted_wherever_they_stand(kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Those of a list that stands in many places count in each; the outermost dict is not one of its values."""
    monkeypatch.setattr(_json_text, "_MAX_VALUES", 1_000)
    assert len(text_of(MANY[kind](1_000))) > 1_000
    assert "more than 1,000 values" in refusal(MANY[kind](1_001))


def test_a_value_may_hold_a_million_values_and_no_more() -> None:
    assert len(text_of({"a": [0] * 999_999})) == 2_000_005
    assert "more than 1,000,000 values" in refusal({"a": [0] * 1_000_000})


@pytest.mark.parametrize(
    "wrap",
    [
        pytest.param(lambda inner: {"a": inner, "b": inner}, id="dicts"),
        pytest.param(lambda inner: [inner, inner], id="lists"),
    ],
)
def test_shared_parts_do_not_multiply_the_room(
    wrap: Callable[[object], object], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Twice the same in each of 22 levels: four million values, refused in the room of a few."""
    monkeypatch.setattr(_json_text, "_MAX_VALUES", 20_000)
    value = {"a": nested(22, {"a": 1}, wrap)}
    tracemalloc.start()
    try:
        assert "more than 20,000 values" in refusal(value)
        assert tracemalloc.get_traced_memory()[1] < 200_000
    finally:
        tracemalloc.stop()


def test_items_that_do_not_end_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_json_text, "_MAX_VALUES", 1_000)
    endless = named("Endless", dict, items=lambda self: ((str(n), n) for n in count()))
    assert "more than 1,000 values" in refusal({"a": endless()})


# --- what is not JSON ---


def test_a_lower_limit_of_digits_is_heeded() -> None:
    """What this Python does not write is refused by its path, whatever its limit."""
    before = sys.get_int_max_str_digits()
    sys.set_int_max_str_digits(700)
    try:
        assert refusal({"a": 10**800}) == "$.a is of type int with too many digits"
    finally:
        sys.set_int_max_str_digits(before)


@pytest.mark.parametrize("key", ["at", "content-Type_2", *("aAzZ09_-"), "k0", "k" * 64])
def test_a_path_shows_a_key_that_is_a_short_name(key: str) -> None:
    assert refusal({"first": 1, key: b""}) == f"$.{key} is of type bytes"


@pytest.mark.parametrize(
    "key",
    [
        pytest.param("", id="nothing"),
        pytest.param("a.b", id="a point, which would read as two steps"),
        pytest.param("at\n", id="a newline last"),
        pytest.param("k" * 65, id="65 letters"),
        pytest.param("größe", id="letters that are not ASCII"),
        *(pytest.param(mark, id=f"a {mark}") for mark in "`{@[/:^"),
    ],
)
def test_a_path_shows_the_place_of_any_other_key(key: str) -> None:
    """It may be content."""
    assert refusal({"first": 1, key: b""}) == "$[key 1] is of type bytes"


WORDS = ["", "a", "two words", 'quote " and \\', "\x00\t\n", "水の浄化", "é\u2028", "😀"]


def random_value(rng: random.Random, depth: int) -> tuple[Any, Any]:
    """A value, and what it is in exact types."""
    kind = rng.choice(["dict", "list", "tuple", "leaf"]) if depth else "leaf"
    if kind == "leaf":
        leaf = rng.choice([None, True, rng.randint(-(10**20), 10**20), rng.uniform(-1e9, 1e9), rng.choice(WORDS)])
        odd = {str: Sly, float: Real, int: Number}.get(type(leaf)) if rng.random() < 0.1 else None
        return odd(leaf) if odd else leaf, leaf
    pairs = [random_value(rng, depth - 1) for _ in range(rng.randint(0, 4))]
    if kind != "dict":
        make = tuple if kind == "tuple" else list
        return make(value for value, _ in pairs), [plain for _, plain in pairs]
    keys = rng.sample([*WORDS, "b", "c", "key"], len(pairs))
    odd_dict = OrderedDict if rng.random() < 0.1 else dict
    return (
        odd_dict((key, value) for key, (value, _) in zip(keys, pairs, strict=True)),
        {key: plain for key, (_, plain) in zip(keys, pairs, strict=True)},
    )


def test_json_text_says_what_the_value_is_and_no_more() -> None:
    """2,000 random values are written as `json` writes them in exact types, compact and in order."""
    rng = random.Random(41)
    written = 0
    for _ in range(2_000):
        value, plain = random_value(rng, 5)
        text = text_of({"top": value})
        assert text == json.dumps({"top": plain}, ensure_ascii=False, separators=(",", ":"))
        assert text.encode().decode() == text
        written += len(text)
    assert written > 100_000
