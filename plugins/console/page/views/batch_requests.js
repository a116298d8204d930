// A batch's requests: a table that is read page by page and follows what runs, and one request in full when asked for.
// Only the page that is shown is held.

import { call, get, query as queryOf } from "../api.js";
import { h, keep, show, swap } from "../dom.js";
import { compact, money, number, span } from "../format.js";
import { members, pretty } from "../json_text.js";
import { here, setQuery } from "../router.js";
import { announce } from "../shell.js";
import { badge, choice, empty, facts, field, loading, row, showProblem, table, when } from "../widgets.js";
import { OUTCOME } from "../words.js";

const PAGE = 50;
const LONGEST_SHOWN = 200000;
const STEADY_MS = 3000;

export class RequestsPanel {
  constructor(id, query, signal) {
    Object.assign(this, {
      id,
      signal,
      outcome: query.get("outcome") ?? "",
      cursors: [null],
      counts: "",
      loadedAt: -STEADY_MS,
      known: new Map(),
    });
    this.list = h("div");
    this.detail = h("div");
    const filter = choice("outcome", [["", "All"], ...Object.entries(OUTCOME)], this.outcome, (value) =>
      this.filter(value),
    );
    this.place = h(
      "section",
      { class: "panel", "aria-labelledby": "requests-title" },
      h("div", { class: "head" }, h("h2", { id: "requests-title" }, "Requests"), field("Outcome", filter)),
      this.detail,
      this.list,
    );
  }

  /** Load the page that is shown when something of the batch has changed, but not all the time. */
  draw(batch) {
    const counts = JSON.stringify(batch.counts);
    this.place.hidden = !batch.counts.total;
    if (this.place.hidden) return;
    if (counts === this.counts) return;
    this.counts = counts;
    clearTimeout(this.timer);
    const wait = this.loadedAt + STEADY_MS - performance.now();
    if (wait <= 0) this.load();
    else this.timer = setTimeout(() => this.signal.aborted || this.load(), wait);
  }

  filter(outcome) {
    this.outcome = outcome;
    this.cursors = [null];
    setQuery({ ...Object.fromEntries(here().query), outcome });
    this.load();
  }

  async load() {
    this.loadedAt = performance.now();
    const query = queryOf({ limit: PAGE, after: this.cursors.at(-1), outcome: this.outcome });
    this.asked = query;
    try {
      const page = await get(`v1/account/batches/${this.id}/requests${query}`, { signal: this.signal });
      if (query === this.asked) this.showPage(page); // else another page has been asked for meanwhile
    } catch (error) {
      showProblem(this.list, error, () => this.load());
    }
  }

  showPage({ data, has_more: hasMore, last_id: last }) {
    if (!data.length) {
      show(this.list, empty(this.outcome ? `No request is ${OUTCOME[this.outcome].toLowerCase()}` : "No requests"));
      return;
    }
    const columns = this.columns();
    if (!this.body?.isConnected) {
      this.known.clear();
      this.body = h("tbody", { role: "rowgroup" });
      this.pager = h("div");
      show(
        this.list,
        table("Requests in the order of their submission", columns, this.body, { hiddenCaption: true, kind: "dense" }),
        this.pager,
      );
    }
    keep(
      this.body,
      this.known,
      data,
      (request) => request.index,
      (request) => row(columns, request),
    );
    this.pager = swap(this.pager, this.turner(data, hasMore, last));
  }

  turner(data, hasMore, last) {
    this.shown = `${number(data[0].index + 1)} to ${number(data.at(-1).index + 1)}`;
    const turn = async (cursors) => {
      this.cursors = cursors;
      await this.load();
      announce(`Requests ${this.shown}`);
    };
    // Not `disabled`, which would take the focus away from who has just pressed it.
    const button = (text, cursors) =>
      h(
        "button",
        { type: "button", "aria-disabled": !cursors && "true", onclick: () => cursors && turn(cursors) },
        text,
      );
    return h(
      "div",
      { class: "row pager" },
      button("Previous", this.cursors.length > 1 && this.cursors.slice(0, -1)),
      button("Next", hasMore && [...this.cursors, last]),
      h("span", { class: "muted" }, this.shown),
    );
  }

  columns() {
    return [
      {
        head: "Custom id",
        cell: (request) =>
          h("button", { type: "button", class: "link", onclick: () => this.open(request) }, request.custom_id),
      },
      {
        head: "Outcome",
        cell: (request) =>
          h(
            "div",
            {},
            badge(request.outcome),
            request.code
              ? h(
                  "p",
                  { class: "sub" },
                  h("span", { class: "mono" }, request.code),
                  request.message ? ` ${cut(request.message, 160)}` : null,
                )
              : null,
          ),
      },
      { head: "Model", cell: (request) => request.model ?? "–" },
      { head: "Attempts", number: true, cell: (request) => number(request.attempts) },
      { head: "Tokens", number: true, cell: (request) => (request.tokens ? compact(request.tokens.total) : "–") },
      { head: "Cost", number: true, cell: (request) => (request.cost_usd === null ? "–" : money(request.cost_usd)) },
      { head: "Took", number: true, cell: (request) => (request.duration_s === null ? "–" : span(request.duration_s)) },
    ];
  }

  /** Show one request with its body and its answer. */
  async open(request) {
    const from = document.activeElement;
    const close = () => (show(this.detail), from?.focus());
    const title = h("h3", { tabindex: "-1", class: "wrap" }, request.custom_id);
    const content = h("div", { class: "stack" }, loading());
    show(
      this.detail,
      h(
        "section",
        { class: "request stack", "aria-label": "One request" },
        h("div", { class: "head" }, title, h("button", { type: "button", class: "small", onclick: close }, "Close")),
        content,
      ),
    );
    title.focus();
    try {
      const { text } = await call("GET", `v1/account/batches/${this.id}/requests/${request.index}`, {
        signal: this.signal,
      });
      show(content, inFull(JSON.parse(text), members(text)));
    } catch (error) {
      showProblem(content, error);
    }
  }
}

function inFull(request, raw) {
  return [
    facts([
      ["Outcome", badge(request.outcome)],
      ["Model", request.model],
      ["Attempts", number(request.attempts)],
      ["HTTP status", request.status_code],
      ["Request id", request.request_id ? h("span", { class: "mono" }, request.request_id) : null],
      ["Last attempt", request.started_at ? when(request.started_at, { exact: true }) : null],
      ["Took", request.duration_s === null ? null : span(request.duration_s)],
      [
        "Tokens in and out",
        request.tokens ? `${number(request.tokens.input)} / ${number(request.tokens.output)}` : null,
      ],
      ["Cost", request.cost_usd === null ? null : money(request.cost_usd)],
    ]),
    request.code ? h("p", { class: "notice bad" }, `${request.message ?? ""} (${request.code})`) : null,
    text("Request", raw.body),
    raw.answer && raw.answer !== "null" ? text("Answer", raw.answer) : null,
  ];
}

function text(title, raw) {
  const laidOut = pretty(raw, LONGEST_SHOWN);
  return h(
    "div",
    {},
    h("h3", {}, title),
    h("pre", { tabindex: "0", role: "region", "aria-label": title }, cut(laidOut, LONGEST_SHOWN)),
    laidOut.length > LONGEST_SHOWN
      ? h("p", { class: "hint" }, "Only its beginning is shown; download the results to have all of it.")
      : null,
  );
}

const cut = (words, most) => (words.length > most ? `${words.slice(0, most)}…` : words);
