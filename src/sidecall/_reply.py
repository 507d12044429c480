"""Takes a reply apart: what of it is the answer, and which JSON objects stand in it."""

import json
import re
from typing import Any, Literal, NoReturn, TypeAlias

from ._marks import BLANKS, MARKS, Found, Marks

Kind: TypeAlias = Literal["text", "object", "broken", "turn"]

# A stretch of a reply, from start to end: plain text, a valid object and its value, a broken object, or the mark of a
# turn.
Part: TypeAlias = tuple[Kind, int, int, dict[str, Any] | None]

_BLANK = f"[{re.escape(BLANKS)}]*+"
_COLON = _BLANK + r"(?:[:：]|\Z)"
_JSON_KEY = r'"[^"\\]*+(?:\\.[^"\\]*+)*+(?:\\?\Z|"' + _COLON + ")"
_QUOTES = "'‘’‚“”„"
_OTHER_KEY = rf"[{_QUOTES}][^{_QUOTES}\"]*+(?:\Z|[{_QUOTES}\"]{_COLON})"

# A brace begins an object where `}`, or a quoted key and a colon, follows, or where the text ends on the way there.
# Only JSON's own quotes and colon can be valid; an object with others begins all the same, so that what it holds is not
# taken for an answer.
_BEGIN = re.compile(rf"\{{{_BLANK}(?:\}}|\Z|{_JSON_KEY}|{_OTHER_KEY})", re.DOTALL)

# Where a mark in a string ends a broken object, the decoder has read beyond it, up to the end of the reply, and that
# text is read again. Marks in the keys of nested objects ask for it at every level, so after this many, more than any
# real reply has, an object is read as far as its end is known without the decoder: one that holds a mark is broken.
_MAX_CUTS = 16


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


# NaN, Infinity and -Infinity are Python's, not JSON's. One decoder for all: making one takes longer than its work.
_raw_decode = json.JSONDecoder(parse_constant=_refuse).raw_decode


def answer(reply: str, marks: Marks = MARKS) -> list[Part]:
    """The parts of the answer, in order: what is left without reasoning, and without the turns that follow."""
    return _plain_span(reply, marks) or _until_turn(reply, _Scan(reply, marks).parts(), marks)


def text_of(reply: str, parts: list[Part], marks: Marks = MARKS) -> str:
    """The answer as text, without special tokens but those in objects."""
    texts = (
        marks.without_tokens(reply[start:end]) if kind == "text" else reply[start:end]
        for kind, start, end, _ in parts
        if kind in ("text", "object", "broken")
    )
    return "".join(texts).strip(BLANKS)


def _plain_span(reply: str, marks: Marks) -> list[Part]:
    """The parts of a reply that is one object in plain text, as most replies are, at half the cost of a scan."""
    start, end = reply.find("{"), reply.rfind("}") + 1
    if not 0 <= start < end:
        return []
    before, after = reply[:start], reply[end:]
    if (before or after) and ("{" in after or marks.may_stand_in(before + after)):
        return []
    value, value_end = _decode(reply, start)
    if value is None or value_end != end:
        return []
    return [("text", 0, start, None), ("object", start, end, value), ("text", end, len(reply), None)]


def _until_turn(reply: str, parts: list[Part], marks: Marks) -> list[Part]:
    """The parts before the mark of a turn that follows an object; in a reply without objects, one that follows text."""
    kinds = [part[0] for part in parts]
    if "turn" not in kinds:
        return parts
    has_object = "object" in kinds
    answered = False
    for index, kind in enumerate(kinds):
        if answered and kind == "turn":
            return parts[:index]
        answered = answered or (kind == "object" if has_object else text_of(reply, [parts[index]], marks) != "")
    return parts


class _Scan:
    """One pass over a reply. What stands before `pos` is in the parts, or dropped."""

    def __init__(self, reply: str, marks: Marks) -> None:
        self._reply = reply
        self._document = _Document(reply)
        self._marks = marks
        self._parts: list[Part] = []
        self._pos = 0
        self._cuts = 0  # broken objects that ended at a mark

    def parts(self) -> list[Part]:
        """All parts after the last mark that ended reasoning begun before the reply did."""
        reply = self._reply
        if opened := self._marks.leading(reply):
            self._pos = self._marks.block_end(opened, reply)
        while True:
            brace = reply.find("{", self._pos)
            begin = _BEGIN.search(reply, brace) if brace >= 0 else None
            end = begin.start() if begin else len(reply)
            if self._pos < end:
                self._gap(end)
            if self._pos > end:  # the object is in a block
                continue
            self._text(end)
            if not begin:
                return self._parts
            self._object(end)

    def _put(self, kind: Kind, start: int, end: int, value: dict[str, Any] | None = None) -> None:
        self._parts.append((kind, start, end, value))
        self._pos = end

    def _text(self, end: int) -> None:
        if self._pos < end:
            self._put("text", self._pos, end)

    def _gap(self, end: int) -> None:
        for found in self._marks.find(self._reply, self._pos, end):
            if found.start >= self._pos and self._marks.is_mark(found, self._reply, self._pos):
                self._mark(found)

    def _mark(self, found: Found) -> None:
        left_open = _BEGIN.search(self._reply, self._pos, found.start)
        if left_open:
            self._text(left_open.start())
            self._put("broken", left_open.start(), found.start)
        self._text(found.start)
        if found.mark.kind == "turn":
            self._put("turn", found.start, self._marks.token_end(self._reply, found.start))
        elif found.mark.kind == "open":
            self._pos = self._marks.block_end(found, self._reply)
        else:
            self._parts.clear()
            self._pos = found.end

    def _object(self, start: int) -> None:
        if self._cuts < _MAX_CUTS:
            value, end = _decode(self._document, start)
            end = end or self._broken_end(start)
        else:
            end = self._broken_end(start)
            value, _ = _decode(self._reply[start:end], 0)
        self._put("broken" if value is None else "object", start, end, value)

    def _broken_end(self, start: int) -> int:
        """The brace that closes the object, or a mark, or the end of the reply. A mark in a string counts here."""
        depth, in_string = 0, False
        structure = self._marks.structure
        for token in structure.pattern.finditer(self._reply, start):
            if token.lastindex:
                if self._marks.is_mark(structure.located(token), self._reply, start):
                    self._cuts += 1
                    return token.start()
            elif token[0] == '"':
                in_string = not in_string
            elif token[0] in "{}" and not in_string:
                depth += 1 if token[0] == "{" else -1
                if depth == 0:
                    return token.end()
        return len(self._reply)


def _decode(document: str, start: int) -> tuple[dict[str, Any] | None, int]:
    """The object at start and where it ends, or None and 0."""
    try:
        return _raw_decode(document, start)
    except (ValueError, RecursionError):  # no JSON, an integer of too many digits, too deep
        return None, 0
