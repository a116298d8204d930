"""Costs, and counts of tokens that cannot be true: they are as good as none, in an answer and in a stream."""

import pytest

from fibatchd.config import CHAT_COMPLETIONS, Config, Model, Price, Upstream
from fibatchd.domain.requests import Usage
from fibatchd.inference.chat import ChatCompletions
from fibatchd.inference.cost import MOST_TOKENS, believable, cost_of
from fibatchd.inference.endpoint import Reply, StreamEditor
from fibatchd.inference.execute import Executor
from fibatchd.upstream.fleet import Fleet

PRICE = Price(input=100, cached_input=20, output=400)
UPSTREAM = Upstream(url="echo:", endpoints=(CHAT_COMPLETIONS,), model="m")
MODEL = Model(id="m", endpoints=(CHAT_COMPLETIONS,), upstreams=(UPSTREAM,), price=PRICE)
BODY = b'{"model": "m", "messages": [{"role": "user", "content": "hi"}]}'
ABSURD = [
    Usage(10**30, 0, 1),
    Usage(1, 0, 2**63),
    Usage(1, MOST_TOKENS + 1, 1),
    Usage(1, 0, 1, MOST_TOKENS + 1),
    Usage(-1, 0, 1),
]


class Telling(ChatCompletions):
    """Chat whose answers tell one usage."""

    def __init__(self, usage):
        self.usage = usage

    def reply(self, body, call, route):
        return Reply(body, self.usage)

    def editor(self, call, route):
        return TellingStream(self.usage)


class TellingStream(StreamEditor):
    def __init__(self, usage):
        self.usage = usage

    def feed(self, chunk):
        return chunk

    def close(self):
        return b""

    def failed(self, code, message):
        return b""


@pytest.fixture
async def executor():
    fleet = Fleet()
    await fleet.update(Config(models=(MODEL,)))
    return Executor(fleet)


async def streamed(executor, endpoint):
    async with executor.stream(endpoint, MODEL, BODY, {}, max_body=10**6) as opened:
        async for _ in opened.chunks():
            pass
    return opened.result


def test_the_parts_of_a_cost():
    assert cost_of(PRICE, Usage(10, 4, 5)) == 6 * 100 + 4 * 20 + 5 * 400
    assert cost_of(PRICE, Usage(10, 99, 0)) == 10 * 20, "no more can be cached than was read"
    assert cost_of(PRICE, None) is None
    assert cost_of(None, None) == 0


@pytest.mark.parametrize("usage", [None, Usage(), Usage(MOST_TOKENS, MOST_TOKENS, MOST_TOKENS, MOST_TOKENS)])
def test_usage_that_may_be_true(usage):
    assert believable(usage) is usage


@pytest.mark.parametrize("usage", ABSURD)
async def test_usage_that_cannot_be_true_is_none(executor, usage):
    assert believable(usage) is None
    attempt = await executor.attempt(Telling(usage), MODEL, BODY, {}, max_body=10**6)
    assert attempt.answer is not None
    assert (attempt.usage, attempt.cost) == (None, None)
    result = await streamed(executor, Telling(usage))
    assert result.answer is not None
    assert (result.usage, result.cost) == (None, None)


async def test_usage_that_may_be_true_is_counted(executor):
    usage = Usage(3, 0, 4)
    assert (await executor.attempt(Telling(usage), MODEL, BODY, {}, max_body=10**6)).cost == 1900
    assert (await streamed(executor, Telling(usage))).cost == 1900
