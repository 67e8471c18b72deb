"""Anthropic Messages, through the library `anthropic`."""
import anthropic
import httpx2

from asserts import CALLS, SCHEMA, USAGE, equal, raises

TOOLS = [{"name": name, "description": "a tool", "input_schema": SCHEMA}
         for name in ("read_file", "list_dir")]


def client(server):
    return anthropic.Anthropic(base_url=server.bases["anthropic"], api_key="k", max_retries=0)


def request(*messages, **more):
    return dict(model="m", max_tokens=100, messages=list(messages), **more)


HELLO = {"role": "user", "content": "hello"}


def stream(api, **body):
    with api.messages.stream(**body) as events:
        text = "".join(events.text_stream)
        return text, events.get_final_message()


def text_both_ways(server):
    """text, streamed in pieces and whole"""
    api = client(server)
    server.push(text="grüße, 世界", deltas=4, usage=USAGE)
    text, message = stream(api, **request(HELLO))
    equal(text, "grüße, 世界", "the pieces")
    equal(message.content[0].text, text, "the message")
    equal(message.stop_reason, "end_turn", "the stop reason")
    server.push(text="whole")
    equal(api.messages.create(**request(HELLO)).content[0].text, "whole", "the whole answer")


def counts(server):
    """usage with cache tokens"""
    api = client(server)
    server.push(text="x", usage=USAGE)
    server.push(text="x", usage=USAGE)
    for message in (stream(api, **request(HELLO))[1], api.messages.create(**request(HELLO))):
        usage = message.usage
        seen = (usage.input_tokens, usage.output_tokens, usage.cache_read_input_tokens,
                usage.cache_creation_input_tokens)
        equal(seen, (5, 7, 11, 13), "the usage")


def tools_and_thinking(server):
    """parallel calls and signed thinking, sent back by the library itself"""
    api = client(server)
    for is_stream in (True, False):
        server.push(text="let me see", thinking="deep thought", redactedThinking=["c2VhbA=="],
                    calls=CALLS, deltas=2)
        body = request(HELLO, tools=TOOLS, thinking={"type": "adaptive"})
        message = stream(api, **body)[1] if is_stream else api.messages.create(**body)
        kinds = [block.type for block in message.content]
        equal(kinds, ["thinking", "redacted_thinking", "text", "tool_use", "tool_use"], "blocks")
        equal(message.content[0].thinking, "deep thought", "the thinking")
        calls = [{"name": block.name, "args": block.input} for block in message.content[3:]]
        equal(calls, CALLS, "the calls")
        equal(message.stop_reason, "tool_use", "the stop reason")
        results = [{"type": "tool_result", "tool_use_id": block.id, "content": "done"}
                   for block in message.content[3:]]
        server.push(text="thanks")
        answer = {"role": "assistant", "content": message.content}
        body = request(HELLO, answer, {"role": "user", "content": results},
                       tools=TOOLS, thinking={"type": "adaptive"})
        equal(stream(api, **body)[0], "thanks", "the answer to the results")


def errors(server):
    """429 with retry-after, 529, 400, 401 and an error inside the stream"""
    api = client(server)
    server.push(status=429, error="slow down", retryAfter="7")
    error = raises(anthropic.RateLimitError, lambda: api.messages.create(**request(HELLO)))
    equal(error.response.headers["retry-after"], "7", "retry-after")
    equal(error.body["error"]["type"], "rate_limit_error", "the type")
    server.push(status=529, error="full")
    error = raises(anthropic.InternalServerError, lambda: stream(api, **request(HELLO)))
    equal((error.status_code, error.body["error"]["type"]), (529, "overloaded_error"), "529")
    server.push(status=400, error="no")
    raises(anthropic.BadRequestError, lambda: api.messages.create(**request(HELLO)))
    server.push(status=401, error="no key")
    raises(anthropic.AuthenticationError, lambda: api.messages.create(**request(HELLO)))
    server.push(text="half", streamError="overloaded_error")
    error = raises(anthropic.APIStatusError, lambda: stream(api, **request(HELLO)))
    equal(error.body["error"]["type"], "overloaded_error", "the type in the stream")


def cut(server):
    """a stream that is cut is an error"""
    server.push(text="a long text", deltas=5, cutAt=500)
    raises(httpx2.TransportError, lambda: stream(client(server), **request(HELLO)))


def retried(server):
    """the library's own retry after 529 reaches the next answer"""
    server.push(status=529, error="full", retryAfter="0")
    server.push(text="at last")
    api = client(server).with_options(max_retries=1)
    equal(api.messages.create(**request(HELLO)).content[0].text, "at last", "the answer")


CHECKS = (text_both_ways, counts, tools_and_thinking, errors, cut, retried)
