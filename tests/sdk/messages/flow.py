"""All that the Python SDK does with Message Batches and messages. Run by the interpreter of any of its releases, with the
server's address and a key; ends with status 0 where everything was as it should be."""

import sys
import time

import anthropic

BASE, KEY = sys.argv[1:]
TOOL = {"name": "get_weather", "input_schema": {"type": "object", "properties": {"city": {"type": "string"}}}}
ARGUMENTS = {"city": "Paris", "days": 3}


def client_of(prefix: str, key: str = KEY) -> anthropic.Anthropic:
    return anthropic.Anthropic(base_url=BASE + prefix, api_key=key, max_retries=0)


def params(text: str, model: str, **more):
    return {"model": model, "max_tokens": 64, "messages": [{"role": "user", "content": text}]} | more


def ended(client, batch):
    while batch.processing_status != "ended":
        assert batch.request_counts.succeeded == 0
        time.sleep(0.02)
        batch = client.messages.batches.retrieve(batch.id)
    return batch


def refused(kind, call):
    """The type of the error that a call is refused with."""
    caught = None
    try:
        call()
    except kind as error:
        caught = error
    assert caught is not None, f"nothing was refused with {kind}"
    assert str(caught.request_id).startswith("req_")
    assert caught.body["error"]["message"] in str(caught)
    return caught.body["error"]["type"]


def a_batch(client, model):
    requests = {
        "plain": params("Hello there", model),
        "tool": params("tool", model, tools=[TOOL]),
        "wrong": params("x", model, max_tokens=None),
        "unknown": params("x", "no-such-model"),
        "rejected": params("error 422", model),
        "failing": params("error 500", model),
    }
    items = [{"custom_id": name, "params": body} for name, body in requests.items()]
    batch = ended(client, client.messages.batches.create(requests=items))
    counts = batch.request_counts
    assert (counts.succeeded, counts.errored, counts.processing) == (2, 4, 0), counts
    entries = list(client.messages.batches.results(batch.id))
    assert [entry.custom_id for entry in entries] == list(requests)
    results = {entry.custom_id: entry.result for entry in entries}
    is_a_message(results["plain"].message, model)
    is_a_tool_call(results["tool"].message, model)
    kinds = {name: result.error.error.type for name, result in results.items() if result.type == "errored"}
    assert kinds == {
        "wrong": "invalid_request_error",
        "unknown": "not_found_error",
        "rejected": "invalid_request_error",
        "failing": "api_error",
    }, kinds
    return batch


def is_a_message(message, model):
    assert (message.type, message.role, message.model) == ("message", "assistant", model), message
    assert [block.text for block in message.content] == ["Hello there"]
    assert (message.stop_reason, message.stop_sequence) == ("end_turn", None)
    usage = message.usage
    assert (usage.input_tokens, usage.cache_read_input_tokens, usage.output_tokens) == (20, 10, 12), usage


def is_a_tool_call(message, model):
    text, call = message.content
    assert (text.text, call.name, call.input) == ("Looking.", "get_weather", ARGUMENTS), message
    assert (message.stop_reason, message.model) == ("tool_use", model)


def lists(client):
    """Page through all batches, one at a time."""
    ids = [batch.id for batch in client.messages.batches.list(limit=1)]
    assert ids == sorted(ids, reverse=True)
    assert len(ids) == len(set(ids)) >= 2
    back = client.messages.batches.list(limit=1, before_id=ids[-1])
    assert [batch.id for batch in back] == ids[-2::-1]


def cancelling(client, model):
    items = [{"custom_id": str(n), "params": params("slow", model)} for n in range(40)]
    batch = client.messages.batches.create(requests=items)
    batch = client.messages.batches.cancel(batch.id)
    assert batch.processing_status in ("canceling", "ended")
    counts = ended(client, batch).request_counts
    assert counts.canceled > 0
    assert counts.succeeded + counts.canceled == 40
    kinds = [entry.result.type for entry in client.messages.batches.results(batch.id)]
    assert kinds.count("canceled") == counts.canceled
    deleted = client.messages.batches.delete(batch.id)
    assert (deleted.id, deleted.type) == (batch.id, "message_batch_deleted")
    assert refused(anthropic.NotFoundError, lambda: client.messages.batches.retrieve(batch.id)) == "not_found_error"


def refusals(client):
    twice = [{"custom_id": "a", "params": params("x", "native")}] * 2
    assert (
        refused(anthropic.BadRequestError, lambda: client.messages.batches.create(requests=twice))
        == "invalid_request_error"
    )
    stranger = client_of("", "hyi-" + "x" * 43)
    assert refused(anthropic.AuthenticationError, lambda: stranger.messages.batches.list()) == "authentication_error"
    wrong = params("error 422", "translated")
    assert (
        refused(anthropic.UnprocessableEntityError, lambda: client.messages.create(**wrong)) == "invalid_request_error"
    )
    missing = params("x", "no-such-model")
    assert refused(anthropic.NotFoundError, lambda: client.messages.create(**missing)) == "not_found_error"


def interactive(client, model):
    is_a_message(client.messages.create(**params("Hello there", model)), model)
    is_a_tool_call(client.messages.create(**params("tool", model, tools=[TOOL])), model)
    with client.messages.stream(**params("Hello there", model)) as stream:
        assert "".join(stream.text_stream) == "Hello there"
        is_a_message(stream.get_final_message(), model)
    with client.messages.stream(**params("tool", model, tools=[TOOL])) as stream:
        kinds = [event.type for event in stream]
        is_a_tool_call(stream.get_final_message(), model)
    assert kinds[0] == "message_start"
    assert kinds[-1] == "message_stop"


def beta(client, batch):
    """The beta namespace reads what there is, though it sends its header with every call."""
    batches = client.beta.messages.batches
    assert batches.retrieve(batch.id).processing_status == "ended"
    assert batch.id in [found.id for found in batches.list()]
    assert len(list(batches.results(batch.id))) == 6
    items = [{"custom_id": "a", "params": params("x", "native")}]
    betas = ["message-batches-2024-09-24"]
    kind = refused(anthropic.BadRequestError, lambda: batches.create(requests=items, betas=betas))
    assert kind == "invalid_request_error"


for prefix in ("/anthropic", ""):
    for model in ("translated", "native"):
        batch = a_batch(client_of(prefix), model)
        interactive(client_of(prefix), model)
lists(client_of(""))
cancelling(client_of("/anthropic"), "translated")
refusals(client_of(""))
beta(client_of("/anthropic"), batch)
print("ok", anthropic.__version__)
