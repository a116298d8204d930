"""A run: each request once, retried as in a batch, a few at a time; a server that is gone is waited for, not for ever."""

import json
from collections import Counter

import pytest
import trio

from fibatchd.config import CHAT_COMPLETIONS, Batches, Model, Upstream
from fibatchd.domain.requests import Failure, Usage
from fibatchd.errors import FibatchdError
from fibatchd.inference.chat import ChatCompletions
from fibatchd.inference.endpoint import Endpoints
from fibatchd.inference.execute import Attempt
from fibatchd.oneshot.journal import Journal
from fibatchd.oneshot.reading import Line
from fibatchd.oneshot.runner import Runner
from fibatchd.upstream.balance import Replica
from fibatchd.upstream.fleet import Member

UPSTREAM = Upstream(url="http://127.0.0.1:1/v1", endpoints=(CHAT_COMPLETIONS,), model="m")
MODEL = Model(id="m", upstreams=(UPSTREAM,))
OK = Attempt((200, b'{"a":1}'), usage=Usage(3, 0, 2))
BUSY = Attempt(failure=Failure("service_unavailable", "busy", 503), retry=True)
WRONG = Attempt(failure=Failure("invalid_request", "wrong", 400))
LARGE = Attempt(failure=Failure("result_too_large", "large", None), cost=None)
UNSENT = Attempt(failure=Failure("service_unavailable", "out", 503), retry=True, sent=False)


class Scripted:
    """An executor that gives each request the attempts that are foreseen for it, and the last one again and again."""

    def __init__(self, **foreseen):
        self.foreseen = foreseen
        self.calls = Counter()
        self.running = self.most = 0
        self.replica = Replica(UPSTREAM)
        self.takes = 1.0

    def members(self, model, endpoint):
        return [Member(UPSTREAM, None, self.replica)]

    async def attempt(self, endpoint, model, body, options, *, max_body):
        name = body.decode()
        self.running += 1
        self.most = max(self.most, self.running)
        try:
            await trio.sleep(self.takes)
        finally:
            self.running -= 1
        script = self.foreseen.get(name, [OK])
        self.calls[name] += 1
        return script[min(self.calls[name], len(script)) - 1]


@pytest.fixture(autouse=True)
def threads_take_no_time(monkeypatch):
    """The autojump clock does not see threads, and would jump over what they do."""

    async def inline(work):
        await trio.lowlevel.checkpoint()
        return work()

    monkeypatch.setattr(trio.to_thread, "run_sync", inline)


@pytest.fixture
def make(tmp_path):
    journals = []

    def make(executor, total, **settings):
        journal = Journal(tmp_path / "journal", "x", total)
        journals.append(journal)
        endpoints = Endpoints()
        endpoints.add(ChatCompletions())
        return journal, Runner(
            executor,
            endpoints,
            {"m": MODEL},
            Batches(**settings),
            journal,
            patience_s=300,
            on_change=lambda tally: None,
        )

    yield make
    for journal in journals:
        journal.close()


def lines(*names):
    return iter([Line(index, name, CHAT_COMPLETIONS, "m", name.encode()) for index, name in enumerate(names)])


def outputs(journal):
    return [json.loads(line) for line in journal.lines()]


async def test_all_are_run_in_any_order_and_told_in_order(autojump_clock, make):
    names = [f"r{n}" for n in range(50)]
    executor = Scripted()
    journal, runner = make(executor, 50)
    begun = trio.current_time()
    await runner.run(lines(*names), 10)
    assert [line["custom_id"] for line in outputs(journal)] == names
    assert outputs(journal)[0]["response"]["body"] == {"a": 1}
    assert outputs(journal)[0]["id"] == "batch_req_1"
    assert executor.calls == dict.fromkeys(names, 1)
    assert executor.most == 10
    assert trio.current_time() - begun == pytest.approx(5)
    tally = runner.tally
    assert (tally.completed, tally.failed, tally.input_tokens, tally.output_tokens) == (50, 0, 150, 100)


