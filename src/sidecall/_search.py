"""What is looked for in a reply: patterns made from the tables of marks, and of where an object begins."""

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from itertools import groupby
from typing import Literal, NamedTuple

from ._marks import BLANKS, CALLS, OTHER_TURNS, REASONING, SHAPES, TAG_END, TURNS, WRAPPERS, Block
from ._types import entries, is_a, require, shown

MarkKind = Literal["open", "close", "turn", "other turn", "token"]

# What may stand between the tokens of an object that is begun: marks of direction and other invisible ones as well.
_SPACE = f"[{BLANKS}\u00ad\u061c\u180e\u200c-\u200f\u202a-\u202e\u2061-\u206f]*+"
_COLON = rf"{_SPACE}(?:[:：]|\Z)"
_QUOTES = "'‘’‚‛“”„‟«»‹›＂`"

# What makes a brace the beginning of an object: `}`, or a key and a colon, or that the text ends on the way there.
# Only a key in JSON's own quotes can be valid. The others begin an object all the same, so that what it holds is not
# taken for an answer; a bare word does so where a value that is in quotes or brackets follows, as prose has words and
# colons.
BEGIN = re.compile(
    rf"\{{{_SPACE}(?:\}}|\Z"
    rf'|"[^"\\]*+(?:\\.[^"\\]*+)*+(?:\\?\Z|"{_COLON})'
    rf"|[{_QUOTES}](?:[^{_QUOTES}\"]*+\Z|[^\"{{}}\n]*?[{_QUOTES}\"]{_COLON})"
    rf"|[A-Za-z_$][\w$-]*+{_SPACE}(?:\Z|[:：]{_SPACE}(?:[\"{{\[{_QUOTES}]|\\\"|\Z))"
    rf'|\\+"[^"\\{{}}]*+(?:\Z|\\+(?:\Z|"{_COLON})))',
    re.DOTALL,
)

_TAG = re.compile(r'(</?[a-zA-Z][\w:]*)(?: (\w+)="(\w+)")?>')


class Row(NamedTuple):
    """A mark, and what it is."""

    mark: str
    kind: MarkKind
    block: Block = Block(())


def _any_case(text: str) -> str:
    """The pattern of a text, with a set for each letter: the regex engine rules those out at once."""
    sets = {char: f"[{char.lower()}{char.upper()}]" for char in text if char.lower() != char.upper()}
    return "".join(sets.get(char) or re.escape(char) for char in text).replace(r"\ ", r"\s*")


def _patterns(mark: str) -> tuple[str, str, str]:
    """The patterns of a mark's first and second character, and of the rest. Only the first one of a shape is known."""
    shape, tag = SHAPES.get(mark), _TAG.fullmatch(mark)
    first = shape[0] if shape else _any_case(mark[0])
    if first == "<" and not re.match(r"</?[a-zA-Z]\b", mark):
        first += r"(?!/?[a-zA-Z][\s>])"  # rules most tags of HTML out
    if shape:
        return first, "", shape[1:]
    name, attribute, value = tag.groups() if tag else (mark, None, None)
    needed = rf"(?i:(?=\s(?:[^<>]*?\s)?{attribute}\s*=\s*[\"']?{value}[\"'\s>]))" if attribute else ""
    return first, _any_case(name[1]), f"{_any_case(name[2:])}{needed}{TAG_END if tag else ''}"


def _search(rows: Iterable[Row]) -> tuple[str, list[Row]]:
    """One pattern for all rows, and the rows in the order of its groups: an empty one behind each tells it apart.

    The regex engine skips to the first characters, and rules an alternative out by its first character alone. So marks
    that share their first characters stand together, long ones first, and shapes last.
    """
    places = [(*_patterns(row.mark), row) for row in rows]
    places.sort(key=lambda place: (place[0], place[1] == "", place[1], -len(place[3].mark)))
    sources = []
    for first, group in groupby(places, key=lambda place: place[0]):
        alike = [(second, [*same]) for second, same in groupby(group, key=lambda place: place[1])]
        branches = (f"{second}(?:{'|'.join(f'{rest}()' for _, _, rest, _ in same)})" for second, same in alike)
        sources.append(f"{first}(?:{'|'.join(branches)})")
    return "|".join(sources), [row for *_, row in places]


