"""README and docs/ as the tests read them: the only Markdown helpers of the suite."""

import re
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).resolve().parent.parent
DOCS = ROOT / "docs"
PATHS = {path.relative_to(ROOT).as_posix(): path for path in (ROOT / "README.md", *sorted(DOCS.glob("*.md")))}
TEXTS = {name: path.read_text(encoding="utf-8") for name, path in PATHS.items()}

_FENCE = re.compile(r"^```([^\n]*)\n(.*?)^```$", re.MULTILINE | re.DOTALL)


class Block(NamedTuple):
    """A fenced block, and the page's line on which its code begins."""

    language: str
    line: int
    code: str


def blocks(text: str, language: str | None = None) -> list[Block]:
    """The fenced blocks of a page, in order; of one language, or all."""
    found = [Block(fence[1], text.count("\n", 0, fence.start(2)) + 1, fence[2]) for fence in _FENCE.finditer(text)]
    return [block for block in found if language in (None, block.language)]


def section(text: str, heading: str) -> str:
    """What stands between a heading, such as `## Codes`, and the next one of its level or above."""
    level = heading.split(" ")[0]
    _, found, rest = text.partition(f"\n{heading}\n")
    assert found, heading
    return re.split(rf"^#{{1,{len(level)}}} ", rest, maxsplit=1, flags=re.MULTILINE)[0]


def rows(text: str) -> list[list[str]]:
    """The cells of a table's rows, below its head."""
    lines = [line for line in text.splitlines() if line.startswith("|")]
    return [[cell.strip() for cell in line.strip("|").split("|")] for line in lines[2:]]


def anchors(text: str) -> set[str]:
    """The anchors of a page's headings, by GitHub's rule."""
    found: list[str] = []
    for heading in re.findall(r"^#{1,6} +(.+?) *$", _FENCE.sub("", text), re.MULTILINE):
        shown = re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", heading)
        slug = re.sub(r"[^\w\- ]", "", shown.lower()).replace(" ", "-")
        taken = sum(re.sub(r"-\d+$", "", other) == slug for other in found)
        found.append(f"{slug}-{taken}" if taken else slug)
    return set(found)


def links(text: str) -> list[str]:
    """The targets of a page's links and images, in Markdown or HTML."""
    prose = re.sub(r"`[^`\n]+`", "", _FENCE.sub("", text))
    found = re.findall(r"\]\(([^)\s]+)|^\[[^\]]+\]: *(\S+)|(?:src|href)=\"([^\"]+)", prose, re.MULTILINE)
    return ["".join(groups) for groups in found]
