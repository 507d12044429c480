"""Every case of the corpus, and the invariants that hold of each."""

import pytest
from corpus import Case, Pick, Picked, check_case, last_accepted, load_cases, outermost_objects

from sidecall import parse_structured

CASES = load_cases()


def parse(raw: str, pick: Pick) -> Picked:
    return parse_structured(raw, pick)


def test_the_corpus_is_there() -> None:
    assert len(CASES) > 200
    assert len({case.id for case in CASES}) == len(CASES)
    assert {case.pick.__name__ for case in CASES} == {"pick_title", "pick_suggestions", "pick_queries"}


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.id)
def test_a_reply_gives_its_answer_whole_wrapped_and_cut(case: Case) -> None:
    check_case(parse, case)


@pytest.mark.parametrize(
    "rule",
    [
        pytest.param("think-unclosed-draft-cut", id="a draft in reasoning is no answer"),
        pytest.param("cut-inner-complete", id="an inner object of a cut-off reply is no answer"),
        pytest.param("fence-inner-valid-outer-broken", id="an inner object of a broken one is no answer"),
        pytest.param("different-adjacent", id="two different answers are none"),
        pytest.param("runon-next-turn", id="an invented turn is no answer"),
    ],
)
def test_the_invariants_catch_a_parser_that_takes_the_last_object_anywhere(rule: str) -> None:
    case = next(case for case in CASES if case.id == rule)
    with pytest.raises(AssertionError):
        check_case(last_accepted, case)


def test_the_cuts_alone_catch_it_where_the_whole_reply_is_right() -> None:
    inner = Case("inner", '{"meta": {"title": "Draft"}, "title": "Water"}', CASES[0].pick, "Water")
    assert last_accepted(inner.raw, inner.pick) == inner.expected
    with pytest.raises(AssertionError, match="meta"):
        check_case(last_accepted, inner)
    check_case(parse, inner)


@pytest.mark.parametrize(
    ("reply", "titles"),
    [
        pytest.param('{"title": "A"} and {"title": "B"}', ["A", "B"], id="each outermost object"),
        pytest.param('{"x": {"title": "A"}, ', [], id="none inside a cut-off one"),
        pytest.param('<think>{"title": "A"}</think>{"title": "B"}', ["B"], id="none in reasoning"),
        pytest.param('{"title": "A"}</think>{"title": "B"}', ["B"], id="none before reasoning ended"),
    ],
)
def test_the_judge_itself_knows(reply: str, titles: list[Picked]) -> None:
    assert [CASES[0].pick(value) for value in outermost_objects(reply)] == titles
