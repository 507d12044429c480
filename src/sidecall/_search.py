"""What is looked for in a reply: patterns made from the tables of marks, and of where an object begins."""

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import groupby
from string import ascii_letters
from typing import Literal, NamedTuple, TypeAlias, final

from ._marks import BEGINNINGS, BLANKS, CALLS, OTHER_TURNS, REASONING, TURNS, WRAPPERS, Block
from ._types import is_a, type_name

MarkKind: TypeAlias = Literal["open", "close", "turn", "other turn", "token"]

BLANK = f"[{re.escape(BLANKS)}]*+"
# What may stand between the tokens of an object that is begun: marks of direction and other invisible ones as well.
_SPACE = f"[{re.escape(BLANKS)}\u00ad\u061c\u180e\u200c-\u200f\u202a-\u202e\u2061-\u206f]*+"

# A thinking tag is a rule, as makers join what they like to the word: `<seed:think>`, `<ifm|think_fast>`,
# `<think:6124c78e>`. `_` joins from behind only where something is joined in front: `<think_tank>` is no such tag.
_THINK = r"think(?:ing)?(?:[:|][^\s<>/]*)?"
_JOINED = (
    r"(?=[a-zA-Z0-9]*+(?:[:_|.-]|[^\x00-\x7f]))"  # rules most tags of HTML out
    r"(?i:[\w.-][\w.:|-]{0,64}?[:_|](?<![<:_|/]no_)think(?:ing)?(?:[:_|][^\s<>/]{0,64})?)"
)
_TAG = re.compile(r'<(/?)([a-zA-Z][\w:]*)(?: (\w+)="(\w+)")?>')
_TAG_END = r"(?:\s[^<>]*+)?(?<!/)>"

# A special token has no blanks in it: `<| x |>` is an operator.
_TOKEN = r"<[|｜][^<>{}|｜\s]{1,64}[|｜]>"

# A token that names a role begins its turn, or ends it. A call is the assistant's, whatever tool it names. A token that
# names the model heads a message of its turn.
_OTHER_ROLES = "user|human|system|developer|observation|environment|ipython|tool_response|tools?"
_OWN_ROLES = "assistant|chatbot|bot|model|ai"
_NAMES = r"[<\[][|｜](?!.*(?:call|invoke|list|request|prefix|sep))(?:.*[^a-z])?(?:{})(?:[^a-z].*)?[|｜][>\]]"
OTHER_TURN = re.compile(rf"(?!.*(?:end|/)){_NAMES.format(_OTHER_ROLES)}", re.IGNORECASE)
TURN = re.compile(_NAMES.format(f"{_OTHER_ROLES}|assistant|chatbot|bot|eos|eot"), re.IGNORECASE)
OWN_MESSAGE = re.compile(_NAMES.format("model"), re.IGNORECASE)

# A role belongs to the token in front of it. Behind most tokens an answer may begin with the name of one, so it counts
# in lower case, and where nothing else stands on its line. Behind a token that begins a header nothing but a role can
# stand, and the words up to the token that ends it are the header's. The first group is the role where it is not the
# assistant's, the second where it is.
_INLINE = r"[^\S\n]*"
_ENDS = r"<\|(?:message|sep|im_sep|im_middle|end_header_id|header_end|end_of_role|role_sep|im:content|plamo:msg)\|>"
ROLE = re.compile(rf"(?:(?:({_OTHER_ROLES})|({_OWN_ROLES}))(?={_INLINE}(?:[\n<\[{{◁]|\Z)))?")
HEADER = re.compile(
    rf"(?:{_INLINE}(?:message role=\")?(?:({_OTHER_ROLES}|function)|({_OWN_ROLES}))\b(?:{_INLINE}\w+=[^\n<]*(?=\n))?)?"
    rf"(?:<\|role_end\|>|(?!{_INLINE}to=self<)[^\n<>{{}}\[\]]{{1,64}}(?={_ENDS}))?",
    re.IGNORECASE,
)
HEADER_START = re.compile(
    r"<\|(?:im_|im:|header_|role_)?start(?:_header_id|_of_role)?\|>|<\|(?:begin|plamo:tag)\|>|<start_of_turn>|<\|turn>"
    r"|<\|(?:channel|constrain|open|close)\|>.*"
    r"|\]~b\]|<seed:bos>|<beginning_of_sentence>",
    re.IGNORECASE,
)

# Letters of the scripts that have capitals: the words that gpt-oss leaves are no part of a longer word.
_LETTERS = [char for char in map(chr, range(0x590)) if char.isalpha()]
_CAPITAL, _SMALL = ("".join(filter(is_kind, _LETTERS)) for is_kind in (str.isupper, str.islower))

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


