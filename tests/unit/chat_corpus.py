"""Chat completion bodies with the verdict each must get: for every documented field values that are right and values that are
wrong, every kind of message, what clients of open servers add, and mutations of whole bodies.

`cases()` yields (name, valid, body). The verdicts are written by hand from OpenAI's reference, not taken from the schema.
"""

from collections.abc import Iterator
from typing import Any

Case = tuple[str, bool, Any]

USER = {"role": "user", "content": "Name three prime numbers."}
TEXT = {"type": "text", "text": "What is in this picture?"}
IMAGE = {"type": "image_url", "image_url": {"url": "https://example.com/cat.png"}}
AUDIO = {"type": "input_audio", "input_audio": {"data": "UklGRg==", "format": "wav"}}
FILE = {"type": "file", "file": {"file_id": "file-1", "file_data": "JVBERi0=", "filename": "a.pdf"}}
REFUSAL = {"type": "refusal", "refusal": "I cannot help with that."}
BREAKPOINT = {"mode": "explicit", "ttl": "12h"}
CALL = {"id": "call_1", "type": "function", "function": {"name": "weather", "arguments": '{"city": "Oslo"}'}}
CUSTOM_CALL = {"id": "call_2", "type": "custom", "custom": {"name": "sql", "input": "select 1"}}
PARAMETERS = {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]}
FUNCTION = {"name": "weather", "description": "Weather now", "parameters": PARAMETERS, "strict": True}
TOOL = {"type": "function", "function": FUNCTION}
GRAMMAR = {"type": "grammar", "grammar": {"definition": "start: /a+/", "syntax": "lark"}}
CUSTOM_TOOL = {"type": "custom", "custom": {"name": "sql", "description": "Runs SQL", "format": GRAMMAR}}
JSON_SCHEMA = {"name": "answer", "description": "An answer", "schema": PARAMETERS, "strict": True}
LOCATION = {
    "type": "approximate",
    "approximate": {"city": "Oslo", "country": "NO", "region": "Oslo", "timezone": "Europe/Oslo"},
}
ALLOWED = {
    "type": "allowed_tools",
    "allowed_tools": {"mode": "auto", "tools": [{"type": "function", "function": {"name": "weather"}}]},
}

