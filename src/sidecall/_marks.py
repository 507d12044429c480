"""The marks that models put around an answer. A model's new mark is one new row; all search is made from the rows."""

from typing import NamedTuple


class Block(NamedTuple):
    """One way to mark reasoning: any of its closing marks closes any of its opening marks."""

    opens: tuple[str, ...]
    closes: tuple[str, ...] = ()  # where nothing is open, they end reasoning that began before the reply did
    closes_only_opened: tuple[str, ...] = ()  # where nothing is open, they mean nothing
    is_no_word: bool = False  # an opening mark in the middle of a line counts although nothing closes it
    is_leading: bool = False  # an opening mark stands at the start of the reply alone, or behind a header


_TAGS = (
    *("think", "thinking", "thought", "thoughts", "thought_process", "reasoning", "reflection", "analysis"),
    *("scratchpad", "scratch_pad", "antThinking", "REASONING_SCRATCHPAD", "INNER_MONOLOGUE"),
)

# docs/marks.md names the models, and where each mark was read. Marks are written as models write them, and matched in
# any case. A tag may carry attributes, and blanks before its `>`; a row with an attribute needs that one. Elsewhere a
# blank stands for any blanks, or none. SHAPES has those that are matched otherwise.
REASONING = (
    Block(tuple(f"<{tag}>" for tag in _TAGS), tuple(f"</{tag}>" for tag in _TAGS)),
    Block(("[THINK]",), ("[/THINK]",)),
    Block(("◁think▷",), ("◁/think▷",)),
    Block(("<|START_THINKING|>",), ("<|END_THINKING|>", "<|START_TEXT|>", "<|START_RESPONSE|>")),
    Block(("<|begin_of_thought|>",), ("<|end_of_thought|>",)),
    Block(('<details type="reasoning">',), closes_only_opened=("</details>",)),
    Block(("<|channel|> analysis", "<|channel|> commentary"), ("<|channel|> final",), ("<|end|>",), is_no_word=True),
    Block(("analysis",), ("assistantfinal", "ASSISTANTFINAL"), is_leading=True),
    Block(("<|channel>thought", "<|channel>"), ("<channel|>",)),
    Block(("<|open|> think <|sep|>",), ("<|close|> think <|sep|>", "<|open|> response <|sep|>")),
    Block(("to=self<|message|>",), (), ("<|eom|>", "<|eot|>", "to=user<|message|>"), is_no_word=True, is_leading=True),
    Block(("<|inner_prefix|>",), ("<|inner_suffix|>",)),
    Block(("<|content_thinking|>",), ("<|content_text|>",), ("<|end_message|>", "<|content_model_end_sampling|>")),
    Block(("<|plamo:begin_think:plamo|>",), ("<|plamo:end_think:plamo|>",), ("<|plamo:tag|>",)),
    Block(("<|think:start|>",), ("<|think:end|>",)),
    Block(("<|think|>",), closes_only_opened=("<|end|>", "<|content|>")),
    Block((), ("[BEGIN FINAL RESPONSE]",)),
    Block(("[unused16]",), ("[unused17]",)),
)

# They end a turn or begin the next one. `<|end|>` and `<|eom|>` are not among them: they end a channel, not a turn.
# `<|start|>` and `<|begin|>` are not, either, as the answer follows reasoning behind one.
_TURNS = """
<|im_end|> <|eot_id|> <|eom_id|> <|endoftext|> <|end_of_text|> <|END_OF_TURN_TOKEN|> <｜end▁of▁sentence｜> <end_of_turn>
[|endofturn|] <eos> <|return|> </s> <|eot|> <|end_of_msg|> <|im:end|> <|endofturn|> <|end_of_turn|> <|EOT|> <EOT> [EOT]
[EOS] <|turn_end|> <|message_sep|> <|separator|> <|eos|> <|plamo:eos|> <|end_of_sentence|> <|endofresponse|> <seed:eos>
<|content_model_end_sampling|> <end_of_utterance> <end_of_sentence> <SPECIAL_12> [unused10] <_end> <|call|> <|calls|>
<|flush|> <|END_RESPONSE|> <|END_TEXT|> <|im_msg_end|> <end_message> <｜hy_place▁holder▁no▁2｜> <|extra_0|> <|extra_4|>
<|close|>response<|sep|> <|close|>message<|sep|> <|endofuserprompt|> <|endofsystem|> [/INST] [/SYSTEM_PROMPT] <turn|>
[/AVAILABLE_TOOLS] [/TOOL_RESULTS] <tool_response|> <tool|> <end_function_response> [e~[ <|im_start|> <start_of_turn>
<|start_header_id|> <|header_start|> <|start_of_role|> <|role_start|> <|im:start|> <|START_OF_TURN_TOKEN|> <|turn> ]~b]
<seed:bos> <beginning_of_sentence> <|plamo:tag|> [unused9] <SPECIAL_11>Assistant <role>ASSISTANT</role> <|assistant|>
<｜Assistant｜> [|assistant|] <|response|> <start_assistant> <_bot> <#bot#> <reserved_107> <|role_end|> <|startoftext|>
<｜hy_place▁holder▁no▁3｜> <｜start▁of▁sentence｜>
"""