def _probes(mark: str) -> set[str]:
    """One of these is in every text that holds the mark."""
    first = SHAPES.get(mark, mark)[0]
    return {mark} if mark in SHAPES and mark.isalpha() else {first.lower(), first.upper()}


CALL = re.compile(_search(Row(mark, "token") for mark in CALLS)[0])


class Finder:
    """All patterns for one set of rows."""

    def __init__(self, blocks: Sequence[Block], turns: Sequence[str]) -> None:
        opens = (
            Row(mark, "open", each) for each in blocks for mark in each.opens if mark in SHAPES or not each.is_leading
        )
        closes = (Row(mark, "close", each) for each in blocks for mark in each.closes)
        others = [*(Row(mark, "turn") for mark in turns), *(Row(mark, "other turn") for mark in OTHER_TURNS)]
        others.append(Row("<|…|>", "token"))
        source, self.rows = _search([*opens, *closes, *others])
        self.in_text = re.compile(f"{source}|{BEGIN.pattern}", re.DOTALL)
        # In no group, what decides where a broken object ends.
        self.in_object = re.compile(rf'{source}|["{{}}]|\\["\\]', re.DOTALL)
        self.tokens = re.compile(_search(others)[0])
        closing = {block: [Row(mark, "close") for mark in block.closes + block.closes_only_opened] for block in blocks}
        self.closing = {block: re.compile(_search(rows)[0]) for block, rows in closing.items()}
        # Where text around an object holds none of them, it holds no mark, nor another object.
        self.probes = {"{"}.union(*(_probes(row.mark) for row in self.rows))
        wrappers = (f"<{slash}{tag}>" for tag in WRAPPERS for slash in ("", "/"))
        marks = (*(row.mark for row in self.rows if not row.mark[0].isalnum()), *wrappers, *CALLS)
        alike = (text for mark in marks for text in (mark.lower(), mark.lower().replace(" ", "")))
        self.cut_marks = {text[:length] for text in alike for length in range(3, len(text))}


@dataclass(frozen=True, slots=True)
class Marks:
    """The marks of your own model, beside the built-in tables. Make it once, and pass it as `marks=`.

    Args:
        reasoning: pairs of an opening and a closing mark of reasoning.
        turns: marks that end a turn or begin the next one.

    Raises:
        ValueError: a mark is shorter than two characters, or has blanks at its ends.
        TypeError: anything else is not as above.

    The marks are matched as the built-in ones are. Upper and lower case are the same, and a tag may have attributes. An
    opening mark counts at the beginning of a line; in a sentence it counts only if a mark behind it closes it.

    >>> Marks(reasoning=[("<ponder>", "</ponder>")], turns=["<|my_end|>"]).turns
    ('<|my_end|>',)
    """

    reasoning: Iterable[tuple[str, str]] = ()
    turns: Iterable[str] = ()
    finder: Finder = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        pairs = tuple(_pair(f"reasoning[{n}]", each) for n, each in enumerate(entries(self.reasoning, "reasoning")))
        turns = tuple(_mark(f"turns[{n}]", each) for n, each in enumerate(entries(self.turns, "turns")))
        # One's own come first. An opening mark that was there already is closed as before, too.
        blocks = [*REASONING]
        for opening, closing in pairs:
            known = next((each for each in blocks if opening.lower() in map(str.lower, each.opens)), Block(()))
            blocks.insert(0, known._replace(opens=(opening,), closes=(closing, *known.closes), is_leading=False))
        object.__setattr__(self, "reasoning", pairs)
        object.__setattr__(self, "turns", turns)
        object.__setattr__(self, "finder", Finder(blocks, (*turns, *TURNS)))

    def __reduce__(self) -> tuple[type["Marks"], tuple[object, ...]]:
        return Marks, (self.reasoning, self.turns)


def _pair(name: str, pair: tuple[str, str]) -> tuple[str, str]:
    is_pair = isinstance(pair, (tuple, list)) and len(pair) == 2
    require(is_pair, name, "a pair of an opening and a closing mark", pair)
    return _mark(f"{name}[0]", pair[0]), _mark(f"{name}[1]", pair[1])


def _mark(name: str, mark: str) -> str:
    require(is_a(mark, str), name, "a str", mark)
    mark = str.__str__(mark)
    if len(mark) < 2 or mark.strip(BLANKS) != mark:
        raise ValueError(f"{name} must have two characters or more, and no blanks at its ends; it is {shown(mark)}")
    return mark


MARKS = Marks()