async def test_what_may_pass_is_tried_again(autojump_clock, make):
    executor = Scripted(a=[BUSY, BUSY, OK], b=[WRONG], c=[BUSY], d=[LARGE])
    journal, runner = make(executor, 4, max_attempts=8)
    await runner.run(lines("a", "b", "c", "d"), 4)
    assert executor.calls == {"a": 3, "b": 1, "c": 8, "d": 1}
    a, b, c, d = outputs(journal)
    assert (a["response"]["status_code"], a["error"]) == (200, None)
    assert (b["response"]["status_code"], b["response"]["body"]["error"]["code"]) == (400, "invalid_request")
    assert (c["response"]["status_code"], c["error"]) == (503, None)
    assert (d["response"], d["error"]["code"]) == (None, "result_too_large")
    assert (runner.tally.completed, runner.tally.failed, runner.tally.retried) == (1, 3, 9)


async def test_retry_after_is_honoured(autojump_clock, make):
    executor = Scripted(a=[Attempt(failure=BUSY.failure, retry=True, retry_after=30), OK])
    _journal, runner = make(executor, 1)
    begun = trio.current_time()
    await runner.run(lines("a"), 1)
    assert trio.current_time() - begun == pytest.approx(32)


async def test_what_was_not_sent_is_no_attempt(autojump_clock, make):
    executor = Scripted(a=[UNSENT] * 20 + [OK])
    _journal, runner = make(executor, 1, max_attempts=1)
    await runner.run(lines("a"), 1)
    assert (runner.tally.completed, runner.tally.retried) == (1, 0)


async def test_a_server_that_is_gone_is_waited_for(autojump_clock, make):
    executor = Scripted()
    _journal, runner = make(executor, 3)
    executor.replica.failed(trio.current_time(), at_once=True)
    executor.replica.pause(trio.current_time() + 100)
    async with trio.open_nursery() as nursery:
        nursery.start_soon(runner.run, lines("a", "b", "c"), 3)
        await trio.sleep(99)
        assert runner.tally.waiting
        assert not executor.calls
        executor.replica.answered()
    assert runner.tally.completed == 3
    assert not runner.tally.waiting


async def test_but_not_for_ever(autojump_clock, make):
    executor = Scripted(a=[OK], b=[UNSENT])
    journal, runner = make(executor, 2)
    executor.replica.failed(trio.current_time(), at_once=True)
    begun = trio.current_time()
    with pytest.raises(FibatchdError, match="no answer from the server for 300 s"):
        await runner.run(lines("a", "b"), 2)
    assert trio.current_time() - begun == pytest.approx(300, abs=5)
    assert 0 in journal
    assert 1 not in journal


async def test_stopping_keeps_what_was_answered(autojump_clock, make):
    executor = Scripted()
    journal, runner = make(executor, 100)
    async with trio.open_nursery() as nursery:
        nursery.start_soon(runner.run, lines(*(f"r{n}" for n in range(100))), 10)
        await trio.sleep(3.5)
        runner.stop()
    assert journal.done == 30
    assert executor.running == 0


async def test_going_on_asks_for_the_rest_alone(autojump_clock, make):
    first = Scripted()
    journal, runner = make(first, 20)
    names = [f"r{n}" for n in range(20)]
    async with trio.open_nursery() as nursery:
        nursery.start_soon(runner.run, lines(*names), 4)
        await trio.sleep(2.5)
        runner.stop()
    journal.close()
    second = Scripted()
    journal, runner = make(second, 20)
    await runner.run(lines(*names), 4)
    assert first.calls + second.calls == Counter(dict.fromkeys(names, 1))
    assert [line["custom_id"] for line in outputs(journal)] == names


async def test_a_disk_that_is_full(autojump_clock, make, monkeypatch):
    journal, runner = make(Scripted(), 3)

    def full(records):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(journal, "append", full)
    with pytest.RaisesGroup(pytest.RaisesExc(FibatchdError, match="No space left"), flatten_subgroups=True):
        await runner.run(lines("a", "b", "c"), 1)
