"""The check of an inline batch's requests: those of the usual form are judged as all others are."""

import json
from types import SimpleNamespace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec import Raw
from msgspec.structs import astuple

from fibatchd import config as configuration
from fibatchd.context import Caller
from fibatchd.domain.accounts import Account, Key
from fibatchd.errors import ApiError
from fibatchd.inference.chat import ChatCompletions
from fibatchd.inference.endpoint import Endpoints
from fibatchd.web.inline import Checker

CALLER = Caller(
    Account("acct_1", "ada", "internal", "active", None, False, 0.0),
    Key("key_1", "acct_1", "hyi-", 0.0, None, None, None),
)
MODELS = '[[models]]\nid = "m"\naliases = ["em"]\nupstreams = [{ url = "echo:" }]\n'
CONTEXT = SimpleNamespace(config=configuration.parse(MODELS), endpoints=Endpoints(), drained=frozenset())
CONTEXT.endpoints.add(ChatCompletions())

bodies = st.fixed_dictionaries(
    {"model": st.sampled_from(["m", "em", "x"]), "messages": st.just([{"role": "user", "content": "hi"}])},
    optional={"temperature": st.sampled_from([0, 2, 3, "0"]), "stream": st.booleans()},
)
items = st.fixed_dictionaries(
    {"custom_id": st.sampled_from([*"abcdefgh", "\u00fc", "", 1]), "body": bodies | st.sampled_from([None, [], {}])},
    optional={
        "method": st.sampled_from(["POST", "GET", None]),
        "url": st.sampled_from(["/v1/chat/completions", "/v1/x", "", None]),
        "x": st.none(),
    },
)
right = st.builds(
    lambda name: {"custom_id": name, "body": {"model": "m", "messages": [{"role": "user", "content": "hi"}]}},
    st.text(alphabet="abcdefghij", min_size=1, max_size=3),
)


def verdict(texts):
    """What the check of these items gives: the requests, or what they are refused with."""
    try:
        return [astuple(request) for request in Checker(CONTEXT, CALLER).check(0, [Raw(text) for text in texts])]
    except ApiError as error:
        return error.status, str(error), error.code, error.param


@settings(max_examples=300)
@given(st.lists(right | right | items, max_size=6), st.sampled_from([None, (",", ":")]))
def test_requests_of_the_usual_form_are_judged_as_all_others_are(sent, separators):
    texts = [json.dumps(item, separators=separators).encode() for item in sent]
    found = verdict(texts)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("fibatchd.web.inline.usual_item", lambda text: None)
        assert verdict(texts) == found


def test_the_first_that_is_wrong_is_told_by_its_position():
    good = [b'{"custom_id":"%d","body":{"model":"m","messages":[{"role":"user","content":""}]}}' % n for n in range(3)]
    assert len(verdict(good)) == 3
    refused = (400, "requests[3] (custom_id '1'): custom_id: used by an earlier request of the batch", "duplicate_custom_id", "requests[3].custom_id")  # fmt: skip
    assert verdict([*good, good[1], b"{}"]) == refused
