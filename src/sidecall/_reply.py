"""Takes a reply apart: what of it is the answer, and which JSON objects stand in it."""

import json
import re
from typing import Any, Literal, NoReturn, TypeAlias

from ._marks import BLANKS, WRAPPERS, Block
from ._search import (
    BEGIN,
    BEGINNING,
    CALL,
    HEADER,
    HEADER_START,
    LEADING,
    LEADING_BLOCKS,
    LINE_START,
    OTHER_TURN,
    OWN_MESSAGE,
    ROLE,
    TURN,
    Finder,
)

Kind: TypeAlias = Literal["text", "object", "broken", "token", "own header", "turn", "other turn", "close", "block"]

# A stretch of a reply, from start to end, and the value of a valid object. No part is made of reasoning.
Part: TypeAlias = tuple[Kind, int, int, dict[str, Any] | None]

# They stand in a turn, and neither end it nor begin one.
_TOKENS = ("token", "own header")

# Where a mark in a string ends a broken object, the decoder has read beyond it, up to the end of the reply, and that
# text is read again. Marks in the keys of nested objects ask for it at every level, so after this many, more than any
# real reply has, an object is read as far as its end is known without the decoder: one that holds a mark is broken.
_MAX_CUTS = 16

# The removal of a token may join another one. Nobody nests them this deep in good faith.
_MAX_NESTED = 16

# Half a mark is looked for up to this length, which no built-in mark has.
_LONGEST_MARK = 64

_CUT_TOKEN = re.compile(r"<[|｜][^<>\s]*\Z|</?(?:[\w.|:-]{0,64}[:_|])?think(?:ing)?(?:[\s:|_][^<>]*)?\Z", re.IGNORECASE)
_WRAPPER = re.compile(
    rf"<({'|'.join(WRAPPERS)})(?:\s[^<>]*)?>((?:(?!</?\1[\s>]).)*+)(?:</\1\s*>)?", re.IGNORECASE | re.DOTALL
)


class _Document(str):
    """Text whose decode errors cost the same wherever they stand.

    `JSONDecodeError` counts the lines before its position, which makes the time for many broken objects quadratic.
    Nobody reads that count here.
    """

    __slots__ = ()

    def count(self, *_: object) -> int:
        return 0

    def rfind(self, *_: object) -> int:
        return 0


def _refuse(constant: str) -> NoReturn:
    raise ValueError(constant)


# Raw control characters in a string have one reading, and real models write line breaks so. NaN, Infinity and
# -Infinity are Python's, not JSON's. One decoder for all: making one takes longer than its work.
_raw_decode = json.JSONDecoder(strict=False, parse_constant=_refuse).raw_decode


def answer(reply: str, finder: Finder) -> list[Part]:
    """The parts of the answer, in order: what is left without reasoning, and without the turns that follow."""
    return _plain_span(reply, finder) or _of_lists(reply, _of_turns(reply, _Scan(reply, finder).parts()))


def text_of(reply: str, parts: list[Part], finder: Finder) -> str:
    """The answer as text, up to the call of a tool, without tokens but in objects, and without a wrapper."""
    texts: list[str] = []
    stretch: list[str] = []  # joined at once, as there may be many
    end = 0
    shown_end = len(_without_cut_mark(reply, finder))
    for kind, start, end, _ in parts:
        if kind == "text":
            stretch.append(reply[start : min(end, shown_end)])
        elif kind in ("object", "broken"):
            texts += [_shown("".join(stretch), finder), reply[start:end]]
            stretch.clear()
        elif CALL.match(reply, start):
            end = 0
            break
    text = _shown("".join(stretch), finder)
    if end == len(reply):
        text = _without_cut_mark(text, finder)  # the removal of a token may join half a mark
    text = "".join((*texts, text)).strip(BLANKS)
    wrapper = _WRAPPER.fullmatch(text)
    return wrapper[2].strip(BLANKS) if wrapper else text


def _shown(text: str, finder: Finder) -> str:
    """The text up to the call of a tool, without tokens, and without those that their removal joins."""
    for _ in range(_MAX_NESTED):
        call = CALL.search(text)
        text, count = finder.tokens.subn("", text[: call.start()] if call else text)
        if not count:
            return text
    return ""


