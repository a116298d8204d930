// All batches of the account, newest first, live. Filters stand in the address; more pages come as one scrolls.

import { get, query as queryOf } from "../api.js";
import { h, keep, show } from "../dom.js";
import { compact, money, now } from "../format.js";
import { within } from "../live.js";
import { link, setQuery } from "../router.js";
import { announce, setTitle } from "../shell.js";
import { badge, choice, empty, field, loading, problem, progress, row, table, when } from "../widgets.js";
import { isFinal, KIND, STATUS, timing, waiting } from "../words.js";
import { BatchPages } from "./batch_pages.js";

const FILTERS = ["status", "kind", "model", "q"];
const TYPING_MS = 300;
const AGE_MS = 30000;

const COLUMNS = [
  { head: "Batch", cell: name },
  { head: "Status", cell: state },
  { head: "Progress", cell: (batch) => progress(batch.counts) },
  { head: "Tokens and cost", cell: spent },
  { head: "Created", cell: times },
];

/** Show the list. */
export function batchesView({ main, query, account, signal }) {
  setTitle("Batches");
  const filters = Object.fromEntries(FILTERS.map((name) => [name, query.get(name) ?? ""]));
  const place = h("div", { class: "list" }, loading());
  let shown = null;
  const list = () => {
    shown?.abort();
    shown = within(signal);
    new List(place, filters, shown.signal).run();
  };
  const change = (changed) => {
    if (signal.aborted) return; // typed just before another view was shown
    Object.assign(filters, changed);
    setQuery(filters);
    list();
  };
  show(main, head(account), filterForm(filters, change), place);
  list();
}

function head(account) {
  return h(
    "div",
    { class: "head" },
    h("h1", {}, "Batches"),
    h(
      "div",
      { class: "buttons" },
      account.extensions.includes("webhooks") ? h("a", { class: "button", href: link("webhook") }, "Webhook") : null,
      h("a", { class: "button primary", href: link("new") }, "New batch"),
    ),
  );
}

function filterForm(filters, change) {
  let typing;
  const typed = (name) => (event) => {
    clearTimeout(typing);
    typing = setTimeout(() => change({ [name]: event.target.value.trim() }), TYPING_MS);
  };
  const any = (words) => [["", "Any"], ...Object.entries(words)];
  return h(
    "form",
    { class: "filters", role: "search", "aria-label": "Batches", onsubmit: (event) => event.preventDefault() },
    field(
      "Text",
      h("input", {
        id: "q",
        type: "search",
        value: filters.q,
        maxlength: "200",
        placeholder: "id, name, metadata",
        oninput: typed("q"),
      }),
    ),
    field(
      "Status",
      choice("status", any(STATUS), filters.status, (status) => change({ status })),
    ),
    field(
      "Kind",
      choice("kind", any(KIND), filters.kind, (kind) => change({ kind })),
    ),
    field(
      "Model",
      models(filters.model, (model) => change({ model })),
    ),
  );
}

/** A choice among the models that the key may use, and the one that is asked for whether it is there or not. */
function models(chosen, onchange) {
  const select = choice("model", [["", "Any"], ...(chosen ? [[chosen, chosen]] : [])], chosen, onchange);
  const add = ({ data }) =>
    select.append(...data.filter(({ id }) => id !== chosen).map(({ id }) => h("option", { value: id }, id)));
  get("v1/models").then(add, () => null);
  return select;
}

/** The list under one set of filters. */
class List {
  constructor(place, filters, signal) {
    Object.assign(this, { place, signal, filtered: Object.values(filters).some(Boolean) });
    this.body = h("tbody", { role: "rowgroup" });
    this.known = new Map();
    this.drawn = new Map();
    this.more = h("button", { type: "button", onclick: () => this.pages.extend() }, "Show more");
    this.pages = new BatchPages(`v1/account/batches${queryOf({ ...filters, limit: 25 })}`, signal, {
      changed: (items, hasMore) => this.draw(items, hasMore),
      failed: (error) =>
        show(
          place,
          problem(error, () => this.run()),
        ),
    });
  }

