"""The marks that models put around an answer. A model's new mark is one new row; all search is made from the rows."""

import re
from collections.abc import Iterable, Iterator, Sequence
from typing import Literal, NamedTuple


class Block(NamedTuple):
    """One way to mark reasoning: any of its closing marks closes any of its opening marks."""

    opens: tuple[str, ...]
    closes: tuple[str, ...]  # where nothing is open, they end reasoning that began before the reply did
    closes_only_opened: tuple[str, ...] = ()  # where nothing is open, they mean nothing
    in_sentence: bool = False  # whether an opening mark counts in the middle of a line as well


_TAGS = (
    *("think", "thinking", "thought", "thoughts", "thought_process"),
    *("reasoning", "reflection", "analysis", "scratchpad", "seed:think"),
)

# Marks are written as models write them, and matched in any case. A tag may carry attributes, and blanks before its
# `>`; a row with an attribute needs that one. A bare word opens at the very start alone, directly before a capital.
REASONING = (
    Block(tuple(f"<{tag}>" for tag in _TAGS), tuple(f"</{tag}>" for tag in _TAGS)),
    Block(("[THINK]",), ("[/THINK]",)),
    Block(("◁think▷",), ("◁/think▷",)),
    Block(("<|START_THINKING|>",), ("<|END_THINKING|>",)),
    Block(("<|begin_of_thought|>",), ("<|end_of_thought|>",)),
    Block(('<details type="reasoning">',), (), ("</details>",)),
    Block(("<|channel|>analysis", "<|channel|>commentary"), ("<|channel|>final",), ("<|end|>",), in_sentence=True),
    Block(("analysis",), ("assistantfinal",)),
    Block(("<|channel>thought",), ("<channel|>",)),
)

# They end a turn or begin the next one. `<|end|>` is none of them: gpt-oss ends a channel with it, not a turn.
TURNS = (
    *("<|im_end|>", "<|eot_id|>", "<|eom_id|>", "<|endoftext|>", "<|end_of_text|>", "<|END_OF_TURN_TOKEN|>"),
    *("<｜end▁of▁sentence｜>", "<end_of_turn>", "[|endofturn|]", "<eos>", "<|return|>", "</s>"),
    *("<|im_start|>", "<|start_header_id|>", "<start_of_turn>", "<|user|>", "<｜User｜>", "[INST]"),
    *("<turn|>", "<|turn>"),  # Gemma 4
)

# No marks, but what may stand before one on its line, and goes from plain text: what else begins a reply, the tokens
# that begin a header, and the words of one.
_BEGINNINGS = ("<s>", "<bos>")
_HEADERS = ("<|im_start|>", "<|start_header_id|>", "<start_of_turn>", "<|turn>", "<|start|>", "<|constrain|>")
_HEADER_WORDS = ("assistant", "developer", "json", "model", "system", "tool", "user")

# What str.strip() trims, U+FEFF, which JavaScript's trim() adds, and U+200B and U+2060, as invisible as those.
BLANKS = (
    "\t\n\v\f\r\x1c\x1d\x1e\x1f \x85\xa0\u1680\u2000\u2001\u2002\u2003\u2004\u2005\u2006\u2007\u2008\u2009\u200a"
    "\u2028\u2029\u202f\u205f\u3000\ufeff\u200b\u2060"
)

# How far around a mark the reply is read: back to the beginning of its line, and on to the end of a tag. Without an
# end, many marks would cost the length of the reply each. A role header or a tag takes some 40 characters.
_REACH = 256


class Mark(NamedTuple):
    """A row as it is looked for: its literal head, and the pattern of what follows that in a tag."""

    head: str
    tail: str
    kind: Literal["open", "close", "turn"]
    block: Block


class Found(NamedTuple):
    """A mark, and where it stands in a reply."""

    start: int
    end: int
    mark: Mark


class Finder:
    """One pattern for several marks. Its groups, one for each, tell which of them was found."""

    def __init__(self, marks: Sequence[Mark], others: str = "") -> None:
        tree, self._marks = _tree(marks, 0)
        self.pattern = re.compile(others + tree, re.DOTALL)

    def find(self, reply: str, start: int, end: int) -> Iterator[Found]:
        """The marks that begin from start to end, in order."""
        for match in self.pattern.finditer(reply, start, end + _REACH):
            if match.start() >= end:
                return
            yield self.located(match)

    def located(self, match: re.Match[str]) -> Found:
        """The mark that a match of the pattern found."""
        return Found(match.start(), match.end(), _of_group(self._marks, match))


