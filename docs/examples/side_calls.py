"""One chat turn and its three side calls: a title, follow-up suggestions and search queries.

Without arguments it reads built-in replies; with --base-url and --model it asks a server.
"""

import argparse
import io
import json
import re
import sys
import textwrap
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial
from http.client import HTTPException
from itertools import zip_longest
from typing import Any, Literal, NamedTuple
from urllib.error import HTTPError, URLError
from urllib.request import Request, urlopen

import sidecall

Value = Sequence[str]  # a title, which is a str, or a list of them

EXIT_STATUS = """exit status:
  0  each call gave a value or plain text that can be shown (offline: always)
  1  a call failed, or its reply was of no use: the table shows its default
  2  bad arguments"""
MAX_INPUT_CHARS = 4_000  # some 1,000 tokens: with the answer they fit the 2,048 of the smallest local models
MAX_TOKENS = 1_024  # room for short reasoning; an array without `maxItems` could go on for ever
MAX_BODY_BYTES = 1_000_000  # MAX_TOKENS of answer and reasoning are some 10,000

# In: what the model gets. Trust is set here, by the server's code, and never taken from a request.
MESSAGE = "My basil on the balcony drops its leaves in the evening. Should I water it twice a day?"
FACTS = {"today": "2026-06-12", "language": "en"}
WEATHER = {"rows": [{"day": "Fri", "max_c": 31, "rain_mm": 0}, {"day": "Sat", "max_c": 33, "rain_mm": 0}]}


def fragments(prompt: str) -> list[sidecall.ContextFragment]:
    """The turn. The system role takes no dict, and nothing that the user or a tool wrote."""
    return [
        sidecall.ContextFragment(id="instruction", source_id="app:prompts", trust="instruction",
                                 lifetime="configuration", role="system", max_chars=500, value=prompt),
        sidecall.ContextFragment(id="facts", source_id="app:clock", trust="server",
                                 lifetime="turn", role="user", max_chars=200, value=FACTS),
        sidecall.ContextFragment(id="message", source_id="chat:42", trust="user",
                                 lifetime="turn", role="user", max_chars=2_000, value=MESSAGE),
        sidecall.ContextFragment(id="weather", source_id="tool:weather", trust="tool",
                                 lifetime="step", role="user", max_chars=1_000, value=WEATHER),
    ]  # fmt: skip


class Task(NamedTuple):
    """A side call: what is asked, what is taken from the reply, and what stands in for it."""

    name: str
    prompt: str
    schema: dict[str, Any]
    pick: Callable[[dict[str, Any]], Value | None]  # from the reply's object
    from_text: Callable[[str], Value | None]  # from its text, where there is no object
    default: Callable[[str], Value]  # from the user's message, where the reply is of no use


def title_line(text: str) -> str | None:
    """A text that is one short line and no sentence: a refusal makes no title."""
    line = re.fullmatch(r'["*# ]*([^\n"*#]{0,59}[^\n"*#.!: ])["* ]*', text)
    return sidecall.clean_string(line[1]) if line else None


def list_items(text: str) -> list[str] | None:
    """The entries of a Markdown list."""
    return sidecall.clean_strings(re.findall(r"(?m)^[ \t]*(?:[-*•]|\d{1,2}[.)])[ \t]+(.+)$", text))


# The prompt names the key: some servers hold a model to the schema without showing it.
FORM = "Answer with one JSON object and nothing else; its only key is"
TASKS = [
    Task("title", f'Name this chat in at most six words. {FORM} "title", a string.',
         sidecall.TITLE_SCHEMA, sidecall.pick_title,
         title_line, lambda message: textwrap.shorten(message, 40, placeholder="...")),
    Task("suggestions", f'Give three short follow-up questions. {FORM} "suggestions", an array of strings.',
         sidecall.SUGGESTIONS_SCHEMA, sidecall.pick_suggestions,
         lambda text: (list_items(text) or [])[:3], lambda message: []),
    Task("queries", f'Give one to three search queries, best first. {FORM} "queries", an array of strings.',
         sidecall.QUERIES_SCHEMA, sidecall.pick_queries,
         list_items, lambda message: [message]),
]  # fmt: skip


