"""What goes into a side call: typed fragments, checked for trust, role and size, refused rather than cut."""

import math
import re
from collections.abc import Callable, Iterable, MutableSet
from dataclasses import dataclass, field
from typing import Any, Literal, NamedTuple, TypedDict, TypeGuard, final, get_args

from ._json_text import NotJSONError, json_text
from ._marks import HEADERS, OTHER_TURNS, TURNS
from ._types import MISSING, SHOWN, entries, is_a, require, shown, type_name
from .errors import Code, ContextPolicyError, Issue, ValidationError

Trust = Literal["instruction", "server", "user", "tool"]
Lifetime = Literal["configuration", "turn", "step"]
Role = Literal["system", "user"]

# One table with the marks that end a reply, less what HTML has as well: `</s>` ends what is struck out.
SPECIAL_TOKENS: tuple[str, ...] = tuple(mark for mark in (*TURNS, *OTHER_TURNS, *HEADERS) if mark != "</s>")

# The largest int that every JSON reader keeps exact (RFC 8259, section 6): limits cross languages as JSON.
_MAX_SIZE = 2**53 - 1

# For fullmatch: `$` would let "doc\n" pass.
_ID = re.compile(r"[a-z][a-zA-Z0-9:._-]*")
_SURROGATE = re.compile("[\ud800-\udfff]")
_UNSENDABLE = re.compile("[\0\ud800-\udfff]")

# The longest of a field's fixed values, and somewhat more: enough to see a slip, too little to leak a text.
_SHORT = 20

