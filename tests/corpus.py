"""The extraction cases, and what must hold of every one of them, whatever parser is judged."""

import json
import re
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from sidecall import (
    Marks,
    ValidationError,
    answer_text,
    parse_structured,
    pick_queries,
    pick_suggestions,
    pick_title,
    require_structured,
)

Picked = Sequence[str] | None  # a str is one, too
Pick = Callable[[dict[str, Any]], Picked]
Parse = Callable[[str, Pick], Picked]

PICKERS: dict[str, Pick] = {"title": pick_title, "suggestions": pick_suggestions, "queries": pick_queries}

MALFORMED, REJECTED, AMBIGUOUS = "OUTPUT_MALFORMED", "OUTPUT_REJECTED", "OUTPUT_AMBIGUOUS"


class Shown(NamedTuple):
    """The outcome of a reply without a value, for which plain text may stand in: `OUTPUT_MISSING`."""

    text: str


def outcome(raw: Any, pick: Callable[[dict[str, Any]], Any] = pick_title, marks: Marks | None = None) -> Any:
    """What becomes of a reply by all three functions: its value, a code, or the text that may be shown."""
    parsed, text = parse_structured(raw, pick, marks=marks), answer_text(raw, marks=marks)
    try:
        value = require_structured(raw, pick, marks=marks)
    except ValidationError as error:
        if parsed is not None or len(error.issues) != 1:
            raise
        return Shown(text) if error.code == "OUTPUT_MISSING" else error.code
    assert parsed == value
    return value


class Case(NamedTuple):
    """One reply and its right answer; where there is none, why, and what may be shown, if the case says so."""

    id: str
    raw: str
    pick: Pick
    expected: Picked
    code: str | None = None
    text: str | None = None


def load_cases() -> list[Case]:
    """All cases of the data file."""
    lines = (Path(__file__).parent / "cases" / "extraction.jsonl").read_text(encoding="utf-8").splitlines()
    rows = [json.loads(line) for line in lines]
    return [
        Case(row["id"], row["raw"], PICKERS[row["task"]], row["expected"], row.get("code"), row.get("text"))
        for row in rows
    ]


# Two kinds of reply mean something else behind text, so they are not wrapped: one that begins with a header whose token
# was in the prompt, which is looked for at the start alone, and one that begins with the turn of another role, which
# is skipped there, but ends a reply that has begun.
_AT_THE_START_ALONE = re.compile(
    r"\s*(to=self<\|message\|>|\[INST\]|<[^<>]*>(user|system|tool)\b|<[|｜](user|system|tool|observation)[|｜]>)", re.I
)


def is_wrapped(case: Case) -> bool:
    """Whether the answer is the same inside of prose or a fence. The code and the text need not be."""
    return not _AT_THE_START_ALONE.match(case.raw)


def check_case(parse: Parse, case: Case) -> None:
    """Assert every invariant: the reply whole, in prose, in a fence, and cut at each position."""
    wrapped = (f"Here you are.\n{case.raw}\nI hope that helps.", f"```json\n{case.raw}\n```")
    for raw in (case.raw, *(wrapped if is_wrapped(case) else ())):
        assert parse(raw, case.pick) == case.expected, raw
    for length in range(len(case.raw)):
        kept = case.raw[:length]
        picked = parse(kept, case.pick)
        assert picked is None or picked in [case.pick(value) for value in outermost_objects(kept)], kept


