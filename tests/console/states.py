"""Every view of the console in the states that matter: how to come there, and what is seen when it is complete."""

import json
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from browsing import Window, go, window
from furnished import Furnished
from playwright.sync_api import Browser, Page, expect
from stands import line, lines

Act = Callable[[Page], None]
WIDTHS = {360: 780, 1440: 900}
"""Each with the height of its window."""


@dataclass(frozen=True)
class State:
    name: str
    who: str
    """`nobody`, or one of the furnished accounts."""
    view: str
    """With batches' names in braces."""
    ready: str
    """A selector of what comes last."""
    act: Act | None = None


def refuse(page: Page) -> None:
    page.get_by_label("API key").fill("hyi-wrong")
    page.get_by_role("button", name="Sign in").click()
    expect(page.get_by_role("alert")).to_be_visible()


def open_request(page: Page) -> None:
    page.get_by_role("button", name="case-0004").click()
    expect(page.get_by_role("region", name="Answer", exact=True)).to_be_visible()


def choose_file(page: Page) -> None:
    content = lines(40) + "{broken\n" + line("q-3", "again")
    file = {"name": "questions.jsonl", "mimeType": "application/jsonl", "buffer": content.encode()}
    page.get_by_label("JSONL file").set_input_files(file)
    expect(page.get_by_text("2 problems seen.")).to_be_visible()


def press(name: str) -> Act:
    """Press a button that opens a dialog."""

    def act(page: Page) -> None:
        page.get_by_role("button", name=name, exact=True).first.click()
        expect(page.get_by_role("dialog")).to_be_visible()
        page.get_by_role("dialog").evaluate("dialog => Promise.all(dialog.getAnimations().map(each => each.finished))")

    return act


def fail_once(page: Page) -> None:
    """The list is refused, as by a fault of the server."""
    broken = json.dumps({"error": {"message": "The server has met a fault", "code": "internal_error"}})
    lists = "**/v1/account/batches?*"
    page.route(lists, lambda route: route.fulfill(status=500, body=broken))
    page.reload()
    expect(page.get_by_role("button", name="Try again")).to_be_visible()
    page.unroute(lists)


def make_key(page: Page) -> None:
    press("New key")(page)
    page.get_by_role("button", name="Make the key").click()
    expect(page.get_by_role("dialog", name="The new key")).to_be_visible()


def lose_the_server(page: Page) -> None:
    page.context.set_offline(True)
    expect(page.get_by_text("The server does not answer at the moment")).to_be_visible()
    page.context.set_offline(False)


ROWS = "tbody tr"
STATES = (
    State("sign-in", "nobody", "", "form.sign-in"),
    State("sign-in-refused", "nobody", "", "form.sign-in", refuse),
    State("batches", "ada", "batches", ROWS),
    State("batches-offline", "ada", "batches", ROWS, lose_the_server),
    State("batches-refused", "ada", "batches", ROWS, fail_once),
    State("batches-none-found", "ada", "batches?q=nothing-at-all", ".empty"),
    State("batches-empty", "grace", "batches", ".empty"),
    State("batch-ended", "ada", "batches/{ended}", ".panel figure"),
    State("batch-request", "ada", "batches/{ended}", ROWS, open_request),
    State("batch-problems", "ada", "batches/{problems}", ".problems li"),
    State("batch-waiting", "ada", "batches/{waiting}", ".notice.warn"),
    State("batch-mixed", "ada", "batches/{mixed}", ".panel"),
    State("batch-delete", "ada", "batches/{mixed}", ".panel", press("Delete")),
    State("batch-gone", "ada", "batches/batch_0", ".empty"),
    State("new-batch", "ada", "new", ".drop"),
    State("new-batch-problems", "ada", "new", ".drop", choose_file),
    State("files", "ada", "files", ROWS),
    State("files-empty", "grace", "files", ".empty"),
    State("usage", "ada", "usage", ".days tr"),
    State("usage-empty", "grace", "usage", ".panel"),
    State("webhook", "ada", "webhook", ROWS),
    State("webhook-unset", "grace", "webhook", ".empty"),
    State("operator-models", "admin", "operator", ROWS),
    State("operator-drain", "admin", "operator", ROWS, press("Drain glm-5.3-flash")),
    State("operator-accounts", "admin", "operator/accounts", ROWS),
    State("operator-account", "admin", "operator/accounts/{ada}", ".days tr"),
    State("operator-new-account", "admin", "operator/accounts", ROWS, press("New account")),
    State("operator-new-key", "admin", "operator/accounts/{grace}", ".panel", make_key),
    State("operator-tiers", "admin", "operator/tiers", ROWS),
    State("operator-spending", "admin", "operator/spending", ".panel ~ .panel"),
    State("operator-daemons", "admin", "operator/daemons", ROWS),
    State("nothing-here", "ada", "nothing", "h1"),
    State("batch-running", "ada", "batches/{running}", ".panel p > time"),  # last, when there is a forecast
)