# Field -> (values that are right, values that are wrong). null is added to both sides by `cases`.
FIELDS: dict[str, tuple[list[Any], list[Any]]] = {
    "model": (["glm-5.3-flash", "org/model:tag", "模型"], ["", 5, ["m"], {"id": "m"}, True]),
    "messages": ([[USER], [USER] * 50], [[], {}, "hi", [[]], ["hi"], [None], [USER, 1], USER]),
    "audio": (
        [
            {"format": "wav", "voice": "alloy"},
            {"format": "aac", "voice": "somebody-new"},
            {"format": "mp3", "voice": {"id": "voice_1"}},
        ],
        [
            {},
            "wav",
            {"format": "wav"},
            {"voice": "alloy"},
            {"format": "ogg", "voice": "alloy"},
            {"format": "wav", "voice": {}},
            {"format": "wav", "voice": 1},
            {"format": "wav", "voice": {"id": 1}},
        ],
    ),
    "frequency_penalty": ([-2, -2.0, 0, 0.5, 2], [-2.01, 2.01, "0", True, [], 10**30]),
    "function_call": (["none", "auto", {"name": "weather"}], ["required", "", {}, {"name": 1}, 1, ["auto"], False]),
    "functions": (
        [[FUNCTION], [{"name": "f"}], [{"name": "f", "description": None, "parameters": None}]],
        [
            [],
            {},
            [{}],
            [1],
            [{"name": ""}],
            [{"name": "a b"}],
            [{"name": "f", "parameters": []}],
            [{"name": "f", "description": 1}],
            [{"name": "f"}] * 129,
        ],
    ),
    "logit_bias": (
        [{}, {"50256": -100}, {"1": 100, "2": 0.5}],
        [[], "x", 1, {"1": 101}, {"1": -100.5}, {"1": "5"}, {"1": None}, {"1": True}],
    ),
    "logprobs": ([True, False], [0, 1, "true", [], {}]),
    "max_completion_tokens": ([1, 4096, 10**12, 5.0], [0, -1, 1.5, "5", True, []]),
    "max_tokens": ([1, 4096, 10**30, 5.0], [0, -1, 1.5, "5", True, {}]),
    "metadata": (
        [
            {},
            {"project": "eval-42", "": ""},
            {"k" * 64: "é" * 512},
            {"😀" * 64: "😀" * 512},
            {str(i): "v" for i in range(16)},
        ],
        [[], "x", {"a": 1}, {"a": None}, {"a": {}}, {"k" * 65: ""}, {"a": "v" * 513}, {str(i): "v" for i in range(17)}],
    ),
    "modalities": ([["text"], ["text", "audio"]], ["text", ["image"], [1], {}, [None]]),
    "moderation": (
        [
            {"model": "omni"},
            {"model": "omni", "policy": None},
            {"model": "omni", "policy": {"input": {"mode": "score"}, "output": {"mode": "block"}}},
        ],
        [
            {},
            "omni",
            {"model": 1},
            {"model": "omni", "policy": "block"},
            {"model": "omni", "policy": {"input": {}}},
            {"model": "omni", "policy": {"output": {"mode": "warn"}}},
        ],
    ),
    "n": ([1, 128, 2.0], [0, 129, -1, 1.5, "1", True]),
    "parallel_tool_calls": ([True, False], ["false", 0, []]),
    "prediction": (
        [{"type": "content", "content": "x = 1"}, {"type": "content", "content": [TEXT]}],
        [
            {},
            "x",
            {"type": "content"},
            {"content": "x"},
            {"type": "text", "content": "x"},
            {"type": "content", "content": []},
            {"type": "content", "content": [IMAGE]},
            {"type": "content", "content": None},
        ],
    ),
    "presence_penalty": ([-2, 0, 1.999, 2], [-3, 2.5, "1", False, {}]),
    "prompt_cache_key": (["", "user-1"], [1, [], {}, True]),
    "prompt_cache_options": (
        [{}, {"mode": "implicit"}, {"mode": "explicit", "ttl": "30m"}, {"ttl": None}],
        ["implicit", [], {"mode": "auto"}, {"ttl": 30}, {"ttl": "1y"}],
    ),
    "prompt_cache_retention": (["in_memory", "24h"], ["12h", 24, "", []]),
    "reasoning_effort": (
        ["none", "minimal", "low", "medium", "high", "xhigh", "max", "ultra"],
        ["", 1, ["low"], {"effort": "low"}, True],
    ),
    "response_format": (
        [
            {"type": "text"},
            {"type": "json_object"},
            {"type": "json_schema", "json_schema": JSON_SCHEMA},
            {"type": "json_schema", "json_schema": {"name": "a", "strict": None}},
        ],
        [
            {},
            "json",
            [],
            {"type": "xml"},
            {"type": "json_schema"},
            {"type": "json_schema", "json_schema": {}},
            {"type": "json_schema", "json_schema": {"name": "a b"}},
            {"type": "json_schema", "json_schema": {"name": "a" * 65}},
            {"type": "json_schema", "json_schema": {"name": "a\n"}},
            {"type": "json_schema", "json_schema": {"name": "a", "schema": "{}"}},
            {"type": "json_schema", "json_schema": {"name": "a", "strict": "yes"}},
            {"type": None},
        ],
    ),
    "safety_identifier": (["u" * 128, "", "é" * 128], ["u" * 129, 5, {}]),
    "seed": ([0, -5, 2**53 + 1, 2**63, 10**40], [1.5, "7", True, []]),
    "service_tier": (["auto", "default", "flex", "scale", "priority", "fast"], ["gold", "", 1, []]),
    "stop": (["\n", "", ["a"], ["a", "b", "c", "d"], []], [["a"] * 5, 1, [1], [None], {}, True, [["a"]]]),
    "store": ([True, False], ["yes", 0, {}]),
    "stream": ([True, False], ["true", 1, 0, [], {}]),
    "stream_options": ([], [{"include_usage": True}, "usage", [], True]),  # right only beside stream: true; see BODIES
    "temperature": ([0, 0.0, 0.7, 1, 2, 2.0, 1e-300], [-0.1, 2.1, "0.7", True, [], -1e300, 10**25]),
    "tool_choice": (
        [
            "none",
            "auto",
            "required",
            {"type": "function", "function": {"name": "weather"}},
            {"type": "custom", "custom": {"name": "sql"}},
            ALLOWED,
            {"type": "allowed_tools", "allowed_tools": {"mode": "required", "tools": []}},
        ],
        [
            "any",
            "",
            1,
            [],
            {},
            {"type": "tool"},
            {"type": "function"},
            {"type": "function", "function": {}},
            {"type": "function", "function": "weather"},
            {"type": "custom", "custom": {"name": 1}},
            {"type": "allowed_tools"},
            {"type": "allowed_tools", "allowed_tools": {"mode": "none", "tools": []}},
            {"type": "allowed_tools", "allowed_tools": {"mode": "auto"}},
            {"type": "allowed_tools", "allowed_tools": {"mode": "auto", "tools": ["weather"]}},
        ],
    ),
    "tools": (
        [
            [],
            [TOOL],
            [TOOL, CUSTOM_TOOL],
            [TOOL] * 200,
            [{"type": "function", "function": {"name": "A-Za_z09"}}],
            [{"type": "function", "function": {"name": "f", "parameters": None, "strict": None}}],
            [{"type": "custom", "custom": {"name": "c"}}],
            [{"type": "custom", "custom": {"name": "c", "format": {"type": "text"}}}],
        ],
        [
            {},
            "weather",
            [1],
            [{}],
            [{"type": "function"}],
            [{"type": "code"}],
            [{"function": FUNCTION}],
            [{"type": "function", "function": {}}],
            [{"type": "function", "function": {"name": "a.b"}}],
            [{"type": "function", "function": {"name": "f" * 65}}],
            [{"type": "function", "function": {"name": "f\n"}}],
            [{"type": "function", "function": {"name": "f", "parameters": "{}"}}],
            [{"type": "function", "function": {"name": "f", "strict": 1}}],
            [{"type": "custom"}],
            [{"type": "custom", "custom": {}}],
            [{"type": "custom", "custom": {"name": "c", "format": {}}}],
            [{"type": "custom", "custom": {"name": "c", "format": {"type": "grammar"}}}],
            [
                {
                    "type": "custom",
                    "custom": {
                        "name": "c",
                        "format": {"type": "grammar", "grammar": {"definition": "a", "syntax": "ebnf"}},
                    },
                }
            ],
            [{"type": "custom", "custom": {"name": "c", "format": "text"}}],
        ],
    ),
    "top_logprobs": ([0], [1, -1, 21, 1.5, "5", True]),  # 1 to 20 only beside logprobs: true; see BODIES
    "top_p": ([0, 0.5, 1, 1.0], [-0.01, 1.01, "1", False, []]),
    "user": (["", "user-1234"], [1, [], {"id": 1}]),
    "verbosity": (["low", "medium", "high"], ["loud", "", 1, []]),
    "web_search_options": (
        [
            {},
            {"search_context_size": "low"},
            {"user_location": None},
            {"search_context_size": "high", "user_location": LOCATION},
            {"user_location": {"type": "approximate", "approximate": {}}},
        ],
        [
            "low",
            [],
            {"search_context_size": "huge"},
            {"user_location": {}},
            {"user_location": {"type": "exact", "approximate": {}}},
            {"user_location": {"type": "approximate", "approximate": {"city": 1}}},
            {"user_location": {"type": "approximate"}},
        ],
    ),
}

