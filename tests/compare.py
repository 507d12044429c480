"""Other parsers on the cases of the corpus, judged by the same pickers; docs/comparison.md shows what it prints.

Run by hand, in an environment with the peers, as that page says; the suite never runs it. A peer that is not installed
is skipped. With the name of a tool it prints that tool's wrong answers instead, so that they can be argued with.
"""

import json
import platform
import signal
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from importlib import import_module
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any, NamedTuple

from corpus import Case, Pick, Picked, load_cases

from sidecall import (
    QUERIES_SCHEMA,
    SUGGESTIONS_SCHEMA,
    TITLE_SCHEMA,
    ValidationError,
    parse_structured,
    pick_queries,
    pick_suggestions,
    pick_title,
    require_structured,
)

Read = Callable[[str, Pick], Picked]

LIMIT = 10.0  # seconds for one reply; a user would have left long before

SCHEMAS: dict[Pick, dict[str, Any]] = {
    pick_title: TITLE_SCHEMA,
    pick_suggestions: SUGGESTIONS_SCHEMA,
    pick_queries: QUERIES_SCHEMA,
}


# --- the tools: each gives an object, of which the case's picker takes the value ---
#
# Peers are imported in here, by name: the checkers run where they are not installed. Each function gives a reader, so
# that no import is part of the time.


def picked(value: Any, pick: Pick) -> Picked:
    """The picker's value of an object, or of the only object of a list.

    A peer without a rule of its own does not say which of several objects is the answer, so several are none.
    """
    if isinstance(value, list) and len(value) == 1:
        value = value[0]
    return pick(value)


def plain_span() -> Read:
    """From the first brace to the last: what most code does."""
    return lambda raw, pick: pick(json.loads(raw[raw.find("{") : raw.rfind("}") + 1]))


def json_repair() -> Read:
    """`loads`, the first call of its README."""
    loads = import_module("json_repair").loads
    return lambda raw, pick: picked(loads(raw), pick)


def json_repair_schema() -> Read:
    """With the schema, in its default mode: "salvage", which takes the first fragment that fits, does worse here."""
    repair = partial(import_module("json_repair").repair_json, return_objects=True)
    return lambda raw, pick: picked(repair(raw, schema=SCHEMAS[pick]), pick)


def langchain() -> Read:
    """What its `JsonOutputParser` calls on a whole reply."""
    parse = import_module("langchain_core.utils.json").parse_json_markdown
    return lambda raw, pick: picked(parse(raw), pick)


def instructor() -> Read:
    """The text of the last object or list, by its docstring; its callers decode that."""
    extract = import_module("instructor.utils").extract_json_from_codeblock
    return lambda raw, pick: picked(json.loads(extract(raw)), pick)


def dirtyjson() -> Read:
    """From the first brace or bracket on: its documented way to skip what stands before."""
    loads = partial(import_module("dirtyjson").loads, search_for_first_object=True)
    return lambda raw, pick: picked(loads(raw), pick)


def jsonfinder() -> Read:
    """Its `only_json`, which raises where there are several."""
    only_json = import_module("jsonfinder").only_json
    return lambda raw, pick: picked(only_json(raw)[2], pick)


def jsonfinder_picker() -> Read:
    """Its iterator, with the picker as the predicate, and the rule of `only_json`: one, or none."""
    find = partial(import_module("jsonfinder").jsonfinder, json_only=True)

    def read(raw: str, pick: Pick) -> Picked:
        found = find(raw, predicate=lambda start, end, value: picked(value, pick) is not None)
        values = [picked(value, pick) for _, _, value in found]
        return values[0] if len(values) == 1 else None

    return read


def sidecall() -> Read:
    """The picker judges each object of the reply."""
    return lambda raw, pick: parse_structured(raw, pick)


class Tool(NamedTuple):
    """A row of the table: its name, the packages that it needs (the first one's version is shown), and its reader."""

    name: str
    packages: tuple[str, ...]
    reader: Callable[[], Read]


PLAIN_SPAN = Tool("plain span", (), plain_span)
SIDECALL = Tool("sidecall", ("sidecall",), sidecall)
TOOLS = [
    PLAIN_SPAN,
    Tool("json_repair", ("json_repair",), json_repair),
    Tool("json_repair, schema", ("json_repair", "jsonschema"), json_repair_schema),
    Tool("langchain-core", ("langchain-core",), langchain),
    Tool("instructor", ("instructor",), instructor),
    Tool("dirtyjson", ("dirtyjson",), dirtyjson),
    Tool("jsonfinder", ("jsonfinder",), jsonfinder),
    Tool("jsonfinder, picker", ("jsonfinder",), jsonfinder_picker),
    SIDECALL,
]


def version_of(tool: Tool) -> str | None:
    """The version of a tool's first package, or of Python where it needs none; `None` where one is not installed."""
    try:
        return [*map(version, tool.packages), f"Python {platform.python_version()}"][0]
    except PackageNotFoundError:
        return None


# --- the answers ---


class StoppedError(BaseException):
    """A reply took too long. Not an `Exception`: a peer's own `except Exception` must not swallow it."""


