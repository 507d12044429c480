"""README and docs/: what they show runs, what they link to is there, and the reference says what the code does."""

import ast
import doctest
import importlib
import inspect
import io
import json
import pkgutil
import re
import sys
import textwrap
import tomllib
import traceback
from collections import OrderedDict
from collections.abc import Callable, Iterator
from functools import partial
from importlib import metadata
from operator import itemgetter
from pathlib import Path
from types import ModuleType
from typing import Any, NamedTuple
from xml.etree import ElementTree

import benchmark
import pytest
from test_hostile import FLOODS

import sidecall
from sidecall import (
    ContextFragment,
    ContextPolicyError,
    ValidationError,
    assemble_context,
    pick_title,
    require_structured,
    validate_context_budget,
    validate_context_fragment,
)

ROOT = Path(__file__).resolve().parent.parent
DOCS = ROOT / "docs"
PAGES = {path.relative_to(ROOT).as_posix(): path for path in (ROOT / "README.md", *sorted(DOCS.glob("*.md")))}
README, REFERENCE = (PAGES[name].read_text(encoding="utf-8") for name in ("README.md", "docs/reference.md"))
WITH_PYTHON = {"README.md", "docs/guide.md", "docs/providers.md", "docs/reference.md"}
LANGUAGES = {"python", "sh", "json", "text"}

FENCE = re.compile(r"^```([^\n]*)\n(.*?)^```$", re.MULTILINE | re.DOTALL)

each_page = pytest.mark.parametrize("name", PAGES)


class Block(NamedTuple):
    """A fenced block, and the page's line on which its code begins."""

    language: str
    line: int
    code: str


def blocks(text: str, language: str | None = None) -> list[Block]:
    """The fenced blocks of a page, in order; of one language, or all."""
    fences = FENCE.finditer(text)
    found = [Block(fence[1], text.count("\n", 0, fence.start(2)) + 1, fence[2]) for fence in fences]
    return [block for block in found if language in (None, block.language)]


def without_code(text: str) -> str:
    """A page's text without its fenced blocks."""
    return FENCE.sub("", text)


# --- what the pages show runs ---


def run(page: str, text: str) -> None:
    """Run a page's Python blocks in order, in one namespace; a failure names page and line."""
    # `__main__`, as in a script: worker processes are started behind that guard alone.
    namespace: dict[str, Any] = {"__name__": "__main__"}
    for block in blocks(text, "python"):
        source = "\n" * (block.line - 1) + block.code
        try:
            exec(compile(source, page, "exec", dont_inherit=True), namespace)
        except Exception as error:
            lines = [frame.lineno for frame in traceback.extract_tb(error.__traceback__) if frame.filename == page]
            line = error.lineno if isinstance(error, SyntaxError) else lines[-1]
            shown = text.splitlines()[(line or 1) - 1].strip()
            pytest.fail(f"{page}:{line}: {type(error).__name__}: {error}\n{shown}")


@each_page
def test_the_python_blocks_of_a_page_run(name: str) -> None:
    """From a fresh namespace, so that a reader can follow from the top."""
    run(name, PAGES[name].read_text(encoding="utf-8"))


def test_python_is_found_on_each_page_that_should_have_it() -> None:
    """A page whose blocks are not found would pass in silence."""
    assert {name for name, path in PAGES.items() if blocks(path.read_text(encoding="utf-8"), "python")} >= WITH_PYTHON


@each_page
def test_every_fence_is_found_and_of_a_known_language(name: str) -> None:
    """A fence that is indented, or says `py`, would not be run."""
    text = PAGES[name].read_text(encoding="utf-8")
    assert {block.language for block in blocks(text)} <= LANGUAGES
    assert len(re.findall(r"^\s*(?:```|~~~)", text, re.MULTILINE)) == 2 * len(blocks(text))


@pytest.mark.parametrize(
    ("code", "failure"),
    [
        pytest.param("x = 1\nassert x == 2\n", "page.md:6: AssertionError", id="a claim that is false"),
        pytest.param("\nx = = 1\n", "page.md:6: SyntaxError", id="a slip"),
        pytest.param("import json\njson.loads('{')\n", "page.md:6: JSONDecodeError", id="an error raised elsewhere"),
    ],
)
def test_a_failing_block_names_page_and_line(code: str, failure: str) -> None:
    """Whoever breaks an example is sent to it."""
    with pytest.raises(pytest.fail.Exception, match=f"^{re.escape(failure)}"):
        run("page.md", f"# A page\n\n\n```python\n{code}```\n")