REQUIRED = {"model", "messages"}

GOOD_MESSAGES: list[dict[str, Any]] = [
    {"role": "developer", "content": "Be brief.", "name": "dev"},
    {"role": "developer", "content": [TEXT, TEXT]},
    {"role": "system", "content": ""},
    {"role": "system", "content": [TEXT], "name": None},
    {"role": "user", "content": "hi", "name": "ann"},
    {"role": "user", "content": [TEXT]},
    {"role": "user", "content": [TEXT, IMAGE, AUDIO, FILE]},
    {
        "role": "user",
        "content": [{**TEXT, "prompt_cache_breakpoint": BREAKPOINT}, {**IMAGE, "prompt_cache_breakpoint": None}],
    },
    *(
        {"role": "user", "content": [{"type": "image_url", "image_url": {"url": "data:,", "detail": detail}}]}
        for detail in ("auto", "low", "high", "original", None)
    ),
    {"role": "user", "content": [{"type": "file", "file": {}}]},
    {"role": "user", "content": [{"type": "video_url", "video_url": {"url": "https://example.com/a.mp4"}}]},
    {"role": "user", "content": [{"type": "audio_url", "audio_url": {"url": "https://example.com/a.mp3"}}]},
    {"role": "user", "content": [{**TEXT, "uuid": "x"}], "extra": {"a": [1]}},
    {
        "role": "assistant",
        "content": "2, 3, 5",
        "name": "bot",
        "refusal": None,
        "tool_calls": None,
        "function_call": None,
        "audio": None,
    },
    {"role": "assistant", "content": [TEXT, REFUSAL]},
    {"role": "assistant", "content": None, "tool_calls": [CALL]},
    {"role": "assistant", "tool_calls": [CALL, CUSTOM_CALL]},
    {"role": "assistant", "content": "", "tool_calls": []},
    {"role": "assistant", "content": None, "function_call": {"name": "weather", "arguments": "{"}},
    {"role": "assistant", "audio": {"id": "audio_1"}},
    {"role": "assistant", "refusal": "No."},
    {"role": "assistant", "content": None, "reasoning_content": "Let me see"},
    {"role": "assistant", "content": "5", "reasoning": "so"},
    {"role": "tool", "content": "12 degrees", "tool_call_id": "call_1"},
    {"role": "tool", "content": [TEXT], "tool_call_id": "call_1", "name": "weather"},
    {"role": "function", "content": "12", "name": "weather"},
    {"role": "function", "content": None, "name": "weather"},
]

