"""docs/examples/side_calls.py: offline, and against a local server that answers as the real ones do."""

import importlib.util
import json
import re
import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from sidecall import ValidationError, assemble_context, require_structured

# Nearly all of them talk to a server of their own.
pytestmark = pytest.mark.needs_os


def load(path: Path) -> Any:
    """The example as a module."""
    spec = importlib.util.spec_from_file_location(path.stem, path)
    assert spec
    assert spec.loader
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


example = load(Path(__file__).parent.parent / "docs" / "examples" / "side_calls.py")
Reply = example.Reply
Capture = pytest.CaptureFixture[str]
TASKS = ("title", "suggestions", "queries")
APIS = ("ollama", "openai")
SCHEMAS = ("json_schema", "json_object", "none")
DEFAULTS = {"title": "My basil on the balcony drops its...", "suggestions": "(none)", "queries": example.MESSAGE}
CUT = "cut off at the token limit"


def refusal(code: str) -> str:
    """What a row says of a code: the library's own words, and the code."""
    raw = {"MISSING": "no", "MALFORMED": "{", "REJECTED": "{}", "AMBIGUOUS": '{"a": 1} {"a": 2}'}[code]
    with pytest.raises(ValidationError) as caught:
        require_structured(raw, lambda found: found.get("a"))
    assert caught.value.code == f"OUTPUT_{code}"
    return f"{caught.value} (OUTPUT_{code})"


def read_table(text: str) -> list[list[str]]:
    """The cells of each row below the heading, wrapped lines joined."""
    rows: list[list[str]] = []
    for line in text.splitlines()[2:]:
        cells, start = [], 0
        for width in example.COLUMNS.values():
            cells.append(line[start : start + width].strip())
            start += width + 2
        if cells[0]:
            rows.append(cells)
        else:
            rows[-1] = [f"{before} {more}".strip() for before, more in zip(rows[-1], cells, strict=True)]
    return rows


# Offline.


def test_offline_prints_one_row_for_each_built_in_reply(capsys: Capture) -> None:
    """A table of at most 100 columns, with every way that a reply can end."""
    assert example.main([]) == 0
    captured = capsys.readouterr()
    assert captured.err == ""
    assert captured.out.split("\n")[0].split() == ["kind", "of", "reply", "task", "value", "or", "fallback", "why"]
    assert max(map(len, captured.out.splitlines())) <= 100
    missing = refusal("MISSING")
    assert read_table(captured.out) == [
        ["constrained", "title", "Basil dropping leaves", "value"],
        ["constrained", "suggestions", "Is the pot too small?; Will shade help?; Prune?", "value"],
        ["constrained", "queries", "basil drooping evening; watering basil in heat", "value"],
        ["fenced", "title", "Basil in summer heat", "value"],
        ["fenced", "queries", "basil leaf drop", "value"],
        ["chatty", "title", "Watering balcony basil", "value"],
        ["reasoning first", "title", "Basil and evening heat", "value"],
        ["reasoning first", "queries", "basil wilting", "value"],
        ["no JSON", "title", "Thirsty basil on a hot balcony", f"text: {missing}"],
        ["no JSON", "suggestions", "Does basil like noon sun?; Which soil drains well?", f"text: {missing}"],
        ["cut off", "title", DEFAULTS["title"], f"default: {CUT}; {missing}"],
        ["cut off", "suggestions", "(none)", f"default: {CUT}; {refusal('MALFORMED')}"],
        ["refusal", "title", DEFAULTS["title"], f"default: {missing}"],
        ["refusal", "queries", example.MESSAGE, f"default: {missing}"],
        ["wrong type", "suggestions", "(none)", f"default: {refusal('REJECTED')}"],
        ["two answers", "title", DEFAULTS["title"], f"default: {refusal('AMBIGUOUS')}"],
    ]


