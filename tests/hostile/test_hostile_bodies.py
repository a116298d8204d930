"""Bodies of 30 MiB that are made to cost more than they weigh: they are refused or taken, and take no more memory than honest
ones of that size, and the event loop goes on meanwhile."""

import json
import math

import pytest
from hostile_site import eventually
from vitals import MIB

SIZE = 30 * MIB
ROOM = 16 * MIB
"""So much more than an honest request a hostile one may take."""
TRIES = 3
AT_REST = 250 * MIB
HELD_S = 5.0
"""A beat of the loop may be so late on a machine that has other tests to run: far less than a body takes to be checked."""


def item(content: bytes, **more: bytes) -> bytes:
    members = b"".join(b',"%b":%b' % (name.encode(), value) for name, value in more.items())
    return b'{"custom_id":"a","body":{"model":"m","messages":[{"role":"user","content":"%b"}]%b}}' % (content, members)


def batch(*items: bytes) -> bytes:
    return b'{"requests":[%b]}' % b",".join(items)


def honest() -> list[bytes]:
    """Many prompts; and one that fills the body, with a character beyond 16 bits, as people write them."""
    many = batch(*[item(b"x" * 560).replace(b'"a"', b'"q-%d"' % n) for n in range(SIZE // 660)])
    return [many, batch(item(b"x" * SIZE + "\U0001f600".encode()))]


HOSTILE = {
    "escapes": lambda: batch(item(b"\\n" * (SIZE // 2))),
    "escaped letters": lambda: batch(item(b"\\u0041" * (SIZE // 6))),
    "pairs of surrogates": lambda: batch(item(b"\\ud83d\\ude00" * (SIZE // 12))),
    "lone surrogates": lambda: batch(item(b"\\ud800" * (SIZE // 6))),
    "one lone surrogate": lambda: batch(item(b"\\ud800" + b"x" * SIZE)),
    "a long name": lambda: batch(item(b"", **{"x" * SIZE: b"1"})),
    "a long integer": lambda: batch(item(b"x", seed=b"9" * SIZE)),
    "a long fraction": lambda: batch(item(b"x", temperature=b"0." + b"9" * SIZE)),
    "a large exponent": lambda: batch(item(b"x", temperature=b"1e" + b"9" * 10_000)),
    "a long custom_id": lambda: b'{"requests":[{"custom_id":"%b","body":{}}]}' % (b"x" * SIZE),
    "long metadata": lambda: b'{"metadata":{"a":"\\ud800%b"},"requests":[]}' % (b"x" * SIZE),
    "an unknown member": lambda: b'{"%b":1}' % (b"x" * SIZE),
    "spaces": lambda: b'{"requests":%b[]}' % (b" " * SIZE),
    "spaces in an item": lambda: batch(b'{"custom_id":"a","body":%b{"model":"m"%b}}' % (b" " * (SIZE // 2), b"\n" * (SIZE // 2))),
    "broken at the end": lambda: batch(item(b"x" * SIZE))[:-1] + b"x",
    "lines": lambda: b'{"requests":[%bx]}' % (b"\n" * SIZE),
    "not UTF-8 at the end": lambda: batch(item(b"x" * SIZE + b"\xff")),
    "100,000 members of a request": lambda: batch(item(b"x", **{f"k{n}": b"1" for n in range(100_000)})),
    "100,000 members": lambda: json.dumps({f"k{n}": n for n in range(100_000)}).encode(),
    "a member that is repeated": lambda: b'{"requests":[]%b}' % (b',"requests":[]' * (SIZE // 14)),
    "a member of a request that is repeated": lambda: batch(item(b"x", n=b"1" + b',"n":1' * (SIZE // 6))),
    "arrays": lambda: b'{"requests":[%b[]]}' % (b"[]," * (SIZE // 3)),
    "arrays in a request": lambda: batch(item(b"x", tools=b"[%b[]]" % (b"[]," * (SIZE // 3)))),
    "numbers": lambda: batch(item(b"x", tools=b"[%b0]" % (b"0," * (SIZE // 2)))),
    "deep": lambda: b'{"requests":%b%b}' % (b"[" * (SIZE // 2), b"]" * (SIZE // 2)),
    "deep in a request": lambda: batch(item(b"x", tools=b"[" * (SIZE // 2) + b"]" * (SIZE // 2))),
    "unclosed": lambda: b'{"requests":%b' % (b"[{" * (SIZE // 2)),
}  # fmt: skip
PATHS = ["/v1/batches", "/v1/messages/batches", "/v1/chat/completions"]


def as_sent(path, body):
    """The body in the form of the path's API. What becomes a batch is for a model that starts nothing."""
    if path == "/v1/chat/completions":
        start = b'{"requests":[{"custom_id":"a","body":'
        return body[len(start) : -len(b"}]}")] if body.startswith(start) else body
    body = body.replace(b'"model":"m"', b'"model":"parked"')
    if path == "/v1/messages/batches":
        body = body.replace(b'"body":', b'"params":').replace(b'"parked"', b'"parked","max_tokens":1')
    return body


def cost(site, client, path, body, enough=0):
    """How much memory a request took at its most, and how it was answered. The least of a few tries, unless one takes no more
    than `enough`: what else the daemon does at the time counts, too."""
    costs = []
    for _ in range(TRIES):
        before = site.vitals.forget_peak()
        answer = client.post(path, content=body)
        costs.append(site.vitals.peak_memory() - before)
        if costs[-1] <= enough:
            break
    return min(costs), answer


@pytest.fixture(scope="module")
def bounds(site):
    """What honest requests take, by path."""
    found = {}
    with site.client() as client:
        for path in PATHS[:2]:
            costs = [cost(site, client, path, as_sent(path, body), math.inf) for body in honest()]
            assert [answer.status_code for _, answer in costs] == [200, 200], [answer.text[:300] for _, answer in costs]
            found[path] = max(taken for taken, _ in costs) + ROOM
        found[PATHS[2]] = cost(site, client, PATHS[2], as_sent(PATHS[2], honest()[1]), math.inf)[0] + ROOM
    return found


WORST = [
    "lone surrogates",
    "a long name",
    "spaces in an item",
    "a member of a request that is repeated",
    "arrays in a request",
]
"""What every run of the tests has; the others are for long runs."""


def check(site, bounds, name):
    body = HOSTILE[name]()
    with site.client() as client:
        for path in PATHS:
            taken, answer = cost(site, client, path, as_sent(path, body), bounds[path])
            print(f"{path} {name}: {answer.status_code}, {taken / MIB:.0f} of {bounds[path] / MIB:.0f} MiB")
            assert answer.status_code < 500, answer.text
            assert len(answer.content) < 2000 or answer.status_code == 200
            assert taken <= bounds[path]


@pytest.mark.slow
@pytest.mark.parametrize("name", WORST)
def test_it_costs_no_more_than_an_honest_one(site, bounds, name):
    check(site, bounds, name)


@pytest.mark.torture
@pytest.mark.parametrize("name", HOSTILE)
def test_none_costs_more_than_an_honest_one(site, bounds, name):
    check(site, bounds, name)


@pytest.mark.slow
def test_the_loop_went_on_and_memory_comes_back(site, bounds):
    """After all of them, once nothing of them waits to be run."""
    assert site.longest_hold() <= HELD_S
    with site.client() as client:
        for path in PATHS[:2]:
            for batch in client.get(path, params={"limit": 100}).json()["data"]:
                client.post(f"{path}/{batch['id']}/cancel")
    assert eventually(lambda: site.vitals.resident() < AT_REST), f"{site.vitals.resident() / MIB:.0f} MiB"
    print(f"at rest: {site.vitals.resident() / MIB:.0f} MiB; the loop was held for at most {site.longest_hold()} s")