class Marks:
    """The tables, made ready for search.

    The regex engine skips to a pattern's first character as fast as memory allows, where that is a literal that has
    no case and no group stands in front. So there is a finder for each first character.
    """

    def __init__(self, blocks: Sequence[Block], turns: Sequence[str]) -> None:
        marks = [*_rows(blocks), *(Mark(*_head_and_tail(turn), "turn", Block((), ())) for turn in turns)]
        self._probes = sorted({probe for mark in marks for probe in _probes(mark.head)})
        self._finders = [(p, Finder([mark for mark in marks if p in _probes(mark.head)])) for p in self._probes]
        self._words = [Mark(word, "", "open", block) for block in blocks for word in block.opens if word.isalpha()]
        self._leading = re.compile("|".join(f"((?i:{word.head}))" for word in self._words) or "(?!)")
        self._closing = {block: _any_case(_any_of(block.closes + block.closes_only_opened)) for block in blocks}
        token = rf"(?:<[|｜][^<>|｜\s]{{1,64}}[|｜]>|{_any_of(turns)})"
        beginning = f"[{BLANKS}]*(?:{_any_of(_BEGINNINGS)})"
        words = f"(?:{'|'.join(_HEADER_WORDS)})"
        self._token = _any_case(rf"(?:{_any_of(_HEADERS)}){words}(?=[^\S\n]*(?:[\n<]|\Z))|{token}|\A{beginning}")
        self._line_start = _any_case(rf"(?:{beginning})?(?:[{BLANKS}]|{token}{words}?)*+")
        # In no group, what decides where a broken object ends. A tag's attributes are looked at and not passed over, as
        # what looks like them may be the object's braces and quotes, and the tag no mark.
        self.structure = Finder([mark._replace(tail=f"(?={mark.tail})") for mark in marks], r'["{}]|\\["\\]|')

    def may_stand_in(self, text: str) -> bool:
        """Whether the text can hold a mark at all."""
        for probe in self._probes:
            if probe in text:
                return True
        return self._leading.match(text) is not None

    def find(self, reply: str, start: int, end: int) -> list[Found]:
        """All marks from start to end, in order."""
        text = reply[start:end]
        found: list[Found] = []
        for probe, finder in self._finders:
            if probe in text:
                found.extend(finder.find(reply, start, end))
        found.sort()
        return found

    def leading(self, reply: str) -> Found | None:
        """The bare word that opens a block at the very start."""
        match = self._leading.match(reply)
        if not match or not reply[match.end() : match.end() + 1].isupper():
            return None
        return Found(0, match.end(), _of_group(self._words, match))

    def is_mark(self, found: Found, reply: str, since: int) -> bool:
        """Whether a mark is one, and no word in a sentence; `since` is where the last object, block or turn ended."""
        if found.mark.kind != "open" or found.mark.block.in_sentence:
            return True
        line = max(since, reply.rfind("\n", max(since, found.start - _REACH), found.start) + 1)
        if found.start - line > _REACH:
            return False
        return line == found.start or self._line_start.fullmatch(reply, line, found.start) is not None

    def block_end(self, opened: Found, reply: str) -> int:
        """Where an opened block is closed, which is the end of the reply where it never is."""
        closing = self._closing[opened.mark.block].search(reply, opened.end)
        return closing.end() if closing else len(reply)

    def token_end(self, reply: str, start: int) -> int:
        """Where the special token at start ends, with the role that a header names."""
        token = self._token.match(reply, start)
        return token.end() if token else start

    def without_tokens(self, text: str) -> str:
        """The text less its special tokens, with the roles that headers name."""
        return self._token.sub("", text)


def _of_group(marks: Sequence[Mark], match: re.Match[str]) -> Mark:
    assert match.lastindex  # each mark has a group of its own
    return marks[match.lastindex - 1]


def _rows(blocks: Iterable[Block]) -> Iterator[Mark]:
    for block in blocks:
        yield from (Mark(*_head_and_tail(text), "open", block) for text in block.opens if not text.isalpha())
        yield from (Mark(*_head_and_tail(text), "close", block) for text in block.closes)


def _head_and_tail(text: str) -> tuple[str, str]:
    tag = re.fullmatch(r'(</?[\w:]+)(?: (\w+)="(\w+)")?>', text)
    if not tag:
        return text, ""
    head, attribute, value = tag.groups()
    if not attribute:
        return head, r"(?:\s[^<>]*+)?(?<!/)>"
    return head, rf"(?=\s(?:[^<>]*?\s)?{attribute}\s*=\s*[\"']?{value}[\"'\s>])\s[^<>]*+(?<!/)>"


def _probes(head: str) -> tuple[str, ...]:
    # What a reply must hold to hold the mark. No reply lacks a letter, so a word is its own probe; in mixed case it is
    # found only where it closes an opened block.
    return (head.lower(), head.upper()) if head.isalpha() else (head[0],)


def _tree(marks: Sequence[Mark], depth: int) -> tuple[str, list[Mark]]:
    """One pattern for marks that are alike in their first characters, and the marks in the order of its groups."""
    # A tree, as marks share beginnings: flat alternatives take four times as long on HTML, two levels twice.
    if len({mark.head.lower() for mark in marks}) == 1:
        leaves = "|".join(f"((?i:{re.escape(mark.head[depth:])}{mark.tail}))" for mark in marks)
        return f"(?:{leaves})", [*marks]
    branches: dict[str, list[Mark]] = {}
    for mark in marks:
        branches.setdefault(mark.head[depth : depth + 1].lower(), []).append(mark)
    trees = [(_set(char), *_tree(branch, depth + 1)) for char, branch in branches.items()]
    tree = "|".join(char + source for char, source, _ in trees)
    look = _look(marks) if depth == 1 else ""  # behind the first character, which the engine has skipped to
    return look + (tree if len(trees) == 1 else f"(?:{tree})"), [mark for *_, branch in trees for mark in branch]


def _look(marks: Iterable[Mark]) -> str:
    """A look at those characters behind the first that all marks have: it rules most other text out at once."""
    columns = zip(*(mark.head[1:] for mark in marks), strict=False)
    return f"(?={''.join(_set(''.join(column)) for column in columns)})"


def _set(chars: str) -> str:
    # Both cases in place of a flag: the engine looks ahead into a branch only where no case is to be ignored.
    both = "".join(sorted({*chars.lower(), *chars.upper()}))
    return f"[{re.escape(both)}]" if both else ""


def _any_of(texts: Iterable[str]) -> str:
    return "|".join(re.escape(head) + tail for head, tail in map(_head_and_tail, texts))


def _any_case(pattern: str) -> re.Pattern[str]:
    return re.compile(pattern, re.IGNORECASE | re.DOTALL)


MARKS = Marks(REASONING, TURNS)