# The reasoning of each reply, and nothing else, holds the word "hidden".
ADVERSARIAL = [
    "}{",
    '{"title": "{\\"title\\": \\"x\\"}", "suggestions": ["{\\"a\\": 1}"], "queries": ["}"]}',
    "A {name} in a title",
    "- a } in an entry",
    "- {'queries': ['x']}",
    '```json\n["a", "b"]\n```',
    "<think>\n- hidden\n- hidden",
    "<think>hidden</think>1. One\n2. Two",
    '{"title": "hidden", "suggestions": ["hidden"], "queries": ["hidden"]}</think>',
    'analysisWe say hidden {"title": "hidden"}.assistantfinalSpring tides',
    '{"title": "\\ud800", "suggestions": ["\\u0000"], "queries": ["\\u001b[2J"]}',
    '{"title": "\x9b2J", "suggestions": ["\x9b2J", "\u202ea"], "queries": ["\x9b2J"]}',
    "- \ud800\x1b[2J\n- \x9b2J",
]


@pytest.mark.parametrize("raw", ADVERSARIAL, ids=ascii)
def test_no_row_shows_a_brace_or_reasoning(raw: str) -> None:
    """Nor a character that could drive the terminal."""
    replies = [("adversarial", task, Reply(raw, cut)) for task in TASKS for cut in ("", CUT)]
    for line in example.table(example.builtin_rows(replies)):
        assert line.isprintable()
        assert not set("{}") & set(line)
        assert "hidden" not in line


LIST = "1. Spring tide\n2. Neap tide\n"
TEXTS = {
    "a bare line is a title": ("title", "Why two tides?", "Why two tides?", "MISSING"),
    "a sentence is not a title": ("title", '"I cannot help with that."', None, "MISSING"),
    "two lines are not a title": ("title", "Here you go\nSpring tides", None, "MISSING"),
    "61 characters are not a title": ("title", "x" * 61, None, "MISSING"),
    "at most three suggestions are taken": ("suggestions", "1. A?\n2) B?\n3. C?\n4. D?", ["A?", "B?", "C?"], "MISSING"),
    "a list with a brace is not shown": ("suggestions", "- A?\n- {b}?", None, "MISSING"),
    "prose is not a suggestion": ("suggestions", "You could ask about tides", None, "MISSING"),
    "all queries of a list are taken": ("queries", "- a\n* b\n• c\n1. d", ["a", "b", "c", "d"], "MISSING"),
    "prose is not a query": ("queries", "tides and the moon", None, "MISSING"),
    "no list stands in beside a broken object": ("queries", LIST + '{"queries": ["Spring ti', None, "MALFORMED"),
}


@pytest.mark.parametrize(("task", "raw", "text", "code"), TEXTS.values(), ids=list(TEXTS))
def test_plain_text_stands_in_where_it_fits_the_task(
    task: str, raw: str, text: str | list[str] | None, code: str
) -> None:
    """And where it does not, the default does; where the reply was cut, no text does."""
    whole, cut = example.builtin_rows([("text", task, Reply(raw)), ("text", task, Reply(raw, CUT))])
    default = {"title": DEFAULTS["title"], "suggestions": [], "queries": [example.MESSAGE]}[task]
    expected = (default, "default", refusal(code)) if text is None else (text, "text", refusal(code))
    assert whole == ("text", task, expected)
    assert cut == ("text", task, (default, "default", f"{CUT}; {refusal(code)}"))


TOGETHER = "--base-url and --model go together"
NO_HOST = "--base-url must be http:// or https:// and a host"
BAD_ARGUMENTS = {
    "a URL without a model": ("--base-url http://127.0.0.1:1", TOGETHER),
    "a model without a URL": ("--model m", TOGETHER),
    "a URL without a scheme": ("--base-url 127.0.0.1:1 --model m", NO_HOST),
    "a file": ("--base-url file://localhost/etc/hosts --model m", NO_HOST),
    "an unknown way to send a schema": ("--schema other", "argument --schema: invalid choice: 'other'"),
    "no time at all": ("--timeout 0", "--timeout must be over 0"),
}