# Out: from a reply to something that can be shown.
class Reply(NamedTuple):
    """A reply's content, without the reasoning that came beside it, and how it was cut."""

    content: str
    cut: str = ""


class CallError(Exception):
    """A call brought no reply; the text says why, in one line."""


class Outcome(NamedTuple):
    """What the app goes on with: the value, the reply's own text, or the default; and why."""

    value: Value
    source: Literal["value", "text", "default"]
    why: str = ""


Model = Callable[[Task, list[sidecall.Message]], Reply]
Row = tuple[str, str, Outcome]


def side_call(task: Task, model: Model) -> Outcome:
    """One call, from fragments to a value. A `ContextPolicyError` is a bug of ours, and not caught."""
    try:
        context = sidecall.assemble_context(
            fragments(task.prompt), MAX_INPUT_CHARS, special_tokens=sidecall.SPECIAL_TOKENS
        )
        reply = model(task, context.messages)
    except (sidecall.ValidationError, CallError) as error:
        return Outcome(task.default(MESSAGE), "default", str(error))
    try:
        value = sidecall.require_structured(reply.content, lambda found: presentable(task.pick(found)))
    except sidecall.ValidationError as error:
        return fallback(task, reply, error)
    return Outcome(value, "value")


def fallback(task: Task, reply: Reply, error: sidecall.ValidationError) -> Outcome:
    """The reply's own text where the code allows it, but no half of one; or else the default."""
    why = f"{reply.cut}; {error} ({error.code})" if reply.cut else f"{error} ({error.code})"
    text = None
    if error.code == "OUTPUT_MISSING" and not reply.cut:
        text = presentable(task.from_text(sidecall.answer_text(reply.content)))
    return Outcome(text, "text", why) if text else Outcome(task.default(MESSAGE), "default", why)


def presentable(value: Value | None) -> Value | None:
    """A rule of this app: a brace in what it shows is debris, such as JSON inside a JSON string."""
    return None if value and re.search("[{}]", shown(value)) else value


def shown(value: Value) -> str:
    """A value on one line."""
    return value if isinstance(value, str) else "; ".join(value) or "(none)"


# The models: built-in replies, or a server.
CUT = {"length": "cut off at the token limit", "content_filter": "cut off by the server's filter"}
DRAFT = '<think>Maybe {"title": "Plants"}'
GPT_OSS = '<|channel|>analysis<|message|>{"queries": ["x"]}?<|end|><|start|>assistant<|channel|>final<|message|>'
SORRY = "I'm sorry, but I can't help with that."
REPLIES = [
    ("constrained", "title", Reply('{"title": "Basil dropping leaves"}')),
    ("constrained", "suggestions", Reply('{"suggestions": ["Is the pot too small?", "Will shade help?", "Prune?"]}')),
    ("constrained", "queries", Reply('{"queries": ["basil drooping evening", "watering basil in heat"]}')),
    ("fenced", "title", Reply('```json\n{\n  "title": "Basil in summer heat"\n}\n```')),
    ("fenced", "queries", Reply('```json\n{"queries": ["basil leaf drop"]}\n```')),
    ("chatty", "title", Reply('Sure, as a {title}:\n{"title": "Watering balcony basil"}\nHope it helps!')),
    ("reasoning first", "title", Reply(DRAFT + '? Too vague.</think>\n{"title": "Basil and evening heat"}')),
    ("reasoning first", "queries", Reply(GPT_OSS + '{"queries": ["basil wilting"]}<|return|>')),
    ("no JSON", "title", Reply("**Thirsty basil on a hot balcony**")),
    ("no JSON", "suggestions", Reply("Here you go:\n\n1. Does basil like noon sun?\n2. Which soil drains well?")),
    ("cut off", "title", Reply(DRAFT + "? Too vague, they also ask", CUT["length"])),
    ("cut off", "suggestions", Reply('{"suggestions": ["Is the pot too small?", "Will sh', CUT["length"])),
    ("refusal", "title", Reply(SORRY)),
    ("refusal", "queries", Reply(SORRY)),
    ("wrong type", "suggestions", Reply('{"suggestions": "Is the pot too small?"}')),
    ("two answers", "title", Reply('{"title": "Basil care"}\nOr shorter:\n{"title": "Basil"}')),
]  # fmt: skip


