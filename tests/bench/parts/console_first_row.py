"""How long the console's list takes to its first row, in an account with many batches, in Chromium.

    python tests/bench/parts/console_first_row.py [--batches 10000] [--times 20]

opened    a window that has never been there: from the address to the first row, the page's files included
reloaded  the same, the files in the browser's cache
shown     another view was there: from the press of the link to the first row
"""

import argparse
import shutil
import statistics
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace

HERE = Path(__file__).parent
TESTS = HERE.parents[1]
sys.path[:0] = [str(HERE), str(TESTS / "integration"), str(TESTS / "console"), str(TESTS)]

from account_lists import fill  # noqa: E402  # from the folders above
from browsing import chromium, window  # noqa: E402
from furnished import write  # noqa: E402
from playwright.sync_api import Browser, Page  # noqa: E402
from stands import Account, Stand, stand  # noqa: E402

NOTE = """
addEventListener("hashchange", () => { window.began = performance.now(); delete window.firstRow });
new MutationObserver(() => {
  if (window.firstRow === undefined && document.querySelector("table.batches tbody tr")) {
    requestAnimationFrame(() => { window.firstRow ??= performance.now() - (window.began ?? 0) });
  }
}).observe(document, { childList: true, subtree: true });
"""


def first_row(page: Page) -> float:
    """Milliseconds from the address, or from the link, until the frame that shows the first row."""
    return float(page.wait_for_function("() => window.firstRow").json_value())


def opened(browser: Browser, stand: Stand, owner: Account) -> float:
    with window(browser) as fresh:
        fresh.context.add_init_script(NOTE)
        fresh.sign_in(stand, owner)
        return first_row(fresh.open(stand))


def measure(browser: Browser, stand: Stand, owner: Account, times: int) -> None:
    tell("opened", times, lambda: opened(browser, stand, owner))
    with window(browser) as kept:
        kept.context.add_init_script(NOTE)
        kept.sign_in(stand, owner)
        page = kept.open(stand)

        def reloaded() -> float:
            page.reload()
            return first_row(page)

        def shown() -> float:
            page.get_by_role("link", name="Usage").click()
            page.get_by_role("heading", name="Usage").wait_for()
            page.get_by_role("link", name="Batches").click()
            return first_row(page)

        tell("reloaded", times, reloaded)
        tell("shown", times, shown)


def tell(name: str, times: int, once: Callable[[], float]) -> None:
    taken = [once() for _ in range(times)]
    print(
        f"  {name:10} first {taken[0]:6.0f} ms, median {statistics.median(taken):6.0f} ms, most {max(taken):6.0f} ms",
        flush=True,
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--batches", type=int, default=10_000)
    parser.add_argument("--times", type=int, default=20)
    options = parser.parse_args()
    program = shutil.which("chromium") or sys.exit("chromium is not installed")
    with tempfile.TemporaryDirectory() as folder, chromium(program) as browser, stand(Path(folder)) as running:
        owner = running.account("ada")
        who = SimpleNamespace(account=SimpleNamespace(id=owner.id), key=SimpleNamespace(id=owner.key_id))
        write(running, fill, who, options.batches, 100, time.time())
        print(f"{options.batches} batches:")
        measure(browser, running, owner, options.times)


if __name__ == "__main__":
    main()