# Written out here, and matched by brute force: the judge shares nothing with the engine. It may find more than the
# answer holds, as it knows neither lists nor turns but where an object is broken, and never less.
_TAG = (
    r"(?:(?![^<>]*no_)[\w.-][\w.:|-]*[:_|](?=think))?think(?:ing)?(?:[:|][^\s<>/]*)?|thoughts?|thought_process"
    r"|reasoning|reflection|analysis|scratchpad|antThinking|REASONING_SCRATCHPAD|INNER_MONOLOGUE"
)
_BLOCKS = [
    (rf"<(?:{_TAG})(?:\s[^<>]*)?(?<!/)>", rf"</(?:{_TAG})\s*>", True),
    (r"\[THINK\]", r"\[/THINK\]", True),
    (r"◁think▷", r"◁/think▷", True),
    (r"<\|START_THINKING\|>", r"<\|END_THINKING\|>", True),
    (r"<\|begin_of_thought\|>", r"<\|end_of_thought\|>", True),
    (r'<details\s[^<>]*type="reasoning"[^<>]*>', r"</details>", False),
    (r"<\|channel\|>\s*(?:analysis|commentary)", r"<\|end\|>", False),
    (r"<\|channel\|>\s*(?:analysis|commentary)", r"<\|channel\|>\s*final", True),
    (r"\A\s*analysis(?=(?-i:[A-Z]))", r"(?<![a-z])(?-i:assistantfinal)(?![a-z])", True),
    (r"<\|channel>thought", r"<channel\|>", True),
    (r"<\|open\|>think<\|sep\|>", r"<\|close\|>think<\|sep\|>|<\|open\|>response<\|sep\|>", True),
    (r"\A\s*to=self<\|message\|>|(?<=<\|start\|>assistant )to=self<\|message\|>", r"<\|eom\|>", False),
]
_TURN = (
    r"<\|(?:im_end|eot_id|eom_id|endoftext|end_of_text|END_OF_TURN_TOKEN|return|im_start|start_header_id|user|eot)\|>"
    r"|<｜(?:end▁of▁sentence|User|Assistant)｜>|<(?:end_of_turn|start_of_turn|eos|/s)>|\[(?:\|endofturn\||INST)\]"
    r"|<turn\|>|<\|turn>|<\|(?:assistant|observation)\|>|\[e~\[|<\|close\|>response<\|sep\|>"
)
_ENDS = "|".join([_TURN, *(close for _, close, alone in _BLOCKS if alone)])
_MARK_OR_BRACE = re.compile("|".join(["{", _ENDS, *(mark for mark, *_ in _BLOCKS)]), re.I)
_BEHIND_A_HEADER = re.compile(r"[|｜]>(?:assistant|final)?\s*\Z")


def outermost_objects(reply: str) -> list[dict[str, Any]]:
    """The values of the complete objects outside reasoning, found by trying every end of every brace."""
    values: list[dict[str, Any]] = []
    at = 0
    while begin := _MARK_OR_BRACE.search(reply, at):
        at = begin.start()
        opened = [close for mark, close, _ in _BLOCKS if _match(mark, reply, at)]
        closed = [found for _, close, alone in _BLOCKS if alone and (found := _match(close, reply, at))]
        found = re.compile("|".join(opened), re.I).search(reply, at + 1) if opened else None
        if opened and (found or _is_first_on_line(reply, at)):
            at = found.end() if found else len(reply)
        elif closed:
            is_header = re.search(_TURN, reply[:at], re.I) and _BEHIND_A_HEADER.search(reply[:at])
            values, at = values if is_header else [], closed[0].end()
        else:
            at = _object(reply, at, values) if reply[at] == "{" else at + 1
    return values


def _object(reply: str, at: int, values: list[dict[str, Any]]) -> int:
    for end in (brace.end() for brace in re.compile("}").finditer(reply, at)):
        try:
            values.append(json.loads(reply[at:end], strict=False, parse_constant=_refuse))
        except ValueError:
            continue
        return end
    rest = reply[at + 1 :].lstrip()
    key = r"\\?([\"'‘“„«`]).*?[\"'’”»`]?\s*([:：]|$)|[a-zA-Z_$][\w$-]*\s*(:\s*[\"{\[]|:?\s*$)"
    return _broken_end(reply, at) if rest[:1] in ("", "}") or re.match(key, rest) else at + 1


def _broken_end(reply: str, at: int) -> int:
    depth, quoted = 0, False
    for end in range(at, len(reply)):
        if _match(_ENDS, reply, end):
            return end
        if reply[end] == '"' and reply[end - 1] != "\\":
            quoted = not quoted
        depth += 0 if quoted else {"{": 1, "}": -1}.get(reply[end], 0)
        if depth == 0:
            return end + 1
    return len(reply)


def _match(pattern: str, reply: str, at: int) -> re.Match[str] | None:
    return re.compile(pattern, re.I).match(reply, at)


def _is_first_on_line(reply: str, at: int) -> bool:
    line = reply[:at].rpartition("\n")[2]
    return re.search(r"(^|[}\]▷]|[\w|]>)(\s|assistant|final)*$", line) is not None


def _refuse(constant: str) -> Any:
    raise ValueError(constant)


def last_accepted(reply: str, pick: Pick) -> Picked:
    """What many parsers do, and the invariants must catch: the last object accepted, also inside broken ones."""
    last: Picked = None
    for picked in _accepted_anywhere(reply, pick):
        last = picked
    return last


def _accepted_anywhere(reply: str, pick: Pick) -> Iterator[Picked]:
    at = reply.find("{")
    while at >= 0:
        try:
            value, end = json.JSONDecoder().raw_decode(reply, at)
        except ValueError:
            end = at + 1
        else:
            if (picked := pick(value)) is not None:
                yield picked
        at = reply.find("{", end)
