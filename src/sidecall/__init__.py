"""Guards both ends of an LLM app's side calls: checked context in, one JSON object or `None` out."""

from .context_policy import (
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
from .errors import ContextPolicyError, Issue, ValidationError
from .structured_output import (
    QUERIES_SCHEMA,
    SUGGESTIONS_SCHEMA,
    TITLE_SCHEMA,
    answer_text,
    clean_string,
    clean_strings,
    parse_structured,
    pick_queries,
    pick_suggestions,
    pick_title,
    require_structured,
)

__all__ = [
    "QUERIES_SCHEMA",
    "SUGGESTIONS_SCHEMA",
    "TITLE_SCHEMA",
    "AssembledContext",
    "ContextFragment",
    "ContextPolicyError",
    "Issue",
    "Lifetime",
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
