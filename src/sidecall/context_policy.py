"""What goes into a side call: typed fragments, checked for trust, role and size, refused rather than cut."""

import math
import re
from collections.abc import Callable, Iterable, MutableSet
from dataclasses import dataclass, field
from typing import Any, Literal, NamedTuple, TypedDict, TypeGuard, final, get_args

from ._json_text import NotJSONError, json_text
from ._types import SHOWN, a_type, is_a
from .errors import ContextPolicyError, Issue, ValidationError

Trust = Literal["instruction", "server", "user", "tool"]
Lifetime = Literal["configuration", "turn", "step"]
Role = Literal["system", "user"]

# The largest int that every JSON reader keeps exact (RFC 8259, section 6): limits cross languages as JSON.
_MAX_SIZE = 2**53 - 1

# For fullmatch: `$` would let "doc\n" pass.
_ID = re.compile(r"[a-z][a-zA-Z0-9:._-]*")
_SURROGATE = re.compile("[\ud800-\udfff]")

_MISSING = object()


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class ContextFragment:
    """One piece of context for a model call, not checked until it is validated.

    Args:
        id: a stable key in usage records and errors: ASCII, all of it `[a-z][a-zA-Z0-9:._-]*`.
        source_id: where the text comes from; not empty.
        trust: who wrote the text. Set by server code, never from a request.
        lifetime: how long the text is of use.
        role: whose message the text becomes.
        max_chars: the most it may measure, from 1 to 2**53 - 1. The unit is that of `measure`: Python
            characters by default, which are laxer than UTF-16 units on emoji.
        value: the text, or a dict, which is sent as JSON text.

    >>> ContextFragment(
    ...     id="doc", source_id="kb:7", trust="tool", lifetime="turn", role="user", max_chars=9, value="Hi"
    ... ).trust
    'tool'
    """

    id: str
    source_id: str
    trust: Trust
    lifetime: Lifetime
    role: Role
    max_chars: int
    # Any, as a dict is invariant: where dict[str, object] stands, a dict[str, int] is refused. A fragment's repr may
    # reach a log, so it goes without the value.
    value: str | dict[str, Any] = field(repr=False)


class Message(TypedDict):
    """One message of a request, as Ollama and OpenAI-style APIs take it.

    >>> message: Message = {"role": "user", "content": "Hi"}
    """

    role: Role
    content: str


class AssembledContext(NamedTuple):
    """A checked request, to be sent as it is, and its usage record: the size of each fragment, by id.

    >>> AssembledContext(messages=[{"role": "user", "content": "Hi"}], sizes={"doc": 2}).sizes
    {'doc': 2}
    """

    messages: list[Message]
    sizes: dict[str, int]


def validate_context_fragment(
    fragment: ContextFragment,
    ids: MutableSet[str] | None = None,
    *,
    check_budget: bool = True,
    measure: Callable[[str], int] = len,
) -> str:
    """Check one fragment, and give the exact text to send.

    Args:
        fragment: exactly a `ContextFragment`: a subclass may answer differently each time it is asked.
        ids: the ids spent so far, one set for each model call; `None` is a fresh one. An id is spent once the
            fields are in order, so that a fragment refused later cannot be retried.
        check_budget: whether to hold the text against `max_chars`.
        measure: gives the size of a text, in the unit of `max_chars`. What it raises passes through.

    Returns:
        A plain `str`: of a dict, its compact JSON text, key order and non-ASCII characters kept.

    Raises:
        ContextPolicyError: `CONTEXT_FRAGMENT`, a field breaks its rule, or the id is spent; `CONTEXT_TRUST`,
            user or tool text, or no `str`, in the system role; `CONTEXT_VALUE`, neither `str` nor JSON dict.
        ValidationError: `CONTEXT_TEXT`, a lone surrogate, so no UTF-8; `CONTEXT_BUDGET`, over `max_chars`.
        TypeError: `ids` is no `MutableSet`, or `measure` returned no int of 0 or more.

    >>> rows = ContextFragment(
    ...     id="rows", source_id="db", trust="tool", lifetime="step", role="user", max_chars=9, value={"n": 1}
    ... )
    >>> validate_context_fragment(rows)
    '{"n":1}'
    """
    checked, text = _accepted(fragment, _accumulator(ids))
    issue = _text_issue(checked, text)
    if issue is None and check_budget:
        issue = _size_issue(checked, _measured(text, measure))
    if issue is not None:
        raise ValidationError([issue])
    return text


