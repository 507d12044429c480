"""What the tests of the context policy share: the codes, a fragment in order, and things that lie."""

from collections.abc import Callable
from typing import Any, get_args

from sidecall import Code, ContextFragment, ContextPolicyError, ValidationError, validate_context_fragment

CONTEXT_CODES = {code for code in get_args(Code) if code.startswith("CONTEXT_")}
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


def outcome(call: Callable[[], str]) -> tuple[str, str | None]:
    """What a call gives, or the code and the field of its refusal."""
    try:
        return call(), None
    except (ContextPolicyError, ValidationError) as error:
        return error.code, getattr(error, "field", None)


def nested(depth: int, innermost: object, wrap: Callable[[object], object]) -> Any:
    """Put a value under that many containers."""
    for _ in range(depth):
        innermost = wrap(innermost)
    return innermost


class Sly(str):
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


class Number(int):
    """Is less than nothing, and writes itself as something else."""

    def __lt__(self, other: object) -> bool:
        return False

    __gt__ = __le__ = __lt__

    def __repr__(self) -> str:
        return "lie"

    __str__ = __repr__


class Real(float):
    """Is equal to anything, and writes itself as something else."""

    def __eq__(self, other: object) -> bool:
        return True

    __hash__ = float.__hash__

    def __repr__(self) -> str:
        return "lie"


class Broken(dict[str, object]):
    """Fails whoever looks into it."""

    def items(self) -> Any:
        raise KeyError("secret")


def named(name: str, base: type = object, **members: object) -> Any:
    """Make a class of that name, as if of builtins."""
    return type(name, (base,), {"__module__": "builtins", "__qualname__": name, **members})


def liar(claim: type) -> Any:
    """Make an object that claims to be of a type."""
    return named("Liar", __class__=property(lambda self: claim), items=lambda self: ())()
