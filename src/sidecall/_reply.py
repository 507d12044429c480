"""Takes a reply apart: what of it is the answer, and which JSON objects stand in it."""

import json
import re
from itertools import groupby
from typing import Any, Literal

from ._marks import BEGINNINGS, BLANKS, CAPITAL, OTHER_ROLES, OWN_ROLES, REASONING, WRAPPERS, Block
from ._search import BEGIN, CALL, Finder

Kind = Literal["text", "blank", "object", "broken", "token", "header", "turn", "other turn", "close", "block"]

# A stretch of a reply, from start to end, and the value of a valid object. No part is made of reasoning.
Part = tuple[Kind, int, int, dict[str, Any] | None]

_JSON: frozenset[Kind] = frozenset({"object", "broken"})
_TURNS: frozenset[Kind] = frozenset({"turn", "other turn"})
# They stand in a turn, and neither end it nor begin one.
_TOKENS: frozenset[Kind] = frozenset({"token", "header"})

# Where a mark in a string ends a broken object, the decoder has read beyond it, up to the end of the reply, and that
# text is read again. Marks in the keys of nested objects ask for it at every level, so after this many, more than any
# real reply has, an object is read as far as its end is known without the decoder: one that holds a mark is broken.
_MAX_CUTS = 16

# The removal of a token may join another one. Nobody nests them this deep in good faith.
_MAX_NESTED = 16

# Half a mark is looked for up to this length, which no built-in mark has.
_LONGEST_MARK = 64

_CUT_TOKEN = re.compile(r"(?i)<[|｜][^<>\s]*\Z|</?(?:[\w.|:-]{0,64}[:_|])?think(?:ing)?(?:[\s:|_][^<>]*)?\Z")
_WRAPPER = re.compile(rf"(?is)<({'|'.join(WRAPPERS)})(?:\s[^<>]*)?>((?:(?!</?\1[\s>]).)*+)(?:</\1\s*>)?")

_BLANK = f"[{BLANKS}]*+"
_BEGINNINGS = "|".join(map(re.escape, BEGINNINGS))
_LINE_START = re.compile(rf"(?i)(?:[{BLANKS}]|{_BEGINNINGS})*+")

# A token that names a role begins its turn, or ends it. A call is the assistant's, whatever tool it names. A token that
# names the model heads a message of its turn.
_NAMES = r"[<\[][|｜](?!.*(?:call|invoke|list|request|prefix|sep))(?:.*[^a-z])?(?:{})(?:[^a-z].*)?[|｜][>\]]"
_OTHER_TURN = re.compile(rf"(?i)(?!.*(?:end|/)){_NAMES.format(OTHER_ROLES)}")
_TURN = re.compile(rf"(?i){_NAMES.format(f'{OTHER_ROLES}|assistant|chatbot|bot|eos|eot')}")
_OWN_MESSAGE = re.compile(rf"(?i){_NAMES.format('model')}")

# A role belongs to the token in front of it. Behind most tokens an answer may begin with the name of one, so it counts
# in lower case, and where nothing else stands on its line. Behind a token that begins a header nothing but a role can
# stand, and the words up to the token that ends it are the header's. The first group is the role where it is not the
# assistant's, the second where it is.
_GAP = r"[^\S\n]*"
_ENDS = r"<\|(?:message|sep|im_sep|im_middle|end_header_id|header_end|end_of_role|role_sep|im:content|plamo:msg)\|>"
_ROLE = re.compile(rf"(?:(?:({OTHER_ROLES})|({OWN_ROLES}))(?={_GAP}(?:[\n<\[{{◁]|\Z)))?")
_HEADER = re.compile(
    rf"(?i)(?:{_GAP}(?:message role=\")?(?:({OTHER_ROLES}|function)|({OWN_ROLES}))\b(?:{_GAP}\w+=[^\n<]*(?=\n))?)?"
    rf"(?:<\|role_end\|>|(?!{_GAP}to=self<)[^\n<>{{}}\[\]]{{1,64}}(?={_ENDS}))?"
)
_HEADER_START = re.compile(
    r"(?i)<\|(?:im_|im:|header_|role_)?start(?:_header_id|_of_role)?\|>|<\|(?:begin|plamo:tag)\|>|<start_of_turn>|<\|turn>"
    r"|<\|(?:channel|constrain|open|close)\|>.*|\]~b\]|<seed:bos>|<beginning_of_sentence>"
)