BAD_MESSAGES: list[Any] = [
    {}, {"content": "hi"}, {"role": None, "content": "hi"}, {"role": "robot", "content": "hi"}, {"role": ["user"], "content": "hi"}, {"role": "User", "content": "hi"},
    {"role": "developer"}, {"role": "developer", "content": None}, {"role": "developer", "content": [IMAGE]}, {"role": "developer", "content": {}},
    {"role": "system"}, {"role": "system", "content": 1}, {"role": "system", "content": []}, {"role": "system", "content": ["hi"]}, {"role": "system", "content": [REFUSAL]}, {"role": "system", "content": "x", "name": 1},
    {"role": "user"}, {"role": "user", "content": None}, {"role": "user", "content": 5}, {"role": "user", "content": True}, {"role": "user", "content": {"type": "text", "text": "hi"}},
    {"role": "user", "content": []}, {"role": "user", "content": ["hi"]}, {"role": "user", "content": [[TEXT]]}, {"role": "user", "content": [None]}, {"role": "user", "content": "x", "name": {}},
    {"role": "user", "content": [{}]}, {"role": "user", "content": [{"text": "hi"}]}, {"role": "user", "content": [{"type": "text"}]}, {"role": "user", "content": [{"type": "text", "text": None}]}, {"role": "user", "content": [{"type": "text", "text": 1}]},
    {"role": "user", "content": [{"type": "picture", "text": "hi"}]}, {"role": "user", "content": [{"type": None}]}, {"role": "user", "content": [REFUSAL]}, {"role": "user", "content": [TEXT, {"type": "text", "txt": "hi"}]},
    {"role": "user", "content": [{"type": "image_url"}]}, {"role": "user", "content": [{"type": "image_url", "image_url": "https://example.com/cat.png"}]}, {"role": "user", "content": [{"type": "image_url", "image_url": {}}]},
    {"role": "user", "content": [{"type": "image_url", "image_url": {"url": 1}}]}, {"role": "user", "content": [{"type": "image_url", "image_url": {"url": "x", "detail": "max"}}]}, {"role": "user", "content": [{"type": "image_url", "image_url": [{"url": "x"}]}]},
    {"role": "user", "content": [{"type": "input_audio"}]}, {"role": "user", "content": [{"type": "input_audio", "input_audio": {"data": "x"}}]}, {"role": "user", "content": [{"type": "input_audio", "input_audio": {"format": "wav"}}]}, {"role": "user", "content": [{"type": "input_audio", "input_audio": {"data": "x", "format": "midi"}}]},
    {"role": "user", "content": [{"type": "file"}]}, {"role": "user", "content": [{"type": "file", "file": "file-1"}]}, {"role": "user", "content": [{"type": "file", "file": {"file_id": 1}}]}, {"role": "user", "content": [{"type": "video_url", "video_url": {}}]}, {"role": "user", "content": [{"type": "audio_url", "audio_url": "x"}]},
    {"role": "user", "content": [{**TEXT, "prompt_cache_breakpoint": {}}]}, {"role": "user", "content": [{**TEXT, "prompt_cache_breakpoint": {"mode": "implicit"}}]}, {"role": "user", "content": [{**TEXT, "prompt_cache_breakpoint": {"mode": "explicit", "ttl": "1h"}}]},
    {"role": "assistant"}, {"role": "assistant", "content": None}, {"role": "assistant", "content": None, "tool_calls": []}, {"role": "assistant", "content": None, "tool_calls": None, "refusal": None}, {"role": "assistant", "content": 1, "tool_calls": [CALL]}, {"role": "assistant", "content": [], "tool_calls": [CALL]}, {"role": "assistant", "content": [IMAGE]},
    {"role": "assistant", "content": [{"type": "refusal"}]}, {"role": "assistant", "content": [{"type": "refusal", "refusal": 1}]}, {"role": "assistant", "content": "x", "refusal": 1}, {"role": "assistant", "content": "x", "audio": {}}, {"role": "assistant", "content": "x", "audio": "audio_1"}, {"role": "assistant", "content": "x", "name": 5},
    {"role": "assistant", "tool_calls": CALL}, {"role": "assistant", "tool_calls": [{}]}, {"role": "assistant", "tool_calls": [{**CALL, "id": 1}]}, {"role": "assistant", "tool_calls": [{**CALL, "type": "code"}]}, {"role": "assistant", "tool_calls": [{"type": "function", "function": CALL["function"]}]}, {"role": "assistant", "tool_calls": [{"id": "c", "function": CALL["function"]}]},
    {"role": "assistant", "tool_calls": [{"id": "c", "type": "function"}]}, {"role": "assistant", "tool_calls": [{"id": "c", "type": "function", "function": {"name": "f"}}]}, {"role": "assistant", "tool_calls": [{"id": "c", "type": "function", "function": {"name": "f", "arguments": {}}}]}, {"role": "assistant", "tool_calls": [{"id": "c", "type": "custom", "custom": {"name": "c"}}]},
    {"role": "assistant", "function_call": {"name": "f"}}, {"role": "assistant", "function_call": "f"}, {"role": "assistant", "function_call": {"name": "f", "arguments": {}}},
    {"role": "tool", "content": "x"}, {"role": "tool", "tool_call_id": "c"}, {"role": "tool", "content": None, "tool_call_id": "c"}, {"role": "tool", "content": "x", "tool_call_id": None}, {"role": "tool", "content": "x", "tool_call_id": 1}, {"role": "tool", "content": [IMAGE], "tool_call_id": "c"}, {"role": "tool", "content": {}, "tool_call_id": "c"},
    {"role": "function", "content": "x"}, {"role": "function", "name": "f"}, {"role": "function", "content": [TEXT], "name": "f"}, {"role": "function", "content": "x", "name": None},
]  # fmt: skip