def modules() -> Iterator[ModuleType]:
    """The package and all of its modules."""
    yield sidecall
    for info in pkgutil.iter_modules(sidecall.__path__):
        yield importlib.import_module(f"sidecall.{info.name}")


def examples_run(thing: object, name: str, module: ModuleType) -> int:
    """Run the docstring examples of a thing and all in it, and give their number."""
    runner, report = doctest.DocTestRunner(verbose=False), io.StringIO()
    for each in doctest.DocTestFinder().find(thing, name, module):
        runner.run(each, out=report.write)
    assert not runner.failures, report.getvalue()
    return runner.tries


@pytest.mark.parametrize("module", [pytest.param(module, id=module.__name__) for module in modules()])
def test_the_examples_of_a_module_run(module: ModuleType) -> None:
    """Private modules included."""
    examples_run(module, module.__name__, module)


def public_objects() -> dict[str, Any]:
    """Public functions and classes by name: what can have a docstring."""
    things = {name: getattr(sidecall, name) for name in sidecall.__all__}
    return {name: thing for name, thing in things.items() if inspect.isclass(thing) or inspect.isfunction(thing)}


@pytest.mark.parametrize("name", public_objects())
def test_a_public_function_or_class_has_an_example(name: str) -> None:
    """One that ran."""
    thing = public_objects()[name]
    assert examples_run(thing, name, sys.modules[thing.__module__]) > 0


# --- what the pages link to exists ---


def anchors(text: str) -> set[str]:
    """The anchors of a page's headings, by GitHub's rule."""
    found: list[str] = []
    for heading in re.findall(r"^#{1,6} +(.+?) *$", without_code(text), re.MULTILINE):
        shown = re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", heading)
        slug = re.sub(r"[^\w\- ]", "", shown.lower()).replace(" ", "-")
        taken = sum(re.sub(r"-\d+$", "", other) == slug for other in found)
        found.append(f"{slug}-{taken}" if taken else slug)
    return set(found)


def links(text: str) -> list[str]:
    """The targets of a page's links and images, in Markdown or HTML."""
    prose = re.sub(r"`[^`\n]+`", "", without_code(text))
    found = re.findall(r"\]\(([^)\s]+)|^\[[^\]]+\]: *(\S+)|(?:src|href)=\"([^\"]+)", prose, re.MULTILINE)
    return ["".join(groups) for groups in found]


def is_there(path: Path) -> bool:
    """Whether a file is in the tree, or, where the tests run beside a wheel alone, in the wheel."""
    if path.exists() or not path.is_relative_to(ROOT):
        return path.is_relative_to(ROOT)
    name = path.relative_to(ROOT).as_posix()
    installed = [file.as_posix() for file in metadata.files("sidecall") or ()]
    return any(file == name.removeprefix("src/") or file.endswith(f".dist-info/licenses/{name}") for file in installed)


def leads_somewhere(link: str, page: Path, text: str) -> bool:
    """Whether a link is of the web, or its file is there, and the anchor in it."""
    if link.startswith("https://"):
        return True
    path, _, anchor = link.partition("#")
    target = (page.parent / path).resolve() if path else page
    if not is_there(target):
        return False
    return not anchor or anchor in anchors(text if target == page else target.read_text(encoding="utf-8"))


def broken_links(page: Path, text: str) -> list[str]:
    """The links of a page that lead nowhere."""
    return [link for link in links(text) if not leads_somewhere(link, page, text)]


@each_page
def test_every_relative_link_and_anchor_resolves(name: str) -> None:
    """Images too."""
    text = PAGES[name].read_text(encoding="utf-8")
    assert broken_links(PAGES[name], text) == []


def test_relative_links_are_found() -> None:
    """A pattern that finds none would pass in silence."""
    assert set(links(README)) >= {
        "docs/side-call.svg",
        "docs/guide.md",
        "docs/reference.md",
        "docs/examples/side_calls.py",
    }


def test_a_link_that_leads_nowhere_is_reported() -> None:
    """Each form of link, and each way to lead nowhere."""
    text = """
# One `a.b_c`: two
## Twice
## Twice
[ok](#one-ab_c-two) [ok](#twice-1) [ok](docs/guide.md#what-goes-in) [ok](https://example.org) `[code](none)`
[x](#twice-2) [x](#One) [x](docs/none.md) ![x](docs/none.svg) [x](docs/guide.md#none) <img src="none.png">
[x][reference] [x](../outside.md) [x](#code)

[reference]: none.md
```text
# Code
[code](none)
```
"""
    assert broken_links(ROOT / "README.md", text) == [
        *("#twice-2", "#One", "docs/none.md", "docs/none.svg", "docs/guide.md#none", "none.png"),
        *("../outside.md", "#code", "none.md"),
    ]


