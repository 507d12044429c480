"""Types as they are, and not as an object claims: any can give itself another `__class__`, as mocks do."""

from typing import TypeGuard, TypeVar

T = TypeVar("T")

# Messages reach logs: they show no more than this of what may be of any length.
SHOWN = 64


# type(value).__name__, but for what a metaclass makes of it.
_name_of = type.__dict__["__name__"].__get__


def is_a(value: object, kind: type[T]) -> TypeGuard[T]:
    """Whether the value is of a type, or of a subclass."""
    return issubclass(type(value), kind)


def a_type(value: object) -> str:
    """A value's type, as a message names it."""
    name: str = _name_of(type(value))[:SHOWN]
    return f"an {name}" if name[:1].lower() in "aeiou" else f"a {name}"