def builtin_rows(replies: Iterable[tuple[str, str, Reply]]) -> list[Row]:
    """One call for each reply."""
    tasks = {task.name: task for task in TASKS}
    return [(kind, name, side_call(tasks[name], lambda *_, r=reply: r)) for kind, name, reply in replies]


class Api(NamedTuple):
    """A kind of server: where a call goes, what it has beside model and messages, and how a body is read."""

    path: str
    fields: dict[str, Any]
    schemas: dict[str, Callable[[Task], dict[str, Any]]]  # the fields of each --schema
    read: Callable[[Any], tuple[Any, Any]]  # gives the message and the stop sign


# Of a message, only the content counts. Reasoning in a field of its own (`thinking`, `reasoning_content`)
# holds drafts: it must not stand in for content that is empty.
APIS = {
    "ollama": Api(
        "/api/chat",
        {"stream": False, "options": {"num_predict": MAX_TOKENS}},
        {
            "json_schema": lambda task: {"format": task.schema},
            "json_object": lambda _: {"format": "json"},
            "none": lambda _: {},
        },
        lambda body: (body["message"], body.get("done_reason")),
    ),
    "openai": Api(
        "/v1/chat/completions",
        {"max_tokens": MAX_TOKENS},
        {
            "json_schema": lambda task: {
                "response_format": {
                    "type": "json_schema",
                    "json_schema": {"name": task.name, "strict": True, "schema": task.schema},
                }
            },
            "json_object": lambda task: {"response_format": {"type": "json_object", "schema": task.schema}},
            "none": lambda _: {},
        },
        lambda body: (body["choices"][0]["message"], body["choices"][0].get("finish_reason")),
    ),
}


class Server(NamedTuple):
    """One server, and what is asked of it."""

    api: Api
    base_url: str
    model: str
    schema: str
    timeout: float


NO_ANSWER: dict[type, str] = {TimeoutError: "no answer in time", ConnectionRefusedError: "connection refused"}
STATUSES = {401: "it wants an API key", 404: "no such model or path"}
SCHEMA_STATUSES = (400, 422, 500)  # how servers answer a schema, or a way to send it, that they do not take


def ask(server: Server, task: Task, messages: list[sidecall.Message]) -> Reply:
    """One call to a server. The timeout holds for each wait, not for their sum."""
    api = server.api
    body = {"model": server.model, "messages": messages, **api.fields, **api.schemas[server.schema](task)}
    headers = {"Content-Type": "application/json"}
    try:
        request = Request(server.base_url.rstrip("/") + api.path, json.dumps(body).encode(), headers)
        with urlopen(request, timeout=server.timeout) as response:
            data = response.read(MAX_BODY_BYTES + 1)
    except HTTPError as error:
        error.close()  # unread, as some servers quote the reply in it, reasoning and all
        raise CallError(f"HTTP {error.code}: {advice(error.code, server)}") from None
    except (OSError, HTTPException, ValueError) as error:  # refused, too late, no HTTP, no valid host
        reason = error.reason if isinstance(error, URLError) else error
        raise CallError(NO_ANSWER.get(type(reason), f"no connection ({type(reason).__name__})")) from None
    if len(data) > MAX_BODY_BYTES:
        raise CallError(f"the body is over {MAX_BODY_BYTES} bytes")
    return read_reply(api, data)


