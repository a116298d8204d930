"""Whom a proxy's word names as the client, and when it counts."""

import pytest

from fibatchd.web.forwarded import UNIX, Client, TrustedProxies, client_of

TRUSTED = TrustedProxies(["10.0.0.0/8", "2001:db8::1", UNIX])


def told(peer: str, *headers: tuple[str, str]) -> Client:
    return client_of(peer, "http", [(name.encode(), value.encode()) for name, value in headers], TRUSTED)


FOR, PROTO, HOST = "x-forwarded-for", "x-forwarded-proto", "x-forwarded-host"


@pytest.mark.parametrize(
    ("peer", "headers", "client"),
    [
        ("10.0.0.1", [], Client("10.0.0.1", "http", None)),
        ("192.0.2.1", [(FOR, "198.51.100.1"), (PROTO, "https")], Client("192.0.2.1", "http", None)),
        ("192.0.2.1", [("forwarded", "for=198.51.100.1;proto=https")], Client("192.0.2.1", "http", None)),
        ("10.0.0.1", [(FOR, "198.51.100.1")], Client("198.51.100.1", "http", None)),
        ("2001:db8::1", [(FOR, "198.51.100.1")], Client("198.51.100.1", "http", None)),
        ("::ffff:10.0.0.1", [(FOR, "198.51.100.1")], Client("198.51.100.1", "http", None)),
        (UNIX, [(FOR, "198.51.100.1")], Client("198.51.100.1", "http", None)),
        # What the client wrote itself stands at the front, and is not believed.
        ("10.0.0.1", [(FOR, "203.0.113.9, 198.51.100.1")], Client("198.51.100.1", "http", None)),
        ("10.0.0.1", [(FOR, "203.0.113.9"), (FOR, "198.51.100.1")], Client("198.51.100.1", "http", None)),
        ("10.0.0.1", [(FOR, "203.0.113.9, 198.51.100.1, 10.0.0.2")], Client("198.51.100.1", "http", None)),
        ("10.0.0.1", [(FOR, "10.0.0.3, 10.0.0.2")], Client("10.0.0.3", "http", None)),
        ("10.0.0.1", [(FOR, "unknown, 10.0.0.2")], Client("10.0.0.2", "http", None)),
        ("10.0.0.1", [(FOR, "198.51.100.1:4711")], Client("198.51.100.1", "http", None)),
        ("10.0.0.1", [(FOR, "[2001:db8::7]:80")], Client("2001:db8::7", "http", None)),
        ("10.0.0.1", [(FOR, "2001:db8::7")], Client("2001:db8::7", "http", None)),
        ("10.0.0.1", [(FOR, "198.51.100.1"), (PROTO, "https"), (HOST, "api.test:8443")], Client("198.51.100.1", "https", "api.test:8443")),
        ("10.0.0.1", [(FOR, "198.51.100.1, 10.0.0.2"), (PROTO, "https")], Client("198.51.100.1", "https", None)),
        ("10.0.0.1", [(FOR, "198.51.100.1, 10.0.0.2"), (PROTO, "https, http")], Client("198.51.100.1", "https", None)),
        ("10.0.0.1", [(FOR, "203.0.113.9, 198.51.100.1"), (PROTO, "http, https")], Client("198.51.100.1", "https", None)),
        ("10.0.0.1", [(FOR, "198.51.100.1"), (PROTO, "javascript"), (HOST, "a/b@c")], Client("198.51.100.1", "http", None)),
        ("10.0.0.1", [(PROTO, "https")], Client("10.0.0.1", "http", None)),
        ("10.0.0.1", [("forwarded", "for=198.51.100.1;proto=https;host=api.test")], Client("198.51.100.1", "https", "api.test")),
        ("10.0.0.1", [("forwarded", 'For="[2001:db8::7]:4711"; Proto=HTTPS')], Client("2001:db8::7", "https", None)),
        ("10.0.0.1", [("forwarded", "for=203.0.113.9, for=198.51.100.1, for=10.0.0.2")], Client("198.51.100.1", "http", None)),
        ("10.0.0.1", [("forwarded", 'for="203.0.113.9, for=10.0.0.9", for=198.51.100.1')], Client("198.51.100.1", "http", None)),
        ("10.0.0.1", [("forwarded", "for=_hidden;proto=https")], Client("10.0.0.1", "http", None)),
        ("10.0.0.1", [("forwarded", "garbage")], Client("10.0.0.1", "http", None)),
        # A quote that the client leaves open is closed by the first one that the proxy writes.
        ("10.0.0.1", [("forwarded", 'for=203.0.113.9;x=", for="[2001:db8::7]:80"')], Client("10.0.0.1", "http", None)),
        ("10.0.0.1", [("forwarded", 'for=203.0.113.9;x="'), ("forwarded", 'for="[2001:db8::7]"')], Client("2001:db8::7", "http", None)),
        ("10.0.0.1", [("forwarded", 'for=203.0.113.9;x="y, z"; ;proto=https,')], Client("203.0.113.9", "https", None)),
        ("10.0.0.1", [(FOR, '"203.0.113.9'), (FOR, "198.51.100.1")], Client("198.51.100.1", "http", None)),
        # A proxy hands on the form it does not write, as the client sent it.
        ("10.0.0.1", [(FOR, "198.51.100.1"), ("forwarded", "for=203.0.113.9")], Client("10.0.0.1", "http", None)),
        ("10.0.0.1", [(FOR, "198.51.100.1"), ("forwarded", "for=198.51.100.1")], Client("198.51.100.1", "http", None)),
    ],
)  # fmt: skip
def test_client(peer: str, headers: list[tuple[str, str]], client: Client) -> None:
    assert told(peer, *headers) == client


@pytest.mark.parametrize("name", ["forwarded", FOR, PROTO, HOST])
@pytest.mark.parametrize("text", ["a", '"', '\\"', '"\\', 'a="', ";", " ,", "a=b;", 'a="b";'])
def test_a_header_is_read_in_linear_time(name: str, text: str) -> None:
    # Longer than any head may be: in quadratic time this would take hours.
    for start in ("", '"', 'a="'):
        headers = [(FOR, "198.51.100.1"), (name, start + text * 50_000)]
        assert told("10.0.0.1", *headers).address in ("10.0.0.1", "198.51.100.1")


def test_nobody_is_trusted_unless_named() -> None:
    assert "127.0.0.1" not in TrustedProxies([])
    assert UNIX not in TrustedProxies(["0.0.0.0/0", "::/0"])


@pytest.mark.parametrize("entry", ["localhost", "10.0.0.1/8", "10.0.0.0/33", "", "unix"])
def test_entry_that_is_no_network_is_an_error(entry: str) -> None:
    with pytest.raises(ValueError, match=entry or "''"):
        TrustedProxies([entry])
