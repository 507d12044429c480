"""What a user's code looks like to mypy: checked with `--strict`, and of no effect when run.

An `# type: ignore` here marks a mistake that mypy must find: under `--strict`, one that it does not find is an error.
"""

from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, Literal, NamedTuple, assert_never, assert_type

from sidecall import (
    QUERIES_SCHEMA,
    SPECIAL_TOKENS,
    SUGGESTIONS_SCHEMA,
    TITLE_SCHEMA,
    AssembledContext,
    Code,
    ContextFragment,
    ContextPolicyError,
    Issue,
    Lifetime,
    Message,
    Role,
    Trust,
    ValidationError,
    answer_text,
    assemble_context,
    clean_string,
    clean_strings,
    parse_structured,
    pick_queries,
    pick_suggestions,
    pick_title,
    require_structured,
    validate_context_budget,
    validate_context_fragment,
)


@dataclass(frozen=True)
class Note:
    """A value of the user's own."""

    tags: tuple[str, ...]
    stars: int


class Place(NamedTuple):
    """Another, that a picker may lack a part of."""

    city: str
    country: str | None


def pick_note(value: dict[str, Any]) -> Note | None:
    """A picker of the user's own."""
    tags, stars = clean_strings(value.get("tags")), value.get("stars")
    return Note(tuple(tags), stars) if tags and type(stars) is int else None


def pick_or_raise(value: dict[str, Any]) -> Place:
    """A picker that raises where it rejects."""
    return Place(value["city"], value.get("country"))


def what_comes_out(raw: str | None) -> None:
    """The value's type is the picker's."""
    assert_type(parse_structured(raw, pick_title), str | None)
    assert_type(parse_structured(raw, pick_suggestions), list[str] | None)
    assert_type(parse_structured(raw, pick_queries), list[str] | None)
    assert_type(parse_structured(raw, pick_note), Note | None)
    assert_type(parse_structured(raw, pick_or_raise), Place | None)
    assert_type(parse_structured(raw, lambda value: clean_string(value.get("summary"))), str | None)
    assert_type(parse_structured(raw, lambda value: pick_title(value.get("chat"))), str | None)
    assert_type(parse_structured(raw, lambda value: len(value)), int | None)

    assert_type(require_structured(raw, pick_title), str)
    assert_type(require_structured(raw, pick_suggestions), list[str])
    assert_type(require_structured(raw, pick_queries), list[str])
    assert_type(require_structured(raw, pick_note), Note)
    assert_type(require_structured(raw, pick_or_raise), Place)
    assert_type(require_structured(raw, lambda value: clean_string(value.get("summary"))), str)

    assert_type(answer_text(raw), str)
    assert_type(clean_string(raw), str | None)
    assert_type(clean_strings([raw]), list[str] | None)


def what_may_be_missing(raw: str | None) -> int:
    """`None` must be handled, and need not be where an error stands for it."""
    title = parse_structured(raw, pick_title)
    title.upper()  # type: ignore[union-attr]  # it may be None
    named: str = parse_structured(raw, pick_title) or "New chat"
    several: list[str] = parse_structured(raw, pick_suggestions) or []
    if title is None:
        return len(named) + len(several)
    assert_type(title, str)
    return len(title) + len(require_structured(raw, pick_queries)[0])


def what_is_not_a_reply(content: bytes, body: dict[str, Any], maybe: object) -> None:
    """Bytes, a body that was not opened, and things unknown are caught before they run."""
    parse_structured(content, pick_title)  # type: ignore[arg-type]  # bytes are not a reply
    require_structured(content, pick_title)  # type: ignore[arg-type]  # nor here
    answer_text(content)  # type: ignore[arg-type]  # nor here
    parse_structured(body, pick_title)  # type: ignore[arg-type]  # a parsed body is none
    parse_structured(maybe, pick_title)  # type: ignore[arg-type]  # an object may be anything
    parse_structured(body["message"]["content"], pick_title)
    parse_structured("{}")  # type: ignore[call-arg]  # a picker is needed
    parse_structured("{}", "title")  # type: ignore[arg-type]  # and is a function
    parse_structured("{}", pick_length)  # type: ignore[arg-type]  # of an object