def test_the_drawing_is_xml_without_scripts_or_outside_parts() -> None:
    """Else a browser shows a broken image, or GitHub takes parts away."""
    text = (DOCS / "side-call.svg").read_text(encoding="utf-8")
    kinds = {element.tag.rpartition("}")[2] for element in ElementTree.fromstring(text).iter()}
    assert kinds <= {"svg", "title", "desc", "defs", "marker", "style", "path", "rect", "text", "tspan"}
    assert set(re.findall(r"\w+://[^\"\s]+", text)) == {"http://www.w3.org/2000/svg"}


# --- the README and the changelog ---


def test_the_readme_begins_with_what_it_does() -> None:
    """The first Python stands within the first fifteen lines."""
    assert blocks(README, "python")[0].line <= 15


def test_the_readme_has_two_shell_lines_to_start_with() -> None:
    """The first installs and runs the example, the second runs the tests; nothing more is needed."""
    first, second = blocks(README, "sh")[0].code.splitlines()
    assert re.search(r"-m venv \.venv && \.venv/bin/python -m pip install .*'\.\[test\]' && ", first)
    assert first.endswith("&& .venv/bin/python docs/examples/side_calls.py")
    assert (DOCS / "examples" / "side_calls.py").is_file()
    assert second == ".venv/bin/python -m pytest"


def test_one_version_everywhere() -> None:
    """The changelog's top version, pyproject's, and the installed one."""
    headings = re.findall(r"^## (.+)$", (DOCS / "changelog.md").read_text(encoding="utf-8"), re.MULTILINE)
    released = [heading for heading in headings if heading != "[Unreleased]"]
    assert all(re.fullmatch(r"\[\d+\.\d+\.\d+\] - \d{4}-\d{2}-\d{2}", heading) for heading in released)
    version = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]["version"]
    assert released[0].startswith(f"[{version}] ")
    assert metadata.version("sidecall") == version


# --- the reference ---


def section(heading: str) -> str:
    """What stands between a heading of the reference and the next one of its level or above."""
    level = heading.split(" ")[0]
    _, _, rest = REFERENCE.partition(f"\n{heading}\n")
    assert rest, heading
    return re.split(rf"^#{{1,{len(level)}}} ", rest, maxsplit=1, flags=re.MULTILINE)[0]


def rows(text: str) -> list[list[str]]:
    """The cells of a table's rows, below its head."""
    lines = [line for line in text.splitlines() if line.startswith("|")]
    return [[cell.strip() for cell in line.strip("|").split("|")] for line in lines[2:]]


def in_code(cell: str) -> list[str]:
    """What a cell shows as code."""
    return re.findall(r"`([^`]+)`", cell)


def names_by_module() -> dict[str, list[str]]:
    """The reference's headings, by the module they are listed under."""
    modules = re.findall(r"^## `(.+)`$", REFERENCE, re.MULTILINE)
    return {module: re.findall(r"^### `(.+)`$", section(f"## `{module}`"), re.MULTILINE) for module in modules}


def test_the_reference_has_a_heading_for_each_public_name_and_no_other() -> None:
    """Once each."""
    names = [name for names in names_by_module().values() for name in names]
    assert sorted(names) == sorted(sidecall.__all__)
    assert len(re.findall(r"^###", REFERENCE, re.MULTILINE)) == len(names)


def test_the_public_names_are_sorted() -> None:
    """Constants, classes, functions; by the alphabet in each."""
    assert sidecall.__all__ == sorted(sidecall.__all__, key=lambda name: (not name.isupper(), name[0].islower(), name))


@pytest.mark.parametrize(
    ("module", "name"), [(module, name) for module, names in names_by_module().items() for name in names]
)
def test_a_public_name_can_be_imported_from_its_own_module(module: str, name: str) -> None:
    """The one that the reference lists it under, where it is also made."""
    thing = getattr(importlib.import_module(module), name)
    assert thing is getattr(sidecall, name)
    if name in public_objects():
        assert thing.__module__ == module


def head(source: str, is_method: bool = False) -> tuple[str, str]:
    """A function's parameters, without `self`, and what it returns."""
    node = ast.parse(textwrap.dedent(source)).body[0]
    assert isinstance(node, ast.FunctionDef)
    if is_method:
        node.args.args.pop(0)
    return ast.unparse(node.args), "" if is_method or node.returns is None else ast.unparse(node.returns)


