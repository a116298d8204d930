"""Nothing is silently dropped: every field that the SDK's types know, alone and in pairs, either reaches the upstream or is
named in the refusal. The same through a daemon, for single fields, stands in tests/sdk."""

import json
import re

from response_routes import ENDPOINT, NATIVE, TRANSLATED, encoded, problem, route
from response_space import Case, about, cases, is_no_op, kind_of, lost, merged, pairs, without

CASES = cases()


def outcome(body, of):
    """What is sent, and None; or None, and the field for which nothing is."""
    if found := problem(body, of, batch=not body.get("stream")):
        assert found.message.startswith(f"{found.param}: ")
        return None, found.param
    return ENDPOINT.call(encoded(body), route(of), {}).body, None


def test_the_space_is_the_whole_of_it():
    """Guards the walk itself: every top-level member, every kind of item, part and tool, is in it."""
    assert {"background", "conversation", "include", "moderation", "prompt", "reasoning", "text", "top_p"} <= {
        case.path[0] for case in CASES
    }
    kinds = {kind for case in CASES for _, kind in kind_of(case)[1:]}
    assert {"input_text", "input_image", "input_file", "output_text", "refusal", "function", "custom"} <= kinds
    assert {"function_call", "function_call_output", "reasoning", "item_reference", "mcp_call", "compaction"} <= kinds
    assert {"web_search", "file_search", "code_interpreter", "mcp", "image_generation", "shell"} <= kinds
    assert len(CASES) > 800


def test_single_fields():
    carried = []
    for case in CASES:
        sent, param = outcome(case.body, TRANSLATED)
        if sent is None:
            assert about(param, case.path), (case, param)
        else:
            assert not lost(case.body, sent.decode()), (case, sent)
            assert is_no_op(case) or outcome(without(case.body, case.path), TRANSLATED)[0] != sent, (case, sent)
            carried.append(case)
    assert len(carried) > 60
    kept = {case.path[0] for case in carried if not is_no_op(case)}
    assert kept == {
        "input", "instructions", "max_output_tokens", "parallel_tool_calls", "prompt_cache_key", "reasoning",
        "safety_identifier", "service_tier", "temperature", "text", "tool_choice", "tools", "top_logprobs", "top_p", "user",
    }  # fmt: skip


def test_single_fields_on_a_native_upstream():
    taken = 0
    for case in CASES:
        sent, param = outcome(case.body, NATIVE)
        if sent is None:
            assert about(param, case.path), (case, param)
        else:
            assert json.loads(sent) == json.loads(encoded(case.body)) | {"model": "up/model", "store": False}
            taken += 1
    assert taken > 400


def test_pairs_of_fields():
    for first, second in pairs(CASES, lambda case: outcome(case.body, TRANSLATED)[0] is not None):
        pair = merged(first.body, second.body)
        sent, param = outcome(pair, TRANSLATED)
        if sent is None:
            assert about_either(param, first, second), (first, second, param)
        else:
            assert not lost(pair, sent.decode()), (first, second, sent)


def about_either(param: str, first: Case, second: Case) -> bool:
    """Whether a refusal names one of the fields, in a body in which those of the second may stand further back."""
    return about(param, first.path) or about(re.sub(r"\[\d+\]", "[0]", param), second.path)
