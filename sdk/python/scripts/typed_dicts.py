"""Typed dicts from JSON schemas.

The subset is the one that our own schemas use: objects, arrays, scalars, constants, references,
`anyOf` and `oneOf`. A construct beyond it ends the generation with its name, so that nothing is
typed wrongly in silence.
"""

from __future__ import annotations

import keyword
import textwrap
from collections.abc import Iterable, Iterator
from typing import Any

Schema = dict[str, Any]

SCALARS = {"string": "str", "integer": "int", "number": "float", "boolean": "bool", "null": "None"}
# Keys that say nothing about the Python type.
SILENT = {
    "description",
    "format",
    "minimum",
    "maximum",
    "default",
    "title",
    "examples",
    "pattern",
    "minLength",
    "contentEncoding",
    "maxLength",
    "minItems",
    "maxItems",
    "example",
    "writeOnly",
    "readOnly",
}


# Names that say it better here, or that are taken.
RENAMED = {
    "Accepted": "PromptAccepted",
    "CheckpointState": "CheckpointInfo",
    "PermissionRequestEvent": "PermissionRequest",
    "PlanRequestEvent": "PlanRequest",
    "QuestionRequestEvent": "QuestionRequest",
    "Request": "PendingRequest",
    "Session": "SessionInfo",
    "SessionEvent": "Event",
    "SessionSpending": "SessionUsage",
    "State": "SessionStatus",
    "Usage": "TokenUsage",
}


class Unsupported(Exception):
    """A schema says something that this generator cannot express."""


def expression(schema: Schema) -> str:
    """Returns the type expression of a schema that is used in place."""
    if "$ref" in schema:
        return named(schema["$ref"])
    if "const" in schema:
        return f"Literal[{quoted(schema['const'])}]"
    if "enum" in schema:
        return f"Literal[{', '.join(quoted(value) for value in schema['enum'])}]"
    for key in ("anyOf", "oneOf"):
        if key in schema:
            return union(expression(part) for part in schema[key])
    if len(schema.get("allOf", ())) == 1:
        return expression(schema["allOf"][0])
    kind = schema.get("type")
    if isinstance(kind, list):
        return union(expression({**schema, "type": one}) for one in kind)
    if kind == "array":
        return f"list[{expression(schema.get('items', {}))}]"
    if kind == "object":
        return mapping(schema)
    if kind in SCALARS:
        return SCALARS[kind]
    if kind is None and not set(schema) - SILENT:
        return "Any"
    raise Unsupported(f"no type for {schema}")


def named(reference: str) -> str:
    """Returns the name of what a reference means."""
    name = reference.rpartition("/")[2]
    return RENAMED.get(name, name)


def mapping(schema: Schema) -> str:
    """Returns the type of an object that is written in place."""
    more = schema.get("additionalProperties", True)
    if schema.get("properties"):
        raise Unsupported(f"an object without a name: {sorted(schema['properties'])}")
    return f"dict[str, {expression(more)}]" if isinstance(more, dict) else "dict[str, Any]"


def union(parts: Iterator[str]) -> str:
    return " | ".join(dict.fromkeys(parts))


def quoted(value: object) -> str:
    if value is None or isinstance(value, bool):
        return repr(value)
    return f'"{value}"' if isinstance(value, str) else str(value)


def constants(schema: Schema) -> list[str] | None:
    """Returns the values of a definition that lists constants, else None."""
    if "enum" in schema:
        return [quoted(value) for value in schema["enum"]]
    parts = schema.get("oneOf", [])
    if parts and all("const" in part for part in parts):
        return [quoted(part["const"]) for part in parts]
    return None


def alias(name: str, schema: Schema) -> str:
    """Returns a named scalar or list of constants."""
    values = constants(schema)
    if values is None:
        return f"{name}: TypeAlias = {expression(schema)}\n{doc(schema, '')}"
    one = f"{name}: TypeAlias = Literal[{', '.join(values)}]"
    if len(one) > 100:
        rows = "".join(f"    {value},\n" for value in values)
        one = f"{name}: TypeAlias = Literal[\n{rows}]"
    return f"{one}\n{doc(schema, '')}"


def record(name: str, schema: Schema) -> str:
    """Returns the typed dict of an object; what may be absent stands in a base of its own.

    `NotRequired` would say the same in one class, but Python 3.10 has it not.
    """
    fields: dict[str, Schema] = schema.get("properties", {})
    required = set(schema.get("required", ()))
    surely = {key: value for key, value in fields.items() if key in required}
    perhaps = {key: value for key, value in fields.items() if key not in required}
    if not perhaps:
        return table(name, schema, surely)
    if not surely:
        return table(name, schema, perhaps, total=False)
    told = {"description": f"What may be absent from `{name}`."}
    optional = table(f"_{name}", told, perhaps, total=False)
    return optional + "\n\n" + table(name, schema, surely, base=f"_{name}")