def visit(browser: Browser, furnished: Furnished, width: int, only: Sequence[str] = ()) -> Iterator[tuple[State, Page]]:
    """Come to every state, or those whose names hold one of the words, one after the other, in a window so wide."""
    states = [state for state in STATES if not only or any(word in state.name for word in only)]
    size = {"width": width, "height": WIDTHS.get(width, width * 9 // 16)}
    for who in ("nobody", "grace", "admin", "ada"):
        with window(browser, viewport=size, reduced_motion="reduce") as opened:
            sign_in(opened, furnished, who)
            page = opened.open(furnished.stand)
            for state in (each for each in states if each.who == who):
                arrive(page, furnished, state)
                yield state, page


def sign_in(opened: Window, furnished: Furnished, who: str) -> None:
    accounts = {"ada": furnished.ada, "grace": furnished.grace, "admin": furnished.stand.admin}
    if who in accounts:
        opened.sign_in(furnished.stand, accounts[who])


def arrive(page: Page, furnished: Furnished, state: State) -> None:
    """Go to the view, and wait until it shows the state."""
    view = state.view.format(ada=furnished.ada.id, grace=furnished.grace.id, **furnished.batches)
    expect(page.get_by_role("main").locator("h1")).to_be_visible()
    go(page, view)
    main = page.get_by_role("main")
    expect(main.locator(state.ready).first).to_be_visible()
    expect(main.locator(".loading")).to_have_count(0)
    if state.view.startswith("batches/{") and state.name != "batch-problems":
        expect(page.get_by_role("region", name="Requests", exact=True).get_by_role("row").first).to_be_visible()
    if state.act:
        state.act(page)


LAYOUT = (Path(__file__).parent / "checks.js").read_text()
AXE = "rules => axe.run(document, {runOnly: rules, resultTypes: ['violations']})"
STANDARD = ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "wcag22aa", "best-practice"]
COLOURS = ["color-contrast", "link-in-text-block"]
"""The rules that may judge one theme unlike the other."""


def complaints(page: Page, axe: str) -> list[str]:
    """What a machine finds wrong with a page, in both themes; `axe` is the library's source."""
    page.emulate_media(color_scheme="light", reduced_motion="reduce")
    if not page.evaluate("'axe' in window"):
        page.evaluate(axe)
    found = list(page.evaluate(LAYOUT)) + judged(page, STANDARD)
    page.emulate_media(color_scheme="dark", reduced_motion="reduce")
    return found + [f"dark: {each}" for each in judged(page, COLOURS)]


def layout_at(page: Page, width: int) -> list[str]:
    """What looks wrong at another width."""
    usual = page.viewport_size
    assert usual
    page.set_viewport_size({"width": width, "height": usual["height"]})
    found = [f"{width} px: {each}" for each in page.evaluate(LAYOUT)]
    page.set_viewport_size(usual)
    return found


def judged(page: Page, rules: Sequence[str]) -> list[str]:
    """What axe finds by these rules."""
    return [
        f"{each['id']}: {each['help']}: {', '.join(str(node['target']) for node in each['nodes'][:4])}"
        for each in page.evaluate(AXE, rules)["violations"]
    ]