# What a reply may begin with: tokens that are plain text elsewhere, a header whose token was in the prompt, and what
# opens reasoning there alone.
_OWN_HEADER = rf"{_BLANK}(?:to=(?!self<)[\w.-]+|{OWN_ROLES})(?={_ENDS})"
_BEGINNING = re.compile(rf"(?i)(?:{_BLANK}(?:{_BEGINNINGS}))*(?:{_OWN_HEADER})?")
_LEADING = {block.opens[0]: block for block in REASONING if block.is_leading}
_OPENING = re.compile(f"{_BLANK}(?i:({'|'.join(map(re.escape, _LEADING))}))(?:(?<=>)|(?=[{CAPITAL}]))")


class _Document(str):
    """Text whose decode errors cost the same wherever they stand.

    `JSONDecodeError` counts the lines before its position, which makes the time for many broken objects quadratic.
    Nobody reads that count here.
    """

    def count(self, *_: object) -> int:
        return 0

    rfind = count


# Raw control characters in a string have one reading, and real models write line breaks so. NaN, Infinity and
# -Infinity are Python's, not JSON's: `int` refuses them. One decoder for all: making one takes longer than its work.
_raw_decode = json.JSONDecoder(strict=False, parse_constant=int).raw_decode


def answer(reply: str, finder: Finder) -> list[Part]:
    """The parts of the answer, in order: what is left without reasoning, and without the turns that follow."""
    return _plain_span(reply, finder) or _of_lists(reply, _of_turns(_Scan(reply, finder).parts()))


def text_of(reply: str, parts: list[Part], finder: Finder) -> str:
    """The answer as text, up to the call of a tool, without tokens but in objects, and without a wrapper."""
    texts: list[str] = []
    shown = _without_cut_mark(reply, finder)
    for is_json, alike in groupby(parts, key=lambda part: part[0] in _JSON):
        source = reply if is_json else shown
        stretch = "".join(source[a:b] for kind, a, b, _ in alike if kind not in _TOKENS or CALL.match(reply, a))
        call = None if is_json else CALL.search(stretch)
        texts.append(stretch if is_json else _without_tokens(stretch[: call and call.start()], finder))
        if call:
            break
    if parts and parts[-1][2] == len(reply) and parts[-1][0] not in _JSON:
        texts[-1] = _without_cut_mark(texts[-1], finder)  # the removal of a token may join half a mark
    text = "".join(texts).strip(BLANKS)
    wrapper = _WRAPPER.fullmatch(text)
    return wrapper[2].strip(BLANKS) if wrapper else text


def _without_tokens(text: str, finder: Finder) -> str:
    for _ in range(_MAX_NESTED):
        text, count = finder.tokens.subn("", text)
        if not count:
            return text
    return ""


def _without_cut_mark(text: str, finder: Finder) -> str:
    for length in range(_LONGEST_MARK, 2, -1):
        if text[-length:].lower() in finder.cut_marks:
            return text[:-length]
    cut = _CUT_TOKEN.search(text, text.rfind("<"))
    return text[: cut and cut.start()]


def _plain_span(reply: str, finder: Finder) -> list[Part]:
    """The parts of a reply that is one object in plain text, as most replies are, at half the cost of a scan."""
    start, end = reply.find("{"), reply.rfind("}") + 1
    if not 0 <= start < end:
        return []
    around = reply[:start] + reply[end:]
    for probe in finder.probes if around else ():
        if probe in around:
            return []
    if _OPENING.match(around):
        return []
    value, value_end = _decode(reply, start)
    if value is None or value_end != end:
        return []
    return [("text", 0, start, None), ("object", start, end, value), ("text", end, len(reply), None)]