BODIES: list[Case] = [
    ("not an object: array", False, []),
    ("not an object: string", False, "hi"),
    ("not an object: null", False, None),
    ("empty", False, {}),
    ("model alone", False, {"model": "m"}),
    ("messages alone", False, {"messages": [USER]}),
    ("top_logprobs with logprobs", True, {"model": "m", "messages": [USER], "logprobs": True, "top_logprobs": 20}),
    ("top_logprobs against logprobs", False, {"model": "m", "messages": [USER], "logprobs": False, "top_logprobs": 1}),
    ("top_logprobs beside null", False, {"model": "m", "messages": [USER], "logprobs": None, "top_logprobs": 1}),
    *((f"stream_options {options}", True, {"model": "m", "messages": [USER], "stream": True, "stream_options": options}) for options in ({}, {"include_usage": True}, {"include_obfuscation": False, "include_usage": None})),
    *((f"stream_options {options}", False, {"model": "m", "messages": [USER], "stream": True, "stream_options": options}) for options in ({"include_usage": 1}, {"include_obfuscation": "no"}, [])),
    ("stream_options against stream", False, {"model": "m", "messages": [USER], "stream": False, "stream_options": {}}),
    ("extras of open servers", True, {"model": "m", "messages": [USER], "top_k": 40, "min_p": 0.05, "repetition_penalty": 1.1, "chat_template_kwargs": {"enable_thinking": False}, "guided_json": {}, "ignore_eos": True, "stop_token_ids": [1, 2]}),
    ("unknown keys at every level", True, {"model": "m", "messages": [{**USER, "x": 1}], "tools": [{**TOOL, "x": [{}]}], "response_format": {"type": "text", "x": None}, "web_search_options": {"x": {"y": 1}}}),
    ("lone surrogates", True, {"model": "m", "messages": [{"role": "user", "content": "\ud800 \udc00"}]}),
    ("a lone surrogate in a key", True, {"model": "m", "messages": [USER], "\udfff": {"\ud800": 1}}),
    ("large numbers", True, {"model": "m", "messages": [USER], "seed": -(10**300), "x": 10**300, "y": 1.7976931348623157e308}),
    ("deep tool parameters", True, {"model": "m", "messages": [USER], "tools": [{"type": "function", "function": {"name": "f", "parameters": {"a": [[[[[[[[{"b": {}}]]]]]]]]}}}]}),
]  # fmt: skip


