"""OpenAI Responses and Chat Completions, through the library `openai`."""
import json

import openai

from asserts import CALLS, PROMPT_TOKENS, SCHEMA, USAGE, equal, raises

NAMES = ("read_file", "list_dir")
CHAT_TOOLS = [{"type": "function", "function": {"name": name, "parameters": SCHEMA}}
              for name in NAMES]
TOOLS = [{"type": "function", "name": name, "parameters": SCHEMA, "strict": False}
         for name in NAMES]
HELLO = {"role": "user", "content": "hello"}


def client(server):
    return openai.OpenAI(base_url=server.bases["openai"], api_key="k", max_retries=0)


def chat_stream(api, messages, **more):
    with api.chat.completions.stream(
            model="m", messages=messages, stream_options={"include_usage": True},
            **more) as events:
        for _ in events:
            pass
        return events.get_final_completion()


def responses_stream(api, items, **more):
    """Returns the kinds of the events, the text of the deltas and the final response."""
    with api.responses.stream(model="m", input=items, **more) as events:
        seen = [(event.type, getattr(event, "delta", "")) for event in events]
        text = "".join(delta for kind, delta in seen if kind == "response.output_text.delta")
        return [kind for kind, _ in seen], text, events.get_final_response()


def parsed(calls):
    return [{"name": call.name, "args": json.loads(call.arguments)} for call in calls]


def chat_text(server):
    """Chat: text and usage, streamed and whole"""
    api = client(server)
    for is_stream in (True, False):
        server.push(text="grüße, 世界", deltas=4, usage=USAGE, reasoningTokens=2)
        answer = (chat_stream(api, [HELLO]) if is_stream
                  else api.chat.completions.create(model="m", messages=[HELLO]))
        equal(answer.choices[0].message.content, "grüße, 世界", "the text")
        equal(answer.choices[0].finish_reason, "stop", "the finish reason")
        usage = answer.usage
        seen = (usage.prompt_tokens, usage.completion_tokens,
                usage.prompt_tokens_details.cached_tokens,
                usage.completion_tokens_details.reasoning_tokens)
        equal(seen, (PROMPT_TOKENS, 7, 11, 2), "the usage")


def chat_tools(server):
    """Chat: parallel calls, and their results sent back"""
    api = client(server)
    for is_stream in (True, False):
        server.push(text="let me see", calls=CALLS, thinking="deep")
        more = {"tools": CHAT_TOOLS}
        answer = (chat_stream(api, [HELLO], **more) if is_stream
                  else api.chat.completions.create(model="m", messages=[HELLO], **more))
        message = answer.choices[0].message
        equal(parsed(call.function for call in message.tool_calls), CALLS, "the calls")
        equal(message.reasoning_content, "deep", "the thinking")
        equal(answer.choices[0].finish_reason, "tool_calls", "the finish reason")
        calls = [{"id": call.id, "type": "function", "function": {
            "name": call.function.name, "arguments": call.function.arguments}}
            for call in message.tool_calls]
        said = {"role": "assistant", "content": message.content, "tool_calls": calls}
        results = [{"role": "tool", "tool_call_id": call["id"], "content": "done"}
                   for call in calls]
        server.push(text="thanks")
        answer = chat_stream(api, [HELLO, said, *results], **more)
        equal(answer.choices[0].message.content, "thanks", "the answer to the results")


def responses_text(server):
    """Responses: events, text and usage, streamed and whole"""
    api = client(server)
    server.push(text="grüße, 世界", deltas=4, usage=USAGE, reasoningTokens=2)
    kinds, text, streamed = responses_stream(api, [HELLO])
    equal(text, "grüße, 世界", "the pieces")
    order = ["response.created", "response.in_progress", "response.output_item.added",
             "response.content_part.added", *["response.output_text.delta"] * 4,
             "response.output_text.done", "response.content_part.done",
             "response.output_item.done", "response.completed"]
    equal(kinds, order, "the events")
    server.push(text="grüße, 世界", usage=USAGE, reasoningTokens=2)
    for response in (streamed, api.responses.create(model="m", input="hello")):
        equal(response.output_text, "grüße, 世界", "the text")
        equal(response.status, "completed", "the status")
        usage = response.usage
        seen = (usage.input_tokens, usage.output_tokens,
                usage.input_tokens_details.cached_tokens,
                usage.input_tokens_details.cache_write_tokens,
                usage.output_tokens_details.reasoning_tokens)
        equal(seen, (PROMPT_TOKENS, 7, 11, 13, 2), "the usage")