_TRUSTED = ("instruction", "server")
Measure = Callable[[str], int]
Exceeded = Callable[[int], BaseException | None] | None
Ids = MutableSet[str] | None
Tokens = Iterable[str]


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class ContextFragment:
    """One piece of context for a model call, not checked until it is validated.

    Args:
        id: a stable key in usage records and errors: ASCII, all of it `[a-z][a-zA-Z0-9:._-]*`.
        source_id: where the text comes from; not empty, and without a lone surrogate, which `os.listdir` gives for an
            odd file name and no response can carry.
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
    ids: Ids = None,
    *,
    check_budget: bool = True,
    measure: Measure = len,
    special_tokens: Tokens = (),
) -> str:
    """Check one fragment, and give the exact text to send.

    Args:
        fragment: exactly a `ContextFragment`: a subclass may answer differently each time it is asked.
        ids: the ids spent so far, one set for each model call; `None` is a fresh one. An id is spent once the
            fields are in order, so that a fragment refused later cannot be retried.
        check_budget: whether to hold the text against `max_chars`.
        measure: gives the size of a text, in the unit of `max_chars`. What it raises passes through.
        special_tokens: what user and tool text must not hold, in this very case: `SPECIAL_TOKENS`, or those of your
            model's tokenizer. A server that reads them as tokens in a text reads a turn of the system in it.

    Returns:
        A plain `str`: of a dict, its compact JSON text, key order and non-ASCII characters kept.

    Raises:
        ContextPolicyError: `CONTEXT_FRAGMENT`, a field breaks its rule, or the id is spent; `CONTEXT_TRUST`,
            user or tool text, or anything but a `str`, in the system role; `CONTEXT_VALUE`, neither `str` nor JSON
            dict.
        ValidationError: `CONTEXT_TEXT`, a lone surrogate, which UTF-8 cannot hold, or U+0000, where servers in C cut
            the prompt; `CONTEXT_TOKEN`, one of `special_tokens`; `CONTEXT_BUDGET`, over `max_chars`.
        TypeError: another argument than the fragment is of a wrong type, `special_tokens` is one `str` or holds an
            empty one, or `measure` returned anything but an int of 0 or more.

    >>> rows = ContextFragment(
    ...     id="rows", source_id="db", trust="tool", lifetime="step", role="user", max_chars=9, value={"n": 1}
    ... )
    >>> validate_context_fragment(rows)
    '{"n":1}'
    """
    require(type(check_budget) is bool, "check_budget", "a bool", check_budget)
    ids, tokens = _judged(ids, measure, special_tokens)
    checked, text = _accepted(fragment, ids)
    _, issue = _sized(checked, text, tokens, measure if check_budget else None)
    if issue is not None:
        raise ValidationError([issue])
    return text


def validate_context_budget(input_chars: int, max_input_chars: int | float, exceeded: Exceeded = None) -> None:
    """Check the size of a whole input against its budget, in the unit of both.

    Args:
        input_chars: the size, an int from 0 to 2**53 - 1.
        max_input_chars: the most it may be, an int of that range, or `math.inf`.
        exceeded: makes the error instead. It is called with the budget, but only if the size is over it. The
            exception that it returns is raised; `None` asks for the usual error. What it raises passes through.

    Raises:
        ValidationError: `CONTEXT_BUDGET`, with `size` and `limit`.
        TypeError: a number is not as above (a bool never is), `exceeded` cannot be called or is an exception already,
            or it returned something else.

    >>> validate_context_budget(11, 10)
    Traceback (most recent call last):
    sidecall.errors.ValidationError: the context measures 11, over its max_input_chars of 10
    """
    require(_is_size(input_chars), "input_chars", f"an int from 0 to {_MAX_SIZE}", input_chars)
    _check_limit(max_input_chars, exceeded)
    _check_total(input_chars, max_input_chars, exceeded, None)


def assemble_context(
    fragments: Iterable[ContextFragment],
    max_input_chars: int | float = math.inf,
    *,
    ids: Ids = None,
    exceeded: Exceeded = None,
    measure: Measure = len,
    special_tokens: Tokens = (),
) -> AssembledContext:
    """Make one request of all fragments, or none.

    Args:
        fragments: any iterable, read once. Each becomes one message, in order.
        max_input_chars: the budget of their sum, as in `validate_context_budget`; so is `exceeded`.
        ids: as in `validate_context_fragment`; so are `special_tokens`, and `measure`, which is called once for each
            text.

    Raises:
        ContextPolicyError: at once, for the first fragment that breaks the policy.
        ValidationError: one issue, `CONTEXT_TEXT`, `CONTEXT_TOKEN` or `CONTEXT_BUDGET`, for each refused fragment.
            If no fragment was refused, but their sum is over the budget, `CONTEXT_BUDGET` with the `sizes` of all.
        TypeError: as in both validators, or `fragments` is not an iterable. All arguments are judged before the first
            fragment is read.

    >>> shared = {"source_id": "chat", "lifetime": "turn", "max_chars": 100}
    >>> assemble_context([
    ...     ContextFragment(id="rules", trust="instruction", role="system", value="Be brief.", **shared),
    ...     ContextFragment(id="question", trust="user", role="user", value="Why?", **shared),
    ... ], 50, special_tokens=SPECIAL_TOKENS).sizes
    {'rules': 9, 'question': 4}
    """
    require(isinstance(fragments, Iterable), "fragments", "an iterable of ContextFragment", fragments)
    _check_limit(max_input_chars, exceeded)
    ids, tokens = _judged(ids, measure, special_tokens)
    context = AssembledContext([], {})
    issues: list[Issue] = []
    for each in fragments:
        fragment, text = _accepted(each, ids)
        size, issue = _sized(fragment, text, tokens, measure)
        issues += [issue] if issue is not None else []
        context.messages.append({"role": fragment.role, "content": text})
        context.sizes[fragment.id] = size
    if issues:
        raise ValidationError(issues)
    _check_total(sum(context.sizes.values()), max_input_chars, exceeded, context.sizes)
    return context


def _accepted(fragment: object, ids: MutableSet[str]) -> tuple[ContextFragment, str]:
    """The policy, whose breach is raised at once. The order is part of the contract."""
    checked = _check_fields(fragment)
    _spend_id(checked, ids)
    _check_trust(checked)
    return checked, _text(checked)


def _is_id(value: object) -> TypeGuard[str]:
    return type(value) is str and _ID.fullmatch(value) is not None


def _is_source_id(value: object) -> TypeGuard[str]:
    return type(value) is str and value != "" and not _SURROGATE.search(value)


def _is_size(value: object, least: int = 0) -> TypeGuard[int]:
    return type(value) is int and least <= value <= _MAX_SIZE


def _quoted(text: object) -> str:
    """A text as a message shows it: in ASCII quotes, without what UTF-8 cannot hold, cut."""
    return repr(text[:SHOWN])[:SHOWN] if type(text) is str else shown(text)


def _slip(value: object) -> str:
    """What stands in place of a fixed value, shown where it is short: a slip, and not a text."""
    return repr(value) if type(value) is str and value.isascii() and len(value) <= _SHORT else shown(value)


class _Rule(NamedTuple):
    """What a field must be: whether a value is that, in words, and how another value is shown."""

    holds: Callable[[object], bool]
    words: str
    shown: Callable[[object], str] = shown


def _one_of(alias: object) -> _Rule:
    names: tuple[str, ...] = get_args(alias)
    return _Rule(lambda value: type(value) is str and value in names, f"one of {', '.join(names)}", _slip)


# Types are exact: a bool is an int, and a subclass of str may lie about `==` and its length. The value's rules
# are in `_text`, as they hold once the id is spent: here it need only be there.
_FIELDS: dict[str, _Rule] = {
    "id": _Rule(_is_id, f"a str, all of it {_ID.pattern}", _quoted),
    "source_id": _Rule(_is_source_id, "a str that is not empty and has no lone surrogate"),
    "trust": _one_of(Trust),
    "lifetime": _one_of(Lifetime),
    "role": _one_of(Role),
    "max_chars": _Rule(lambda value: _is_size(value, least=1), f"an int from 1 to {_MAX_SIZE}"),
    "value": _Rule(lambda value: value is not MISSING, "a str or a dict"),
}


def _check_fields(fragment: object) -> ContextFragment:
    """A copy, each field read once: nobody who holds the original can change what was checked."""
    if type(fragment) is not ContextFragment:
        what = "a fragment must be a ContextFragment itself, not a subclass, nor a class of a second import"
        raise ContextPolicyError("CONTEXT_FRAGMENT", f"{what}; it is of type {type_name(fragment)}")
    fields: dict[str, Any] = {name: getattr(fragment, name, MISSING) for name in _FIELDS}
    for name, rule in _FIELDS.items():
        if not rule.holds(fields[name]):
            fragment_id = fields["id"] if _FIELDS["id"].holds(fields["id"]) else None
            where = f"fragment {fragment_id[:SHOWN]}: " if fragment_id else ""
            message = f"{where}{name} must be {rule.words}; it is {rule.shown(fields[name])}"
            raise ContextPolicyError("CONTEXT_FRAGMENT", message, fragment_id, name)
    return ContextFragment(**fields)


def _spend_id(fragment: ContextFragment, ids: MutableSet[str]) -> None:
    if fragment.id in ids:
        raise _breach("CONTEXT_FRAGMENT", fragment, "id", "is spent: one use in each model call")
    ids.add(fragment.id)


def _check_trust(fragment: ContextFragment) -> None:
    if fragment.role == "system" and fragment.trust not in _TRUSTED:
        what = f"must be {' or '.join(_TRUSTED)} in the system role; it is {fragment.trust}"
        raise _breach("CONTEXT_TRUST", fragment, "trust", what)
    if fragment.role == "system" and not is_a(fragment.value, str):
        what = f"must be a str in the system role; it is of type {type_name(fragment.value)}"
        raise _breach("CONTEXT_TRUST", fragment, "value", what)


def _text(fragment: ContextFragment) -> str:
    value: object = fragment.value
    if is_a(value, str):
        return str.__str__(value)  # makes a subclass plain, and cannot be overridden
    if not is_a(value, dict):
        raise _breach("CONTEXT_VALUE", fragment, "value", f"must be a str or a dict; it is of type {type_name(value)}")
    try:
        return json_text(value)
    except NotJSONError as error:
        raise _breach("CONTEXT_VALUE", fragment, "value", f"is not JSON: {error}") from error.__cause__
    except RecursionError:
        raise _breach("CONTEXT_VALUE", fragment, "value", "is too deep for what is left of the stack") from None


def _sized(fragment: ContextFragment, text: str, tokens: Tokens, measure: Measure | None) -> tuple[int, Issue | None]:
    """The size of a text, and what is wrong with the text: the first of what it holds, and its size."""
    issue = _text_issue(fragment, text, () if fragment.trust in _TRUSTED else tokens)
    if issue is not None or measure is None:
        return 0, issue
    size, limit = measure(text), fragment.max_chars
    require(type(size) is int and size >= 0, "what measure returns", "an int of 0 or more", size)
    if size <= limit:
        return size, None
    what = f"measures {shown(size)}, over its max_chars of {limit}"
    return size, {**_issue("CONTEXT_BUDGET", fragment, what), "size": size, "limit": limit}


def _text_issue(fragment: ContextFragment, text: str, tokens: Tokens) -> Issue | None:
    # Looked for and not encoded: the error of a failed encode holds the whole text.
    found = None if text.isascii() and "\0" not in text else _UNSENDABLE.search(text)
    if found:
        what = "U+0000, where servers in C cut it" if found[0] == "\0" else "a lone surrogate, which UTF-8 cannot hold"
        return _issue("CONTEXT_TEXT", fragment, f"has at position {found.start()} {what}")
    # One search for each token is linear in the text, whatever it holds; one pattern for all of them takes two to three
    # times as long on text that is full of `<`.
    places = [(text.find(token), -len(token), token) for token in tokens if token in text]
    if not places:
        return None
    position, _, token = min(places)
    return _issue("CONTEXT_TOKEN", fragment, f"has at position {position} the special token {_quoted(token)}")


def _check_limit(limit: object, exceeded: object) -> None:
    """The arguments of both budgets."""
    is_inf = type(limit) is float and limit == math.inf
    require(is_inf or _is_size(limit), "max_input_chars", f"an int from 0 to {_MAX_SIZE}, or math.inf", limit)
    may_be_called = exceeded is None or (callable(exceeded) and not is_a(exceeded, BaseException))
    require(may_be_called, "exceeded", "callable, and not an exception", exceeded)


def _check_total(total: int, limit: float, exceeded: Exceeded, sizes: dict[str, int] | None) -> None:
    if not isinstance(limit, int) or total <= limit:  # the one float is infinite
        return
    error = None if exceeded is None else exceeded(limit)
    if error is None:
        message = f"the context measures {total}, over its max_input_chars of {limit}"
        issue = Issue(code="CONTEXT_BUDGET", message=message, size=total, limit=limit)
        raise ValidationError([issue if sizes is None else {**issue, "sizes": sizes}])
    require(is_a(error, BaseException), "what exceeded returns", "an exception or None", error)
    raise error


def _judged(ids: Ids, measure: Measure, special_tokens: Tokens) -> tuple[MutableSet[str], Tokens]:
    """The arguments of both calls: the set of ids to use, and the special tokens, which are read last, and once."""
    ids = set() if ids is None else ids  # and not if merely empty: the caller's own set is to be filled
    require(isinstance(ids, MutableSet), "ids", "a MutableSet, such as a set", ids)
    require(callable(measure), "measure", "callable", measure)
    tokens = entries(special_tokens, "special_tokens")
    for token in tokens:
        require(is_a(token, str) and str.__len__(token) > 0, "each of special_tokens", "a str that is not empty", token)
    return ids, tuple(map(str.__str__, tokens))


def _breach(code: Code, fragment: ContextFragment, field: str, what: str) -> ContextPolicyError:
    return ContextPolicyError(code, f"{_where(fragment)}: {field} {what}", fragment.id, field)


def _issue(code: Code, fragment: ContextFragment, what: str) -> Issue:
    message = f"{_where(fragment)}: its text {what}"
    return Issue(code=code, message=message, fragment_id=fragment.id, source_id=fragment.source_id)


def _where(fragment: ContextFragment) -> str:
    return f"fragment {fragment.id[:SHOWN]} of source {_quoted(fragment.source_id)}"