# They begin the turn of another role than the assistant. A token that names the role need not stand here.
_OTHER_TURNS = """
<|user|> <｜User｜> [|user|] [|system|] [|tool|] <|observation|> [INST] <<SYS>> <</SYS>> [SYSTEM_PROMPT] [TOOL_RESULTS]
[AVAILABLE_TOOLS] <|tool_response> <|tool> <start_user> <start_system> <start_function_response> <function_response>
<SPECIAL_10>System <SPECIAL_11>User <role>HUMAN</role> <role>SYSTEM</role> <role>OBSERVATION</role> <|userprompt|>
<｜latest_reminder｜> <|tools|> <_user> <#user#> <#user_context#> <#system#> <#meta#> <reserved_106> <|begin_content|>
"""

# What else begins or ends a header or a channel. A reply needs no row for them, as their shape is known.
_HEADERS = """
<|start|> <|message|> <|channel|> <|constrain|> <|end|> <|eom|> <|begin|> <|content|> <|open|> <|close|> <|sep|>
<|end_header_id|> <|header_end|> <|end_of_role|> <|role_sep|> <|im_system|> <|im_user|> <|im_assistant|> <|im_middle|>
<|im_sep|> <|im:content|> <|plamo:msg|> <|system|> <|tool|> <|User|> <|System|> <|Assistant|> <|Bot|> <|Tool|>
<｜System｜> <｜hy_User｜> <｜hy_Assistant｜> <|USER_TOKEN|> <|CHATBOT_TOKEN|> <|SYSTEM_TOKEN|> <|user_start|>
<|user_end|> <|assistant_start|> <|assistant_end|> <|system_start|> <|system_end|> <|developer_start|> <|developer_end|>
<|begin_user|> <|begin_assistant|> <|begin_system|> <|begin_tool_result|> <|tool_result|> <|message_user|> <|channel>
<|message_model|> <|message_system|> <|message_tool|> <|end_message|> <|tool_response_start|> <|START_TOOL_RESULT|>
<channel|> <｜tool▁outputs▁begin｜> <｜tool▁output▁begin｜> <|begin_of_text|> <｜begin▁of▁sentence｜> ]~!b[ [gMASK]
"""

# The calls of tools, which are not for showing, beside all tags and tokens with `tool_call` or `function_call`.
_CALLS = """
<tool_call> <function_calls> <function= <atem:invoke <TOOLCALL> <tool_code> [TOOL_CALLS] ]<]minimax[>[ <｜DSML｜
<｜GCML｜ <|python_tag|> <|python_start|> <|action_start|> <|START_ACTION|> <|tools_prefix|> <|open|>tools<|sep|> [ARGS]
<|content_invoke_tool_json|> <|content_invoke_tool_text|> <|plamo:begin_tool_requests:plamo|> <invoke <rfl:parameter
<steptml:invoke
"""

TURNS = (*_TURNS.split(), "[END FINAL RESPONSE]")
OTHER_TURNS, HEADERS = tuple(_OTHER_TURNS.split()), tuple(_HEADERS.split())
CALLS = (*_CALLS.split(), "<function name=")

# What else begins a reply. They are plain text elsewhere.
BEGINNINGS = ("<s>", "<bos>", "[gMASK]", "<sop>", "]~!b[", "<BOS_TOKEN>")

# Tags that some models put around the whole answer.
WRAPPERS = ("answer", "response", "output", "final", "final_answer", "result")

# What str.strip() trims, U+FEFF, which JavaScript's trim() adds, and U+200B and U+2060, as invisible as those.
BLANKS = "".join(filter(str.isspace, map(chr, range(0x3001)))) + "\ufeff\u200b\u2060"

# A special token has no blanks in it: `<| x |>` is an operator.
TOKEN = r"<[|｜][^<>{}|｜\s]{1,64}[|｜]>"
TAG_END = r"(?:\s[^<>]*+)?(?<!/)>"

OTHER_ROLES = "user|human|system|developer|observation|environment|ipython|tool_response|tools?"
OWN_ROLES = "assistant|chatbot|bot|model|ai"

# A thinking tag is a rule, as makers join what they like to the word: `<seed:think>`, `<ifm|think_fast>`,
# `<think:6124c78e>`. `_` joins from behind only where something is joined in front: `<think_tank>` is not such a tag.
_THINK = (
    r"(?i:think(?:ing)?(?:[:|][^\s<>/]*)?"
    r"|(?=[a-z0-9]*+(?:[:_|.-]|[^\x00-\x7f]))"  # rules most tags of HTML out
    r"[\w.-][\w.:|-]{0,64}?[:_|](?<![<:_|/]no_)think(?:ing)?(?:[:_|][^\s<>/]{0,64})?)"
)

# Letters of the scripts that have capitals: the words that gpt-oss leaves are not part of a longer word.
CAPITAL, _SMALL = ("".join(filter(is_kind, map(chr, range(0x590)))) for is_kind in (str.isupper, str.islower))
_FINAL = rf"(?<![{CAPITAL}{_SMALL}].{{14}})(?:(?=json)|(?![{_SMALL}]))"

# The patterns of marks that are more than their text.
SHAPES = {
    "<|…|>": TOKEN,
    "<think>": f"<{_THINK}{TAG_END}",
    "</think>": f"</{_THINK}{TAG_END}",
    "assistantfinal": f"assistantfinal{_FINAL}",
    "ASSISTANTFINAL": f"ASSISTANTFINAL{_FINAL}",
    "to=self<|message|>": rf"{TOKEN}(?:{OTHER_ROLES}|{OWN_ROLES})?[{BLANKS}]*+to=self<\|message\|>",
    "<tool_call>": r"<(?![^<>\s]*(?:/|end))(?=[^<>\s]*+>)[|｜]?"
    r"(?i:(?:[^<>\s]*[^a-z<>\s])?(?:tool|function)[_▁]calls?(?![a-z])[^<>\s]*>)",
}
