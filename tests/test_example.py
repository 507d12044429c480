"""docs/examples/side_calls.py: offline, and against a local server that answers as the real ones do."""

import importlib.util
import io
import json
import socket
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from sidecall import ValidationError, assemble_context, require_structured


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
TASKS = ("title", "suggestions", "queries")
APIS = ("ollama", "openai")


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

# What a row gives for the object, and the object that gives it.
SWAPPED: dict[str, tuple[str | list[str], str]] = {
    "title": ("Spring tides", '{"title": "Spring tides"}'),
    "suggestions": (["Why two?", "How high?", "When?"], '{"suggestions": ["Why two?", "How high?", "When?"]}'),
    "queries": (["spring tide", "neap tide"], '{"queries": ["spring tide", "neap tide"]}'),
}
MESSAGE_START = "My basil on the balcony drops its..."
SHOWN_DEFAULTS = {"title": MESSAGE_START, "suggestions": "(none)", "queries": example.MESSAGE}

# The reasoning of each reply, and nothing else, holds the word "hidden"; no reply is to show it, or a brace.
ADVERSARIAL = [
    "",
    "{",
    "}{",
    '{"title": "A {brace}", "suggestions": ["{a}", "b", "c"], "queries": ["{q}"]}',
    '{"title": "{\\"title\\": \\"x\\"}", "suggestions": ["{\\"a\\": 1}"], "queries": ["}"]}',
    "A {name} in a title",
    "A { in a title",
    "- a } in an entry",
    '{"title": "A { in it", "suggestions": ["a } in it"], "queries": ["{"]}',
    "1. What is {name}?\n2. Why {{name}}?\n3. When?",
    "- {'queries': ['x']}",
    '["a", "b"]',
    '```json\n["a", "b"]\n```',
    "<think>hidden",
    "<think>\n- hidden\n- hidden",
    "<think>hidden</think>{",
    "<think>hidden</think>Plain title",
    "<think>hidden</think>1. One\n2. Two",
    "- hidden\n- hidden\n</think>\n- seen",
    '<think>hidden {"title": "hidden", "suggestions": ["hidden"], "queries": ["hidden"]}',
    '{"title": "hidden", "suggestions": ["hidden"], "queries": ["hidden"]}</think>',
    "<|channel|>analysis<|message|>hidden\n1. hidden<|end|><|start|>assistant",
    "◁think▷- hidden◁/think▷",
    'analysisWe say hidden {"title": "hidden"}.assistantfinalSpring tides',
    '{"title": "Cut in the mid',
    '{"suggestions": [{"title": "x", "queries": ["x"]}',
    '{"title": "a", "suggestions": ["a"], "queries": ["a"]} {"title": "b", "suggestions": ["b"], "queries": ["b"]}',
    '{"title": "\\ud800", "suggestions": ["\\u0000"], "queries": ["\\u001b[2J"]}',
    '{"title": "\x9b2J", "suggestions": ["\x9b2J", "\u202ea"], "queries": ["\x9b2J"]}',
    "\ud800",
    "- \ud800\x1b[2J\n- \x9b2J",
]


def test_a_swapped_reply_changes_its_row_and_no_other() -> None:
    """The rows are computed: the value of a new reply stands in its own row alone."""
    before = example.builtin_rows(example.REPLIES)
    for index, (kind, task, _) in enumerate(example.REPLIES):
        value, content = SWAPPED[task]
        replies = list(example.REPLIES)
        replies[index] = (kind, task, Reply(content))
        expected = list(before)
        expected[index] = (kind, task, example.Outcome(value, "value", ""))
        assert expected[index] != before[index]
        assert example.builtin_rows(replies) == expected


