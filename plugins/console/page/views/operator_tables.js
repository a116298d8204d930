// What operators only read: tiers, spending of all accounts, daemons.

import { get } from "../api.js";
import { h, show } from "../dom.js";
import { money, number } from "../format.js";
import { link } from "../router.js";
import { badge, empty, facts, loading, rows, showProblem, table, when } from "../widgets.js";
import { days, sumColumns, totals } from "./usage.js";

const TIERS = [
  { head: "Tier", cell: (tier) => tier.name },
  { head: "Batches", cell: (tier) => (tier.can_create_batches ? "may create" : "may not create") },
  { head: "Batch requests at once", number: true, cell: (tier) => number(tier.batch_concurrency) },
  {
    head: "Interactive at once",
    number: true,
    cell: (tier) => (tier.interactive_concurrency === null ? "no limit" : number(tier.interactive_concurrency)),
  },
  {
    head: "Daily quota",
    number: true,
    cell: (tier) => (tier.daily_quota_usd === null ? "none" : money(tier.daily_quota_usd)),
  },
  { head: "Models", cell: (tier) => tier.models.join(", ") || "–" },
];

const DAEMONS = [
  {
    head: "Daemon",
    cell: (daemon) =>
      h(
        "div",
        {},
        h("span", { class: "mono" }, daemon.name),
        daemon.is_this ? h("p", { class: "sub" }, "this one answers you") : null,
      ),
  },
  { head: "State", cell: (daemon) => badge(daemon.is_alive ? "alive" : "gone") },
  { head: "Started", cell: (daemon) => when(daemon.started_at) },
  { head: "Batch requests", number: true, cell: (daemon) => number(sum(daemon.batch_running)) },
  { head: "Interactive", number: true, cell: (daemon) => number(sum(daemon.interactive_running)) },
  { head: "Models", cell: (daemon) => daemon.models.join(", ") || "–" },
];

const sum = (byModel) => Object.values(byModel).reduce((total, amount) => total + amount, 0);

/** Show the tiers of the configuration. */
export const tiersPanel = (view) =>
  once(view, "v1/admin/tiers", ({ data }) =>
    table("Tiers of the configuration", TIERS, rows(TIERS, data), { hiddenCaption: true }),
  );

/** Show the daemons on this database. */
export const daemonsPanel = (view) =>
  once(view, "v1/admin/daemons", ({ data }) =>
    table("Daemons on this database", DAEMONS, rows(DAEMONS, data), { hiddenCaption: true }),
  );

/** Show what all accounts have spent. */
export async function spendingPanel(view) {
  await once(view, "v1/admin/usage?days=30", (usage) => {
    const accounts = h("div", {}, loading());
    once({ ...view, place: accounts }, `v1/admin/usage/${usage.day}?limit=100`, byAccount);
    return [
      h("section", { class: "panel stack" }, h("h2", {}, "Today"), facts(totals(usage.today)), accounts),
      days(usage),
    ];
  });
}

function byAccount({ data }) {
  if (!data.length) return empty("Nobody has spent anything today (UTC)");
  const columns = [
    {
      head: "Account",
      cell: (account) =>
        h("a", { href: link(`operator/accounts/${account.account_id}`) }, account.name || account.account_id),
    },
    { head: "Tier", cell: (account) => account.tier },
    ...sumColumns(),
  ];
  return table("By account", columns, rows(columns, data));
}

async function once({ place, signal }, path, draw) {
  show(place, loading());
  try {
    show(place, draw(await get(path, { signal })));
  } catch (error) {
    showProblem(place, error, () => once({ place, signal }, path, draw));
  }
}
