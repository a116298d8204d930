// What was spent: today against the quota, by model, and the last days.

import { h, show, swap } from "../dom.js";
import { ago, compact, day, money, number, percent } from "../format.js";
import { poll } from "../live.js";
import { setTitle } from "../shell.js";
import { bar, empty, facts, loading, problem, rows, table } from "../widgets.js";

const STEADY_MS = 10000;

/** Show the usage of the account. */
export function usageView({ main, signal }) {
  setTitle("Usage");
  let place = h("div", {}, loading());
  show(main, h("div", { class: "head" }, h("h1", {}, "Usage")), place);
  poll("v1/usage?days=30", {
    signal,
    every: () => STEADY_MS,
    show: (usage) => (place = swap(place, h("div", {}, today(usage), days(usage)))),
    fail: (error) => (show(place, problem(error)), true),
  });
}

function today(usage) {
  const { today: sums } = usage;
  return h(
    "section",
    { class: "panel stack" },
    h("h2", {}, "Today"),
    quota(usage.quota),
    facts(totals(sums)),
    sums.models.length ? models(sums) : h("p", { class: "muted" }, "Nothing was spent today (UTC)."),
  );
}

/** Sums as facts. */
export function totals(sums) {
  return [
    ["Cost", money(sums.cost_usd)],
    ["Attempts", number(sums.attempts)],
    ["Tokens in", compact(sums.input_tokens)],
    ["Tokens out", compact(sums.output_tokens)],
    ["Attempts of unknown cost", sums.cost_unknown_attempts ? number(sums.cost_unknown_attempts) : null],
  ];
}

function quota({ limit_usd: limit, used_usd: used, remaining_usd: remaining, resets_at: resets }) {
  if (limit === null) return h("p", { class: "muted" }, "There is no daily quota for your account.");
  const share = limit ? used / limit : 1;
  const text = `${money(used)} of ${money(limit)} (${percent(Math.min(share, 9.99))})`;
  return h(
    "div",
    {},
    bar(share, `Daily quota: ${text} used`, `large ${share >= 1 ? "bad" : share >= 0.8 ? "warn" : ""}`),
    h(
      "p",
      { class: "told" },
      h("span", {}, text),
      h(
        "span",
        { class: "muted" },
        `${remaining > 0 ? `${money(remaining)} left` : "used up"}; it renews ${ago(resets)}, at 00:00 UTC`,
      ),
    ),
  );
}

function models(sums) {
  const share = ({ cost_usd: cost }) => (sums.cost_usd ? cost / sums.cost_usd : 0);
  const columns = [
    { head: "Model", cell: ({ model }) => model },
    {
      head: "Share of the cost",
      cell: (model) => bar(share(model), `${percent(share(model))} of the cost for ${model.model}`),
    },
    ...sumColumns(),
  ];
  return table("By model", columns, rows(columns, sums.models));
}

/** The columns that every table of sums has. */
export function sumColumns() {
  return [
    { head: "Cost", number: true, cell: (sums) => money(sums.cost_usd) },
    { head: "Attempts", number: true, cell: (sums) => number(sums.attempts) },
    { head: "Tokens in", number: true, cell: (sums) => compact(sums.input_tokens) },
    { head: "Tokens out", number: true, cell: (sums) => compact(sums.output_tokens) },
  ];
}

/** The last days as a table with bars. */
export function days(usage) {
  const spent = usage.days.some((sums) => sums.attempts);
  const most = Math.max(...usage.days.map((sums) => sums.cost_usd), 1e-12);
  const columns = [
    { head: "Day (UTC)", cell: (sums) => day(sums.day) },
    { head: "Compared", cell: (sums) => bar(sums.cost_usd / most, money(sums.cost_usd)) },
    ...sumColumns(),
  ];
  return h(
    "section",
    { class: "panel" },
    h("h2", {}, `The last ${usage.days.length} days`),
    spent
      ? table("Days, today first", columns, rows(columns, usage.days), { hiddenCaption: true, kind: "dense days" })
      : empty("Nothing was spent in these days"),
  );
}
