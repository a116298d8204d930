"""Where a webhook may go: hundreds of hostile URLs, and honest ones that only look odd."""

import hostile_urls
import pytest
from fibatchd_plugins.webhooks import addresses
from fibatchd_plugins.webhooks.delivery import NotPublic, public_addresses
from fibatchd_plugins.webhooks.target import Target, UrlRefused, read_url


def test_the_corpus_is_large_and_has_nothing_twice():
    assert len(set(hostile_urls.ALL)) == len(hostile_urls.ALL) >= 200


@pytest.mark.parametrize("url", hostile_urls.ALL, ids=ascii)
def test_hostile(url):
    with pytest.raises(UrlRefused):
        read_url(url, allow_private=False)


@pytest.mark.parametrize("url", hostile_urls.RESOLVED)
async def test_hostile_names(url):
    async def resolve(host):
        return hostile_urls.RESOLVED[url]

    target = read_url(url, allow_private=False)
    with pytest.raises(NotPublic):
        await public_addresses(target, resolve, allow_private=False)


@pytest.mark.parametrize(
    ("url", "target", "authority"),
    [
        ("https://example.com", Target(True, "example.com", 443, "/"), "example.com"),
        ("HTTPS://Example.COM:443/Hook", Target(True, "example.com", 443, "/Hook"), "example.com"),
        ("https://example.com:8443/a?b=c&d=%20", Target(True, "example.com", 8443, "/a?b=c&d=%20"), "example.com:8443"),
        ("https://example.com?x=@127.0.0.1/", Target(True, "example.com", 443, "/?x=@127.0.0.1/"), "example.com"),
        ("https://example.com./", Target(True, "example.com", 443, "/"), "example.com"),
        ("https://münchen.example/", Target(True, "xn--mnchen-3ya.example", 443, "/"), "xn--mnchen-3ya.example"),
        ("https://my_hook.example.com/", Target(True, "my_hook.example.com", 443, "/"), "my_hook.example.com"),
        ("https://1.1.1.1/", Target(True, "1.1.1.1", 443, "/"), "1.1.1.1"),
        ("https://[2606:4700:0::1111]/", Target(True, "2606:4700::1111", 443, "/"), "[2606:4700::1111]"),
        ("https://[2606:4700::1111]:8443/", Target(True, "2606:4700::1111", 8443, "/"), "[2606:4700::1111]:8443"),
        ("https://0x7f.example.com/", Target(True, "0x7f.example.com", 443, "/"), "0x7f.example.com"),
        ("https://123.example/", Target(True, "123.example", 443, "/"), "123.example"),
    ],
)
def test_honest(url, target, authority):
    read = read_url(url, allow_private=False)
    assert read == target
    assert read.authority == authority


@pytest.mark.parametrize(
    ("url", "why"),
    [
        ("http://example.com/", "must begin with https://"),
        ("https://a:b@example.com/", "must not hold a user name or password"),
        ("https://example.com:22/", "port 22 is not allowed"),
        ("https://example.com:70000/", "70000 is no port"),
        ("https://192.168.1.1/", "the host is a private address"),
        ("https://127.0.0.1/", "the host is a loopback address"),
        ("https://169.254.169.254/", "the host is a link-local address"),
        ("https://[::1]/", "the host is a loopback address"),
        ("https://[::ffff:8.8.8.8]/", "an IPv6 address that stands for an IPv4 address"),
        ("https://2130706433/", "four decimal numbers"),
        ("https://localhost/", "a name of a local network"),
        ("https://example.com/#x", "has a fragment"),
        ("https://example.com/é", "percent-encoded"),
        ("https://[fe80::1%25eth0]/", "zone"),
        ("https://exa mple.com/", "a space"),
    ],
)
def test_says_what_is_wrong(url, why):
    with pytest.raises(UrlRefused, match=why):
        read_url(url, allow_private=False)


@pytest.mark.parametrize(
    "url",
    [
        "http://127.0.0.1:9000/hook",
        "http://localhost/",
        "https://10.0.0.1:22/",
        "http://[::1]:8080/",
        "http://receiver:80/",
    ],
)
def test_private_ones_where_they_are_allowed(url):
    read_url(url, allow_private=True)
    with pytest.raises(UrlRefused):
        read_url(url, allow_private=False)


@pytest.mark.parametrize(
    "url", ["ftp://127.0.0.1/", "http://a@127.0.0.1/", "http://127.0.0.1:0/", "http://0x7f000001/"]
)
def test_what_is_refused_even_there(url):
    with pytest.raises(UrlRefused):
        read_url(url, allow_private=True)


@pytest.mark.parametrize(
    "address",
    ["1.1.1.1", "8.8.8.8", "100.63.255.255", "172.32.0.1", "2606:4700::1111", "2a00:1450::1", "64:ff9b::808:808"],
)
def test_public_addresses(address):
    assert addresses.refusal(address) is None


@pytest.mark.parametrize("text", ["", "localhost", "1.2.3", "01.2.3.4", "0x7f.0.0.1"])
def test_no_addresses(text):
    with pytest.raises(ValueError, match="does not appear to be"):
        addresses.refusal(text)