def with_names(name: str, schema: Schema) -> Iterator[tuple[str, Schema]]:
    """Gives an object, after those that are written within it and get names of their own."""
    fields = {}
    for key, value in schema.get("properties", {}).items():
        fields[key] = value
        if value.get("type") == "object" and value.get("properties"):
            own = name + camel(key)
            yield from with_names(own, value)
            fields[key] = {"$ref": own, "description": value.get("description", "")}
    yield name, {**schema, "properties": fields}


def table(
    name: str, schema: Schema, fields: dict[str, Schema], base: str = "", total: bool = True
) -> str:
    if not all(key.isidentifier() and not keyword.iskeyword(key) for key in fields):
        return functional(name, schema, fields, base, total)
    heads = base or "TypedDict"
    lines = [f"class {name}({heads}{'' if total else ', total=False'}):", doc(schema, "    ")]
    for key, value in fields.items():
        lines.append(f"    {key}: {expression(value)}\n{doc(value, '    ')}".rstrip())
    return "\n".join(line.rstrip("\n") for line in lines) + "\n"


def functional(name: str, schema: Schema, fields: dict[str, Schema], base: str, total: bool) -> str:
    """The form for keys that are words of Python, such as `from`."""
    if base:
        raise Unsupported(f"{name} needs a key that is a word of Python, and has optional ones")
    rows = "".join(f'        "{key}": {expression(value)!r},\n' for key, value in fields.items())
    end = "" if total else "    total=False,\n"
    return f'{name} = TypedDict(\n    "{name}",\n    {{\n{rows}    }},\n{end})\n{doc(schema, "")}'


def doc(schema: Schema, indent: str) -> str:
    """Returns the description as a string below what it describes; empty where there is none."""
    text = " ".join(str(schema.get("description", "")).split())
    if not text:
        return ""
    text = text.replace("\\", "\\\\").replace('"""', "'''")
    if text.endswith('"'):
        text += " "
    rows = textwrap.wrap(text, 100 - len(indent) - 3, break_long_words=False)
    if len(rows) == 1 and len(rows[0]) + len(indent) + 6 <= 100:
        return f'{indent}"""{rows[0]}"""\n'
    return f'{indent}"""' + f"\n{indent}".join(rows) + f'\n{indent}"""\n'


def definitions(defs: dict[str, Schema]) -> str:
    """Returns all definitions in an order in which Python can read them."""
    scalars, records, unions = [], [], []
    for plain, schema in defs.items():
        name = RENAMED.get(plain, plain)
        parts = schema.get("oneOf") or schema.get("anyOf") or []
        if constants(schema) is None and parts and all(part.get("properties") for part in parts):
            names = [part.get("title") or name + camel(tag(part)) for part in parts]
            for own, part in zip(names, parts, strict=True):
                records += [record(*one) for one in with_names(own, part)]
            unions.append(f"{name}: TypeAlias = {wrapped(names)}\n{doc(schema, '')}")
        elif parts and all("$ref" in part for part in parts):
            names = [named(part["$ref"]) for part in parts]
            unions.append(f"{name}: TypeAlias = {wrapped(names)}\n{doc(schema, '')}")
        elif schema.get("type") == "object" and "properties" in schema:
            records += [record(*one) for one in with_names(name, schema)]
        else:
            scalars.append(alias(name, schema))
    return "\n".join(scalars) + "\n\n" + "\n\n".join(records) + "\n\n" + "\n".join(unions)


def reached(defs: dict[str, Schema], roots: Iterable[str]) -> dict[str, Schema]:
    """Returns the definitions that these ones need, themselves included, in their first order."""
    found: set[str] = set()
    waiting = list(roots)
    while waiting:
        name = waiting.pop()
        if name not in found:
            found.add(name)
            waiting += references(defs[name])
    return {name: schema for name, schema in defs.items() if name in found}


def references(value: Any) -> Iterator[str]:
    if isinstance(value, list):
        for each in value:
            yield from references(each)
    elif isinstance(value, dict):
        if "$ref" in value:
            yield str(value["$ref"]).rpartition("/")[2]
        for key, each in value.items():
            if key != "discriminator":
                yield from references(each)


def tag(part: Schema) -> str:
    for value in part["properties"].values():
        if "const" in value:
            return str(value["const"])
    return "_".join(part["properties"])


def camel(word: str) -> str:
    return "".join(part[:1].upper() + part[1:] for part in word.replace("-", "_").split("_"))


def wrapped(names: list[str]) -> str:
    one = " | ".join(names)
    return one if len(one) < 70 else "(\n    " + "\n    | ".join(names) + "\n)"