def test_the_signatures_are_those_of_the_code() -> None:
    """Of each function and each error: names, annotations, order and defaults."""
    real = {name: head(inspect.getsource(each)) for name, each in public_objects().items() if inspect.isfunction(each)}
    for error in (ValidationError, ContextPolicyError):
        real[error.__name__] = head(inspect.getsource(vars(error)["__init__"]), is_method=True)
    assert len(blocks(REFERENCE, "text")) == len(real)
    for name, signature in real.items():
        [shown] = blocks(section(f"### `{name}`"), "text")
        assert shown.code.startswith(f"{name}(")
        assert head(f"def {shown.code.rstrip()}: ...") == signature, name


def fragment(**changes: Any) -> ContextFragment:
    """A fragment that is in order but for the changes."""
    fields: dict[str, Any] = {"id": "doc", "source_id": "kb:7", "trust": "tool", "lifetime": "turn", "role": "user"}
    return ContextFragment(**{**fields, "max_chars": 1_000, "value": "hello", **changes})


def without_value() -> ContextFragment:
    """A fragment whose value was never set."""
    made = fragment()
    object.__delattr__(made, "value")
    return made


def nested(depth: int) -> dict[str, Any]:
    """A dict that deep, of a subclass, so that Python code walks it."""
    value: dict[str, Any] = OrderedDict()
    for _ in range(depth - 1):
        value = OrderedDict(d=value)
    return value


class Unreadable(dict[str, object]):
    """A dict that fails whoever looks into it."""

    def items(self) -> Any:
        """Fail."""
        raise KeyError


class Own(str):
    """Equal to itself alone, so that a dict takes two that read the same."""

    __slots__ = ()
    __hash__ = str.__hash__

    def __eq__(self, other: object) -> bool:
        return self is other


def on_a_full_stack(call: Callable[[], object]) -> object:
    """Call with as little stack as the call gets by with."""
    try:
        return on_a_full_stack(call)
    except RecursionError:
        return call()


INSIDE_ITSELF: dict[str, object] = {}
INSIDE_ITSELF["self"] = INSIDE_ITSELF

IN_A_FRAGMENT: list[dict[str, Any]] = [
    *[{name: "Not one"} for name in ("id", "trust", "lifetime", "role")],
    {"source_id": ""},
    {"max_chars": 0},
    {"role": "system"},
    {"role": "system", "trust": "server", "value": {}},
    {"value": None},
    {"value": {"at": [object()]}},
    {"value": {"n": float("nan")}},
    {"value": {"n": 10**5000}},
    {"value": INSIDE_ITSELF},
    {"value": nested(129)},
    {"value": Unreadable()},
    {"value": {1: 2}},
    {"value": {Own("a"): 1, Own("a"): 2}},
    {"value": "\ud800"},
    {"value": "over", "max_chars": 3},
]
NOT_AS_ANNOTATED: Any = object()
REFUSED: list[Callable[[], object]] = [
    *[partial(validate_context_fragment, fragment(**changes)) for changes in IN_A_FRAGMENT],
    lambda: validate_context_fragment(NOT_AS_ANNOTATED),
    lambda: validate_context_fragment(without_value()),
    lambda: validate_context_fragment(fragment(), {"doc"}),
    lambda: validate_context_fragment(fragment(), NOT_AS_ANNOTATED),
    lambda: validate_context_fragment(fragment(), measure=lambda _: -1),
    lambda: on_a_full_stack(lambda: validate_context_fragment(fragment(value=nested(128)))),
    lambda: validate_context_budget(6, 5),
    lambda: validate_context_budget(-1, 5),
    lambda: validate_context_budget(5, -1),
    lambda: validate_context_budget(6, 5, lambda _: NOT_AS_ANNOTATED),
    lambda: assemble_context(NOT_AS_ANNOTATED),
]


class Refusal(NamedTuple):
    """What a refusal tells: its code, its field or its issue's keys, and its message."""

    code: str
    where: list[str]
    message: str


def refusals(name: str, told: dict[str, Any]) -> list[Refusal]:
    """The refusals in an error, given its class and what it tells."""
    if name == "ValidationError":
        return [Refusal(each["code"], [*each][2:], each["message"]) for each in told["issues"]]
    if name == "ContextPolicyError":
        return [Refusal(told["code"], [told["field"]] if told["field"] else [], told["message"])]
    return [Refusal(name, [], told["message"])]


def raised(call: Callable[[], object]) -> Exception:
    """What a call raises."""
    with pytest.raises(Exception) as caught:  # noqa: PT011 - the class is looked at by the caller
        call()
    return caught.value


