"""What docs/recipes.md shows of other packages: against stand-ins, or the real package where it is installed."""

import asyncio
import importlib.util
import json
import re
import sys
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest

PAGE = (Path(__file__).parent.parent / "docs" / "recipes.md").read_text(encoding="utf-8")
REPLY = '<think>Short?</think> {"title": "Dense loaf"}'

# The page starts processes and an event loop.
pytestmark = pytest.mark.needs_os


class BaseModel:
    """Of pydantic's, the rules that the page shows: these fields are there, no other, and each is of its very type."""

    def __init_subclass__(cls, strict: bool = False, extra: str = "ignore") -> None:
        pass

    def __init__(self, **fields: object) -> None:
        vars(self).update(fields)

    @classmethod
    def model_validate(cls, value: dict[str, object]) -> "BaseModel":
        """The model, or a `ValueError`."""
        if {name: type(each) for name, each in value.items()} != cls.__annotations__:
            raise ValueError
        return cls(**value)


class JSONResponse:
    """Of FastAPI's response, what a client gets."""

    def __init__(self, content: object, status_code: int) -> None:
        self.status_code = status_code
        self.body = json.dumps(content).encode()


def convert_to_messages(messages: list[Any]) -> list[Any]:
    """Of LangChain's, nothing but the call."""
    return [SimpleNamespace(**message) for message in messages]


STAND_INS: dict[str, dict[str, Any]] = {
    "fastapi": {"FastAPI": lambda: SimpleNamespace(post=lambda *_, **__: lambda handler: handler)},
    "fastapi.responses": {"JSONResponse": JSONResponse},
    "langchain_core": {},
    "langchain_core.messages": {"convert_to_messages": convert_to_messages},
    "pydantic": {"BaseModel": BaseModel},
    "tiktoken": {"get_encoding": lambda _: SimpleNamespace(encode_ordinary=str.split)},
}


@pytest.fixture
def page(monkeypatch: pytest.MonkeyPatch) -> dict[str, Any]:
    """The namespace that all blocks of the page leave behind, those that need another package included."""
    # The real tiktoken loads its data from the network.
    packages = {name.partition(".")[0] for name in STAND_INS} - {"tiktoken"}
    installed = {package for package in packages if importlib.util.find_spec(package) is not None}
    for name, members in STAND_INS.items():
        if name.partition(".")[0] not in installed:
            module = ModuleType(name)
            vars(module).update(members)
            monkeypatch.setitem(sys.modules, name, module)
    # Not `__main__`, so that no worker process starts.
    namespace: dict[str, Any] = {"__name__": "recipes"}
    for block in re.findall(r"^```(?:python|text)\n(.*?)^```$", PAGE, re.MULTILINE | re.DOTALL):
        exec(compile(block, "recipes.md", "exec", dont_inherit=True), namespace)
    return namespace


def test_the_blocks_that_need_another_package_run(page: dict[str, Any]) -> None:
    """Their own assertions hold."""
    assert page["tokens"]("one two") == 2
    assert page["verdict"].reason == "a question"


def test_the_handler_answers_a_refusal_with_its_issues(page: dict[str, Any]) -> None:
    """And any other question with a title."""
    assert page["title"](page["Question"](message=page["MESSAGE"]))["title"]
    response = page["title"](page["Question"](message="why " * 1_000))
    assert response.status_code == 422
    [issue] = json.loads(response.body)["detail"]
    assert (issue["code"], issue["fragment_id"], issue["size"]) == ("CONTEXT_BUDGET", "message", 4_000)


def test_each_client_is_sent_what_was_checked(page: dict[str, Any]) -> None:
    """Anthropic's gets the system text apart."""
    messages = page["messages_of"](page["RULES"], page["fragment"]("message", "user", "Why {so} dense?"))
    sent: list[dict[str, Any]] = []

    def create(**request: object) -> SimpleNamespace:
        sent.append(request)
        message = SimpleNamespace(content=REPLY)
        thought, text = SimpleNamespace(type="thinking"), SimpleNamespace(type="text", text=REPLY)
        return SimpleNamespace(
            choices=[SimpleNamespace(message=message)], output_text=REPLY, content=[thought, text], text=REPLY
        )

    end = SimpleNamespace(create=create)
    client = SimpleNamespace(chat=SimpleNamespace(completions=end), responses=end, messages=end)
    for ask in ("ask_openai_chat", "ask_openai_responses", "ask_anthropic"):
        assert page[ask](client, "a-model", messages) == REPLY
    model = SimpleNamespace(invoke=lambda converted: create(messages=converted))
    assert page["ask_langchain"](model, messages) == REPLY
    chat, responses, anthropic, langchain = sent
    assert chat["messages"] == responses["input"] == messages
    assert (anthropic["system"], anthropic["messages"]) == (messages[0]["content"], messages[1:])
    assert [each.content for each in langchain["messages"]] == [each["content"] for each in messages]


class Client:
    """Of httpx's client, one call that takes a while; how many were under way at once is counted."""

    now = most = 0

    async def post(self, url: str, json: dict[str, Any]) -> SimpleNamespace:
        """A reply that quotes the last message."""
        assert url.startswith("/")
        self.now += 1
        self.most = max(self.most, self.now)
        await asyncio.sleep(0)
        self.now -= 1
        content = f'<think>Short?</think> {{"title": "{json["messages"][-1]["content"]}"}}'
        body = {"choices": [{"message": {"content": content}}]}
        response = SimpleNamespace(json=lambda: body)
        response.raise_for_status = lambda: response
        return response


def test_many_titles_are_asked_for_at_once_and_come_back_in_order(page: dict[str, Any]) -> None:
    """No more of them than there are slots."""
    client, messages = Client(), [f"Loaf {number}" for number in range(40)]
    assert asyncio.run(page["titles_of"](client, messages)) == messages
    assert client.most == 8