@pytest.mark.parametrize("cut", ["", "cut off at the token limit"], ids=["whole", "cut"])
@pytest.mark.parametrize("raw", ADVERSARIAL, ids=ascii)
def test_no_row_shows_a_brace_or_reasoning(raw: str, cut: str) -> None:
    """Nor a character that could drive the terminal."""
    replies = [("adversarial", task, Reply(raw, cut)) for task in TASKS]
    lines = list(example.table(example.builtin_rows(replies)))
    for line in lines:
        assert line.isprintable()
        assert not set("{}") & set(line)
        assert "hidden" not in line


def test_no_built_in_row_shows_a_brace_or_reasoning(capsys: pytest.CaptureFixture[str]) -> None:
    """The reasoning of the built-in replies drafts the title "Plants" and asks for more."""
    assert any("Plants" in reply.content for _, _, reply in example.REPLIES)
    assert example.main([]) == 0
    out = capsys.readouterr().out
    for debris in ("{", "}", "Plants", "vague", "think", "analysis"):
        assert debris not in out


def test_offline_prints_one_row_for_each_built_in_reply(capsys: pytest.CaptureFixture[str]) -> None:
    """A table of at most 100 columns, with every way that a reply can end."""
    assert example.main([]) == 0
    captured = capsys.readouterr()
    assert captured.err == ""
    assert captured.out.split("\n")[0].split() == ["kind", "of", "reply", "task", "value", "or", "fallback", "why"]
    assert max(map(len, captured.out.splitlines())) <= 100
    missing, sign = refusal("MISSING"), "cut off at the token limit; "
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
        [
            "no JSON",
            "suggestions",
            "Does basil like noon sun?; Which soil drains well?",
            f"text: {missing}",
        ],
        ["cut off", "title", MESSAGE_START, f"default: {sign}{missing}"],
        ["cut off", "suggestions", "(none)", f"default: {sign}{refusal('MALFORMED')}"],
        ["refusal", "title", MESSAGE_START, f"default: {missing}"],
        ["refusal", "queries", example.MESSAGE, f"default: {missing}"],
        ["wrong type", "suggestions", "(none)", f"default: {refusal('REJECTED')}"],
        ["two answers", "title", MESSAGE_START, f"default: {refusal('AMBIGUOUS')}"],
    ]


TEXTS = {
    "a bare line is a title": ("title", "Spring tides", "Spring tides"),
    "quotes and Markdown around a title go": ("title", '## **"Spring tides"**', "Spring tides"),
    "a title may be a question": ("title", "Why two tides?", "Why two tides?"),
    "a sentence is no title": ("title", "I cannot help with that.", None),
    "a quoted sentence is no title": ("title", '"I cannot help with that."', None),
    "two lines are no title": ("title", "Here you go\nSpring tides", None),
    "61 characters are no title": ("title", "x" * 61, None),
    "a text with a brace is no title": ("title", "The {moon}", None),
    "at most three suggestions are taken": ("suggestions", "1. A?\n2) B?\n3. C?\n4. D?", ["A?", "B?", "C?"]),
    "a list with a brace is none": ("suggestions", "- A?\n- {b}?", None),
    "prose is no suggestion": ("suggestions", "You could ask about tides", None),
    "all queries of a list are taken": ("queries", "- a\n* b\n• c\n1. d", ["a", "b", "c", "d"]),
    "prose is no query": ("queries", "tides and the moon", None),
}


@pytest.mark.parametrize(("task", "raw", "text"), TEXTS.values(), ids=list(TEXTS))
def test_plain_text_stands_in_where_it_fits_the_task(task: str, raw: str, text: str | list[str] | None) -> None:
    """And where it does not, the default does; where the reply was cut, no text does."""
    whole, cut = example.builtin_rows([("text", task, Reply(raw)), ("text", task, Reply(raw, "cut off"))])
    default = {"title": MESSAGE_START, "suggestions": [], "queries": [example.MESSAGE]}[task]
    missing = refusal("MISSING")
    expected = (default, "default", missing) if text is None else (text, "text", missing)
    assert whole == ("text", task, expected)
    assert cut == ("text", task, (default, "default", f"cut off; {missing}"))


