"""Gemini, through the library `google-genai`, under /v1 and /v1beta."""
import httpx2
from google import genai
from google.genai import errors as genai_errors
from google.genai import types

from asserts import CALLS, PROMPT_TOKENS, SCHEMA, USAGE, equal, raises

VERSIONS = ("v1", "v1beta", None)
TOOLS = [types.Tool(function_declarations=[
    types.FunctionDeclaration(name=name, description="a tool", parameters_json_schema=SCHEMA)
    for name in ("read_file", "list_dir")])]


def client(server, version=None):
    options = types.HttpOptions(base_url=server.bases["gemini"], api_version=version)
    return genai.Client(api_key="k", http_options=options)


def config(**more):
    off = types.AutomaticFunctionCallingConfig(disable=True)
    return types.GenerateContentConfig(automatic_function_calling=off, **more)


def stream(api, contents, **more):
    return list(api.models.generate_content_stream(
        model="m", contents=contents, config=config(**more)))


def whole(api, contents, **more):
    return api.models.generate_content(model="m", contents=contents, config=config(**more))


def parts_of(chunks):
    return [part for chunk in chunks for part in chunk.candidates[0].content.parts or []]


def text_both_ways(server):
    """text and usage, streamed and whole, under each version of the path"""
    for version in VERSIONS:
        api = client(server, version)
        server.push(text="grüße, 世界", deltas=4, usage=USAGE, reasoningTokens=2)
        chunks = stream(api, "hello")
        server.push(text="grüße, 世界", usage=USAGE, reasoningTokens=2)
        for answer in (chunks, [whole(api, "hello")]):
            equal("".join(chunk.text or "" for chunk in answer), "grüße, 世界", "the text")
            equal(answer[-1].candidates[0].finish_reason, types.FinishReason.STOP, "the reason")
            usage = answer[-1].usage_metadata
            seen = (usage.prompt_token_count, usage.candidates_token_count,
                    usage.thoughts_token_count, usage.cached_content_token_count)
            equal(seen, (PROMPT_TOKENS, 5, 2, 11), "the usage")


def tools_and_signature(server):
    """parallel calls and thought signatures, sent back by the library itself"""
    api = client(server)
    hello = types.Content(role="user", parts=[types.Part(text="hello")])
    for ask in (stream, lambda *args, **more: [whole(*args, **more)]):
        server.push(text="let me see", thinking="deep thought", calls=CALLS)
        parts = parts_of(ask(api, [hello], tools=TOOLS))
        thought = "".join(part.text for part in parts if part.thought)
        equal(thought, "deep thought", "the thought")
        calls = [part for part in parts if part.function_call]
        seen = [{"name": p.function_call.name, "args": p.function_call.args} for p in calls]
        equal(seen, CALLS, "the calls")
        equal([bool(part.thought_signature) for part in calls], [True, False], "signatures")
        kept = [part for part in parts if part.text or part.function_call]
        results = [types.Part(function_response=types.FunctionResponse(
            id=part.function_call.id, name=part.function_call.name, response={"output": "done"}))
            for part in calls]
        contents = [hello, types.Content(role="model", parts=kept),
                    types.Content(role="user", parts=results)]
        server.push(text="thanks")
        answer = ask(api, contents, tools=TOOLS)
        equal("".join(chunk.text or "" for chunk in answer), "thanks", "the answer")


def limits(server):
    """an answer that met its limit"""
    server.push(text="half", stop="max_tokens")
    reason = stream(client(server), "hello")[-1].candidates[0].finish_reason
    equal(reason, types.FinishReason.MAX_TOKENS, "the reason")


def errors(server):
    """429 with retry-after, 529, 400, 401 and an error inside the stream"""
    api = client(server)
    cases = ((429, genai_errors.ClientError, "RESOURCE_EXHAUSTED"),
             (529, genai_errors.ServerError, "UNAVAILABLE"),
             (400, genai_errors.ClientError, "INVALID_ARGUMENT"),
             (401, genai_errors.ClientError, "UNAUTHENTICATED"))
    for status, kind, word in cases:
        for ask in (stream, whole):
            server.push(status=status, error="no", retryAfter="7")
            error = raises(kind, lambda: ask(api, "hello"))
            equal((error.code, error.status), (status, word), "the error")
            equal(error.response.headers["retry-after"], "7", "retry-after")
    server.push(text="half", streamError="UNAVAILABLE")
    raises(genai_errors.APIError, lambda: stream(api, "hello"))


def cut(server):
    """a stream that is cut is an error"""
    server.push(text="a long text", deltas=5, cutAt=500)
    raises(httpx2.TransportError, lambda: stream(client(server), "hello"))


CHECKS = (text_both_ways, tools_and_signature, limits, errors, cut)
