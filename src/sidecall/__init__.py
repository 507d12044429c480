"""Guards both ends of an LLM app's side calls: checked context in, one JSON object or `None` out."""

from .context_policy import (
    SPECIAL_TOKENS,
    AssembledContext,
    ContextFragment,
    Lifetime,
    Message,
    Role,
    Trust,
    assemble_context,
    validate_context_budget,
    validate_context_fragment,
)
from .errors import Code, ContextPolicyError, Issue, ValidationError
from .structured_output import (
    QUERIES_SCHEMA,
    SUGGESTIONS_SCHEMA,
    TITLE_SCHEMA,
    Marks,
    answer_text,
    clean_string,
    clean_strings,
    parse_structured,
    pick_queries,
    pick_suggestions,
    pick_title,
    require_structured,
)

__version__ = "0.2.0"

__all__ = [
    "QUERIES_SCHEMA",
    "SPECIAL_TOKENS",
    "SUGGESTIONS_SCHEMA",
    "TITLE_SCHEMA",
    "AssembledContext",
    "Code",
    "ContextFragment",
    "ContextPolicyError",
    "Issue",
    "Lifetime",
    "Marks",
    "Message",
    "Role",
    "Trust",
    "ValidationError",
    "answer_text",
    "assemble_context",
    "clean_string",
    "clean_strings",
    "parse_structured",
    "pick_queries",
    "pick_suggestions",
    "pick_title",
    "require_structured",
    "validate_context_budget",
    "validate_context_fragment",
]