@contextmanager
def time_limit(limit: float | None) -> Iterator[None]:
    if limit is None:
        yield
        return

    def stop(*_: object) -> None:
        raise StoppedError

    before = signal.signal(signal.SIGALRM, stop)
    signal.setitimer(signal.ITIMER_REAL, limit)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)


def answer(read: Read, raw: str, pick: Pick) -> Picked:
    """A tool's value. A `ValueError` is how the peers say that there is none, so it counts as `None`."""
    try:
        return read(raw, pick)
    except ValueError:
        return None


class Verdict(NamedTuple):
    """What became of one case, one of `KINDS`, and what came."""

    kind: str
    came: object


KINDS = ("right", "wrong None", "wrong value", "from broken JSON", "raised", "stopped")


def judge(read: Read, case: Case, limit: float | None = LIMIT) -> Verdict:
    try:
        with time_limit(limit):
            value = answer(read, case.raw, case.pick)
    except StoppedError:
        return Verdict("stopped", None)
    except Exception as error:
        return Verdict("raised", repr(error))
    if value == case.expected:
        return Verdict("right", value)
    if value is None:
        return Verdict("wrong None", value)
    return Verdict("from broken JSON" if is_broken(case) else "wrong value", value)


def is_broken(case: Case) -> bool:
    """Whether there is an object, but a broken or cut-off one: a value of it is a repair, which some apps want."""
    try:
        require_structured(case.raw, case.pick)
    except ValidationError as error:
        return error.code == "OUTPUT_MALFORMED"
    return False


def policy_ids() -> set[str]:
    """The cases whose answer follows the rules of sidecall rather than being the only reasonable one."""
    lines = (Path(__file__).parent / "cases" / "extraction.jsonl").read_text(encoding="utf-8").splitlines()
    return {row["id"] for row in map(json.loads, lines) if row.get("policy")}


def counts(tool: Tool, limit: float | None = LIMIT) -> list[int]:
    """How many cases became what, in the order of `KINDS`, and how many are right of those that are not policy."""
    read, policy = tool.reader(), policy_ids()
    kinds = {case.id: judge(read, case, limit).kind for case in load_cases()}
    right = sum(kind == "right" for id_, kind in kinds.items() if id_ not in policy)
    return [*map(list(kinds.values()).count, KINDS), right]


def table_row(*cells: object) -> str:
    return f"| {' | '.join(map(str, cells))} |"


def print_answers(tools: list[Tool]) -> None:
    print(table_row("tool", "version", *KINDS, f"right of the {len(load_cases()) - len(policy_ids())}"))
    print("|---|---|" + "--:|" * (len(KINDS) + 1))
    for tool in tools:
        print(table_row(tool.name, version_of(tool), *counts(tool)))


def print_wrong(tool: Tool) -> None:
    read, policy = tool.reader(), policy_ids()
    for case in load_cases():
        kind, came = judge(read, case)
        if kind != "right":
            print(f"{case.id}: {kind}{', policy' * (case.id in policy)}\n    reply    {case.raw!r}")
            print(f"    came     {came!r}\n    expected {case.expected!r}")


# --- the time ---


def timed(read: Read, raw: str) -> None:
    try:
        read(raw, pick_title)
    except Exception:  # the table of answers counts it
        return


def shown(ratio: float) -> str:
    return f"{ratio:.1f}" if ratio < 10 else f"{ratio:,.0f}"


def print_times(tools: list[Tool]) -> None:
    """Ratios to the plain span on the replies of the benchmark, all of one reply in turns."""
    # Here, as it needs pytest, and the answers do not.
    from benchmark import OBJECT, REPLIES, seconds

    print(table_row("reply", *(tool.name for tool in tools)))
    print("|---|" + "--:|" * len(tools))
    readers = {tool.name: tool.reader() for tool in (PLAIN_SPAN, *tools)}
    for name, raw, _ in REPLIES:
        case = Case(name, raw, pick_title, json.loads(OBJECT)["title"] if OBJECT in raw else "x")
        kinds = {tool: judge(read, case).kind for tool, read in readers.items()}
        quick = [tool for tool, kind in kinds.items() if kind != "stopped"]
        times = dict(zip(quick, seconds(*(partial(timed, readers[tool], raw) for tool in quick)), strict=True))
        ratios = {
            tool: shown(time / times[PLAIN_SPAN.name]) + "*" * (kinds[tool] != "right") for tool, time in times.items()
        }
        print(table_row(name, *(ratios.get(tool.name, "stopped") for tool in tools)))
    print("\n\\* Not the right value.")


def main(names: list[str]) -> None:
    if unknown := set(names) - {tool.name for tool in TOOLS}:
        sys.exit(f"not a tool: {'; '.join(unknown)}\nthe tools: {'; '.join(tool.name for tool in TOOLS)}")
    installed = [tool for tool in TOOLS if version_of(tool) is not None]
    for tool in TOOLS:
        if tool not in installed:
            print(f"skipped, for want of {' or '.join(tool.packages)}: {tool.name}")
    if names:
        for tool in installed:
            if tool.name in names:
                print_wrong(tool)
        return
    print(f"{platform.python_implementation()} {platform.python_version()}, {len(load_cases())} cases\n")
    print_answers(installed)
    print()
    print_times([tool for tool in installed if tool is not PLAIN_SPAN])


if __name__ == "__main__":
    main(sys.argv[1:])
