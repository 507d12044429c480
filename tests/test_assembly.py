"""From fragments to one request, or none."""

from collections.abc import Iterator
from typing import Any
from unittest.mock import Mock

import pytest
from fragments import MAX_SIZE, fragment

from sidecall import AssembledContext, ContextPolicyError, ValidationError, assemble_context


def test_a_request_is_assembled_in_order() -> None:
    """One message a fragment, with its role and exact text, and the sizes that the budget saw."""
    context = assemble_context(
        [
            fragment(id="rules", role="system", trust="server", value="Be brief."),
            fragment(id="counts", value={"n": 1}),
            fragment(id="question", trust="user", value="水の浄化?"),
        ],
        21,
    )
    assert isinstance(context, AssembledContext)
    assert context.messages == [
        {"role": "system", "content": "Be brief."},
        {"role": "user", "content": '{"n":1}'},
        {"role": "user", "content": "水の浄化?"},
    ]
    assert list(context.sizes.items()) == [("rules", 9), ("counts", 7), ("question", 5)]


def test_no_fragments_give_no_messages() -> None:
    """Even with a budget of 0."""
    assert assemble_context([], 0) == ([], {})
    assert assemble_context(iter(())) == ([], {})


def test_the_fragments_are_read_once() -> None:
    """Any iterable does, and it is asked for one iterator."""

    class Counted:
        asked = 0

        def __iter__(self) -> Iterator[Any]:
            self.asked += 1
            return iter([fragment(id="a"), fragment(id="b")])

    counted = Counted()
    assert assemble_context(counted).sizes == {"a": 5, "b": 5}
    assert counted.asked == 1


def test_all_refused_fragments_are_in_one_error() -> None:
    """In order, for text, token and size, before the sum is looked at, and every id is spent."""
    ids: set[str] = set()
    given = [
        fragment(id="size", max_chars=4),
        fragment(id="nothing"),
        fragment(id="text", value="\ud800", max_chars=1),
        fragment(id="token", value="<x>", max_chars=1),
    ]
    with pytest.raises(ValidationError) as caught:
        assemble_context(given, 0, ids=ids, special_tokens=["<x>"], exceeded=Mock(side_effect=AssertionError))
    found = [(issue["code"], issue.get("fragment_id")) for issue in caught.value.issues]
    assert found == [("CONTEXT_BUDGET", "size"), ("CONTEXT_TEXT", "text"), ("CONTEXT_TOKEN", "token")]
    assert ids == {"size", "nothing", "text", "token"}


def test_without_a_budget_no_sum_is_too_large() -> None:
    """Not even one that JSON cannot carry."""
    sizes = assemble_context([fragment(id="a"), fragment(id="b")], measure=lambda _: MAX_SIZE).sizes
    assert sizes == {"a": MAX_SIZE, "b": MAX_SIZE}


def test_a_breach_of_policy_ends_the_assembly_at_once() -> None:
    """What was refused before it is not reported, and what comes after is not read."""
    ids: set[str] = set()

    def given() -> Iterator[Any]:
        yield fragment(id="long", max_chars=1)
        yield fragment(id="sly", role="system")
        raise AssertionError("not to be read")

    with pytest.raises(ContextPolicyError) as caught:
        assemble_context(given(), ids=ids)
    assert (caught.value.code, caught.value.fragment_id) == ("CONTEXT_TRUST", "sly")
    assert ids == {"long", "sly"}


@pytest.mark.parametrize(
    "wrong",
    [
        {"max_input_chars": None},
        {"ids": ["doc"]},
        {"exceeded": ValueError("over")},
        {"measure": None},
        {"special_tokens": "<x>"},
        {"special_tokens": [""]},
    ],
    ids=str,
)
def test_arguments_are_judged_before_any_fragment_is_read(wrong: dict[str, Any]) -> None:
    """A wrong call consumes no iterator, and spends no id."""
    given, ids = iter([fragment()]), {"other"}
    with pytest.raises(TypeError, match=next(iter(wrong))):
        assemble_context(given, **{"ids": ids, **wrong})
    assert ids == {"other"}
    assert assemble_context(given).sizes == {"doc": 5}


def test_what_the_iterable_raises_passes_through() -> None:
    """It is not a fault of a fragment's."""

    def given() -> Iterator[Any]:
        yield fragment()
        raise LookupError("the database is away")

    with pytest.raises(LookupError, match="away"):
        assemble_context(given())
