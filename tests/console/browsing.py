"""Chromium, and windows that notice whatever a page must not do: complain, break its policy, run what came from outside."""

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager

from playwright.sync_api import Browser, BrowserContext, ConsoleMessage, Page, expect, sync_playwright
from stands import Account, Stand

FLAGS = (
    "--headless=new",
    "--no-sandbox",
    "--disable-gpu",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
)
WATCH = """
addEventListener("securitypolicyviolation", (event) =>
  console.error(`policy broken: ${event.violatedDirective} ${event.blockedURI} ${event.sample}`));
"""
GO = """
hash => new Promise((done) => {
  const before = window.location.href
  window.addEventListener("hashchange", done, { once: true })
  window.location.hash = hash
  if (window.location.href === before) done()
})
"""
OWN_PAGE = {"X-Fibatchd-Console": "1", "Sec-Fetch-Site": "same-origin"}
PATIENCE_MS = 20_000  # a bound for a busy machine; every wait is for a condition
expect.set_options(timeout=PATIENCE_MS)
EXPECTED = "Failed to load resource"  # what the browser says of each answer with an error status


@contextmanager
def chromium(path: str) -> Iterator[Browser]:
    """Debian's Chromium, with a profile of its own that is gone afterwards."""
    with own_event_loops(), sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=path, args=FLAGS)
        try:
            yield browser
        finally:
            browser.close()


@contextmanager
def own_event_loops() -> Iterator[None]:
    """Let asyncio make loops of its own kind: trio-asyncio, which drivers bring along, puts its own in their place, and
    Playwright cannot run on those."""
    asyncio.set_event_loop_policy(asyncio.DefaultEventLoopPolicy())
    try:
        yield
    finally:
        asyncio.set_event_loop_policy(None)


class Window:
    """A browser's context: its cookies and its pages. `wrong` is what went wrong in them."""

    def __init__(self, context: BrowserContext) -> None:
        self.context = context
        self.wrong: list[str] = []
        context.set_default_timeout(PATIENCE_MS)
        context.add_init_script(WATCH)
        context.on("console", self._console)
        context.on("weberror", lambda error: self.wrong.append(f"uncaught: {error.error}"))
        context.on("dialog", lambda dialog: (self.wrong.append(f"a dialog: {dialog.message}"), dialog.dismiss()))

    def _console(self, message: ConsoleMessage) -> None:
        if message.type in ("error", "warning") and not message.text.startswith(EXPECTED):
            self.wrong.append(f"{message.type}: {message.text}")

    def sign_in(self, stand: Stand, account: Account) -> None:
        """Begin a session without the form."""
        answer = self.context.request.post(
            f"{stand.base}/console/session", data={"api_key": account.secret}, headers=OWN_PAGE
        )
        assert answer.ok, answer.text()

    def open(self, stand: Stand, view: str = "") -> Page:
        page = self.context.pages[0] if self.context.pages else self.context.new_page()
        page.goto(f"{stand.base}/console#/{view}")
        return page

    def forget(self) -> None:
        """Leave every page and forget who was signed in; fails if anything went wrong."""
        for page in self.context.pages:
            page.goto("about:blank")
        self.context.clear_cookies()
        self.context.set_extra_http_headers({})
        wrong, self.wrong = self.wrong, []
        assert wrong == []


@contextmanager
def window(browser: Browser, **how) -> Iterator[Window]:
    """Open a window; `how` is Playwright's: `viewport`, `color_scheme`, …"""
    context = browser.new_context(
        locale="en-US", timezone_id="UTC", **({"viewport": {"width": 1280, "height": 800}} | how)
    )
    opened = Window(context)
    try:
        yield opened
    finally:
        context.close()
    assert opened.wrong == []


def go(page: Page, view: str) -> None:
    """Go to another view, as a link does; the one that was there is gone then."""
    page.evaluate(GO, f"#/{view}")