@pytest.mark.parametrize(("line", "message"), BAD_ARGUMENTS.values(), ids=list(BAD_ARGUMENTS))
def test_bad_arguments_exit_with_2(line: str, message: str, capsys: Capture) -> None:
    """Nothing is called, and nothing printed but the usage and the reason."""
    with pytest.raises(SystemExit) as caught:
        example.main(line.split())
    assert caught.value.code == 2
    captured = capsys.readouterr()
    assert captured.out == ""
    assert f"error: {message}" in captured.err


def test_a_message_that_is_too_long_gives_the_default(monkeypatch: pytest.MonkeyPatch) -> None:
    """It is not cut, and the model is not asked."""
    monkeypatch.setattr(example, "MESSAGE", "basil " * 400)
    outcome = example.side_call(example.TASKS[2], lambda *_: pytest.fail("called"))
    assert (outcome.value, outcome.source) == (["basil " * 400], "default")
    assert "over its max_chars of 2000" in outcome.why


def test_a_breach_of_policy_is_not_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    """It is a bug of the app's, and no model is called with what was refused."""
    fragment = example.fragments("")[2]
    monkeypatch.setattr(example, "fragments", lambda _: [fragment, fragment])
    with pytest.raises(example.sidecall.ContextPolicyError):
        example.side_call(example.TASKS[0], lambda *_: pytest.fail("called"))


# Live.


class Answer(NamedTuple):
    """What the server sends: `None` closes the connection, or holds it open where `late`."""

    data: bytes | None
    status: int = 200
    late: bool = False


class Server(ThreadingHTTPServer):
    """Answers each POST with what `answer` makes of the task's name."""

    daemon_threads = False  # closing waits for all handlers

    def __init__(self, answer: Callable[[str], Answer]) -> None:
        super().__init__(("127.0.0.1", 0), Handler)
        self.answer = answer
        self.requests: list[tuple[str, dict[str, Any]]] = []  # of each, the path and the body
        self.closing = threading.Event()
        self.url = f"http://127.0.0.1:{self.server_port}"


class Handler(BaseHTTPRequestHandler):
    """One request."""

    server: Server

    def do_POST(self) -> None:
        """Note the request, and answer it."""
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        self.server.requests.append((self.path, body))
        answer = self.server.answer(re.findall(r'"(\w+)"', body["messages"][0]["content"])[0])
        if answer.late:
            self.server.closing.wait(10)
        if answer.data is None:
            return
        self.send_response(answer.status)
        self.send_header("Content-Length", str(len(answer.data)))
        self.end_headers()
        self.wfile.write(answer.data)

    def log_message(self, *_: object) -> None:
        """Print nothing."""


@contextmanager
def serve(answer: Callable[[str], Answer]) -> Iterator[Server]:
    """A server on a free port, down again at the end."""
    with Server(answer) as server:
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        try:
            yield server
        finally:
            server.closing.set()
            server.shutdown()
            thread.join()


@pytest.fixture(autouse=True)
def _direct(monkeypatch: pytest.MonkeyPatch) -> None:
    """No proxy stands between the example and the local server."""
    monkeypatch.setenv("no_proxy", "*")


def ollama(content: object, *, stop: object = "stop", reasoning: str | None = None) -> Answer:
    """As Ollama answers /api/chat without streaming."""
    message = {"role": "assistant", "content": content, **({"thinking": reasoning} if reasoning else {})}
    return Answer(json.dumps({"model": "m", "message": message, "done": True, "done_reason": stop}).encode())


def openai(content: object, *, stop: object = "stop", reasoning: str | None = None) -> Answer:
    """As vLLM and llama.cpp answer /v1/chat/completions."""
    beside = {"reasoning_content": reasoning, "reasoning": reasoning} if reasoning else {}
    message = {"role": "assistant", "content": content, **beside}
    choice = {"index": 0, "message": message, "finish_reason": stop}
    return Answer(json.dumps({"id": "c-1", "object": "chat.completion", "choices": [choice]}).encode())


MAKERS: dict[str, Callable[..., Answer]] = {"ollama": ollama, "openai": openai}