  run() {
    this.watch = new IntersectionObserver(
      (seen) => seen.some((entry) => entry.isIntersecting) && this.pages.extend(),
      { rootMargin: "400px" },
    );
    this.signal.addEventListener("abort", () => this.watch.disconnect(), { once: true });
    this.pages.run();
  }

  draw(items, hasMore) {
    if (!items.length) {
      this.table = null;
      show(this.place, this.filtered ? nothingFound() : noBatches());
      return;
    }
    keep(
      this.body,
      this.known,
      items,
      (batch) => batch.id,
      (batch) => this.row(batch),
    );
    if (!this.table?.isConnected) {
      this.table = table("Batches, newest first", COLUMNS, this.body, { hiddenCaption: true, kind: "batches" });
      show(this.place, this.table, this.more);
      announce(hasMore ? `${items.length} batches, and more` : `${items.length} batches`);
    }
    this.more.hidden = !hasMore;
    // It tells of what comes into view, and of what is there when it begins: the list may have become shorter.
    this.watch.unobserve(this.more);
    this.watch.observe(this.more);
  }

  /** A batch's row: the one that is there while nothing but the batch's age can have changed, and that not much. */
  row(batch) {
    const drawn = this.drawn.get(batch.id);
    if (drawn?.batch === batch && isFinal(batch) && performance.now() - drawn.at < keeps(batch))
      return this.known.get(batch.id);
    this.drawn.set(batch.id, { batch, at: performance.now() });
    return row(COLUMNS, batch);
  }
}

/** The milliseconds for which a batch's age may stay as it was told: a hundredth of it, which is less than a step of its unit.
    So a list of thousands is not drawn anew all the time. */
const keeps = (batch) => Math.max(AGE_MS, (now() - batch.ended_at) * 10);

function nothingFound() {
  return empty("No batch is like this", h("p", {}, "Take a filter away to see more."));
}

function noBatches() {
  return empty(
    "No batches yet",
    h(
      "p",
      {},
      "A batch takes many requests at once and answers them later. They appear here, whichever API they come by.",
    ),
    h("p", {}, h("a", { class: "button primary", href: link("new") }, "New batch")),
  );
}

function name(batch) {
  const metadata = Object.entries(batch.metadata ?? {});
  return h(
    "div",
    { class: "name" },
    h("a", { href: link(`batches/${batch.id}`), class: batch.label ? "" : "mono" }, batch.label ?? batch.id),
    h(
      "p",
      { class: "sub" },
      [KIND[batch.kind] ?? batch.kind, ...batch.models.slice(0, 3)].join(" · "),
      batch.models.length > 3 ? ` and ${batch.models.length - 3} more` : null,
    ),
    metadata.length
      ? h(
          "p",
          { class: "sub tags" },
          metadata.slice(0, 4).map(([key, value]) => tag(`${key}: ${value}`)),
        )
      : null,
  );
}

const tag = (text) => h("span", { class: "tag", title: text }, text);

function state(batch) {
  const why = waiting(batch.waiting);
  return h(
    "div",
    {},
    badge(batch.status),
    why ? h("p", { class: batch.waiting.reason === "turn" ? "sub" : "sub why" }, why) : null,
    batch.error ? h("p", { class: "sub" }, batch.error.message) : null,
  );
}

function spent(batch) {
  return h(
    "div",
    {},
    h("span", {}, `${compact(batch.tokens.total)} tokens`),
    h(
      "p",
      { class: "sub" },
      money(batch.cost_usd),
      batch.cost_unknown_attempts
        ? h(
            "span",
            { class: "unknown", title: "Attempts whose cost cannot be known, and is not counted" },
            ` + ${compact(batch.cost_unknown_attempts)} unknown`,
          )
        : null,
    ),
  );
}

function times(batch) {
  const { text, at, title } = timing(batch);
  return h(
    "div",
    {},
    when(batch.created_at),
    h("p", { class: "sub" }, isFinal(batch) ? ["ended ", when(at)] : h("span", { title }, text)),
  );
}