def told(error: Exception) -> dict[str, Any]:
    """What an error tells, in the words of the refusals' file."""
    if isinstance(error, ValidationError):
        return {"issues": error.issues}
    return vars(error) if isinstance(error, ContextPolicyError) else {"message": str(error)}


def provoked() -> list[Refusal]:
    """Every kind of refusal, provoked."""
    errors = [raised(call) for call in REFUSED]
    return [refusal for error in errors for refusal in refusals(type(error).__name__, told(error))]


PLACEHOLDERS = {
    "id": r"[a-z][a-zA-Z0-9:._-]*",
    "source": r"['\"].{1,63}",
    "type": r"an? \w+",
    "found": r"\S.*",
    "path": r"\$(?:\.[\w-]+|\[\d+\]|\[key \d+\])*",
    "trust": r"user|tool",
    **dict.fromkeys(("position", "size", "limit"), r"\d+|an int"),
}


def pattern(form: str) -> str:
    """A message's form as a pattern."""
    parts = re.split(r"<(\w+)>", form.replace("…", "fragment <id> of source <source>"))
    return "".join(f"(?:{PLACEHOLDERS[part]})" if at % 2 else re.escape(part) for at, part in enumerate(parts))


def forms() -> list[Refusal]:
    """The rows of the reference's table, their messages as patterns."""
    found = []
    for code, where, message in rows(section("## Refusals")):
        [name], [form] = in_code(code), in_code(message)
        found.append(Refusal(name, in_code(where), pattern(form)))
    return found


def fits(refusal: Refusal, form: Refusal) -> bool:
    """Whether a refusal is of the form."""
    return refusal[:2] == form[:2] and re.fullmatch(form.message, refusal.message) is not None


def test_every_refusal_of_the_reference_is_one_that_the_library_makes() -> None:
    """Code, field or keys, and the form of the message."""
    made = provoked()
    assert [form for form in forms() if not any(fits(refusal, form) for refusal in made)] == []


def test_every_refusal_that_the_library_makes_is_in_the_reference() -> None:
    """Once: those provoked here, and those that the refusals' file holds."""
    lines = (Path(__file__).parent / "cases" / "context_refusals.jsonl").read_text(encoding="utf-8").splitlines()
    recorded = [refusal for row in map(json.loads, lines) for refusal in refusals(row["raises"], row["with"])]
    assert len(recorded) > 50
    for refusal in [*provoked(), *recorded]:
        assert sum(fits(refusal, form) for form in forms()) == 1, refusal


REPLIES = ["No.", '{"title": "cut o', '{"title": 42}', '{"title": "a"} {"title": "b"}']


def test_every_code_of_the_reference_is_one_that_the_library_raises_and_no_other() -> None:
    """With the class that carries it."""
    errors = [raised(call) for call in REFUSED]
    errors += [raised(partial(require_structured, reply, pick_title)) for reply in REPLIES]
    codes = {(e.code, type(e).__name__) for e in errors if isinstance(e, ValidationError | ContextPolicyError)}
    table = [(*in_code(code), *in_code(kind)) for code, kind, *_ in rows(section("## Codes"))]
    assert len(table) == len(set(table)) == 9
    assert set(table) == codes


def test_the_output_messages_of_the_reference_are_those_of_the_library() -> None:
    """Word for word, and in the table's order."""
    table = [[*in_code(code), *in_code(message)] for code, message in rows(section("### `require_structured`"))]
    calls = [partial(require_structured, reply, pick_title) for reply in REPLIES]
    calls.insert(1, partial(require_structured, None, pick_title))
    calls.insert(4, partial(require_structured, "{}", itemgetter("title")))
    issues = [issue for call in calls for issue in told(raised(call))["issues"]]
    shown = [message.replace("<type>", "a KeyError" if "raised" in message else "a NoneType") for _, message in table]
    assert [[issue["code"], issue["message"]] for issue in issues] == [
        [code, message] for (code, _), message in zip(table, shown, strict=True)
    ]


def test_the_figures_of_the_design_page_are_of_the_benchmark_as_it_is() -> None:
    """Each row that it prints, and none over its limit."""
    [shown] = [block.code for block in blocks(PAGES["docs/design.md"].read_text(encoding="utf-8"), "text")]
    names = [line[:52].rstrip() for line in shown.splitlines() if re.search(r"\d$", line)]
    rows_of = [name for name, *_ in (*benchmark.REPLIES, *benchmark.VALUES)]
    assert set(names) >= {*rows_of, *FLOODS}
    assert not re.search(r"over$", shown, re.MULTILINE)