# How many characters of marks are compared one by one. More do not help: other text has been ruled out by then.
_SHARED = 3


class Row(NamedTuple):
    """A mark, what it is, and its pattern where that is not made from its text."""

    mark: str
    kind: MarkKind
    block: Block = Block((), ())
    pattern: str = ""


def _any_case(char: str) -> str:
    cases = {char.lower(), char.upper()}
    return re.escape(char) if len(cases) == 1 else f"[{''.join(case for case in sorted(cases) if len(case) == 1)}]"


def _tail(mark: str, start: int) -> str:
    """The pattern of a mark from its character `start` on."""
    tag = _TAG.fullmatch(mark)
    if not tag:
        return f"(?i:{re.escape(mark[start:])})".replace(r"\ ", r"\s*")
    slash, name, attribute, value = tag.groups()
    rest = f"<{slash}{_THINK if name == 'think' else name}"[start:]
    if not attribute:
        return f"(?i:{rest}){_TAG_END}"
    return rf"(?i:{rest}(?=\s(?:[^<>]*?\s)?{attribute}\s*=\s*[\"']?{value}[\"'\s>]))\s[^<>]*+(?<!/)>"


def _rows(kind: MarkKind, block: Block, marks: Iterable[str]) -> Iterator[Row]:
    for mark in marks:
        if not block.is_leading:
            yield Row(mark, kind, block)
        elif kind == "close":
            yield Row(mark, kind, block, rf"{mark}(?<![{_CAPITAL}{_SMALL}]{mark})(?:(?=json)|(?![{_SMALL}]))")
        elif not mark.isalpha():
            yield Row(mark, kind, block, f"{_TOKEN}(?:{_OTHER_ROLES}|{_OWN_ROLES})?{BLANK}{re.escape(mark)}")
        if mark in ("<think>", "</think>"):
            yield Row(mark, kind, block, f"{mark.removesuffix('think>')}{_JOINED}{_TAG_END}")


def _first(row: Row) -> str:
    return row.pattern[0] if row.pattern else _any_case(row.mark[0])


def _place(row: Row) -> tuple[object, ...]:
    # Among patterns the longest first, as a header begins with what is a token by itself.
    return _first(row), bool(row.pattern), -len(row.pattern), row.mark[1:_SHARED].lower(), -len(row.mark)


def _search(rows: Iterable[Row]) -> tuple[str, list[Row]]:
    """One pattern for all rows, and the rows in the order of its groups: an empty one behind each tells it apart.

    The regex engine skips to the first characters, and rules an alternative out by its first character alone. So marks
    that share their first characters stand together, long ones first.
    """
    order = sorted(rows, key=_place)
    sources = []
    for first, group in groupby(order, key=_first):
        alike = [*group]
        texts = [row for row in alike if not row.pattern]
        branches = [*_texts(texts, 1), *(f"{row.pattern[1:]}()" for row in alike if row.pattern)]
        sources.append(f"{first}{_guard(texts)}(?:{'|'.join(branches)})")
    return "|".join(sources), order


def _guard(rows: list[Row]) -> str:
    """A look that rules out the tags of one letter that are not marks: most of HTML's, and two thirds of its cost."""
    names = {name[1].lower() for row in rows if (name := re.match(r"</?([a-zA-Z])\b", row.mark))}
    letters = "".join(char for char in ascii_letters if char.lower() not in names)
    return f"(?!/?[{letters}][\\s>])" if names else ""


def _texts(rows: list[Row], depth: int) -> list[str]:
    """The alternatives behind the first characters of rows that share those, and are in order."""
    if depth >= min((_SHARED, *(len(row.mark.rstrip(">")) for row in rows))):
        return [f"{_tail(row.mark, depth)}()" for row in rows]
    groups = groupby(rows, key=lambda row: row.mark[depth].lower())
    return [f"{_any_case(char)}(?:{'|'.join(_texts([*alike], depth + 1))})" for char, alike in groups]