LIST = "1. Spring tide\n2. Neap tide\n"
NO_TEXT = {
    "MALFORMED": LIST + '{"suggestions": ["Spring ti',
    "REJECTED": LIST + '{"tags": ["Spring tide"]}',
    "AMBIGUOUS": LIST + '{"suggestions": ["a"], "queries": ["a"]} {"suggestions": ["b"], "queries": ["b"]}',
}


@pytest.mark.parametrize("task", ["suggestions", "queries"])
@pytest.mark.parametrize(("code", "raw"), NO_TEXT.items(), ids=list(NO_TEXT))
def test_no_text_stands_in_beside_an_object(code: str, raw: str, task: str) -> None:
    """Plain text may stand in after OUTPUT_MISSING alone, however well it would fit."""
    [(_, _, outcome)] = example.builtin_rows([("beside", task, Reply(raw))])
    assert (outcome.source, outcome.why) == ("default", refusal(code))


def test_a_long_cell_is_wrapped_between_words() -> None:
    """No line is wider than its column, and a hyphen parts no word."""
    words = "how high is the tide up at twenty-two minutes past nine"
    assert list(example.lines(["kind", "task", words, ""])) == [
        "kind             task         how high is the tide up at",
        "                              twenty-two minutes past nine",
    ]


def test_a_console_without_the_characters_is_no_failure(monkeypatch: pytest.MonkeyPatch) -> None:
    """What an ASCII console cannot show is replaced."""
    console = io.TextIOWrapper(io.BytesIO(), encoding="ascii")
    monkeypatch.setattr(sys, "stdout", console)
    monkeypatch.setattr(example, "REPLIES", [("narrow", "title", Reply('{"title": "Marée"}'))])
    assert example.main([]) == 0
    console.seek(0)
    assert read_table(console.read()) == [["narrow", "title", "Mar?e", "value"]]


BAD_ARGUMENTS = {
    "a URL without a model": (["--base-url", "http://127.0.0.1:1"], "--base-url and --model go together"),
    "a model without a URL": (["--model", "m"], "--base-url and --model go together"),
    "a URL without a scheme": (
        ["--base-url", "127.0.0.1:1", "--model", "m"],
        "--base-url must be http:// or https:// and a host",
    ),
    "a file": (
        ["--base-url", "file://localhost/etc/hosts", "--model", "m"],
        "--base-url must be http:// or https:// and a host",
    ),
    "a URL with a blank": (
        ["--base-url", "http://a b", "--model", "m"],
        "--base-url must be http:// or https:// and a host",
    ),
    "a URL without a host": (
        ["--base-url", "http:///x", "--model", "m"],
        "--base-url must be http:// or https:// and a host",
    ),
    "an empty URL": (["--base-url", "", "--model", "m"], "--base-url must be http:// or https:// and a host"),
    "an unknown API": (["--api", "other"], "argument --api: invalid choice: 'other'"),
    "no time at all": (["--timeout", "0"], "--timeout must be over 0"),
    "a timeout that is no number": (["--timeout", "nan"], "--timeout must be over 0"),
    "a timeout without end": (["--timeout", "inf"], "--timeout must be over 0"),
    "a stray word": (["tides"], "unrecognized arguments: tides"),
}


@pytest.mark.parametrize(("argv", "message"), BAD_ARGUMENTS.values(), ids=list(BAD_ARGUMENTS))
def test_bad_arguments_exit_with_2(argv: list[str], message: str, capsys: pytest.CaptureFixture[str]) -> None:
    """Nothing is called, and nothing printed but the usage and the reason."""
    with pytest.raises(SystemExit) as caught:
        example.main(argv)
    assert caught.value.code == 2
    captured = capsys.readouterr()
    assert captured.out == ""
    assert f"error: {message}" in captured.err


def test_help_documents_the_exit_status(capsys: pytest.CaptureFixture[str]) -> None:
    """Each of the three statuses has its line."""
    with pytest.raises(SystemExit) as caught:
        example.main(["--help"])
    assert caught.value.code == 0
    assert example.EXIT_STATUS in capsys.readouterr().out
    assert [line.split()[0] for line in example.EXIT_STATUS.splitlines()] == ["exit", "0", "1", "2"]


