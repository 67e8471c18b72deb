"""Assertions that say what was seen."""


def equal(seen, wanted, what):
    """Fails unless two values are equal."""
    if seen != wanted:
        raise AssertionError(f"{what}: wanted {wanted!r}, saw {seen!r}")


def raises(kind, call):
    """Calls and returns the error that must come."""
    try:
        call()
    except kind as error:
        return error
    raise AssertionError(f"no {kind.__name__} was raised")


CALLS = [
    {"name": "read_file", "args": {"path": "a.txt", "lines": [1, 2]}},
    {"name": "list_dir", "args": {"path": "grüße"}},
]
USAGE = {"inputTokens": 5, "outputTokens": 7, "cacheReadTokens": 11, "cacheWriteTokens": 13}
PROMPT_TOKENS = 29
SCHEMA = {"type": "object", "properties": {"path": {"type": "string"}}}
