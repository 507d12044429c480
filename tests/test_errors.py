"""The errors: what they carry, what they survive, and what they refuse to be made of."""

import copy
import json
import multiprocessing
import pickle
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from types import MappingProxyType
from typing import Any

import pytest

from sidecall.errors import ContextPolicyError, Issue, ValidationError

FULL_ISSUE: Issue = {
    "code": "CONTEXT_BUDGET",
    "message": "fragment doc is over",
    "fragment_id": "doc",
    "source_id": "kb:7 é",
    "size": 12,
    "limit": 10,
    "sizes": {"doc": 12},
}
SHORT_ISSUE: Issue = {"code": "OUTPUT_MISSING", "message": "no object"}

ERRORS = [
    pytest.param(ValidationError([SHORT_ISSUE]), id="one issue"),
    pytest.param(ValidationError([FULL_ISSUE, SHORT_ISSUE]), id="two issues"),
    pytest.param(ValidationError(iter([FULL_ISSUE])), id="an iterator of issues"),
    pytest.param(ContextPolicyError("CONTEXT_VALUE", "no JSON"), id="a policy error without id and field"),
    pytest.param(ContextPolicyError("CONTEXT_TRUST", "no", "doc", "trust"), id="a policy error with both"),
    pytest.param(
        ContextPolicyError(code="CONTEXT_TRUST", message="no", field="trust", fragment_id="doc"),
        id="a policy error made by keywords",
    ),
]


def _unpickled(protocol: int) -> Callable[[Exception], Exception]:
    def through_pickle(error: Exception) -> Exception:
        back: Exception = pickle.loads(pickle.dumps(error, protocol))
        return back

    return through_pickle


COPIES = [
    *(pytest.param(_unpickled(n), id=f"pickle {n}") for n in range(pickle.HIGHEST_PROTOCOL + 1)),
    pytest.param(copy.copy, id="copy"),
    pytest.param(copy.deepcopy, id="deepcopy"),
]


@pytest.mark.parametrize("error", ERRORS)
@pytest.mark.parametrize("copied", COPIES)
def test_every_error_survives_a_copy(error: Exception, copied: Callable[[Exception], Exception]) -> None:
    """Class, attributes and text are the same afterwards."""
    back = copied(error)
    assert back is not error
    assert type(back) is type(error)
    assert vars(back) == vars(error)
    assert vars(back)  # a class without attributes would be equal to anything
    assert back.args == error.args
    assert str(back) == str(error)


def _raised_in_a_worker(error: Exception) -> None:
    raise error


@pytest.mark.needs_os
def test_every_error_arrives_from_a_process_pool() -> None:
    """What a worker raises is what the parent catches."""
    with ProcessPoolExecutor(1, mp_context=multiprocessing.get_context("spawn")) as pool:
        for case in ERRORS:
            sent = case.values[0]
            assert isinstance(sent, Exception)
            back = pool.submit(_raised_in_a_worker, sent).exception()
            assert type(back) is type(sent)
            assert vars(back) == vars(sent)


def test_a_validation_error_shows_its_issues() -> None:
    """The first issue gives the code, and all of them the text."""
    error = ValidationError(issue for issue in (FULL_ISSUE, SHORT_ISSUE))
    assert error.issues == (FULL_ISSUE, SHORT_ISSUE)
    assert error.args == (error.issues,)
    assert error.code == "CONTEXT_BUDGET"
    assert str(error) == "fragment doc is over; no object"


def test_issues_are_json_as_they_stand() -> None:
    """A web handler can answer with them."""
    error = ValidationError([FULL_ISSUE, SHORT_ISSUE])
    assert json.loads(json.dumps(error.issues)) == [FULL_ISSUE, SHORT_ISSUE]


def test_a_code_of_ones_own_is_taken_as_it_is() -> None:
    """At run time alone: a type checker knows the library's codes."""
    own: Any = {"code": "MY_CODE", "message": "mine"}
    code: str = ValidationError([own]).code
    assert code == "MY_CODE"


