"""Nothing is silently dropped: every field that the SDK's types know, alone and in pairs, either reaches the upstream or is
named in the refusal. The same through a daemon, for single fields, stands in tests/sdk."""

import json

import pytest
from fibatchd_plugins.message_batches.endpoint import Messages
from fibatchd_plugins.message_batches.native import native_call
from fibatchd_plugins.message_batches.versions import FIRST
from message_space import Case, cases, is_no_op, kind_of, marks, merged, names, pairs, without
from routes_to_models import MESSAGES, model, route

from fibatchd.inference.endpoint import Refused

CASES = cases()
PLAIN = model()
RICH = model(images=True, top_k=True, assistant_prefill=True, max_stop_sequences=16)
NATIVE = model(protocol="anthropic", serves=MESSAGES, url="http://h")
ENDPOINT = Messages()


def outcome(body, of):
    """What is sent, and None; or None, and why nothing is."""
    text = json.dumps({"model": "m"} | body).encode()
    if problem := ENDPOINT.check(text, batch=True, options={"version": FIRST}):
        return None, problem.message
    try:
        return ENDPOINT.call(text, route(of), {"version": FIRST}).body, None
    except Refused as refused:
        return None, str(refused)


def dropped(case, of, sent):
    """What of an accepted case did not reach the upstream."""
    if lost := marks(case.body) - marks(sent.decode()):
        return lost
    if not is_no_op(case) and outcome(without(case.body, case.path), of)[0] == sent:
        return {case.path}
    return set()


def test_the_space_is_the_whole_of_it():
    """Guards the walk itself: every kind of block and of tool, every top-level member, is in it."""
    paths = {case.path[0] for case in CASES}
    assert {
        "system",
        "thinking",
        "output_config",
        "cache_control",
        "container",
        "temperature",
        "user_profile_id",
    } <= paths
    kinds = {kind for case in CASES for _, kind in kind_of(case)[1:]}
    assert {
        "text",
        "image",
        "document",
        "search_result",
        "thinking",
        "tool_use",
        "tool_result",
        "base64",
        "custom",
    } <= kinds
    assert {"web_search_20250305", "bash_20250124", "container_upload", "server_tool_use", "file", "adaptive"} <= kinds
    assert len(CASES) > 2000


@pytest.mark.parametrize("of", [PLAIN, RICH], ids=["plain", "rich"])
def test_single_fields(of):
    accepted = 0
    for case in CASES:
        sent, error = outcome(case.body, of)
        if sent is None:
            assert names(error, case.path), (case, error)
        else:
            assert not dropped(case, of, sent), (case, sent)
            accepted += 1
    assert accepted > 40


def test_single_fields_on_a_native_upstream():
    for case in CASES:
        sent, error = outcome(case.body, NATIVE)
        if sent is None:
            assert names(error, case.path), (case, error)
        else:
            assert json.loads(sent) == {"model": "theirs"} | case.body
            assert (
                sent == native_call(MESSAGES, json.dumps({"model": "m"} | case.body).encode(), route(NATIVE), {}).body
            )


@pytest.mark.slow
def test_pairs_of_fields():
    for first, second in pairs(CASES, lambda case: outcome(case.body, RICH)[0] is not None):
        pair = merged(first.body, second.body)
        sent, error = outcome(pair, RICH)
        if sent is None:
            assert about_either(error, first, second, pair), (first, second, error)
        else:
            assert marks(pair) <= marks(sent.decode()), (first, second, sent)


def about_either(error: str, first: Case, second: Case, pair) -> bool:
    """Whether an error names one of the fields, in a body in which those of the second may stand further back."""
    return names(error, first.path) or names(without_positions(error), without_positions_in(second.path))


def without_positions(error: str) -> str:
    return ".".join("0" if step.isdigit() else step for step in error.partition(":")[0].split(".")) + ":"


def without_positions_in(path):
    return tuple(0 if isinstance(step, int) else step for step in path)
