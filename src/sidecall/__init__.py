"""Guards both ends of an LLM app's side calls: checked context in, one JSON object or `None` out."""

# ruff: noqa: I001, as the names stand together by what they are for

from .context_policy import AssembledContext, ContextFragment, Lifetime, Message, Role, SPECIAL_TOKENS, Trust
from .context_policy import assemble_context, validate_context_budget, validate_context_fragment
from .errors import Code, ContextPolicyError, Issue, ValidationError
from .structured_output import Marks, answer_text, parse_structured, require_structured
from .structured_output import QUERIES_SCHEMA, SUGGESTIONS_SCHEMA, TITLE_SCHEMA
from .structured_output import clean_string, clean_strings, pick_queries, pick_suggestions, pick_title

__version__ = "0.2.0"

__all__ = [
    "QUERIES_SCHEMA", "SPECIAL_TOKENS", "SUGGESTIONS_SCHEMA", "TITLE_SCHEMA", "AssembledContext", "Code",
    "ContextFragment", "ContextPolicyError", "Issue", "Lifetime", "Marks", "Message", "Role", "Trust",
    "ValidationError", "answer_text", "assemble_context", "clean_string", "clean_strings", "parse_structured",
    "pick_queries", "pick_suggestions", "pick_title", "require_structured", "validate_context_budget",
    "validate_context_fragment",
]  # fmt: skip
