"""Bodies on their way through an attempt: what a route refuses, where large ones are worked on, lone surrogates."""

import threading

import pytest

from fibatchd.config import CHAT_COMPLETIONS, Config, Model, Upstream
from fibatchd.domain.accounts import Account, Key
from fibatchd.domain.requests import Usage
from fibatchd.inference.chat import ChatCompletions
from fibatchd.inference.endpoint import BrokenReply, Call, Endpoint, Problem, Reply, Route
from fibatchd.inference.execute import LARGE_BYTES, Executor
from fibatchd.inference.target import Target
from fibatchd.upstream.fleet import Fleet

UPSTREAM = Upstream(url="echo:", endpoints=(CHAT_COMPLETIONS,), model="up")
MODEL = Model(id="m", endpoints=(CHAT_COMPLETIONS, "/v1/fussy"), upstreams=(UPSTREAM,))
ROUTE = Route(MODEL, UPSTREAM)
ACCOUNT = Account(id="acct_1", name="a", tier="internal", status="active", created_at=0, quota_set=False, quota=None)
KEY = Key(id="key_1", account_id="acct_1", prefix="hyi-", created_at=0, expires_at=None, revoked_at=None, models=None)


class Fussy(Endpoint):
    """Chat under another path, for models that it likes; it remembers the threads in which it worked."""

    path = "/v1/fussy"

    def __init__(self, *, carried: bool = True, liked: bool = True) -> None:
        self.carried = carried
        self.liked = liked
        self.threads: list[int] = []

    def carries(self, model, upstream):
        return self.carried

    def check(self, body, *, batch, options):
        return Problem("y: wrong", "y") if b'"y"' in body else None

    def route_problem(self, body, model):
        return None if self.liked else Problem(f"x: {model.id} does not take it", "x")

    def call(self, body, route, options, *, stream=False):
        self.threads.append(threading.get_ident())
        return Call(CHAT_COMPLETIONS, body)

    def reply(self, body, call, route):
        self.threads.append(threading.get_ident())
        return Reply(body, Usage())


def judge(endpoint, body=b'{"model":"m"}'):
    return Target(Config(models=(MODEL,)), ACCOUNT, KEY, endpoint, batch=True).judge(body)


def test_a_body_is_judged_by_itself_and_then_by_its_model():
    assert judge(Fussy()) is MODEL
    assert judge(Fussy(liked=False)) == Problem("x: m does not take it", "x")
    assert judge(Fussy(liked=False), b'{"model":"m","y":1}') == Problem("y: wrong", "y")


def test_a_model_that_no_server_carries_does_not_exist_on_the_endpoint():
    assert judge(Fussy(carried=False)) == Problem("Model 'm' not found", "model", "model_not_found")


@pytest.mark.parametrize(("size", "elsewhere"), [(LARGE_BYTES // 4, False), (LARGE_BYTES, True)])
async def test_a_large_body_and_its_answer_are_worked_on_in_a_thread(size, elsewhere):
    fleet = Fleet()
    await fleet.update(Config(models=(MODEL,)))
    endpoint = Fussy()
    body = b'{"model":"m","messages":[{"role":"user","content":"%b"}]}' % (b"x" * size)
    attempt = await Executor(fleet).attempt(endpoint, MODEL, body, {}, max_body=2**24)
    assert attempt.answer is not None
    assert [thread != threading.get_ident() for thread in endpoint.threads] == [elsewhere, elsewhere]
    await fleet.aclose()


def test_chat_answers_with_lone_surrogates_pass_whole_and_streamed():
    chat = ChatCompletions()
    answer = b'{"choices":[{"message":{"content":"\\ud800"}}],"model":"up"}'
    assert chat.reply(answer, Call("", b""), ROUTE).body == answer.replace(b'"up"', b'"m"')
    event = b'data: {"choices":[{"delta":{"content":"\\ud83d"}}],"model":"up"}\n\n'
    assert chat.editor(Call("", b"", memo=False), ROUTE).feed(event) == event.replace(b'"up"', b'"m"')


@pytest.mark.parametrize("choices", ["", '"choices":null', '"choices":{}', '"choices":"x"', '"choices":7'])
def test_a_chat_answer_without_a_list_of_choices_is_broken(choices):
    with pytest.raises(BrokenReply):
        ChatCompletions().reply(b"{%b}" % choices.encode(), Call("", b""), ROUTE)
