// The accounts of this server: find one, make one.

import { get, post, query as queryOf } from "../api.js";
import { ask } from "../dialog.js";
import { h, show } from "../dom.js";
import { money, number } from "../format.js";
import { go, link, setQuery } from "../router.js";
import { badge, choice, empty, field, loading, outcome, rows, showProblem, table, when } from "../widgets.js";

const TYPING_MS = 300;

const COLUMNS = [
  {
    head: "Account",
    cell: (account) =>
      h(
        "div",
        { class: "name" },
        h("a", { href: link(`operator/accounts/${account.id}`) }, account.name || "(deleted)"),
        h("p", { class: "sub mono" }, account.id),
      ),
  },
  { head: "Tier", cell: (account) => account.tier },
  { head: "Status", cell: (account) => badge(account.status) },
  { head: "Spent today", number: true, cell: (account) => money(account.spent_today_usd) },
  {
    head: "Daily quota",
    number: true,
    cell: (account) => (account.daily_quota_usd === null ? "none" : money(account.daily_quota_usd)),
  },
  { head: "Unfinished", number: true, cell: (account) => number(account.unfinished_batches) },
  { head: "Created", cell: (account) => when(account.created_at) },
];

/** Show the list. */
export function accountsPanel({ place, query, signal }) {
  const filters = { q: query.get("q") ?? "", status: query.get("status") ?? "" };
  const said = outcome();
  const list = new AccountList(signal, filters);
  const change = (changed) => {
    if (signal.aborted) return; // typed just before another view was shown
    Object.assign(filters, changed);
    setQuery(filters);
    list.load();
  };
  let typing;
  const typed = (event) => (
    clearTimeout(typing),
    (typing = setTimeout(() => change({ q: event.target.value.trim() }), TYPING_MS))
  );
  const states = [
    ["", "Any"],
    ["active", "Active"],
    ["suspended", "Suspended"],
    ["deleted", "Deleted"],
  ];
  show(
    place,
    h(
      "div",
      { class: "head" },
      h(
        "form",
        { class: "filters two", role: "search", "aria-label": "Accounts", onsubmit: (event) => event.preventDefault() },
        field("Name or id", h("input", { id: "account-q", type: "search", value: filters.q, oninput: typed })),
        field(
          "Status",
          choice("account-status", states, filters.status, (value) => change({ status: value })),
        ),
      ),
      h("button", { type: "button", class: "primary", onclick: () => create(said, signal) }, "New account"),
    ),
    said.place,
    list.place,
  );
  list.load();
}

class AccountList {
  constructor(signal, filters) {
    Object.assign(this, { signal, filters, place: h("div", {}, loading()) });
  }

  async load(after = null) {
    try {
      const page = await get(`v1/admin/accounts${queryOf({ ...this.filters, limit: 50, after })}`, {
        signal: this.signal,
      });
      if (!after) this.body = rows(COLUMNS, []);
      this.body.append(...rows(COLUMNS, page.data).children);
      this.draw(page);
    } catch (error) {
      showProblem(this.place, error, () => this.load());
    }
  }

  draw({ has_more: hasMore, last_id: last }) {
    if (!this.body.children.length) return show(this.place, empty("No account is like this"));
    const more = h("button", { type: "button", onclick: () => this.load(last) }, "Show more");
    return show(
      this.place,
      table("Accounts, newest first", COLUMNS, this.body, { hiddenCaption: true }),
      hasMore ? h("p", { class: "pager" }, more) : null,
    );
  }
}

/** The names of the tiers, for a choice. */
export async function tierOptions(signal) {
  const { data } = await get("v1/admin/tiers", { signal });
  return data.map(({ name }) => [name, name]);
}

async function create(said, signal) {
  try {
    const tier = choice("new-tier", await tierOptions(signal), "internal");
    tier.setAttribute("name", "tier");
    const given = await ask(
      "New account",
      [
        field(
          "Name",
          h("input", { id: "new-name", name: "name", required: true, maxlength: "200", autocomplete: "off" }),
        ),
        field("Tier", tier),
      ],
      "Create the account",
    );
    if (!given) return;
    const account = await post("v1/admin/accounts", given);
    go(`operator/accounts/${account.id}`);
  } catch (error) {
    if (error.name !== "AbortError") said.bad(error);
  }
}
