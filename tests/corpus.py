"""The extraction cases, and what must hold of every one of them, whatever parser is judged."""

import json
import re
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from sidecall import pick_queries, pick_suggestions, pick_title

Picked = Sequence[str] | None  # a str is one, too
Pick = Callable[[dict[str, Any]], Picked]
Parse = Callable[[str, Pick], Picked]

PICKERS: dict[str, Pick] = {"title": pick_title, "suggestions": pick_suggestions, "queries": pick_queries}


class Case(NamedTuple):
    """One reply and its right answer."""

    id: str
    raw: str
    pick: Pick
    expected: Picked


def load_cases() -> list[Case]:
    """All cases of the data file."""
    lines = (Path(__file__).parent / "cases" / "extraction.jsonl").read_text(encoding="utf-8").splitlines()
    rows = [json.loads(line) for line in lines]
    return [Case(row["id"], row["raw"], PICKERS[row["task"]], row["expected"]) for row in rows]


def check_case(parse: Parse, case: Case) -> None:
    """Assert every invariant: the reply whole, in prose, in a fence, and cut at each position."""
    for raw in (case.raw, f"Here you are.\n{case.raw}\nI hope that helps.", f"```json\n{case.raw}\n```"):
        assert parse(raw, case.pick) == case.expected, raw
    for length in range(len(case.raw)):
        kept = case.raw[:length]
        picked = parse(kept, case.pick)
        assert picked is None or picked in [case.pick(value) for value in outermost_objects(kept)], kept


# Written out here, and matched by brute force: the judge shares nothing with the engine.
_TAG = r"think|thinking|thought|thoughts|thought_process|reasoning|reflection|analysis|scratchpad|seed:think"
_BLOCKS = [
    (rf"<({_TAG})(\s[^<>]*)?(?<!/)>", rf"</({_TAG})\s*>", True),
    (r"\[THINK\]", r"\[/THINK\]", True),
    (r"◁think▷", r"◁/think▷", True),
    (r"<\|START_THINKING\|>", r"<\|END_THINKING\|>", True),
    (r"<\|begin_of_thought\|>", r"<\|end_of_thought\|>", True),
    (r'<details\s[^<>]*type="reasoning"[^<>]*>', r"</details>", False),
    (r"<\|channel\|>(analysis|commentary)", r"<\|end\|>", False),
    (r"<\|channel\|>(analysis|commentary)", r"<\|channel\|>final", True),
    (r"\Aanalysis(?=(?-i:[A-Z]))", r"assistantfinal", True),
    (r"<\|channel>thought", r"<channel\|>", True),
]
_TURN = (
    r"<\|(im_end|eot_id|eom_id|endoftext|end_of_text|END_OF_TURN_TOKEN|return|im_start|start_header_id|user)\|>"
    r"|<｜(end▁of▁sentence|User)｜>|<(end_of_turn|start_of_turn|eos|/s)>|\[(\|endofturn\||INST)\]|<turn\|>|<\|turn>"
)


def outermost_objects(reply: str) -> list[dict[str, Any]]:
    """The values of the complete objects outside reasoning, found by trying every end of every brace."""
    values: list[dict[str, Any]] = []
    at = 0
    while at < len(reply):
        opened = [close for mark, close, _ in _BLOCKS if _match(mark, reply, at) and _is_first_on_line(reply, at)]
        closed = [found for _, close, alone in _BLOCKS if alone and (found := _match(close, reply, at))]
        if opened:
            found = re.compile("|".join(opened), re.I).search(reply, at + 1)
            at = found.end() if found else len(reply)
        elif closed:
            values, at = [], closed[0].end()
        elif reply[at] == "{":
            at = _object(reply, at, values)
        else:
            at += 1
    return values


def _object(reply: str, at: int, values: list[dict[str, Any]]) -> int:
    for end in range(at + 1, len(reply) + 1):
        try:
            values.append(json.loads(reply[at:end], parse_constant=_refuse))
        except ValueError:
            continue
        return end
    rest = reply[at + 1 :].lstrip()
    return _broken_end(reply, at) if rest[:1] in ("", "}") or re.match(r"([\"'“]).*?\1?\s*(:|$)", rest) else at + 1


def _broken_end(reply: str, at: int) -> int:
    depth, quoted = 0, False
    for end in range(at, len(reply)):
        marks = [_TURN, *(close for _, close, alone in _BLOCKS if alone)]
        if any(_match(mark, reply, end) for mark in marks):
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
