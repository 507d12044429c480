"""The JSON text of a value that is JSON as it stands, or the place in it that is not."""

import json
import re
from contextlib import suppress
from itertools import islice
from typing import Any

from ._types import SHOWN, is_a, type_name

# Far above real data, and far below where the JSON readers of Python 3.11 to 3.13 give up (near 1,000).
_MAX_DEPTH = 128
# Far above what any model reads. A part may stand in many places, as anchors in YAML make it: each place counts, as
# ten lines of such a file can stand for billions of values.
_MAX_VALUES = 1_000_000
_SHORT_KEY = re.compile(rf"[a-zA-Z0-9_-]{{1,{SHOWN}}}")
_LEAVES = frozenset({str, bool, type(None), int, float})
_CONTAINERS = frozenset({dict, list, tuple})

# No spaces, and no escapes for non-ASCII characters: what is measured is what is sent. What reaches it has no
# cycle, as `_check_exact` or `_Copy` came to its end.
_ENCODER = json.JSONEncoder(ensure_ascii=False, separators=(",", ":"), allow_nan=False, check_circular=False)


class NotJSONError(Exception):
    """Where a value is not JSON, and why; the cause is what the value itself raised."""


def json_text(value: dict[object, object]) -> str:
    """Compact JSON text in the order of the keys, or a `NotJSONError`."""
    # A TypeError: not of exact types, or a class without a hash. A ValueError: a number that cannot be written. The
    # copy makes plain what can be, and finds the place of what cannot, but it takes longer than the encoding.
    with suppress(TypeError, ValueError):
        _check_exact(value, 1, _MAX_VALUES)
        return _ENCODER.encode(value)
    return _ENCODER.encode(_Copy().plain(value, "$"))


def _check_exact(value: Any, depth: int, left: int) -> int:
    """How many values are left to allow, after those in a container of exact JSON types, in which nothing can lie."""
    keys = value if type(value) is dict else ()
    if type(value) not in _CONTAINERS or depth > _MAX_DEPTH or not set(map(type, keys)) <= {str}:
        raise TypeError
    left = _count(left, len(value))
    for item in value.values() if type(value) is dict else value:
        if type(item) not in _LEAVES:
            left = _check_exact(item, depth + 1, left)
    return left


def _count(left: int, more: int) -> int:
    if more > left:
        raise NotJSONError(f"$ holds more than {_MAX_VALUES:,} values, a shared part counted wherever it stands")
    return left - more


class _Copy:
    """A copy of a value in exact types, so that what is checked is what is encoded."""

    def __init__(self) -> None:
        self._left = _MAX_VALUES
        self._around: list[int] = []  # the ids of the containers around what is being copied

    def plain(self, value: Any, path: str) -> object:
        """The value in exact types, or a `NotJSONError` with the path."""
        if value is None or type(value) is bool:
            return value
        if is_a(value, str):
            return str.__str__(value)
        if is_a(value, int) or is_a(value, float):
            return _plain_number(value, path)
        if not issubclass(type(value), (dict, list, tuple)):
            raise NotJSONError(f"{path} is of type {type_name(value)}")
        if id(value) in self._around:
            raise NotJSONError(f"{path} is of type {type_name(value)} and inside itself")
        if len(self._around) == _MAX_DEPTH:
            raise NotJSONError(f"{path} is of type {type_name(value)} and more than {_MAX_DEPTH} deep")
        self._around.append(id(value))
        plain = self._plain_dict(value, path) if is_a(value, dict) else self._plain_list(value, path)
        self._around.pop()
        return plain

    def _plain_list(self, value: Any, path: str) -> list[object]:
        kind = list if is_a(value, list) else tuple
        self._left = _count(self._left, kind.__len__(value))
        return [self.plain(item, f"{path}[{index}]") for index, item in enumerate(kind.__iter__(value))]

    def _plain_dict(self, value: dict[object, object], path: str) -> dict[str, object]:
        try:
            # Its own items(), where an OrderedDict keeps its order; once, as it may not answer the same again; unpacked
            # here, as they may not be pairs; and no more than are allowed, as they may not end.
            pairs = [(key, item) for key, item in islice(value.items(), self._left + 1)]
        except Exception as error:
            raise NotJSONError(f"{path} is of type {type_name(value)}, and its items cannot be read") from error
        self._left = _count(self._left, len(pairs))
        plain: dict[str, object] = {}
        for position, (key, item) in enumerate(pairs):
            if not is_a(key, str):
                raise NotJSONError(f"{path} has a key of type {type_name(key)}")
            name = str.__str__(key)
            # A key that is not a short name may be content.
            inner = f"{path}.{name}" if _SHORT_KEY.fullmatch(name) else f"{path}[key {position}]"
            if name in plain:
                raise NotJSONError(f"{inner} is a key for the second time")
            plain[name] = self.plain(item, inner)
        return plain


def _plain_number(value: Any, path: str) -> int | float:
    number = float.__float__(value) if is_a(value, float) else int.__int__(value)
    # No number less itself is 0 if it is not finite. An int of over 4,300 digits, or what `sys.set_int_max_str_digits`
    # says, cannot be written.
    with suppress(ValueError):
        if number - number == 0 and repr(number):
            return number
    why = "and not finite" if is_a(value, float) else "with too many digits"
    raise NotJSONError(f"{path} is of type {type_name(value)} {why}")
