"""Every case of the corpus, and the invariants that hold of each."""

import re

import pytest
from corpus import (
    Case,
    Pick,
    Picked,
    Shown,
    check_case,
    is_wrapped,
    last_accepted,
    load_cases,
    outcome,
    outermost_objects,
)

from sidecall import answer_text, pick_title

CASES = load_cases()
WITHOUT_VALUE = [case for case in CASES if case.code]

# What no user should see: a special token, or an object that begins.
DEBRIS = re.compile(r'<[|｜][^<>|｜\s]+[|｜]>|\{\s*"\w+"\s*:')


def parse(raw: str, pick: Pick) -> Picked:
    got = outcome(raw, pick)
    assert not (isinstance(got, Shown) and DEBRIS.search(got.text)), raw
    return None if isinstance(got, Shown) or str(got).startswith("OUTPUT_") else got


def test_the_corpus_is_there_and_nearly_all_of_it_is_wrapped() -> None:
    assert len(CASES) > 300
    assert len({case.id for case in CASES}) == len(CASES)
    assert {case.pick.__name__ for case in CASES} == {"pick_title", "pick_suggestions", "pick_queries"}
    assert sum(map(is_wrapped, CASES)) > 0.96 * len(CASES)
    assert {case.code for case in WITHOUT_VALUE} >= {"OUTPUT_MISSING", "OUTPUT_MALFORMED", "OUTPUT_REJECTED"}


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.id)
def test_a_reply_gives_its_answer_whole_wrapped_and_cut(case: Case) -> None:
    check_case(parse, case)


@pytest.mark.parametrize("case", WITHOUT_VALUE, ids=lambda case: case.id)
def test_a_reply_without_a_value_says_why_and_what_may_be_shown(case: Case) -> None:
    got = outcome(case.raw, case.pick)
    assert ("OUTPUT_MISSING" if isinstance(got, Shown) else got) == case.code
    assert case.text is None or answer_text(case.raw) == case.text


@pytest.mark.parametrize(
    "rule",
    [
        pytest.param("think-unclosed-draft-cut", id="a draft in reasoning is not an answer"),
        pytest.param("cut-inner-complete", id="an inner object of a cut-off reply is not an answer"),
        pytest.param("fence-inner-valid-outer-broken", id="an inner object of a broken one is not an answer"),
        pytest.param("different-adjacent", id="two different answers are none"),
        pytest.param("runon-next-turn", id="an invented turn is not an answer"),
    ],
)
def test_the_invariants_catch_a_parser_that_takes_the_last_object_anywhere(rule: str) -> None:
    case = next(case for case in CASES if case.id == rule)
    with pytest.raises(AssertionError):
        check_case(last_accepted, case)


def test_a_parser_that_is_right_of_the_whole_reply_alone_is_caught_by_its_cuts() -> None:
    inner = Case("inner", '{"meta": {"title": "Draft"}, "title": "Water"}', pick_title, "Water")
    assert last_accepted(inner.raw, inner.pick) == inner.expected
    with pytest.raises(AssertionError, match="meta"):
        check_case(last_accepted, inner)
    check_case(parse, inner)


@pytest.mark.parametrize(
    ("reply", "titles"),
    [
        pytest.param('{"title": "A"} and {"title": "B"}', ["A", "B"], id="each outermost object"),
        pytest.param('{"x": {"title": "A"}, ', [], id="none inside a cut-off one"),
        pytest.param('{x: {"title": "A"}}', [], id="none inside one with a bare key"),
        pytest.param('<think>{"title": "A"}</think>{"title": "B"}', ["B"], id="none in reasoning"),
        pytest.param('So <mm:think>{"title": "A"}</think>{"title": "B"}', ["B"], id="none in reasoning in mid-line"),
        pytest.param('{"title": "A"}</think>{"title": "B"}', ["B"], id="none before reasoning ended"),
        pytest.param('{"title": "A"}<eos><|x|></think>{}', ["A", None], id="those before an empty block of a header"),
    ],
)
def test_the_judge_of_cuts_finds_the_objects_outside_reasoning(reply: str, titles: list[Picked]) -> None:
    assert [pick_title(value) for value in outermost_objects(reply)] == titles