def pick_length(value: str) -> int:
    """No picker: it takes text."""
    return len(value)


def send(messages: list[Message], schema: dict[str, Any]) -> str:
    """A client of the user's own, with the annotations that one would write."""
    return str((messages, schema))


def body_of(messages: Iterable[Message], schema: dict[str, object]) -> dict[str, object]:
    """Another, stricter one."""
    return {"messages": [{**message} for message in messages], "format": schema}


def which_schemas() -> list[dict[str, Any]]:
    """They are plain dicts, as every client takes them, and can be looked into."""
    for schema in (TITLE_SCHEMA, SUGGESTIONS_SCHEMA, QUERIES_SCHEMA):
        assert_type(schema, dict[str, Any])
        send([], schema)
        body_of([], schema)
    mine = {**TITLE_SCHEMA, "description": "A chat's title."}
    mine["properties"]["title"]["maxLength"] = 60
    return [mine, QUERIES_SCHEMA]


class Task(NamedTuple):
    """A side call as a row of a table: pickers of one type go together."""

    schema: dict[str, Any]
    pick: Callable[[dict[str, Any]], str | list[str] | None]


TASKS = [Task(TITLE_SCHEMA, pick_title), Task(QUERIES_SCHEMA, pick_queries)]


def what_tasks_give(raw: str) -> None:
    """Bulk work maps a partial; a table of tasks gives what its values have in common."""
    read = partial(parse_structured, pick=pick_title)
    assert_type(list(map(read, [raw, None])), list[str | None])
    for task in TASKS:
        assert_type(parse_structured(raw, task.pick), Sequence[str] | None)


def what_goes_in(text: str, trust: Trust, rows: list[dict[str, int]], label: str) -> None:
    """Labels are literals; a value is text or a dict of any values."""
    counts = {"basil": 3}
    ok: list[ContextFragment] = [
        ContextFragment(
            id="a", source_id="s", trust=trust, lifetime="turn", role="user", max_chars=9, value={"rows": rows}
        ),
        ContextFragment(id="b", source_id="s", trust="tool", lifetime="step", role="user", max_chars=9, value=counts),
        ContextFragment(id="c", source_id="s", trust="user", lifetime="turn", role="user", max_chars=9, value=text),
    ]
    ContextFragment(id="d", source_id="s", trust=label, lifetime="turn", role="user", max_chars=9, value="")  # type: ignore[arg-type]  # any str
    ContextFragment(id="d", source_id="s", trust="system", lifetime="turn", role="user", max_chars=9, value="")  # type: ignore[arg-type]  # no trust
    ContextFragment(id="d", source_id="s", trust="tool", lifetime="session", role="user", max_chars=9, value="")  # type: ignore[arg-type]  # no lifetime
    ContextFragment(id="d", source_id="s", trust="tool", lifetime="turn", role="assistant", max_chars=9, value="")  # type: ignore[arg-type]  # no role
    ContextFragment(id="d", source_id="s", trust="tool", lifetime="turn", role="user", max_chars=9.0, value="")  # type: ignore[arg-type]  # a float
    ContextFragment(id="d", source_id="s", trust="tool", lifetime="turn", role="user", max_chars=9, value=rows)  # type: ignore[arg-type]  # a list
    ContextFragment(id="d", source_id="s", trust="tool", lifetime="turn", role="user", max_chars=9)  # type: ignore[call-arg]  # no value
    ContextFragment("d", "s", "tool", "turn", "user", 9, "")  # type: ignore[call-arg]  # keywords only
    ok[0].role = "system"  # type: ignore[misc]  # frozen

    assert_type(validate_context_fragment(ok[0]), str)
    assert_type(validate_context_fragment(ok[0], {"x"}, check_budget=False, measure=utf8_bytes), str)
    validate_context_fragment(ok[0], ["x"])  # type: ignore[arg-type]  # a list is not a set
    validate_context_fragment(ok[0], measure=str.upper)  # type: ignore[arg-type]  # no size
    assert_type(SPECIAL_TOKENS, tuple[str, ...])
    validate_context_fragment(ok[0], special_tokens=SPECIAL_TOKENS)
    validate_context_fragment(ok[0], special_tokens={**dict.fromkeys(SPECIAL_TOKENS), "<|mine|>": None})
    validate_context_fragment(ok[0], special_tokens=[7])  # type: ignore[list-item]  # not a str
    validate_context_budget(9, 10, lambda limit: TimeoutError(limit))