def run(url: str, api: str, capsys: Capture, *more: str) -> tuple[int, list[list[str]]]:
    """The exit code and the rows of a live run."""
    code = example.main(["--base-url", url, "--model", "m", "--api", api, *more])
    captured = capsys.readouterr()
    assert captured.err == ""
    return code, read_table(captured.out)


def all_defaults(why: str) -> list[list[str]]:
    """The rows where no call came to anything."""
    return [["live", task, DEFAULTS[task], f"default: {why}"] for task in TASKS]


OBJECTS = {
    "title": '{"title": "Spring tides"}',
    "suggestions": '{"suggestions": ["Why two?", "How high?"]}',
    "queries": '{"queries": ["spring tide", "neap tide"]}',
}
VALUES = {"title": "Spring tides", "suggestions": "Why two?; How high?", "queries": "spring tide; neap tide"}
DRAFT = '{"title": "Draft", "suggestions": ["Draft"], "queries": ["Draft"]}'
ANSWERED: dict[str, tuple[str, dict[str, str]]] = {
    "a constrained reply": ("%s", {}),
    "an unconstrained reply, chatty": ("Sure! Here it is:\n```json\n%s\n```\nHope it helps {you}.", {}),
    "reasoning in a field of its own": ("%s", {"reasoning": f"Maybe {DRAFT}?"}),
    "reasoning left in the content": (f"<think>Maybe {DRAFT}?</think>\n%s", {}),
    "a reply cut off behind its object": ("%s\nThis is bec", {"stop": "length"}),
}


@pytest.mark.parametrize("api", APIS)
@pytest.mark.parametrize(("content", "extra"), ANSWERED.values(), ids=list(ANSWERED))
def test_an_answered_call_gives_its_value(content: str, extra: dict[str, str], api: str, capsys: Capture) -> None:
    """Whatever stands around the object, or beside the content."""
    with serve(lambda task: MAKERS[api](content % OBJECTS[task], **extra)) as server:
        assert run(server.url, api, capsys) == (0, [["live", task, VALUES[task], "value"] for task in TASKS])


def test_each_call_ends_by_itself_and_a_default_makes_the_exit_code_1(capsys: Capture) -> None:
    """Plain text does not."""
    contents = {"title": "Spring tides", "suggestions": OBJECTS["suggestions"], "queries": ""}
    with serve(lambda task: ollama(contents[task])) as server:
        code, rows = run(server.url, "ollama", capsys)
        contents["queries"] = "- spring tide"
        assert run(server.url, "ollama", capsys)[0] == 0
    text = ["live", "title", "Spring tides", f"text: {refusal('MISSING')}"]
    value = ["live", "suggestions", VALUES["suggestions"], "value"]
    default = ["live", "queries", example.MESSAGE, "default: the content is empty"]
    assert (code, rows) == (1, [text, value, default])


EMPTY, SHAPE = "the content is empty", "the body is JSON of another shape"
NO_ANSWER: dict[str, tuple[dict[str, Any], str]] = {
    "a blank content": ({"content": " \n"}, EMPTY),
    "a content that is null": ({"content": None}, EMPTY),
    "an object in the reasoning alone": ({"content": "", "reasoning": DRAFT}, EMPTY),
    "reasoning up to the limit": ({"content": "", "reasoning": DRAFT, "stop": "length"}, f"{CUT}; {EMPTY}"),
    "a text cut off by a filter": (
        {"content": "- spring", "stop": "content_filter"},
        f"cut off by the server's filter; {refusal('MISSING')}",
    ),
    "a content that is a number": ({"content": 7}, SHAPE),
    "a content of parts": ({"content": [{"type": "text", "text": "Hi"}]}, SHAPE),
}


@pytest.mark.parametrize("api", APIS)
@pytest.mark.parametrize(("parts", "why"), NO_ANSWER.values(), ids=list(NO_ANSWER))
def test_a_reply_without_an_answer_gives_the_default(
    parts: dict[str, Any], why: str, api: str, capsys: Capture
) -> None:
    """The reasoning field is never read in the content's place."""
    with serve(lambda _: MAKERS[api](**parts)) as server:
        assert run(server.url, api, capsys) == (1, all_defaults(why))


