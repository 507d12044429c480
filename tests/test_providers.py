"""The request bodies of docs/providers.md: built by the page's own code, and sourced."""

import copy
import json
import re
from pathlib import Path
from typing import Any

import pytest

from sidecall import QUERIES_SCHEMA, SUGGESTIONS_SCHEMA, TITLE_SCHEMA

PAGE = (Path(__file__).parent.parent / "docs" / "providers.md").read_text(encoding="utf-8")
SCHEMAS = {"title": TITLE_SCHEMA, "suggestions": SUGGESTIONS_SCHEMA, "queries": QUERIES_SCHEMA}
BUILDERS = {
    "Ollama": "ollama_body",
    "OpenAI, vLLM and llama.cpp": "openai_body",
    "llama-cpp-python": "json_object_body",
    "Anthropic": "anthropic_body",
}
CHECKED = {"llama-cpp-python": "2026-12-02"}  # all others on the day below
CHECKED_OTHERS = "2026-11-30"


def blocks(language: str, text: str = PAGE) -> list[str]:
    """The fenced blocks of one language, in order."""
    return re.findall(rf"^```{language}\n(.*?)^```$", text, re.MULTILINE | re.DOTALL)


def section(heading: str) -> str:
    """What stands between one second-level heading and the next."""
    return PAGE.split(f"\n## {heading}\n")[1].split("\n## ")[0]


@pytest.fixture(scope="module")
def page() -> dict[str, Any]:
    """The namespace that the page's Python blocks leave behind."""
    namespace: dict[str, Any] = {}
    exec("\n".join(blocks("python")), namespace)
    return namespace


def schema_for(provider: str, task: str, page: dict[str, Any]) -> dict[str, Any]:
    """The schema that the page sends: ours, but for the one that Anthropic refuses."""
    changed: dict[str, Any] = page["ANTHROPIC_SUGGESTIONS"]
    return changed if (provider, task) == ("Anthropic", "suggestions") else SCHEMAS[task]


def body_for(provider: str, task: str, page: dict[str, Any]) -> dict[str, Any]:
    """One body, by the builder that the page shows for the provider."""
    build = page[BUILDERS[provider]]
    body: dict[str, Any] = build("your-model", page["MESSAGES"], schema_for(provider, task, page))
    return body


@pytest.mark.parametrize("task", SCHEMAS)
def test_the_schema_stands_in_the_field_of_each_api(task: str, page: dict[str, Any]) -> None:
    """Each names the field differently, or takes another form in it."""
    assert body_for("Ollama", task, page)["format"] == SCHEMAS[task]
    response_format = body_for("OpenAI, vLLM and llama.cpp", task, page)["response_format"]
    assert response_format == {
        "type": "json_schema",
        "json_schema": {"name": task, "strict": True, "schema": SCHEMAS[task]},
    }
    assert body_for("llama-cpp-python", task, page)["response_format"] == {
        "type": "json_object",
        "schema": SCHEMAS[task],
    }
    output_format = body_for("Anthropic", task, page)["output_config"]["format"]
    assert output_format == {"type": "json_schema", "schema": schema_for("Anthropic", task, page)}


@pytest.mark.parametrize("task", SCHEMAS)
def test_what_goes_to_anthropic_has_only_the_bounds_it_takes(task: str, page: dict[str, Any]) -> None:
    """No `maxItems`, and `minItems` 0 or 1; all else is as in our constant."""
    sent = copy.deepcopy(schema_for("Anthropic", task, page))
    ours = copy.deepcopy(SCHEMAS[task])
    field = sent["properties"][task]
    assert "maxItems" not in field
    assert field.get("minItems", 0) in (0, 1)
    for bounded in (field, ours["properties"][task]):
        for key in ("minItems", "maxItems", "description"):
            bounded.pop(key, None)
    assert sent == ours


def test_the_copy_for_anthropic_leaves_our_constant_alone(page: dict[str, Any]) -> None:
    """The page's change never reaches the dict that other callers send."""
    assert page["ANTHROPIC_SUGGESTIONS"] != SUGGESTIONS_SCHEMA
    field = {"type": "array", "items": {"type": "string"}, "minItems": 3, "maxItems": 3}
    assert SUGGESTIONS_SCHEMA["properties"] == {"suggestions": field}


def test_anthropic_takes_system_text_in_a_field_of_its_own(page: dict[str, Any]) -> None:
    """No system message is left, no text is lost, and without system text there is no field."""
    body = body_for("Anthropic", "title", page)
    assert [body["system"]] == [m["content"] for m in page["MESSAGES"] if m["role"] == "system"]
    assert body["messages"] == [m for m in page["MESSAGES"] if m["role"] == "user"]
    assert "system" not in page["anthropic_body"]("your-model", body["messages"], TITLE_SCHEMA)


def test_a_thinking_block_is_not_read_as_content(page: dict[str, Any]) -> None:
    """A reply that is thinking alone has no text."""
    assert page["anthropic_text"]({"content": [page["THOUGHT"]]}) == ""
    assert page["anthropic_text"]({"content": [page["THOUGHT"], page["ANSWER"]]}) == page["ANSWER"]["text"]


@pytest.mark.parametrize("provider", BUILDERS)
def test_the_body_shown_is_the_body_built(provider: str, page: dict[str, Any]) -> None:
    """The section's JSON block parses, and equals what its function gives for the suggestions."""
    [shown] = blocks("json", section(provider))
    assert json.loads(shown) == body_for(provider, "suggestions", page)


def test_every_json_block_parses() -> None:
    """One body a provider, and no other JSON on the page."""
    shown = blocks("json")
    assert len(shown) == len(BUILDERS)
    assert all(isinstance(json.loads(block), dict) for block in shown)


@pytest.mark.parametrize("provider", BUILDERS)
def test_a_provider_section_has_a_source_and_a_date(provider: str) -> None:
    """The last paragraph says when, and links to what was read."""
    last = section(provider).strip().rsplit("\n\n", 1)[-1]
    assert last.startswith(f"Checked {CHECKED.get(provider, CHECKED_OTHERS)}: ")
    assert re.findall(r"\]\(https://[^)\s]+\)", last)


def test_every_claim_has_a_source_and_a_date() -> None:
    """Each row of the sources table holds a claim, a link and the day it was checked."""
    rows = [line for line in section("Sources").splitlines() if line.startswith("| ")][1:]
    assert len(rows) > 20
    for row in rows:
        claim, source, checked = row.strip("| ").split(" | ")
        assert claim
        assert re.search(r"\]\(https://[^)\s]+\)", source), row
        assert checked == CHECKED.get(claim.split(": ")[0], CHECKED_OTHERS), row


def test_the_sections_link_only_to_listed_sources() -> None:
    """A URL outside the sources table is one that nobody dated."""
    urls = set(re.findall(r"\((https://[^)\s]+)\)", PAGE))
    assert urls
    assert urls == set(re.findall(r"\((https://[^)\s]+)\)", section("Sources")))
