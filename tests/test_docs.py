"""README and docs/: what they show runs, what they link to is there, and the reference has every public name."""

import ast
import doctest
import importlib
import inspect
import io
import pkgutil
import re
import textwrap
import traceback
from dataclasses import fields
from importlib import metadata
from pathlib import Path
from typing import Any, get_args
from xml.etree import ElementTree

import benchmark
import pytest
from fragments import CONTEXT_CODES
from pages import DOCS, PATHS, ROOT, TEXTS, anchors, blocks, links, rows, section
from test_hostile import FLOODS

import sidecall
from sidecall import (
    Code,
    ContextFragment,
    ContextPolicyError,
    Marks,
    ValidationError,
    context_policy,
    structured_output,
)

README, REFERENCE = TEXTS["README.md"], TEXTS["docs/reference.md"]
WITH_PYTHON = {"README.md", *(f"docs/{name}.md" for name in ("design", "guide", "providers", "reference", "reporting"))}
LANGUAGES = {"python", "sh", "json", "text"}

each_page = pytest.mark.parametrize("name", TEXTS)


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


@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=pytest.mark.needs_os if name == "docs/recipes.md" else ()) for name in TEXTS]
)
def test_the_python_blocks_of_a_page_run(name: str) -> None:
    run(name, TEXTS[name])


def test_python_is_found_on_each_page_that_should_have_it() -> None:
    assert {name for name, text in TEXTS.items() if blocks(text, "python")} >= WITH_PYTHON


@each_page
def test_every_fence_is_found_and_of_a_known_language(name: str) -> None:
    """A fence that is indented, or says `py`, would not be run."""
    text = TEXTS[name]
    assert {block.language for block in blocks(text)} <= LANGUAGES
    assert len(re.findall(r"^\s*(?:```|~~~)", text, re.MULTILINE)) == 2 * len(blocks(text))


@pytest.mark.parametrize(
    ("code", "failure"),
    [
        pytest.param("x = 1\nassert x == 2\n", "page.md:6: AssertionError", id="a claim that is false"),
        pytest.param("\nx = = 1\n", "page.md:6: SyntaxError", id="a slip"),
    ],
)
def test_a_failing_block_names_page_and_line(code: str, failure: str) -> None:
    with pytest.raises(pytest.fail.Exception, match=f"^{re.escape(failure)}"):
        run("page.md", f"# A page\n\n\n```python\n{code}```\n")


MODULES = ["sidecall", *(f"sidecall.{info.name}" for info in pkgutil.iter_modules(sidecall.__path__))]


@pytest.mark.parametrize("name", MODULES)
def test_the_examples_of_a_module_run(name: str) -> None:
    """Those of its docstrings, in private modules too."""
    report = io.StringIO()
    runner = doctest.DocTestRunner(verbose=False)
    for each in doctest.DocTestFinder().find(importlib.import_module(name)):
        runner.run(each, out=report.write)
    assert not runner.failures, report.getvalue()


PUBLIC = {name: getattr(sidecall, name) for name in sidecall.__all__}
DOCUMENTED = {name: thing for name, thing in PUBLIC.items() if inspect.isclass(thing) or inspect.isfunction(thing)}


@pytest.mark.parametrize("name", DOCUMENTED)
def test_a_public_function_or_class_has_an_example(name: str) -> None:
    assert any(each.examples for each in doctest.DocTestFinder().find(DOCUMENTED[name]))


# --- what the pages link to is there ---


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
    assert broken_links(PATHS[name], TEXTS[name]) == []


@pytest.mark.parametrize("name", sorted(TEXTS.keys() - {"README.md"}))
def test_the_readme_links_to_every_page(name: str) -> None:
    assert name in {link.partition("#")[0] for link in links(README)}


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


# --- the README, the changelog and the figures ---


def test_the_readme_begins_with_an_example() -> None:
    """It stands within the first fifteen lines."""
    assert blocks(README, "python")[0].line + blocks(README, "python")[0].code.count("\n") <= 15


def test_the_readme_has_two_shell_lines_to_start_with() -> None:
    """The first installs and runs the example, the second runs the tests; nothing more is needed."""
    first, second = blocks(README, "sh")[0].code.splitlines()
    assert re.search(r"-m venv \.venv && \.venv/bin/python -m pip install .*'\.\[test\]' && ", first)
    assert first.endswith("&& .venv/bin/python docs/examples/side_calls.py")
    assert (DOCS / "examples" / "side_calls.py").is_file()
    assert second == ".venv/bin/python -m pytest"


def test_one_version_everywhere() -> None:
    """In the code, in what is installed, and on top of the changelog, below what is not released."""
    unreleased, newest, *older = re.findall(r"^## (.+)$", TEXTS["docs/changelog.md"], re.MULTILINE)
    assert unreleased == "[Unreleased]"
    assert newest.startswith(f"[{sidecall.__version__}] ")
    assert all(re.fullmatch(r"\[\d+\.\d+\.\d+\] - \d{4}-\d{2}-\d{2}", heading) for heading in (newest, *older))
    assert metadata.version("sidecall") == sidecall.__version__


