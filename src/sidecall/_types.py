"""Types as they are, and not as an object claims: any can give itself another `__class__`, as mocks do."""

from collections.abc import Iterable
from typing import TypeGuard, TypeVar

T = TypeVar("T")

# Messages reach logs: they show no more than this of what may be of any length.
SHOWN = 64

MISSING = object()


def is_a(value: object, kind: type[T]) -> TypeGuard[T]:
    """Whether the value is of a type, or of a subclass."""
    return issubclass(type(value), kind)


def type_name(value: object) -> str:
    """A value's type with its module, as a message names it; a type of builtins stands alone.

    >>> import datetime
    >>> type_name(datetime.date.min), type_name([])
    ('datetime.date', 'list')
    """
    # The repr that `type` itself writes: a metaclass can change a class's `__name__`, `__module__` and repr, but not
    # this. A class can be given a `__module__` that is not UTF-8, and a message must be.
    name = type.__repr__(type(value)).removeprefix("<class '").removesuffix("'>")
    return name.encode(errors="replace").decode()[-SHOWN:]  # its end, where the class's own name stands


def shown(value: object) -> str:
    """A value as a message shows it: no text, as it may be content."""
    if value is MISSING:
        return "missing"
    if type(value) is int:  # Python writes none of over 4,300 digits
        return str(value) if abs(value) < 10**SHOWN else f"an int of over {SHOWN} digits"
    return f"a str of length {len(value)}" if type(value) is str else f"of type {type_name(value)}"


def require(holds: bool, name: str, words: str, value: object) -> None:
    """Refuse an argument that does not hold to its rule."""
    if not holds:
        raise TypeError(f"{name} must be {words}; it is {shown(value)}")


def entries(value: Iterable[T], name: str) -> list[T]:
    """The entries of an argument that may be any iterable but a text."""
    require(isinstance(value, Iterable) and not is_a(value, str), name, "an iterable, and not a str", value)
    return [*value]
