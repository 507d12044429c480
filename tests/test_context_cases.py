"""The corpus of context cases: one call a line, and what must come of it.

A missing field stands for `None`; `{"$num": "5.0"}` and `{"$js": "NaN"}` are numbers; `ids` is the
accumulator before the call and `ids_after` after it; cases of one `sequence` share one accumulator, in order.
"""

import json
from collections import Counter
from collections.abc import Callable
from dataclasses import MISSING, fields
from pathlib import Path
from typing import Any

import pytest

from sidecall.context_policy import ContextFragment, validate_context_budget, validate_context_fragment

Case = dict[str, Any]  # as the file has it


class MyError(Exception):
    """What an application makes of an exceeded budget."""


def _raise_my_error(limit: int) -> BaseException:
    raise MyError(f"limit {limit}")


EXCEEDED: dict[str, Callable[[int], Any]] = {
    "returns MyError": lambda limit: MyError(f"limit {limit}"),
    "raises MyError": _raise_my_error,
    "returns None": lambda limit: None,
}


def _number(holder: dict[str, Any]) -> object:
    """Give the number that a holder stands for, and any other dict as it is."""
    if set(holder) == {"$js"}:
        return float(holder["$js"].replace("Infinity", "inf"))
    if set(holder) == {"$num"}:
        return float(holder["$num"]) if "." in holder["$num"] else int(holder["$num"])
    return holder


CASES: list[Case] = [
    json.loads(line, object_hook=_number)
    for line in (Path(__file__).parent / "cases" / "context.jsonl").read_text("utf-8").splitlines()
]


def _runs() -> dict[str, list[Case]]:
    runs: dict[str, list[Case]] = {}
    for case in CASES:
        name = f"sequence {case['sequence']}" if "sequence" in case else case["id"]
        runs.setdefault(name, []).append(case)
    return runs


def _call(case: Case, ids: set[str] | None) -> object:
    args = case["args"]
    if case["call"] == "budget":
        exceeded = EXCEEDED[args["exceeded"]] if "exceeded" in args else None
        validate_context_budget(args["input_chars"], args["max_input_chars"], exceeded)
        return None
    required = [field.name for field in fields(ContextFragment) if field.default is MISSING]
    fragment = ContextFragment(**{name: args["fragment"].get(name) for name in required})
    return validate_context_fragment(fragment, ids, check_budget=args.get("check_budget", True))


def _outcome(case: Case, ids: set[str] | None) -> dict[str, object]:
    """Call, and put what came of it into the words of the corpus."""
    try:
        return {"ok": _call(case, ids)}
    except Exception as error:
        if "error" in case["expected"]:
            return {"error": type(error).__name__}
        return {"code": getattr(error, "code", error)}


@pytest.mark.parametrize("run", [pytest.param(run, id=name) for name, run in _runs().items()])
def test_the_case_comes_out_as_expected(run: list[Case]) -> None:
    """Each call of a sequence finds the ids that the last one left."""
    shared = set(run[0]["args"].get("ids", ()))
    for case in run:
        ids = shared if "ids" in case["args"] else None
        if ids is not None:
            assert ids == set(case["args"]["ids"]), case["id"]
        assert _outcome(case, ids) == case["expected"], case["id"]
        if "ids_after" in case:
            assert ids == set(case["ids_after"]), case["id"]


def test_the_corpus_has_every_kind_of_call_and_outcome() -> None:
    """A corpus that is empty, or lost a kind, would pass in silence."""
    calls = Counter(case["call"] for case in CASES)
    outcomes = Counter(next(iter(case["expected"])) for case in CASES)
    assert set(calls) == {"fragment", "budget"}
    assert set(outcomes) == {"ok", "code", "error"}
    assert len({case["id"] for case in CASES}) == len(CASES) > 50
    assert any("sequence" in case for case in CASES)