def validate_context_budget(
    input_chars: int,
    max_input_chars: int | float,
    exceeded: Callable[[int], BaseException | None] | None = None,
) -> None:
    """Check the size of a whole input against its budget, in the unit of both.

    Args:
        input_chars: the size, an int from 0 to 2**53 - 1.
        max_input_chars: the most it may be, an int of that range, or `math.inf`.
        exceeded: called with the budget where the size is over it; the exception it returns is raised, and
            `None` asks for the default error. What it raises passes through.

    Raises:
        ValidationError: `CONTEXT_BUDGET`, with `size` and `limit`.
        TypeError: a number is not as above (a bool never is), or `exceeded` returned something else.

    >>> validate_context_budget(11, 10)
    Traceback (most recent call last):
    sidecall.errors.ValidationError: the context measures 11, over its max_input_chars of 10
    """
    if not _is_size(input_chars):
        raise TypeError(f"input_chars must be an int from 0 to {_MAX_SIZE}; it is {_shown(input_chars)}")
    _check_total(input_chars, _budget(max_input_chars), exceeded)


def assemble_context(
    fragments: Iterable[ContextFragment],
    max_input_chars: int | float = math.inf,
    *,
    ids: MutableSet[str] | None = None,
    exceeded: Callable[[int], BaseException | None] | None = None,
    measure: Callable[[str], int] = len,
) -> AssembledContext:
    """Make one request of all fragments, or none.

    Args:
        fragments: any iterable, read once. Each becomes one message, in order.
        max_input_chars: the budget of their sum, as in `validate_context_budget`; so is `exceeded`.
        ids: as in `validate_context_fragment`; so is `measure`, which is called once for each text.

    Raises:
        ContextPolicyError: at once, for the first fragment that breaks the policy.
        ValidationError: one issue, `CONTEXT_TEXT` or `CONTEXT_BUDGET`, for each fragment refused; where there
            is none, `CONTEXT_BUDGET` for the sum.
        TypeError: as in both validators, or `fragments` is no iterable.

    >>> shared = {"source_id": "chat", "lifetime": "turn", "max_chars": 100}
    >>> assemble_context([
    ...     ContextFragment(id="rules", trust="instruction", role="system", value="Be brief.", **shared),
    ...     ContextFragment(id="question", trust="user", role="user", value="Why?", **shared),
    ... ], 50).sizes
    {'rules': 9, 'question': 4}
    """
    budget = _budget(max_input_chars)
    ids = _accumulator(ids)
    if not isinstance(fragments, Iterable):
        raise TypeError(f"fragments must be an iterable of ContextFragment; it is {a_type(fragments)}")
    context = AssembledContext([], {})
    issues: list[Issue] = []
    for each in fragments:
        fragment, text = _accepted(each, ids)
        issue, size = _text_issue(fragment, text), 0
        if issue is None:
            size = _measured(text, measure)
            issue = _size_issue(fragment, size)
        if issue is not None:
            issues.append(issue)
            continue
        context.messages.append({"role": fragment.role, "content": text})
        context.sizes[fragment.id] = size
    if issues:
        raise ValidationError(issues)
    _check_total(sum(context.sizes.values()), budget, exceeded)
    return context


def _accepted(fragment: object, ids: MutableSet[str]) -> tuple[ContextFragment, str]:
    """The policy, whose breach is raised at once. The order is part of the contract."""
    checked = _check_fields(fragment)
    _spend_id(checked, ids)
    _check_trust(checked)
    return checked, _text(checked)


def _is_size(value: object, least: int = 0) -> TypeGuard[int]:
    return type(value) is int and least <= value <= _MAX_SIZE


def _one_of(alias: object) -> tuple[Callable[[object], bool], str]:
    names: tuple[str, ...] = get_args(alias)
    return lambda value: type(value) is str and value in names, f"one of {', '.join(names)}"


# Types are exact: a bool is an int, and a subclass of str may lie about `==` and its length. The value's rules
# are in `_text`, as they hold once the id is spent: here it need only be there.
_FIELDS: dict[str, tuple[Callable[[object], bool], str]] = {
    "id": (
        lambda value: type(value) is str and bool(_ID.fullmatch(value)),
        f"a str, all of it {_ID.pattern}",
    ),
    "source_id": (lambda value: type(value) is str and value != "", "a str that is not empty"),
    "trust": _one_of(Trust),
    "lifetime": _one_of(Lifetime),
    "role": _one_of(Role),
    "max_chars": (lambda value: _is_size(value, least=1), f"an int from 1 to {_MAX_SIZE}"),
    "value": (lambda value: value is not _MISSING, "a str or a dict"),
}


def _check_fields(fragment: object) -> ContextFragment:
    """A copy, each field read once: nobody who holds the original can change what was checked."""
    if type(fragment) is not ContextFragment:
        raise ContextPolicyError("CONTEXT_FRAGMENT", f"a fragment is a ContextFragment, not {a_type(fragment)}")
    fields: dict[str, Any] = {name: getattr(fragment, name, _MISSING) for name in _FIELDS}
    fragment_id = None
    for name, (holds, rule) in _FIELDS.items():
        value = fields[name]
        if not holds(value):
            found = repr(value[:SHOWN])[:SHOWN] if name == "id" and type(value) is str else _shown(value)
            where = "" if fragment_id is None else f"fragment {fragment_id[:SHOWN]}: "
            message = f"{where}{name} must be {rule}; it is {found}"
            raise ContextPolicyError("CONTEXT_FRAGMENT", message, fragment_id, name)
        fragment_id = fields["id"]  # the first field, so from here on it is in order
    return ContextFragment(**fields)


