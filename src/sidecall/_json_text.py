"""The JSON text of a value that is JSON as it stands, and where a value is none."""

import json
import math
import re
from contextlib import suppress
from itertools import chain
from typing import Any

from ._types import SHOWN, a_type, is_a

# Far above real data, and far below where the JSON readers of Python 3.11 to 3.13 give up (near 1,000).
_MAX_DEPTH = 128
_SHORT_KEY = re.compile(rf"[a-zA-Z0-9_-]{{1,{SHOWN}}}")

# No spaces, and no escapes for non-ASCII characters: what is measured is what is sent. What reaches it has no
# cycle, as `_is_exact` or `_plain` came to its end.
_ENCODER = json.JSONEncoder(ensure_ascii=False, separators=(",", ":"), allow_nan=False, check_circular=False)


class NotJSONError(Exception):
    """Where a value is no JSON, and why; the cause is what the value itself raised."""


def json_text(value: dict[object, object]) -> str:
    """Compact JSON text in the order of the keys, or a `NotJSONError`."""
    # A number that cannot be written, or a class that has no hash: `_plain` finds out which, and where.
    with suppress(TypeError, ValueError):
        if _is_exact(value):
            return _ENCODER.encode(value)
    return _ENCODER.encode(_plain(value, "$", ()))


_SEQUENCES = frozenset({list, tuple})
_CONTAINERS = _SEQUENCES | {dict}
_EXACT = _CONTAINERS | {str, bool, type(None), int, float}


def _is_exact(value: object) -> bool:
    """Whether all in it is of exact JSON types, at most `_MAX_DEPTH` deep: nothing can lie or go on for ever.

    Level by level, as sets and chains of a whole level are made in C: a walk would cost more than encoding.
    """
    inside: list[Any] = [value]
    for _ in range(_MAX_DEPTH + 1):
        kinds = set(map(type, inside))
        if not kinds <= _EXACT:
            return False
        if kinds.isdisjoint(_CONTAINERS):
            return True
        deeper: list[Any] = []
        # By id, so each once: lists that share their parts would double the work with every level.
        if dict in kinds:
            dicts = {id(each): each for each in inside if type(each) is dict}.values()
            if not set(map(type, chain.from_iterable(dicts))) <= {str}:
                return False
            deeper.extend(chain.from_iterable(map(dict.values, dicts)))
        if not kinds.isdisjoint(_SEQUENCES):
            lists = {id(each): each for each in inside if type(each) in _SEQUENCES}.values()
            deeper.extend(chain.from_iterable(lists))
        inside = deeper
    return False


def _plain(value: Any, path: str, outer: tuple[int, ...]) -> object:
    """A copy in exact types, so what is checked is what is encoded. `outer`: the ids of what is around."""
    if value is None or type(value) is bool:
        return value
    if is_a(value, str):
        return str.__str__(value)
    if is_a(value, int) or is_a(value, float):
        return _plain_number(value, path)
    if not issubclass(type(value), (dict, list, tuple)):
        raise NotJSONError(f"{path} is {a_type(value)}")
    if id(value) in outer:
        raise NotJSONError(f"{path} is {a_type(value)} inside itself")
    if len(outer) == _MAX_DEPTH:
        raise NotJSONError(f"{path} is {a_type(value)} more than {_MAX_DEPTH} deep")
    outer = (*outer, id(value))
    if is_a(value, dict):
        return _plain_dict(value, path, outer)
    items = list.__iter__(value) if is_a(value, list) else tuple.__iter__(value)
    return [_plain(item, f"{path}[{index}]", outer) for index, item in enumerate(items)]


def _plain_number(value: Any, path: str) -> int | float:
    if is_a(value, float):
        number = float.__float__(value)
        if not math.isfinite(number):
            raise NotJSONError(f"{path} is {a_type(value)} that is not finite")
        return number
    integer = int.__int__(value)
    try:
        repr(integer)  # raises over 4,300 digits, or what `sys.set_int_max_str_digits` says
    except ValueError:
        raise NotJSONError(f"{path} is {a_type(value)} of too many digits") from None
    return integer


def _plain_dict(value: dict[object, object], path: str, outer: tuple[int, ...]) -> dict[str, object]:
    try:
        # Its own items(), where an OrderedDict keeps its order; once, as it may not answer the same again.
        pairs = [(key, item) for key, item in value.items()]  # noqa: C416 - unpacked, so that they are pairs
    except Exception as error:
        raise NotJSONError(f"{path} is {a_type(value)} whose items cannot be read") from error
    plain: dict[str, object] = {}
    for position, (key, item) in enumerate(pairs):
        if not is_a(key, str):
            raise NotJSONError(f"{path} has {a_type(key)} for a key")
        name = str.__str__(key)
        # A key that is no short name may be content.
        inner = f"{path}.{name}" if _SHORT_KEY.fullmatch(name) else f"{path}[key {position}]"
        if name in plain:
            raise NotJSONError(f"{inner} is a key for the second time")
        plain[name] = _plain(item, inner, outer)
    return plain