def _of_turns(parts: list[Part]) -> list[Part]:
    """The parts of the answer: marks of turns end it, and a closing mark that closes nothing begins it anew."""
    if not {part[0] for part in parts} & {*_TURNS, "close"}:
        return parts
    kept: list[Part] = []
    seen: set[Kind] = set()  # the kinds of what is kept, but tokens and blanks
    only_text = 0  # so many parts are the answer, if no object follows
    is_ended = is_skipped = is_behind_token = False
    for part in parts:
        kind = part[0]
        if kind in _TURNS:
            is_skipped = kind == "other turn"
            is_ended = is_ended or bool(seen & _JSON or (is_skipped and seen))
            only_text = only_text or (len(kept) if seen else 0)
        elif kind == "header":
            is_skipped = False
        elif kind == "close" and not (is_behind_token and (is_ended or is_skipped or only_text)):
            kept, seen, only_text, is_ended, is_skipped = [], set(), 0, False, False
        elif kind != "close" and not (is_ended or is_skipped):
            kept.append(part)
            seen |= {kind} - {"blank", "token"}
            only_text = 0 if kind in _JSON else only_text
        is_behind_token = kind in _TOKENS | _TURNS or (is_behind_token and kind in ("blank", "close"))
    return kept[: only_text or None]


def _of_lists(reply: str, parts: list[Part]) -> list[Part]:
    """The parts, where no entry of a list that has a broken one is a candidate: there was a choice, now unknown."""
    if "broken" not in {part[0] for part in parts}:
        return parts
    shape, depth = "", 0  # of brackets
    for kind, start, end, _ in parts:
        text = reply[start:end].strip(BLANKS) if kind == "text" else ""
        outside = depth == 0
        for bracket in re.findall(r"[\[\]]", text):
            depth = max(0, depth + (1 if bracket == "[" else -1))
        in_list = "t" if depth == 0 else "[" if outside else ";"
        shape += {"": "_", ",": ","}.get(text, in_list) if kind in ("text", "blank") else kind[0]
    lists = r"(?<=\[)[ob,;_]*(?:o_*,_*b|b_*,_*o)[ob,;_]*"
    shape = re.sub(lists, lambda found: found[0].replace("o", "x"), shape)
    return [("broken", each[1], each[2], None) if now == "x" else each for each, now in zip(parts, shape, strict=True)]


