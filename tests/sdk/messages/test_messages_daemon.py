"""What takes a whole daemon: the parameter space through it, and results of a large batch in little memory."""

import json
import re

import psutil
import pytest
from daemons import until
from fibatchd_plugins.message_batches.to_chat import to_chat
from message_space import cases, is_no_op, marks, names, without
from stand import standing

from fibatchd.config import Capabilities, Model
from fibatchd.inference.endpoint import Refused

HEADERS = {"anthropic-version": "2023-06-01"}
PATH = "/v1/messages/batches"
MIB = 2**20


def ended(client, batch):
    def look():
        found = client.get(f"{PATH}/{batch['id']}").raise_for_status().json()
        return found["processing_status"] == "ended" and found

    return until(look)


def run(client, requests):
    batch = ended(client, client.post(PATH, json={"requests": requests}, headers=HEADERS).raise_for_status().json())
    text = client.get(batch["results_url"]).raise_for_status().text
    return {line["custom_id"]: line["result"] for line in map(json.loads, text.splitlines())}


def tagged(case, number):
    """The case's body with a mark by which the upstream's log tells whose it is."""
    stops = case.body.get("stop_sequences", [])
    return case.body | {"stop_sequences": [*stops, f"case-{number}-"]}


def tag_of(body):
    found = re.search(rb"case-(\d+)-", body)
    assert found
    return int(found[1])


CAPABILITIES = {
    "translated": Capabilities(),
    "rich": Capabilities(images=True, top_k=True, assistant_prefill=True, max_stop_sequences=16),
}


@pytest.mark.slow
@pytest.mark.parametrize("model", ["translated", "rich", "native"])
def test_every_single_field_reaches_the_upstream_or_is_named(tmp_path, model):
    space = cases()
    with standing(tmp_path, "sqlite:fibatchd.db", concurrency=32) as stand:
        requests = [
            {"custom_id": str(number), "params": {"model": model} | tagged(case, number)}
            for number, case in enumerate(space)
        ]
        with stand.daemon.client(stand.key) as client:
            results = run(client, requests)
        sent = {tag_of(call.body): call.body for call in stand.models.calls}
    assert len(results) == len(space)
    for number, case in enumerate(space):
        result = results[str(number)]
        if result["type"] == "errored":
            error = result["error"]["error"]
            assert error["type"] == "invalid_request_error"
            assert names(error["message"], case.path), (case, error)
            assert number not in sent
        elif model == "native":
            assert json.loads(sent[number]) == {"model": "their-messages"} | tagged(case, number)
        else:
            body = tagged(case, number)
            assert marks(body) <= marks(sent[number].decode()), case
            assert is_no_op(case) or without_it(case, body, model) != sent[number], case


def without_it(case, body, model):
    """What would be sent without the field; None where that is no request any more."""
    of = Model(id=model, capabilities=CAPABILITIES[model], upstreams=())
    try:
        return to_chat(json.dumps({"model": model} | without(body, case.path)).encode(), of, "their-chat")[0]
    except Refused:
        return None


@pytest.mark.slow
def test_results_of_20000_requests_in_flat_memory(tmp_path, storage):
    """Each result is 8 KiB, all together 160 MiB: the daemon's memory grows by a small part of that while they are read."""
    count, padding = 20_000, "x" * 8192
    requests = [
        {
            "custom_id": str(n),
            "params": {"model": "native", "max_tokens": 1, "messages": [{"role": "user", "content": "pad"}]},
        }
        for n in range(count)
    ]
    with standing(tmp_path, storage, concurrency=64) as stand, stand.daemon.client(stand.key) as client:
        stand.models.padding = padding
        batch = ended(client, client.post(PATH, json={"requests": requests}, headers=HEADERS).raise_for_status().json())
        assert batch["request_counts"]["succeeded"] == count
        process = psutil.Process(stand.daemon.process.pid)
        before = peak = process.memory_info().rss
        received, numbers = 0, []
        with client.stream("GET", batch["results_url"]) as answer:
            for line in answer.iter_lines():
                assert line
                received += len(line)
                numbers.append(int(line[len('{"custom_id":"') :].partition('"')[0]))
                if len(numbers) % 500 == 0:
                    peak = max(peak, process.memory_info().rss)
    assert numbers == list(range(count))
    assert received > count * len(padding)
    print(f"{received / MIB:.0f} MiB received, memory {before / MIB:.0f} -> {peak / MIB:.0f} MiB")
    assert peak - before < 32 * MIB
