"""A served console, and a browser's part of the talk: its cookie, and the headers that it sends by itself."""

import json
from contextlib import asynccontextmanager
from dataclasses import dataclass

import httpx2
from api import Api, Owner, serving

ON = "[extensions]\nconsole = true\n"
SESSION = "/console/session"
OWN_PAGE = {"x-fibatchd-console": "1", "sec-fetch-site": "same-origin"}


@dataclass
class Site:
    """An API with the console; `browser` keeps cookies, and sends what the page sends."""

    api: Api
    browser: httpx2.AsyncClient

    async def sign_in(self, owner: Owner | None = None, **how) -> httpx2.Response:
        return await self.try_key((owner or self.api.ada).secret, **how)

    async def try_key(self, key: str, **how) -> httpx2.Response:
        return await self.browser.post(SESSION, content=json.dumps({"api_key": key}), **how)


@asynccontextmanager
async def open_site(tmp_path, store_url="sqlite:fibatchd.db", *, extra=ON, **how):
    async with (
        serving(tmp_path, extra=extra, store_url=store_url, **how) as api,
        httpx2.AsyncClient(base_url=f"http://127.0.0.1:{api.port}", headers=OWN_PAGE) as browser,
    ):
        yield Site(api, browser)