def _spend_id(fragment: ContextFragment, ids: MutableSet[str]) -> None:
    if fragment.id in ids:
        raise _breach("CONTEXT_FRAGMENT", fragment, "id", "the id is spent: one use in each model call")
    ids.add(fragment.id)


def _check_trust(fragment: ContextFragment) -> None:
    if fragment.role != "system":
        return
    if fragment.trust not in ("instruction", "server"):
        what = f"{fragment.trust} text has no place in the system role, only in the user role"
        raise _breach("CONTEXT_TRUST", fragment, "trust", what)
    if not is_a(fragment.value, str):
        what = f"the system role takes a str; the value is {a_type(fragment.value)}"
        raise _breach("CONTEXT_TRUST", fragment, "value", what)


def _text(fragment: ContextFragment) -> str:
    value: object = fragment.value
    if is_a(value, str):
        return str.__str__(value)  # makes a subclass plain, and cannot be overridden
    if not is_a(value, dict):
        what = f"the value must be a str or a dict; it is {a_type(value)}"
        raise _breach("CONTEXT_VALUE", fragment, "value", what)
    try:
        return json_text(value)
    except NotJSONError as error:
        raise _breach("CONTEXT_VALUE", fragment, "value", str(error)) from error.__cause__
    except RecursionError:
        what = "too little of the stack is left to write the value"
        raise _breach("CONTEXT_VALUE", fragment, "value", what) from None


def _text_issue(fragment: ContextFragment, text: str) -> Issue | None:
    # Looked for and not encoded: the error of a failed encode holds the whole text.
    found = None if text.isascii() else _SURROGATE.search(text)
    if found is None:
        return None
    return _issue("CONTEXT_TEXT", fragment, f"its text has a lone surrogate at position {found.start()}, so no UTF-8")


def _measured(text: str, measure: Callable[[str], int]) -> int:
    size = measure(text)
    if type(size) is not int or size < 0:
        raise TypeError(f"measure must return an int of 0 or more; it returned {_shown(size)}")
    return size


def _size_issue(fragment: ContextFragment, size: int) -> Issue | None:
    limit = fragment.max_chars
    if size <= limit:
        return None
    what = f"it measures {_shown(size)}, over its max_chars of {limit}"
    return {**_issue("CONTEXT_BUDGET", fragment, what), "size": size, "limit": limit}


def _budget(max_input_chars: object) -> int | None:
    """The budget, or `None` for none."""
    if type(max_input_chars) is float and max_input_chars == math.inf:
        return None
    if _is_size(max_input_chars):
        return max_input_chars
    found = _shown(max_input_chars)
    raise TypeError(f"max_input_chars must be an int from 0 to {_MAX_SIZE}, or math.inf; it is {found}")


def _check_total(total: int, budget: int | None, exceeded: Callable[[int], BaseException | None] | None) -> None:
    if budget is None or total <= budget:
        return
    error = None if exceeded is None else exceeded(budget)
    if error is None:
        message = f"the context measures {_shown(total)}, over its max_input_chars of {budget}"
        raise ValidationError([Issue(code="CONTEXT_BUDGET", message=message, size=total, limit=budget)])
    if not is_a(error, BaseException):
        raise TypeError(f"exceeded must return an exception or None; it returned {a_type(error)}")
    raise error


def _accumulator(ids: MutableSet[str] | None) -> MutableSet[str]:
    if ids is None:  # and not merely empty: the caller's own set is to be filled
        return set()
    if not isinstance(ids, MutableSet):
        raise TypeError(f"ids must be a MutableSet, such as a set; it is {a_type(ids)}")
    return ids


def _breach(code: str, fragment: ContextFragment, field: str, what: str) -> ContextPolicyError:
    return ContextPolicyError(code, f"{_where(fragment)}: {what}", fragment.id, field)


def _issue(code: str, fragment: ContextFragment, what: str) -> Issue:
    message = f"{_where(fragment)}: {what}"
    return Issue(code=code, message=message, fragment_id=fragment.id, source_id=fragment.source_id)


def _where(fragment: ContextFragment) -> str:
    return f"fragment {fragment.id[:SHOWN]} of source {repr(fragment.source_id[:SHOWN])[:SHOWN]}"


def _shown(value: object) -> str:
    if value is _MISSING:
        return "missing"
    if type(value) is int and value.bit_length() <= SHOWN:  # Python writes no int of over 4,300 digits
        return str(value)
    return f"a str of length {len(value)}" if type(value) is str else a_type(value)
