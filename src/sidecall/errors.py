"""What sidecall raises: a refusal of data, and a breach of policy. They are split by who must act."""

from collections.abc import Iterable, Mapping
from typing import Literal, NotRequired, TypedDict, cast

from ._types import type_name

_Context = Literal["CONTEXT_BUDGET", "CONTEXT_TEXT", "CONTEXT_TOKEN"]
_Output = Literal["OUTPUT_MISSING", "OUTPUT_MALFORMED", "OUTPUT_REJECTED", "OUTPUT_AMBIGUOUS"]
_Policy = Literal["CONTEXT_FRAGMENT", "CONTEXT_TRUST", "CONTEXT_VALUE"]

# A Literal and not a str, so that a type checker finds a slip where a code is compared, matched or counted.
Code = Literal[_Context, _Output, _Policy]


class Issue(TypedDict):
    """One reason for a refusal, as a dict that `json.dumps` takes.

    `size`, `limit` and `sizes` are in the unit of `measure`, which is characters by default. `sizes` is there if all
    fragments together are over the budget: it has the size of each fragment, by its id.

    >>> issue: Issue = {"code": "CONTEXT_BUDGET", "message": "12 is over 10", "size": 12, "limit": 10}
    """

    code: Code
    message: str
    fragment_id: NotRequired[str]
    source_id: NotRequired[str]
    size: NotRequired[int]
    limit: NotRequired[int]
    sizes: NotRequired[dict[str, int]]


class ValidationError(ValueError):
    """Data was refused. The error can be shown to a user, logged, or sent as an answer.

    Args:
        issues: at least one `Issue`. Each is copied.

    Raises:
        TypeError: `issues` is empty, or holds anything but dicts with a `code` and a `message`.

    >>> error = ValidationError([{"code": "CONTEXT_BUDGET", "message": "12 is over 10"}])
    >>> error.code, str(error)
    ('CONTEXT_BUDGET', '12 is over 10')
    """

    def __init__(self, issues: Iterable[Issue]) -> None:
        self.issues = tuple(_checked(each) for each in issues)
        if not self.issues:
            raise TypeError("issues must not be empty")
        self.code: Code = self.issues[0]["code"]
        # Pickle and copy call the class with `args`, so these are the constructor's arguments and nothing else.
        super().__init__(self.issues)

    def __str__(self) -> str:
        return "; ".join(issue["message"] for issue in self.issues)


class ContextPolicyError(Exception):
    """The calling code broke the context policy: a bug or a breach of trust, never to be shown to an end user.

    It is not a `ValueError`, on purpose. An `except ValueError` around a JSON parse would swallow it, and a web
    framework that answers a validator's `ValueError` with a 422 would show it.

    Args:
        code: `CONTEXT_FRAGMENT`, `CONTEXT_TRUST` or `CONTEXT_VALUE`.
        message: what was broken, for the developer.
        fragment_id: the fragment's id, where it has a valid one.
        field: the field of the fragment that broke the rule.

    >>> error = ContextPolicyError("CONTEXT_TRUST", "tool text in the system role", "doc", "trust")
    >>> error.code, error.fragment_id, error.field
    ('CONTEXT_TRUST', 'doc', 'trust')
    """

    def __init__(self, code: Code, message: str, fragment_id: str | None = None, field: str | None = None) -> None:
        self.code = code
        self.message = message
        self.fragment_id = fragment_id
        self.field = field
        super().__init__(code, message, fragment_id, field)

    def __str__(self) -> str:
        return self.message


def _checked(value: object) -> Issue:
    if isinstance(value, Mapping) and all(isinstance(value.get(key), str) for key in ("code", "message")):
        return cast(Issue, dict(value))
    raise TypeError(f"an issue must be a dict with a code and a message, both str; it is of type {type_name(value)}")