class _Scan:
    """One pass over a reply. What stands before `pos` is in the parts, or dropped."""

    def __init__(self, reply: str, finder: Finder) -> None:
        self._reply, self._document, self._finder = reply, _Document(reply), finder
        self._parts: list[Part] = []
        self._pos = self._line = 0  # the line is looked at from there: its beginning, or what counts as one
        self._unclosed: set[Block] = set()  # nothing closes them in the rest of the reply
        self._cuts = 0  # broken objects that ended at a mark

    def parts(self) -> list[Part]:
        """All parts, in order."""
        at = next(_BEGINNING.finditer(self._reply)).end()  # it may be empty
        if opening := _OPENING.match(self._reply, at):
            at = self._closed(_LEADING[opening[1].lower()], opening.end()) or len(self._reply)
        self._pos = self._line = at
        while found := self._finder.in_text.search(self._reply, at):
            at = self._mark(found) if found.lastindex else self._object(found.start())
        self._text(len(self._reply))
        return self._parts

    def _closed(self, block: Block, start: int) -> int | None:
        """Where a block that is opened before start is closed. Asked once a block, where it never is."""
        if block not in self._unclosed and (closing := self._finder.closing[block].search(self._reply, start)):
            return closing.end()
        self._unclosed.add(block)
        return None

    def _put(self, kind: Kind, start: int, end: int, value: dict[str, Any] | None = None) -> int:
        self._parts.append((kind, start, end, value))
        self._pos = end
        return end

    def _text(self, end: int, *, is_end: bool = False) -> None:
        """The text up to end, and where the reply or a turn ends there, an object that is left open."""
        left_open = BEGIN.search(self._reply, self._pos, end) if is_end else None
        text_end = left_open.start() if left_open else end
        if self._pos < text_end:
            self._put("text" if self._reply[self._pos : text_end].strip(BLANKS) else "blank", self._pos, text_end)
        if left_open:
            self._put("broken", text_end, end)

    def _begins_line(self, start: int) -> bool:
        """Whether nothing but blanks stands on the line before start."""
        self._line = max(self._line, self._reply.rfind("\n", self._line, start) + 1)
        if _LINE_START.fullmatch(self._reply, self._line, start):
            return True
        self._line = start  # nothing before it is looked at again, and what stands here is not a blank
        return False

    def _judged(self, found: re.Match[str]) -> tuple[Kind, int] | None:
        """What a mark is where it stands, and its end; `None` for a word in a sentence."""
        assert found.lastindex
        row = self._finder.rows[found.lastindex - 1]
        if row.kind == "open":
            end = self._closed(row.block, found.end())
            counts = end or row.block.is_no_word or self._begins_line(found.start())
            return ("block", end or len(self._reply)) if counts else None
        pattern = _HEADER if _HEADER_START.fullmatch(found[0]) else _ROLE
        header = next(pattern.finditer(self._reply, found.end()))  # it may be empty
        if row.kind == "close":
            return "close", header.end() if found[0].startswith("<|") and not header[1] else found.end()
        if header[1] or row.kind == "other turn" or _OTHER_TURN.fullmatch(found[0]):
            return "other turn", header.end()
        if row.kind == "turn" or _TURN.fullmatch(found[0]):
            return "turn", header.end()
        if self._begins_line(found.start()):
            self._line = header.end()
        return "header" if header[2] or _OWN_MESSAGE.fullmatch(found[0]) else "token", header.end()

    def _mark(self, found: re.Match[str]) -> int:
        """Adds the parts of a mark, and gives the position to go on from."""
        judged = self._judged(found)
        if not judged:
            return found.start() + 1
        kind, end = judged
        self._text(found.start(), is_end=kind in _TURNS or end == len(self._reply))
        if kind != "block":
            self._put(kind, found.start(), end)
        self._pos = end
        self._line = self._line if kind in _TOKENS else end
        return end

    def _object(self, start: int) -> int:
        self._text(start)
        known = None if self._cuts < _MAX_CUTS else self._broken_end(start)
        value, end = _decode(self._document, start) if known is None else _decode(self._reply[start:known], 0)
        end = known or end or self._broken_end(start)
        self._line = end
        return self._put("broken" if value is None else "object", start, end, value)

    def _broken_end(self, start: int) -> int:
        """The brace that closes the object, or a mark, or the end of the reply. A mark in a string counts here."""
        depth, in_string = 0, False
        self._line = at = start
        while token := self._finder.in_object.search(self._reply, at):
            judged = self._judged(token) if token.lastindex else None
            if judged and judged[0] not in _TOKENS:
                self._cuts += 1
                return token.start()
            at = token.start() + 1 if token.lastindex else token.end()
            in_string ^= token[0] == '"'
            depth += 0 if in_string else {"{": 1, "}": -1}.get(token[0], 0)
            if depth == 0:
                return at
        return len(self._reply)


def _decode(document: str, start: int) -> tuple[dict[str, Any] | None, int]:
    """The object at start and where it ends, or None and 0."""
    try:
        return _raw_decode(document, start)
    except (ValueError, RecursionError):  # no JSON, an integer of too many digits, too deep
        return None, 0
