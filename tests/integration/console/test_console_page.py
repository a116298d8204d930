"""The page and its files: what confines them, how they are kept, and that they refer to nothing beyond this server."""

import re
from importlib import resources

import pytest
from site_console import SESSION, open_site

PAGE = resources.files("fibatchd_plugins.console.page")


async def fetch(site, path, **headers):
    return await site.browser.get(path, headers=headers)


async def files(site):
    """The addresses of all files that the page names."""
    text = (await fetch(site, "/console")).text
    return sorted({f"/{path}" for path in re.findall(r'(?:href|src)="([^"]+)"', text)})


async def test_the_page(site):
    answer = await fetch(site, "/console")
    assert (answer.status_code, answer.headers["content-type"]) == (200, "text/html; charset=utf-8")
    assert answer.headers["cache-control"] == "no-cache"
    assert "{" not in re.sub(r"<noscript>.*</noscript>", "", answer.text)


async def test_everything_that_it_names_is_there(site):
    named = await files(site)
    modules = [path for path in walk(PAGE) if path.endswith(".js")]
    assert sum(path.endswith(".js") for path in named) == len(modules)
    for path in named:
        answer = await fetch(site, path)
        assert answer.status_code == 200, path
        assert answer.headers["cache-control"] == "public, max-age=31536000, immutable"


async def test_what_confines_it(site):
    for path in ["/console", *await files(site)]:
        headers = (await fetch(site, path)).headers
        policy = dict(part.strip().split(" ", 1) for part in headers["content-security-policy"].split(";"))
        assert policy["default-src"] == policy["frame-ancestors"] == policy["base-uri"] == "'none'"
        assert policy["script-src"] == policy["style-src"] == policy["connect-src"] == "'self'"
        assert "unsafe" not in headers["content-security-policy"]
        assert headers["x-content-type-options"] == "nosniff"
        assert headers["referrer-policy"] == "no-referrer"


async def test_what_is_kept_is_not_sent_again(site):
    for path in ["/console", (await files(site))[0]]:
        for coding in ("gzip", "identity"):
            first = await fetch(site, path, **{"accept-encoding": coding})
            assert first.headers.get("content-encoding", "identity") == coding
            again = await fetch(site, path, **{"accept-encoding": coding, "if-none-match": first.headers["etag"]})
            assert (again.status_code, again.content) == (304, b"")
            # They would take the place of those that the browser has.
            assert not {"content-type", "content-length"} & again.headers.keys()


@pytest.mark.parametrize("accepted", ["", "identity", "gzip;q=0", "br"])
async def test_only_who_takes_it_gets_it_compressed(site, accepted):
    answer = await fetch(site, "/console", **{"accept-encoding": accepted})
    assert "content-encoding" not in answer.headers
    assert answer.content.startswith(b"<!doctype html>")


async def test_a_page_of_another_version_gets_what_there_is(site):
    answer = await fetch(site, "/console/0123456789abcdef/main.js")
    assert (answer.status_code, answer.headers["cache-control"]) == (200, "no-store")


@pytest.mark.parametrize("path", ["no.js", "../__init__.py", "__init__.py", "views/__init__.py", "..%2fserving.py", ""])
async def test_nothing_else_is_there(site, path):
    assert (await fetch(site, f"/console/v/{path}")).status_code == 404


async def test_switched_off(tmp_path):
    async with open_site(tmp_path, extra="") as site:
        for path in ("/console", "/console/v/main.js"):
            answer = await fetch(site, path)
            assert (answer.status_code, answer.json()["error"]["code"]) == (404, "console_disabled")
        assert (await site.sign_in()).status_code == 404
        assert (await site.browser.get(SESSION)).json()["signed_in"] is False


async def test_a_session_rests_while_it_is_switched_off(site):
    from dataclasses import replace

    await site.sign_in()
    on = site.api.context.config
    site.api.context.config = replace(on, extensions={})
    assert (await site.browser.get("/v1/batches")).status_code == 401
    assert (await site.browser.delete(SESSION)).status_code == 200


def walk(folder, prefix=""):
    for item in folder.iterdir():
        if item.is_dir():
            yield from walk(item, f"{prefix}{item.name}/")
        else:
            yield prefix + item.name


SOURCES = [path for path in walk(PAGE) if path.endswith((".js", ".css", ".html"))]


@pytest.mark.parametrize("path", SOURCES)
def test_it_refers_to_nothing_beyond_this_server(path):
    text = PAGE.joinpath(path).read_text()
    assert set(re.findall(r"https?://[^\s\"'`)]+", text)) <= {
        "http://www.w3.org/2000/svg",
        "https://example.com/hooks/batches",
    }


@pytest.mark.parametrize("path", [path for path in SOURCES if path.endswith(".js")])
def test_no_text_becomes_markup_or_code(path):
    text = PAGE.joinpath(path).read_text()
    ways = r"innerHTML|outerHTML|insertAdjacentHTML|document\.write|\beval\b|new Function|setAttribute\(\s*[\"']on|\.style\.cssText"
    assert re.findall(ways, text) == []
    assert len(text.splitlines()) < 400