def utf8_bytes(text: str) -> int:
    """A measure."""
    return len(text.encode())


class Changed(ContextFragment):  # type: ignore[misc]  # it is final
    """No fragment: a subclass may answer differently each time it is asked."""


def what_is_sent(fragments: Iterable[ContextFragment], ids: set[str]) -> str:
    """The request and its usage record, by name or unpacked."""
    context = assemble_context(fragments, 8_000, ids=ids, measure=lambda text: len(text.split()))
    assert_type(context, AssembledContext)
    assert_type(context.messages, list[Message])
    assert_type(context.sizes, dict[str, int])
    messages, sizes = context
    assert_type(messages[0]["content"], str)
    assert_type(messages[0]["role"], Role)
    assert_type(sum(sizes.values()), int)
    messages[0]["text"]  # type: ignore[typeddict-item]  # no such key
    body_of(merged(messages), TITLE_SCHEMA)
    return send(messages, TITLE_SCHEMA)


def merged(messages: list[Message]) -> list[Message]:
    """Messages can be made and joined as plain dicts."""
    joined: list[Message] = []
    for message in messages:
        if joined and joined[-1]["role"] == message["role"]:
            joined[-1]["content"] += "\n\n" + message["content"]
        else:
            joined.append({**message})
    return joined


def what_is_refused(fragments: list[ContextFragment], lifetime: Lifetime) -> dict[str, object]:
    """An issue's optional keys must be asked for."""
    try:
        assemble_context([each for each in fragments if each.lifetime == lifetime])
    except ValidationError as error:
        assert_type(error.issues, tuple[Issue, ...])
        assert_type(error.code, Code)
        assert_type(error.issues[0].get("size"), int | None)
        assert_type(error.issues[0].get("sizes"), dict[str, int] | None)
        return {"code": error.code, "errors": error.issues, "text": error.issues[0]["message"]}
    except ContextPolicyError as error:
        assert_type(error.field, str | None)
        assert_type(error.fragment_id, str | None)
        raise
    raise ValidationError([{"code": "CONTEXT_BUDGET", "message": "mine"}])


def who_is_at_fault(error: ValidationError | ContextPolicyError, seen: Counter[Code]) -> str:
    """A slip in a code is found where it is compared, counted or matched."""
    seen[error.code] += 1
    seen["OUTPUT_MISING"] += 1  # type: ignore[index]  # a slip
    assert_type(error.code == "OUTPUT_MISING", bool)  # type: ignore[comparison-overlap]  # a slip
    match error.code:
        case "OUTPUT_MISSING" | "OUTPUT_MALFORMED" | "OUTPUT_REJECTED" | "OUTPUT_AMBIGUOUS":
            return "the model"
        case "CONTEXT_BUDGET" | "CONTEXT_TEXT" | "CONTEXT_TOKEN":
            return "the data"
        case "CONTEXT_FRAGMENT" | "CONTEXT_TRUST" | "CONTEXT_VALUES":
            return "the code"
        case other:
            assert_type(other, Literal["CONTEXT_VALUE"])
            assert_never(other)  # type: ignore[arg-type]  # it is left: above, it has a slip


def what_is_not_an_issue() -> None:
    """A mistaken issue is caught before it runs."""
    ValidationError([{"code": "CONTEXT_TEXT"}])  # type: ignore[typeddict-item]  # no message
    ValidationError([{"code": "CONTEXT_TEXT", "message": "mine", "limit": "9"}])  # type: ignore[typeddict-item]  # no int
    ValidationError([{"code": "MY_CODE", "message": "mine"}])  # type: ignore[typeddict-item]  # not a code
    ContextPolicyError("CONTEXT_TRUST")  # type: ignore[call-arg]  # no message
    ContextPolicyError("MY_CODE", "mine")  # type: ignore[arg-type]  # not a code