# Live.


class Request(NamedTuple):
    """What the server saw."""

    path: str
    content_type: str
    body: dict[str, Any]


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
        self.requests: list[Request] = []
        self.closing = threading.Event()
        self.url = f"http://127.0.0.1:{self.server_port}"


class Handler(BaseHTTPRequestHandler):
    """One request."""

    server: Server

    def do_POST(self) -> None:
        """Note the request, and answer it."""
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        self.server.requests.append(Request(self.path, self.headers["Content-Type"], body))
        answer = self.server.answer(task_of(body))
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


def schema_of(body: dict[str, Any]) -> Any:
    """The schema, where either API has it."""
    return body["format"] if "format" in body else body["response_format"]["json_schema"]["schema"]


def task_of(body: dict[str, Any]) -> str:
    """The one key that the schema asks for."""
    [name] = schema_of(body)["properties"]
    return str(name)


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
    message = {"role": "assistant", "content": content}
    if reasoning is not None:
        message["thinking"] = reasoning
    body = {"model": "m", "created_at": "2026-06-12T00:00:00Z", "message": message, "done": True, "eval_count": 9}
    return Answer(json.dumps({**body, "done_reason": stop}).encode())


def openai(content: object, *, stop: object = "stop", reasoning: str | None = None) -> Answer:
    """As vLLM and llama.cpp answer /v1/chat/completions."""
    message = {"role": "assistant", "content": content}
    if reasoning is not None:
        message |= {"reasoning_content": reasoning, "reasoning": reasoning}
    choice = {"index": 0, "message": message, "finish_reason": stop}
    body = {"id": "c-1", "object": "chat.completion", "created": 0, "model": "m", "usage": {"total_tokens": 9}}
    return Answer(json.dumps({**body, "choices": [choice]}).encode())


MAKERS: dict[str, Callable[..., Answer]] = {"ollama": ollama, "openai": openai}


def run(url: str, api: str, capsys: pytest.CaptureFixture[str], timeout: float = 10) -> tuple[int, list[list[str]]]:
    """The exit code and the rows of a live run."""
    code = example.main(["--base-url", url, "--model", "m", "--api", api, "--timeout", str(timeout)])
    captured = capsys.readouterr()
    assert captured.err == ""
    return code, read_table(captured.out)


def all_defaults(why: str) -> list[list[str]]:
    """The rows where no call came to anything."""
    return [["live", task, SHOWN_DEFAULTS[task], f"default: {why}"] for task in TASKS]