def responses_tools(server):
    """Responses: encrypted reasoning and parallel calls, sent back by the library itself"""
    api = client(server)
    more = {"tools": TOOLS, "include": ["reasoning.encrypted_content"], "store": False}
    for is_stream in (True, False):
        server.push(text="let me see", thinking="deep thought", calls=CALLS)
        response = (responses_stream(api, [HELLO], **more)[2] if is_stream
                    else api.responses.create(model="m", input=[HELLO], **more))
        kinds = [item.type for item in response.output]
        equal(kinds, ["reasoning", "message", "function_call", "function_call"], "the items")
        equal(response.output[0].summary[0].text, "deep thought", "the summary")
        equal(parsed(response.output[2:]), CALLS, "the calls")
        items = [HELLO, *[item.model_dump(exclude_none=True, exclude={"parsed_arguments"})
                          for item in response.output]]
        items += [{"type": "function_call_output", "call_id": call.call_id, "output": "done"}
                  for call in response.output[2:]]
        server.push(text="thanks")
        equal(responses_stream(api, items, **more)[1], "thanks", "the answer to the results")


def responses_limits(server):
    """Responses: an answer that met its limit, and one that failed"""
    api = client(server)
    server.push(text="half", stop="max_tokens")
    events = list(api.responses.create(model="m", input="hello", stream=True))
    equal(events[-1].type, "response.incomplete", "the last event")
    equal(events[-1].response.incomplete_details.reason, "max_output_tokens", "the reason")
    server.push(text="half", stop="failed")
    events = list(api.responses.create(model="m", input="hello", stream=True))
    equal(events[-1].type, "response.failed", "the last event")
    equal(events[-1].response.error.code, "server_error", "the code")


def errors(server):
    """429 with retry-after, 529, 400, 401 on both wires, and errors inside the stream"""
    api = client(server)
    ways = (lambda: api.responses.create(model="m", input="hello"),
            lambda: chat_stream(api, [HELLO]))
    for ask in ways:
        server.push(status=429, error="slow down", retryAfter="7")
        error = raises(openai.RateLimitError, ask)
        equal(error.response.headers["retry-after"], "7", "retry-after")
        equal(error.code, "rate_limit_exceeded", "the code")
        server.push(status=529, error="full")
        equal(raises(openai.InternalServerError, ask).status_code, 529, "the status")
        server.push(status=400, error="no")
        raises(openai.BadRequestError, ask)
        server.push(status=401, error="no key")
        equal(raises(openai.AuthenticationError, ask).code, "invalid_api_key", "the code")
    server.push(text="half", streamError="server_error")
    raises(openai.APIError, ways[1])
    server.push(text="half", streamError="server_error")
    # On this wire the library hands the error out as an event.
    last = list(api.responses.create(model="m", input="hello", stream=True))[-1]
    equal((last.type, last.code), ("error", "server_error"), "the last event")


def cut(server):
    """a stream that is cut is an error, on both wires"""
    api = client(server)
    server.push(text="a long text", deltas=5, cutAt=500)
    raises(openai.APIConnectionError, lambda: chat_stream(api, [HELLO]))
    server.push(text="a long text", deltas=5, cutAt=500)
    raises(openai.APIConnectionError, lambda: responses_stream(api, [HELLO]))


CHECKS = (chat_text, chat_tools, responses_text, responses_tools, responses_limits, errors, cut)