class Finder:
    """All patterns for one set of rows."""

    def __init__(self, blocks: Sequence[Block], turns: Sequence[str]) -> None:
        turn_rows = [*(Row(mark, "turn") for mark in turns), *(Row(mark, "other turn") for mark in OTHER_TURNS)]
        turn_rows.append(Row("<", "token", pattern=_TOKEN))
        opens = [row for block in blocks for row in _rows("open", block, block.opens)]
        closes = [row for block in blocks for row in _rows("close", block, block.closes)]
        source, self.rows = _search([*opens, *closes, *turn_rows])
        self.in_text = re.compile(f"{source}|{BEGIN.pattern}", re.DOTALL)
        # In no group, what decides where a broken object ends.
        self.in_object = re.compile(rf'{source}|["{{}}]|\\["\\]')
        self.tokens = re.compile(_search(turn_rows)[0])
        self.closing = {block: re.compile(_closing(block)) for block in blocks}
        # Where text around an object holds none of them, it holds no mark, nor another object.
        self.probes = tuple({"{", *(probe for row in self.rows for probe in _probes(row))})
        wrappers = (f"<{slash}{tag}>" for tag in WRAPPERS for slash in ("", "/"))
        marks = (*(row.mark for row in self.rows if not row.mark[0].isalnum()), *wrappers, *CALLS)
        cut = {mark[:length].lower() for mark in marks for length in range(3, len(mark))}
        self.cut_marks = cut | {mark.replace(" ", "") for mark in cut}


def _closing(block: Block) -> str:
    only_opened = [Row(mark, "close") for mark in block.closes_only_opened]
    return _search([*_rows("close", block, block.closes), *only_opened])[0]


def _probes(row: Row) -> tuple[str, ...]:
    if row.block.is_leading:
        return (row.mark if row.mark.isalpha() else "<",)
    return row.mark[0].lower(), row.mark[0].upper()


_BEGINNINGS = "|".join(map(re.escape, BEGINNINGS))
LINE_START = re.compile(rf"(?:[{re.escape(BLANKS)}]|{_BEGINNINGS})*+", re.IGNORECASE)

# What a reply may begin with: tokens that are plain text elsewhere, and a header whose token was in the prompt.
BEGINNING = re.compile(
    rf"(?:{BLANK}(?:{_BEGINNINGS}))*(?:{BLANK}(?:to=(?!self<)[\w.-]+|{_OWN_ROLES})(?={_ENDS}))?", re.IGNORECASE
)
_LEADING = [(mark, block) for block in REASONING if block.is_leading for mark in block.opens]
LEADING_BLOCKS = [block for _, block in _LEADING]
LEADING = re.compile(
    "|".join(f"{BLANK}(?i:{re.escape(mark)}){f'(?=[{_CAPITAL}])' if mark.isalpha() else ''}()" for mark, _ in _LEADING)
)
_NAMED_CALL = (
    r"<(?![^<>\s]*(?:/|end))(?=[^<>\s]*+>)[|｜]?(?i:(?:[^<>\s]*[^a-z<>\s])?(?:tool|function)[_▁]calls?(?![a-z])[^<>\s]*>)"
    r"|<function\s+name="
)
CALL = re.compile(f"{_search([Row(mark, 'token') for mark in CALLS])[0]}|{_NAMED_CALL}")


@final
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
        pairs = [_pair(pair, f"reasoning[{n}]") for n, pair in enumerate(_entries(self.reasoning, "reasoning"))]
        turns = [_mark(mark, f"turns[{n}]") for n, mark in enumerate(_entries(self.turns, "turns"))]
        # One's own come first. An opening mark that was there already is closed as before, too.
        own: dict[str, Block] = {}
        for opening, closing in pairs:
            alike = (block for block in (*own.values(), *REASONING) if opening.lower() in map(str.lower, block.opens))
            known = next(alike, Block(()))
            own[opening.lower()] = known._replace(opens=(opening,), closes=(closing, *known.closes), is_leading=False)
        object.__setattr__(self, "reasoning", tuple(pairs))
        object.__setattr__(self, "turns", tuple(turns))
        object.__setattr__(self, "finder", Finder((*own.values(), *REASONING), (*turns, *TURNS)))

    def __reduce__(self) -> tuple[type["Marks"], tuple[object, ...]]:
        return Marks, (self.reasoning, self.turns)


def _entries(value: object, name: str) -> Iterable[object]:
    if is_a(value, str) or not isinstance(value, Iterable):
        raise TypeError(f"{name} must be an iterable, and not a str; it is of type {type_name(value)}")
    return value


def _pair(value: object, name: str) -> tuple[str, str]:
    if not isinstance(value, (tuple, list)) or len(value) != 2:
        raise TypeError(f"{name} must be a pair of an opening and a closing mark; it is of type {type_name(value)}")
    return _mark(value[0], f"{name}[0]"), _mark(value[1], f"{name}[1]")


def _mark(value: object, name: str) -> str:
    if not is_a(value, str):
        raise TypeError(f"{name} must be a str; it is of type {type_name(value)}")
    mark = str.__str__(value)
    if len(mark) < 2 or mark.strip(BLANKS) != mark:
        raise ValueError(
            f"{name} must have at least 2 characters, and no blanks at its ends; it has {len(mark)} characters"
        )
    return mark


MARKS = Marks()
