"""Upstream URLs: which forms are taken, and what they mean."""

import pytest

from fibatchd.upstream.origin import Origin


@pytest.mark.parametrize(
    ("url", "origin"),
    [
        ("http://vllm", Origin("vllm", 80, "", "vllm", "", False)),
        ("http://vllm:8000/v1", Origin("vllm", 8000, "", "vllm:8000", "/v1", False)),
        ("HTTP://vLLM.Example/V1/", Origin("vllm.example", 80, "", "vllm.example", "/V1", False)),
        ("https://api.example.com/a/b%20c/", Origin("api.example.com", 443, "", "api.example.com", "/a/b%20c", True)),
        ("https://api.example.com:8443", Origin("api.example.com", 8443, "", "api.example.com:8443", "", True)),
        ("http://127.0.0.1:8000/v1", Origin("127.0.0.1", 8000, "", "127.0.0.1:8000", "/v1", False)),
        ("http://[::1]/v1", Origin("::1", 80, "", "[::1]", "/v1", False)),
        ("http://[2001:db8::7]:8000", Origin("2001:db8::7", 8000, "", "[2001:db8::7]:8000", "", False)),
        ("http://[fe80::1%25eth0]:8000", Origin("fe80::1%eth0", 8000, "", "[fe80::1]:8000", "", False)),
        ("http+unix://%2Frun%2FvLLM.sock/v1", Origin("", 0, "/run/vLLM.sock", "localhost", "/v1", False)),
        ("http+unix://%2Frun%2Fwith%20space.sock", Origin("", 0, "/run/with space.sock", "localhost", "", False)),
    ],
)
def test_url_is_taken_apart(url: str, origin: Origin) -> None:
    assert Origin.parse(url) == origin


@pytest.mark.parametrize(
    "url",
    [
        "", "vllm:8000", "//vllm", "ftp://vllm", "unix:/run/x.sock", "http+unix:///run/x.sock", "http://", "http:///v1",
        "http://key@vllm", "http://user:key@vllm/v1", "http://vllm/v1?key=x", "http://vllm/v1#x", "http://vllm:port",
        "http://vllm:99999", "http://[::1", "http://vllm/a b", "http://vllm/\r\nX: y", "http://vllm\0", "http://bücher.example",
    ],
)  # fmt: skip
def test_other_forms_are_refused(url: str) -> None:
    with pytest.raises(ValueError, match=r"."):
        Origin.parse(url)
