"""Types as they are, and not as an object claims: any can give itself another `__class__`, as mocks do."""

from typing import TypeGuard, TypeVar

T = TypeVar("T")

# Messages reach logs: they show no more than this of what may be of any length.
SHOWN = 64


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