def test_issues_are_copied() -> None:
    """Who changes a dict after the fact does not change the error."""
    issue: Issue = {"code": "CONTEXT_TEXT", "message": "before"}
    error = ValidationError([issue])
    issue["message"] = "after"
    assert error.issues[0]["message"] == str(error) == "before"


def test_any_mapping_becomes_a_dict() -> None:
    """An issue is a plain dict whatever it was made of, or it would be no JSON."""
    given: Any = MappingProxyType({"code": "CONTEXT_TEXT", "message": "m"})
    assert type(ValidationError([given]).issues[0]) is dict


@pytest.mark.parametrize(
    "issues",
    [
        pytest.param([], id="an empty list"),
        pytest.param(iter(()), id="an empty iterator"),
        pytest.param(None, id="None"),
        pytest.param(7, id="a number"),
        pytest.param("CONTEXT_TEXT", id="a str"),
        pytest.param(FULL_ISSUE, id="one issue outside a list"),
        pytest.param([FULL_ISSUE, None], id="None in the list"),
        pytest.param([{}], id="an empty dict"),
        pytest.param([{"code": "CONTEXT_TEXT"}], id="no message"),
        pytest.param([{"message": "m"}], id="no code"),
        pytest.param([{"code": 7, "message": "m"}], id="a code that is not a str"),
        pytest.param([{"code": "CONTEXT_TEXT", "message": None}], id="a message that is not a str"),
        pytest.param([("code", "message")], id="a pair"),
    ],
)
def test_a_validation_error_is_not_made_of_anything_else(issues: Any) -> None:
    """Such a construction is a bug, and not a refusal of data."""
    with pytest.raises(TypeError) as caught:
        ValidationError(issues)
    assert not isinstance(caught.value, ValueError)


def test_an_error_without_issues_says_so() -> None:
    with pytest.raises(TypeError, match=r"^issues must not be empty$"):
        ValidationError([])


def test_a_refused_issue_is_not_shown() -> None:
    """The error about a wrong issue names its type, for it may hold a reply."""
    wrong: Any = [{"code": "CONTEXT_TEXT", "message": None, "reply": "secret"}]
    with pytest.raises(TypeError) as caught:
        ValidationError(wrong)
    assert str(caught.value) == "an issue must be a dict with a code and a message, both str; it is of type dict"


def test_a_policy_error_carries_four_attributes() -> None:
    """The id and the field are there even where nothing is known of them."""
    full = ContextPolicyError("CONTEXT_VALUE", "no JSON", "doc", "value")
    assert (full.code, full.message, full.fragment_id, full.field) == (
        "CONTEXT_VALUE",
        "no JSON",
        "doc",
        "value",
    )
    assert full.args == ("CONTEXT_VALUE", "no JSON", "doc", "value")
    assert str(full) == "no JSON"
    bare = ContextPolicyError("CONTEXT_FRAGMENT", "no fragment")
    assert (bare.fragment_id, bare.field) == (None, None)
    assert bare.args == ("CONTEXT_FRAGMENT", "no fragment", None, None)


def test_a_policy_error_needs_a_code_and_a_message() -> None:
    """There is no such error without a reason."""
    make: Any = ContextPolicyError
    with pytest.raises(TypeError):
        make()
    with pytest.raises(TypeError):
        make("CONTEXT_VALUE")


def test_a_refusal_of_data_is_a_value_error() -> None:
    """What validates data for a web framework may raise it."""
    assert issubclass(ValidationError, ValueError)


def test_a_breach_of_policy_is_not_swallowed_as_a_value_error() -> None:
    """The `except ValueError` around a JSON parse lets it through."""
    assert issubclass(ContextPolicyError, Exception)
    assert not issubclass(ContextPolicyError, ValueError)
    assert not issubclass(ContextPolicyError, ValidationError)
    assert not issubclass(ValidationError, ContextPolicyError)