def _without_cut_mark(text: str, finder: Finder) -> str:
    for length in range(_LONGEST_MARK, 2, -1):
        if text[-length:].lower() in finder.cut_marks:
            return text[:-length]
    cut = _CUT_TOKEN.search(text, text.rfind("<"))
    return text[: cut.start()] if cut else text


def _plain_span(reply: str, finder: Finder) -> list[Part]:
    """The parts of a reply that is one object in plain text, as most replies are, at half the cost of a scan."""
    start, end = reply.find("{"), reply.rfind("}") + 1
    if not 0 <= start < end:
        return []
    around = reply[:start] + reply[end:]
    for probe in finder.probes if around else ():
        if probe in around:
            return []
    if LEADING.match(around):
        return []
    value, value_end = _decode(reply, start)
    if value is None or value_end != end:
        return []
    return [("text", 0, start, None), ("object", start, end, value), ("text", end, len(reply), None)]


def _of_turns(reply: str, parts: list[Part]) -> list[Part]:
    """The parts of the answer: marks of turns end it, and a closing mark that closes nothing begins it anew."""
    if {part[0] for part in parts} <= {"text", "object", "broken", "token"}:
        return parts
    kept: list[Part] = []
    seen: set[str] = set()  # the kinds of what is kept
    only_text = 0  # so many parts are the answer, if no object follows
    is_ended = is_skipped = is_behind_token = False
    for part in parts:
        kind, start, end, _ = part
        is_blank = kind == "text" and not reply[start:end].strip(BLANKS)
        if kind in ("turn", "other turn"):
            is_skipped = kind == "other turn"
            is_ended = is_ended or bool(seen & {"object", "broken"} or (is_skipped and seen))
            only_text = only_text or (len(kept) if seen else 0)
        elif kind == "own header":
            is_skipped = False
        elif kind == "close" and not (is_behind_token and (is_ended or is_skipped or only_text)):
            kept, seen, only_text, is_ended, is_skipped = [], set(), 0, False, False
        elif kind != "close" and not (is_ended or is_skipped):
            kept.append(part)
            seen |= set() if is_blank or kind == "token" else {kind}
            only_text = 0 if kind in ("object", "broken") else only_text
        is_behind_token = kind in (*_TOKENS, "turn", "other turn") or (
            is_behind_token and (is_blank or kind == "close")
        )
    return kept[: only_text or None]


def _of_lists(reply: str, parts: list[Part]) -> list[Part]:
    """The parts, where no entry of a list that has a broken one is a candidate: there was a choice, now unknown."""
    if "broken" not in {part[0] for part in parts}:
        return parts
    shape = ""
    depth = 0  # of brackets
    for kind, start, end, _ in parts:
        text = reply[start:end].strip(BLANKS) if kind == "text" else ""
        outside = depth == 0
        for bracket in re.findall(r"[\[\]]", text):
            depth = max(0, depth + (1 if bracket == "[" else -1))
        in_list = "t" if depth == 0 else "[" if outside else ";"
        shape += kind[0] if kind != "text" else {"": "_", ",": ","}.get(text, in_list)
    for found in re.finditer(r"(?<=\[)[ob,;_]*", shape):
        if re.search("o_*,_*b|b_*,_*o", found[0]):
            for index in range(*found.span()):
                kind, start, end, _ = parts[index]
                parts[index] = ("broken" if kind == "object" else kind, start, end, None)
    return parts