def test_the_figures_of_the_design_page_are_of_the_benchmark_as_it_is() -> None:
    """Each row that it prints, in order, and none over its limit."""
    [shown] = blocks(section(TEXTS["docs/design.md"], "## How fast it is"), "text")
    figures = [line for line in shown.code.splitlines() if re.search(r"\d(?:  over)?$", line)]
    names = [line[:52].rstrip() for line in figures[1:]]  # below the line with the versions
    measured = [name for name, *_ in (*benchmark.REPLIES, *benchmark.VALUES)]
    assert names[:-1] == [*measured, benchmark.ASSEMBLY]
    assert names[-1].removeprefix(f"the worst of {len(FLOODS)}: ") in FLOODS
    assert not re.search(r"over$", shown.code, re.MULTILINE)


# --- the reference ---


def names_by_module() -> dict[str, list[str]]:
    """The reference's headings, by the module they are listed under."""
    modules = re.findall(r"^## `(.+)`$", REFERENCE, re.MULTILINE)
    headings = {module: section(REFERENCE, f"## `{module}`") for module in modules}
    return {module: re.findall(r"^### `(.+)`$", text, re.MULTILINE) for module, text in headings.items()}


LISTED = [(module, name) for module, names in names_by_module().items() for name in names]


def test_the_reference_has_a_heading_for_each_public_name_and_no_other() -> None:
    assert sorted(name for _, name in LISTED) == sorted(sidecall.__all__)


def test_the_public_names_are_sorted() -> None:
    """Constants, classes, functions; by the alphabet in each."""
    assert sidecall.__all__ == sorted(sidecall.__all__, key=lambda name: (not name.isupper(), name[0].islower(), name))


@pytest.mark.parametrize(("module", "name"), LISTED)
def test_a_public_name_can_be_imported_from_its_own_module(module: str, name: str) -> None:
    """The one that the reference lists it under."""
    assert getattr(importlib.import_module(module), name) is PUBLIC[name]


def head(source: str) -> tuple[str, str]:
    """A function's parameters, without `self`, and what it returns, unless it is a constructor."""
    node = ast.parse(textwrap.dedent(source)).body[0]
    assert isinstance(node, ast.FunctionDef)
    is_method = bool(node.args.args) and node.args.args[0].arg == "self"
    if is_method:
        node.args.args.pop(0)
    return ast.unparse(node.args), "" if is_method or node.returns is None else ast.unparse(node.returns)


def spelled_out(source: str) -> str:
    """A source with what its names of types stand for."""
    modules = inspect.getsource(context_policy) + inspect.getsource(structured_output)
    aliases = re.findall(r"^(\w+)(?:: TypeAlias)? = ((?:Callable|MutableSet|Iterable)\[.*)$", modules, re.MULTILINE)
    assert len(aliases) == 5
    for name, meaning in aliases:
        source = re.sub(rf"\b{name}\b(?:\[T\])?", meaning, source)
    return source


def test_the_signatures_are_those_of_the_code() -> None:
    """Of each function, of each error and of `Marks`."""
    functions = {name: each for name, each in DOCUMENTED.items() if inspect.isfunction(each)}
    real = {name: head(spelled_out(inspect.getsource(each))) for name, each in functions.items()}
    for error in (ValidationError, ContextPolicyError):
        real[error.__name__] = head(inspect.getsource(vars(error)["__init__"]))
    fields = re.findall(r"^    (\w+: Iterable.*)$", inspect.getsource(Marks), re.MULTILINE)
    real["Marks"] = head(f"def Marks({', '.join(fields)}): ...")
    assert len(blocks(REFERENCE, "text")) == len(real)
    for name, signature in real.items():
        [shown] = blocks(section(REFERENCE, f"### `{name}`"), "text")
        assert shown.code.startswith(f"{name}(")
        assert head(f"def {shown.code.rstrip()}: ...") == signature, name


def test_the_reference_has_each_code_once_with_its_class() -> None:
    table = [(code.strip("`"), kind.strip("`")) for code, kind, *_ in rows(section(REFERENCE, "## Codes"))]
    policy = ("CONTEXT_FRAGMENT", "CONTEXT_TRUST", "CONTEXT_VALUE")
    assert sorted(table) == sorted(
        (code, "ContextPolicyError" if code in policy else "ValidationError") for code in get_args(Code)
    )


def test_the_order_of_the_checks_in_the_reference_names_each_code_of_the_context_once() -> None:
    order = re.findall(r"CONTEXT_\w+", section(REFERENCE, "### `validate_context_fragment`"))
    assert sorted(order) == sorted(CONTEXT_CODES)


def test_the_reference_has_each_field_of_a_fragment() -> None:
    table = [name.strip("`") for name, *_ in rows(section(REFERENCE, "### `ContextFragment`"))]
    assert table == [field.name for field in fields(ContextFragment)]