LEAK = json.dumps({"error": {"code": 500, "message": f"Failed to parse input: <think>{DRAFT}"}}).encode()
LOG = "the log of the server says why"
TRY = "try --schema json_object or --schema none"
NOT_JSON = "the body is not JSON"
FAILURES = {
    "the server fails, and quotes the reply": (Answer(LEAK, 500), f"HTTP 500: {LOG}; {TRY}"),
    "the schema is refused": (Answer(LEAK, 400), f"HTTP 400: {LOG}; {TRY}"),
    "a key is wanted": (Answer(LEAK, 401), "HTTP 401: it wants an API key"),
    "a model is not there": (Answer(LEAK, 404), "HTTP 404: no such model or path"),
    "a page": (Answer(b"<html><body>Welcome</body></html>"), NOT_JSON),
    "a stream of objects": (Answer(b'{"done": false}\n{"done": true}\n'), NOT_JSON),
    "a body that is not UTF-8": (Answer(b'{"message": "\xff"}'), NOT_JSON),
    "a body nested too deep": (Answer(b"[" * 200_000), NOT_JSON),
    "an error with status 200": (Answer(b'{"error": "busy"}'), SHAPE),
    "a body over the limit": (Answer(b" " * 1_000_001), "the body is over 1000000 bytes"),
    "a connection closed without a word": (Answer(None), "no connection (RemoteDisconnected)"),
    "a server that is late": (Answer(None, late=True), "no answer in time"),
}


@pytest.mark.parametrize("api", APIS)
@pytest.mark.parametrize(("answer", "why"), FAILURES.values(), ids=list(FAILURES))
def test_a_failed_call_gives_the_default_and_the_reason(answer: Answer, why: str, api: str, capsys: Capture) -> None:
    """The exit code is 1, and nothing of the body is shown. The timeout is the one that was passed in."""
    timeout = "0.05" if answer.late else "10"
    with serve(lambda _: answer) as server:
        result = run(server.url, api, capsys, "--timeout", timeout)
    assert result == (1, all_defaults(why))


def test_a_refused_connection_gives_the_default(capsys: Capture) -> None:
    """Nobody listens on the port."""
    with socket.socket() as bound:  # bound and not listening: nobody else can take the port meanwhile
        bound.bind(("127.0.0.1", 0))
        url = f"http://127.0.0.1:{bound.getsockname()[1]}"
        assert run(url, "ollama", capsys) == (1, all_defaults("connection refused"))


def sent_fields(api: str, schema: str, task: Any) -> dict[str, Any]:
    """What stands in a body beside the model and the messages."""
    if api == "ollama":
        forms = {"json_schema": {"format": task.schema}, "json_object": {"format": "json"}, "none": {}}
        return {"stream": False, "options": {"num_predict": example.MAX_TOKENS}, **forms[schema]}
    strict = {"name": task.name, "strict": True, "schema": task.schema}
    forms = {
        "json_schema": {"response_format": {"type": "json_schema", "json_schema": strict}},
        "json_object": {"response_format": {"type": "json_object", "schema": task.schema}},
        "none": {},
    }
    return {"max_tokens": example.MAX_TOKENS, **forms[schema]}


PATHS = {"ollama": "/gateway/api/chat", "openai": "/gateway/v1/chat/completions"}


@pytest.mark.parametrize("schema", SCHEMAS)
@pytest.mark.parametrize("api", APIS)
def test_what_assemble_context_returns_is_what_the_server_gets(api: str, schema: str, capsys: Capture) -> None:
    """The checked messages, the model, and the schema where the API takes it, in one request a task."""
    with serve(lambda task: MAKERS[api](OBJECTS[task])) as server:
        assert run(server.url + "/gateway/", api, capsys, "--schema", schema)[0] == 0
    assert len(server.requests) == len(TASKS)
    for task, (path, body) in zip(example.TASKS, server.requests, strict=True):
        context = assemble_context(example.fragments(task.prompt))
        assert path == PATHS[api]
        assert body == {"model": "m", "messages": context.messages, **sent_fields(api, schema, task)}