def advice(status: int, server: Server) -> str:
    """What to do about an error status."""
    said = STATUSES.get(status, "the log of the server says why")
    others = " or ".join(f"--schema {name}" for name in server.api.schemas if name != server.schema)
    return f"{said}; try {others}" if status in SCHEMA_STATUSES and server.schema != "none" else said


def read_reply(api: Api, data: bytes) -> Reply:
    """The content of a server's answer, and how it was cut."""
    try:
        message, stop = api.read(json.loads(data))
        content, cut = (message.get("content") or "").strip(), CUT.get(stop, "")
    except (ValueError, RecursionError):
        raise CallError("the body is not JSON") from None
    except (LookupError, TypeError, AttributeError):
        raise CallError("the body is JSON of another shape") from None
    if not content:
        raise CallError(f"{cut}; the content is empty" if cut else "the content is empty")
    return Reply(content, cut)


# The table and the command line.
COLUMNS = {"kind of reply": 15, "task": 11, "value or fallback": 34, "why": 34}


def table(rows: Iterable[Row]) -> Iterator[str]:
    """The lines to print."""
    yield from lines(COLUMNS)
    yield from lines("-" * width for width in COLUMNS.values())
    for kind, task, (value, source, why) in rows:
        yield from lines([kind, task, shown(value), f"{source}: {why}" if why else source])


def lines(cells: Iterable[str]) -> Iterator[str]:
    """One row, its cells wrapped. What is not printable becomes a blank: it could drive the terminal."""
    plain = ["".join(char if char.isprintable() else " " for char in cell) for cell in cells]
    wrapped = map(partial(textwrap.wrap, break_on_hyphens=False), plain, COLUMNS.values())
    for parts in zip_longest(*wrapped, fillvalue=""):
        yield "  ".join(map(str.ljust, parts, COLUMNS.values())).rstrip()


def arguments(argv: Sequence[str] | None) -> argparse.Namespace:
    """The command line, checked."""
    form = argparse.RawDescriptionHelpFormatter
    parser = argparse.ArgumentParser(description=__doc__, epilog=EXIT_STATUS, formatter_class=form)
    parser.add_argument(
        "--base-url", metavar="URL", help="such as http://127.0.0.1:11434, without /api or /v1; no API key is sent"
    )
    parser.add_argument("--model", metavar="NAME", help="the model's name on that server")
    parser.add_argument("--api", choices=APIS, default="ollama", help="the kind of server (%(default)s)")
    parser.add_argument(
        "--schema",
        choices=APIS["openai"].schemas,
        default="json_schema",
        help="how the schema is sent: servers differ (%(default)s); none: not at all",
    )
    parser.add_argument("--timeout", type=float, default=60, help="seconds to wait (%(default)s)")
    options = parser.parse_args(argv)
    if (options.base_url is None) != (options.model is None):
        parser.error("--base-url and --model go together")
    if options.base_url is not None and not re.fullmatch(r"https?://(?!/)[!-~]+", options.base_url):
        parser.error("--base-url must be http:// or https:// and a host, in ASCII without blanks")
    if not 0 < options.timeout <= 3600:
        parser.error("--timeout must be over 0, and 3600 at the most")
    return options


def main(argv: Sequence[str] | None = None) -> int:
    """Print the table, and give the exit status."""
    options = arguments(argv)
    if isinstance(sys.stdout, io.TextIOWrapper):
        sys.stdout.reconfigure(errors="replace")  # a narrow console must not make it fail
    if options.base_url is None:
        print(*table(builtin_rows(REPLIES)), sep="\n")
        return 0
    server = Server(APIS[options.api], options.base_url, options.model, options.schema, options.timeout)
    model = partial(ask, server)
    rows = [("live", task.name, side_call(task, model)) for task in TASKS]
    print(*table(rows), sep="\n")
    return 1 if any(outcome.source == "default" for *_, outcome in rows) else 0


if __name__ == "__main__":
    sys.exit(main())