OBJECTS = {task: content for task, (_, content) in SWAPPED.items()}
SHOWN_VALUES = {task: value if isinstance(value, str) else "; ".join(value) for task, (value, _) in SWAPPED.items()}
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
def test_an_answered_call_gives_its_value(
    content: str, extra: dict[str, str], api: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """Whatever stands around the object, or beside the content."""
    with serve(lambda task: MAKERS[api](content % OBJECTS[task], **extra)) as server:
        assert run(server.url, api, capsys) == (
            0,
            [["live", task, SHOWN_VALUES[task], "value"] for task in TASKS],
        )


@pytest.mark.parametrize("api", APIS)
def test_plain_text_that_fits_its_task_is_no_failure(api: str, capsys: pytest.CaptureFixture[str]) -> None:
    """The exit code is 0, and each row says why its value is text."""
    texts = {"title": "Spring tides", "suggestions": "1. Why two?\n2. When?", "queries": "- spring tide"}
    shown = {"title": "Spring tides", "suggestions": "Why two?; When?", "queries": "spring tide"}
    with serve(lambda task: MAKERS[api](texts[task])) as server:
        code, rows = run(server.url, api, capsys)
    assert (code, rows) == (0, [["live", task, shown[task], f"text: {refusal('MISSING')}"] for task in TASKS])


@pytest.mark.parametrize("failed", TASKS)
def test_one_failed_call_leaves_the_others_their_values(failed: str, capsys: pytest.CaptureFixture[str]) -> None:
    """And the exit code is 1."""
    with serve(lambda task: ollama("" if task == failed else OBJECTS[task])) as server:
        code, rows = run(server.url, "ollama", capsys)
    expected = [["live", task, SHOWN_VALUES[task], "value"] for task in TASKS]
    expected[TASKS.index(failed)] = [
        "live",
        failed,
        SHOWN_DEFAULTS[failed],
        "default: the content is empty",
    ]
    assert (code, rows) == (1, expected)


NO_ANSWER: dict[str, tuple[dict[str, Any], str]] = {
    "an empty content": ({"content": ""}, "the content is empty"),
    "a blank content": ({"content": " \n"}, "the content is empty"),
    "a content that is null": ({"content": None}, "the content is empty"),
    "an object in the reasoning alone": ({"content": "", "reasoning": DRAFT}, "the content is empty"),
    "a null content beside reasoning": ({"content": None, "reasoning": DRAFT}, "the content is empty"),
    "reasoning up to the limit": (
        {"content": "", "reasoning": DRAFT, "stop": "length"},
        "cut off at the token limit; the content is empty",
    ),
    "an object cut off": (
        {"content": '{"title": "Spring ti', "stop": "length"},
        f"cut off at the token limit; {refusal('MALFORMED')}",
    ),
    "a text cut off": (
        {"content": "1. Spring tides are the", "stop": "length"},
        f"cut off at the token limit; {refusal('MISSING')}",
    ),
    "a text cut off by a filter": (
        {"content": "- spring", "stop": "content_filter"},
        f"cut off by the server's filter; {refusal('MISSING')}",
    ),
    "a refusal": ({"content": "I'm sorry, but I can't help with that."}, refusal("MISSING")),
    "an object of another task": ({"content": '{"tags": ["tides"]}'}, refusal("REJECTED")),
    "two different objects": (
        {"content": f"{DRAFT}\n{DRAFT.replace('Draft', 'Final')}"},
        refusal("AMBIGUOUS"),
    ),
    "a content that is a number": ({"content": 7}, "the body is JSON of another shape"),
    "a content of parts": (
        {"content": [{"type": "text", "text": "Hi"}]},
        "the body is JSON of another shape",
    ),
    "a stop sign that is an object": ({"content": DRAFT, "stop": {}}, "the body is JSON of another shape"),
}


@pytest.mark.parametrize("api", APIS)
@pytest.mark.parametrize(("parts", "why"), NO_ANSWER.values(), ids=list(NO_ANSWER))
def test_a_reply_without_an_answer_gives_the_default_and_the_reason(
    parts: dict[str, Any], why: str, api: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """The exit code is 1, and the reasoning field is never read in the content's place."""
    with serve(lambda _: MAKERS[api](**parts)) as server:
        assert run(server.url, api, capsys) == (1, all_defaults(why))


LEAK = f"Failed to parse input: <think>{DRAFT}"
LOG = "the log of the server says why"
FAILURES: dict[str, tuple[Answer, str]] = {
    "status 500, with a body that quotes the reply": (
        Answer(json.dumps({"error": {"code": 500, "message": LEAK}}).encode(), 500),
        f"HTTP 500: {LOG}",
    ),
    "status 400": (Answer(b'{"error": "invalid format"}', 400), f"HTTP 400: {LOG}"),
    "status 401": (Answer(b'{"error": {"message": "no key"}}', 401), "HTTP 401: it wants an API key"),
    "a model that is not there": (
        Answer(b'{"error": "model \'m\' not found"}', 404),
        "HTTP 404: no such model or path",
    ),
    "an error without a body": (Answer(b"", 503), f"HTTP 503: {LOG}"),
    "a status that sends elsewhere": (Answer(b"", 307), f"HTTP 307: {LOG}"),
    "a page": (Answer(b"<html><body>Welcome</body></html>"), "the body is not JSON"),
    "a stream of objects": (Answer(b'{"done": false}\n{"done": true}\n'), "the body is not JSON"),
    "an empty body": (Answer(b""), "the body is not JSON"),
    "a body that is no UTF-8": (Answer(b'{"message": "\xff"}'), "the body is not JSON"),
    "a body nested too deep": (Answer(b"[" * 200_000), "the body is not JSON"),
    "an error with status 200": (Answer(b'{"error": "busy"}'), "the body is JSON of another shape"),
    "an array": (Answer(b"[]"), "the body is JSON of another shape"),
    "a bare null": (Answer(b"null"), "the body is JSON of another shape"),
    "a message that is a string": (
        Answer(b'{"message": "Hi", "choices": [{"message": "Hi"}]}'),
        "the body is JSON of another shape",
    ),
    "no choices": (Answer(b'{"message": null, "choices": []}'), "the body is JSON of another shape"),
    "a body of a megabyte and a byte": (
        Answer(json.dumps("x" * (example.MAX_BODY_BYTES - 1)).encode()),
        "the body is over 1000000 bytes",
    ),
    "a connection closed without a word": (Answer(None), "no connection (RemoteDisconnected)"),
}


@pytest.mark.parametrize("api", APIS)
@pytest.mark.parametrize(("answer", "why"), FAILURES.values(), ids=list(FAILURES))
def test_a_failed_call_gives_the_default_and_the_reason(
    answer: Answer, why: str, api: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """The exit code is 1, and nothing of the body is shown."""
    with serve(lambda _: answer) as server:
        assert run(server.url, api, capsys) == (1, all_defaults(why))


@pytest.mark.parametrize("api", APIS)
def test_a_server_that_is_late_gives_the_default(api: str, capsys: pytest.CaptureFixture[str]) -> None:
    """The timeout is the one that was passed in."""
    with serve(lambda _: Answer(None, late=True)) as server:
        assert run(server.url, api, capsys, timeout=0.05) == (1, all_defaults("no answer in time"))
        assert [request.path for request in server.requests] == [example.APIS[api].path] * 3


@pytest.mark.parametrize("api", APIS)
def test_a_body_of_the_largest_size_is_read(api: str, capsys: pytest.CaptureFixture[str]) -> None:
    """A limit that refused less would be another limit."""

    def full(task: str) -> Answer:
        data = MAKERS[api](OBJECTS[task]).data or b""
        return Answer(data.ljust(example.MAX_BODY_BYTES))

    with serve(full) as server:
        assert run(server.url, api, capsys)[0] == 0


@pytest.mark.parametrize("api", APIS)
def test_a_refused_connection_gives_the_default(api: str, capsys: pytest.CaptureFixture[str]) -> None:
    """Nobody listens on the port."""
    with socket.socket() as bound:  # bound and not listening: nobody else can take the port meanwhile
        bound.bind(("127.0.0.1", 0))
        url = f"http://127.0.0.1:{bound.getsockname()[1]}"
        assert run(url, api, capsys) == (1, all_defaults("connection refused"))


def refused_name(host: str) -> str:
    """The error that this Python raises for a host name; since 3.13 it is a subclass of what it was."""
    with pytest.raises(UnicodeError) as caught:
        host.encode("idna")
    return caught.type.__name__


BAD_HOSTS = {
    "a label that is empty": ("http://a..b", f"no connection ({refused_name('a..b')})"),
    "a bracket that is not closed": ("http://[::1", "no connection (ValueError)"),
    "a port that is no number": ("http://127.0.0.1:x", "no connection (InvalidURL)"),
}


@pytest.mark.parametrize(("url", "why"), BAD_HOSTS.values(), ids=list(BAD_HOSTS))
def test_a_url_without_a_valid_host_gives_the_default(url: str, why: str, capsys: pytest.CaptureFixture[str]) -> None:
    """It is found out by the call, and is a failure like any other."""
    assert run(url, "ollama", capsys) == (1, all_defaults(why))


def without_schema(body: dict[str, Any]) -> dict[str, Any]:
    """The body without what is compared apart."""
    return {key: body[key] for key in body if key not in ("messages", "format", "response_format")}


@pytest.mark.parametrize("base", ["", "/gateway", "/gateway/"])
@pytest.mark.parametrize("api", APIS)
def test_what_assemble_context_returns_is_what_the_server_gets(
    api: str, base: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """The checked messages, the model, and the schema where the API takes it, in one request a task."""
    with serve(lambda task: MAKERS[api](OBJECTS[task])) as server:
        assert run(server.url + base, api, capsys)[0] == 0
    assert [task_of(request.body) for request in server.requests] == list(TASKS)
    for task, request in zip(example.TASKS, server.requests, strict=True):
        context = assemble_context(example.fragments(task.prompt))
        assert request.content_type == "application/json"
        assert request.body["messages"] == context.messages
        if api == "ollama":
            assert request.path == base.rstrip("/") + "/api/chat"
            assert request.body["format"] == task.schema
            assert without_schema(request.body) == {
                "model": "m",
                "stream": False,
                "options": {"num_predict": example.MAX_TOKENS},
            }
        else:
            assert request.path == base.rstrip("/") + "/v1/chat/completions"
            assert request.body["response_format"] == {
                "type": "json_schema",
                "json_schema": {"name": task.name, "strict": True, "schema": task.schema},
            }
            assert without_schema(request.body) == {"model": "m", "max_tokens": example.MAX_TOKENS}


def test_the_api_is_that_of_ollama_unless_named(capsys: pytest.CaptureFixture[str]) -> None:
    """The URL and the model's name are enough."""
    with serve(lambda task: ollama(OBJECTS[task])) as server:
        assert example.main(["--base-url", server.url, "--model", "m"]) == 0
    assert {request.path for request in server.requests} == {"/api/chat"}
    assert len(read_table(capsys.readouterr().out)) == len(TASKS)


def test_the_turn_goes_out_whole_and_in_order() -> None:
    """Instruction, facts, message and tool result: only the first of them in the system role."""
    for task in example.TASKS:
        messages, sizes = assemble_context(example.fragments(task.prompt), example.MAX_INPUT_CHARS)
        assert [message["role"] for message in messages] == ["system", "user", "user", "user"]
        assert [messages[0]["content"], messages[2]["content"]] == [task.prompt, example.MESSAGE]
        assert [json.loads(messages[index]["content"]) for index in (1, 3)] == [example.FACTS, example.WEATHER]
        assert list(sizes) == ["instruction", "facts", "message", "weather"]


def test_a_prompt_names_its_key() -> None:
    """Some servers hold a model to the schema without showing it."""
    assert [task.name for task in example.TASKS] == list(TASKS)
    for task in example.TASKS:
        assert f'"{task.name}"' in task.prompt
        assert list(task.schema["properties"]) == [task.name]


def test_a_breach_of_policy_is_not_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    """It is a bug of the app's, and no model is called with what was refused."""
    fragment = example.fragments("")[2]
    monkeypatch.setattr(example, "fragments", lambda _: [fragment, fragment])
    with pytest.raises(example.sidecall.ContextPolicyError):
        example.side_call(example.TASKS[0], lambda *_: pytest.fail("called"))


def test_a_message_that_is_too_long_gives_the_default(monkeypatch: pytest.MonkeyPatch) -> None:
    """It is not cut, and the model is not asked."""
    monkeypatch.setattr(example, "MESSAGE", "basil " * 400)
    task = next(task for task in example.TASKS if task.name == "queries")

    def not_asked(*_: object) -> None:
        raise AssertionError

    assert example.side_call(task, not_asked) == (
        ["basil " * 400],
        "default",
        "fragment message of source 'chat:42': it measures 2400, over its max_chars of 2000",
    )
