"""Speed as ratios within one run. Run by hand: `python tests/benchmark.py`; the suite itself times nothing."""

import json
import platform
import timeit
from collections.abc import Callable
from functools import partial
from time import process_time
from typing import Any

from test_hostile import FLOODS as FLOODS

from sidecall import (
    ContextFragment,
    __version__,
    assemble_context,
    parse_structured,
    pick_title,
    validate_context_fragment,
)

OBJECT = '{"title": "Balcony herb care"}'
PROSE = "Basil wants sun, warm feet and little wind; mint grows anywhere, even in the shade of a wall.\n" * 200
MARKED_UP = "<p>Basil wants <b>sun</b>, warm feet and little wind [1]; mint grows anywhere, even in shade.</p>\n" * 200
REASONING = 'They ask about {basil}, so {"title": "Basil"} is near, but it is not exact enough yet.\n' * 300


def reasoned(length: int) -> str:
    return f"<think>{REASONING[:length]}</think>\n{OBJECT}"


REPLIES = [
    ("a clean reply", OBJECT, 1.5),
    ("a fenced reply", f"```json\n{OBJECT}\n```", 1.5),
    ("a lightly wrapped reply", f"Sure! Here is a title:\n\n{OBJECT}\n\nAnything else?", 1.5),
    ("20,000 characters of plain prose around", PROSE[:10_000] + OBJECT + PROSE[:10_000], 8),
    ("the same with HTML tags and [1]", MARKED_UP[:10_000] + OBJECT + MARKED_UP[:10_000], 120),
    ("reasoning of 2,000 characters with braces", reasoned(2_000), 4),
    ("reasoning of 20,000 characters with braces", reasoned(20_000), 6),
    ("an object of 100,000 characters", '{"title": "x", "body": "%s"}' % ("basil and mint " * 6_666), 1.15),
    (
        "the same in 3,000 parts",
        json.dumps({"title": "x", "rows": [{"n": n, "s": "basil <b>"} for n in range(3_000)]}),
        1.15,
    ),
]

_decode = json.JSONDecoder(parse_constant=lambda name: json.loads("-")).decode


def plain_span(reply: str) -> str | None:
    """From the first brace to the last: what most code does, and what the ratios are of."""
    start, end = reply.find("{"), reply.rfind("}")
    if not 0 <= start < end:
        return None
    try:
        return pick_title(_decode(reply[start : end + 1]))
    except ValueError:
        return None


def seconds(*runs: Callable[[], object]) -> list[float]:
    """The least time of each, taken in turns, so that a busy moment falls on all of them."""
    numbers = [timeit.Timer(run).autorange()[0] for run in runs]
    rounds = [[timeit.timeit(run, number=n) / n for run, n in zip(runs, numbers, strict=True)] for _ in range(7)]
    return [min(times) for times in zip(*rounds, strict=True)]


def heading(name: str, unit: str, ratio: str) -> None:
    print(f"\n{name:<52}{unit:>9}{ratio:>8}{'at most':>9}")


def row(name: str, time: float, ratio: float, limit: float) -> None:
    print(f"{name:<52}{time:>9.1f}{ratio:>8.2f}{limit:>9}{'  over' * (ratio > limit)}")


def print_replies() -> None:
    heading("parse_structured, against the plain brace span", "µs", "ratio")
    for name, reply, limit in REPLIES:
        ours, plain = seconds(partial(parse_structured, reply, pick_title), partial(plain_span, reply))
        row(name, ours * 1e6, ours / plain, limit)


def once(reply: str) -> float:
    start = process_time()
    parse_structured(reply, pick_title)
    return process_time() - start


def growth(flood: str) -> tuple[float, float]:
    """The time for four times the length, as a ratio, and the time for the length itself."""
    replies = [flood * (length // len(flood)) for length in (50_000, 200_000)]
    # In turns, so that a busy moment falls on both.
    short, long = map(min, zip(*([once(reply) for reply in replies] for _ in range(9)), strict=True))
    return long / short, short


def print_floods() -> None:
    heading("floods of 50,000 characters, and of 200,000", "ms", "growth")
    ratio, time, name = max((*growth(flood), name) for name, flood in FLOODS.items())
    row(f"the worst of {len(FLOODS)}: {name}", time * 1e3, ratio, 6)


def fragment(value: str | dict[str, Any], name: str = "rows") -> ContextFragment:
    return ContextFragment(
        id=name, source_id="bench", trust="tool", lifetime="turn", role="user", max_chars=10**9, value=value
    )


VALUES: list[tuple[str, dict[str, Any]]] = [
    ("a dict of 20,000 short strings", {f"key{n}": f"value {n}" for n in range(20_000)}),
    (
        "a dict of 20,000 rows",
        {"rows": [{"n": n, "price": n / 7, "name": f"basil {n}", "fresh": True, "note": None} for n in range(20_000)]},
    ),
    ("a dict of one long string", {"text": PROSE * 20}),
]


ASSEMBLY = "assembly of 100,000 fragments, against 25,000"


def print_values() -> None:
    heading("validate_context_fragment, against json.dumps", "ms", "ratio")
    dumps = partial(json.dumps, ensure_ascii=False, separators=(",", ":"), allow_nan=False)
    for name, value in VALUES:
        ours, plain = seconds(partial(validate_context_fragment, fragment(value)), partial(dumps, value))
        row(name, ours * 1e3, ours / plain, 2.5)
    many = [fragment("basil", f"doc{number}") for number in range(100_000)]
    few, all_of_them = seconds(partial(assemble_context, many[:25_000]), partial(assemble_context, many))
    row(ASSEMBLY, all_of_them * 1e3, all_of_them / few, 6)


if __name__ == "__main__":
    python = f"{platform.python_implementation()} {platform.python_version()}"
    print(f"sidecall {__version__}, {python}, {platform.machine()}")
    print_replies()
    print_values()
    print_floods()