class _Scan:
    """One pass over a reply. What stands before `pos` is in the parts, or dropped."""

    def __init__(self, reply: str, finder: Finder) -> None:
        self._reply = reply
        self._document = _Document(reply)
        self._finder = finder
        self._parts: list[Part] = []
        self._pos = 0
        self._line = 0  # from here on the line is looked at: behind its beginning, or what counts as one
        self._unclosed: set[Block] = set()  # nothing closes them in the rest of the reply
        self._cuts = 0  # broken objects that ended at a mark

    def parts(self) -> list[Part]:
        """All parts, in order."""
        beginning = BEGINNING.match(self._reply)
        at = beginning.end() if beginning else 0
        if (opened := LEADING.match(self._reply, at)) and opened.lastindex:
            at = self._closed(LEADING_BLOCKS[opened.lastindex - 1], opened.end()) or len(self._reply)
        self._pos = self._line = at
        while found := self._finder.in_text.search(self._reply, at):
            at = self._mark(found) if found.lastindex else self._object(found.start())
        self._text(len(self._reply))
        return self._parts

    def _closed(self, block: Block, start: int) -> int | None:
        """Where a block that is opened before start is closed. Asked once a block, where it never is."""
        closing = None if block in self._unclosed else self._finder.closing[block].search(self._reply, start)
        if closing:
            return closing.end()
        self._unclosed.add(block)
        return None

    def _put(self, kind: Kind, start: int, end: int, value: dict[str, Any] | None = None) -> int:
        self._parts.append((kind, start, end, value))
        self._pos = self._line = end
        return end

    def _text(self, end: int, *, is_end: bool = False) -> None:
        """The text up to end, and where the reply or a turn ends there, an object that is left open."""
        if self._pos == end:
            return
        line = self._line
        left_open = BEGIN.search(self._reply, self._pos, end) if is_end else None
        text_end = left_open.start() if left_open else end
        if self._pos < text_end:
            self._put("text", self._pos, text_end)
        if left_open:
            self._put("broken", text_end, end)
        self._line = line

    def _begins_line(self, start: int) -> bool:
        """Whether nothing but blanks stands on the line before start."""
        self._line = max(self._line, self._reply.rfind("\n", self._line, start) + 1)
        if LINE_START.fullmatch(self._reply, self._line, start):
            return True
        self._line = start  # nothing before it is looked at again, and what stands here is no blank
        return False

    def _judged(self, found: re.Match[str]) -> tuple[Kind, int] | None:
        """What a mark is where it stands, and its end; `None` for a word in a sentence."""
        assert found.lastindex
        row = self._finder.rows[found.lastindex - 1]
        if row.kind == "open":
            end = self._closed(row.block, found.end())
            if end is None and not row.block.is_no_word and not self._begins_line(found.start()):
                return None
            return "block", len(self._reply) if end is None else end
        pattern = HEADER if HEADER_START.fullmatch(found[0]) else ROLE
        header = pattern.match(self._reply, found.end())
        assert header  # it may be empty
        if row.kind == "close":
            return "close", header.end() if found[0].startswith("<|") and not header[1] else found.end()
        if header[1] or row.kind == "other turn" or OTHER_TURN.fullmatch(found[0]):
            return "other turn", header.end()
        if row.kind == "turn" or TURN.fullmatch(found[0]):
            return "turn", header.end()
        if self._begins_line(found.start()):
            self._line = header.end()
        return "own header" if header[2] or OWN_MESSAGE.fullmatch(found[0]) else "token", header.end()

    def _mark(self, found: re.Match[str]) -> int:
        """Adds the parts of a mark, and gives the position to go on from."""
        judged = self._judged(found)
        if not judged:
            return found.start() + 1
        kind, end = judged
        line = self._line if kind in _TOKENS else end
        self._text(found.start(), is_end=kind in ("turn", "other turn") or end == len(self._reply))
        if kind != "block":
            self._put(kind, found.start(), end)
        self._pos, self._line = end, line
        return end

    def _object(self, start: int) -> int:
        self._text(start)
        if self._cuts < _MAX_CUTS:
            value, end = _decode(self._document, start)
            end = end or self._broken_end(start)
        else:
            end = self._broken_end(start)
            value, _ = _decode(self._reply[start:end], 0)
        return self._put("broken" if value is None else "object", start, end, value)

    def _broken_end(self, start: int) -> int:
        """The brace that closes the object, or a mark, or the end of the reply. A mark in a string counts here."""
        depth, in_string = 0, False
        self._line = at = start
        while token := self._finder.in_object.search(self._reply, at):
            at = token.end()
            if token.lastindex:
                judged = self._judged(token)
                if judged and judged[0] not in _TOKENS:
                    self._cuts += 1
                    return token.start()
                at = token.start() + 1
            elif token[0] == '"':
                in_string = not in_string
            elif token[0] in "{}" and not in_string:
                depth += 1 if token[0] == "{" else -1
                if depth == 0:
                    return at
        return len(self._reply)


def _decode(document: str, start: int) -> tuple[dict[str, Any] | None, int]:
    """The object at start and where it ends, or None and 0."""
    try:
        return _raw_decode(document, start)
    except (ValueError, RecursionError):  # no JSON, an integer of too many digits, too deep
        return None, 0
