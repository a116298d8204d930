// The pages of the list of batches that have been fetched, kept up to date: the first one always, the others while
// something in them is unfinished.

import { call, isUnavailable, Refused } from "../api.js";
import { backoff, pause, visible } from "../live.js";
import { isFinal } from "../words.js";

const BUSY_MS = 2000;
const QUIET_MS = 8000;

/** `changed(items, hasMore)` is called with all items in order at every turn, for their ages change; `failed(error)` ends it. */
export class BatchPages {
  constructor(path, signal, { changed, failed }) {
    Object.assign(this, { path, signal, changed, failed });
    this.pages = [];
    this.items = new Map();
    this.coming = null; // the page after the last one, while it is fetched
  }

  /** Fetch the first page, and keep what is there up to date until the signal is aborted. */
  async run() {
    let failures = 0;
    while (!this.signal.aborted) {
      try {
        await this.refresh();
        failures = 0;
      } catch (error) {
        if (error.name === "AbortError") return;
        if (error instanceof Refused && !isUnavailable(error)) return this.failed(error);
        failures += 1;
      }
      const busy = [...this.items.values()].some((batch) => !isFinal(batch));
      await pause(failures ? backoff(failures) : busy ? BUSY_MS : QUIET_MS, this.signal);
      await visible(this.signal);
    }
  }

  /** Fetch the page after the last one. */
  async extend() {
    const last = this.pages.at(-1);
    if (this.coming || !last?.hasMore) return;
    const page = { after: last.ids.at(-1) };
    this.coming = page;
    try {
      await this.fetch(page);
      if (this.coming === page) this.pages.push(page);
      this.tell();
    } catch {
      // What keeps the pages up to date meets the same trouble, and tells it.
    } finally {
      if (this.coming === page) this.coming = null;
    }
  }

  async refresh() {
    if (!this.pages.length) this.pages.push({ after: null });
    for (const [index, page] of this.pages.entries()) {
      const isLive = index === 0 || page.ids.some((id) => this.items.has(id) && !isFinal(this.items.get(id)));
      if (isLive) await this.fetch(page);
    }
    this.tell();
  }

  async fetch(page) {
    const path = page.after ? `${this.path}&after=${page.after}` : this.path;
    const answer = await call("GET", path, { etag: page.etag, signal: this.signal });
    if (answer.status === 304 || (page !== this.coming && !this.pages.includes(page))) return;
    const { data, has_more: hasMore } = JSON.parse(answer.text);
    if (!page.after && page.ids && hasMore && !data.some((batch) => page.ids.includes(batch.id))) this.restart();
    this.forget(page, data);
    for (const batch of data) this.items.set(batch.id, batch);
    Object.assign(page, { etag: answer.etag, hasMore, ids: data.map((batch) => batch.id) });
  }

  /** Forget all but the first page: since it was fetched so many have come that there is a gap behind it. */
  restart() {
    this.pages.length = 1;
    this.coming = null;
    this.items.clear();
  }

  /** Forget what was deleted: it stood in the page, and what is older than it still does. */
  forget(page, data) {
    const present = new Set(data.map((batch) => batch.id));
    const oldest = data.at(-1);
    for (const id of page.ids ?? []) {
      const batch = this.items.get(id);
      if (batch && !present.has(id) && (!oldest || newestFirst(batch, oldest) < 0)) this.items.delete(id);
    }
  }

  tell() {
    this.changed([...this.items.values()].sort(newestFirst), this.pages.at(-1).hasMore);
  }
}

/** The order of the list: ids of all kinds hold the time of their making behind their prefix. */
function newestFirst(one, other) {
  const [a, b] = [one, other].map((batch) => batch.id.split("_").at(-1));
  return a < b ? 1 : a > b ? -1 : 0;
}