def cases() -> Iterator[Case]:
    base = {"model": "glm-5.3-flash", "messages": [USER]}
    yield "minimal", True, base
    for field, (right, wrong) in FIELDS.items():
        yield f"{field}: null", field not in REQUIRED, {**base, field: None}
        yield from ((f"{field}: right {i}", True, {**base, field: value}) for i, value in enumerate(right))
        yield from ((f"{field}: wrong {i}", False, {**base, field: value}) for i, value in enumerate(wrong))
    for i, message in enumerate(GOOD_MESSAGES):
        yield f"good message {i}", True, {**base, "messages": [USER, message]}
    for i, message in enumerate(BAD_MESSAGES):
        yield f"bad message {i} first", False, {**base, "messages": [message, USER]}
        yield f"bad message {i} last", False, {**base, "messages": [*GOOD_MESSAGES, message]}
    yield "all good messages", True, {**base, "messages": GOOD_MESSAGES}
    yield from BODIES
    yield from whole_bodies(base)


def whole_bodies(base: dict[str, Any]) -> Iterator[Case]:
    """A body that sets every field, and that body with one field gone wrong or left out at a time."""
    beside = {"stream": True, "stream_options": {"include_usage": True}, "logprobs": True, "top_logprobs": 5}
    full = base | {field: right[-1] for field, (right, _) in FIELDS.items() if right} | beside
    yield "every field", True, full
    for field, (_, wrong) in FIELDS.items():
        yield f"every field, {field} wrong", False, full | {field: wrong[-1]}
        without = {key: value for key, value in full.items() if key != field}
        needed = field in REQUIRED or field in {"stream", "logprobs"}
        yield f"every field but {field}", not needed, without
