// Models: what runs and waits on them over all daemons, and this daemon's view of their servers. Drain, and put back.

import { json } from "../api.js";
import { confirm } from "../dialog.js";
import { h, keep, show } from "../dom.js";
import { ago, compact, money, number, span } from "../format.js";
import { poll } from "../live.js";
import { action, badge, bar, empty, facts, loading, outcome, problem, rows, table } from "../widgets.js";

const STEADY_MS = 2000;

/** Show all models, live. */
export function modelsPanel({ place, signal }) {
  const said = outcome();
  const list = h("div");
  const who = h("p", { class: "sub" });
  const known = new Map();
  show(place, said.place, list, who);
  show(list, loading());
  poll("v1/admin/models", {
    signal,
    every: () => STEADY_MS,
    show: ({ data, daemon }) => {
      if (!known.size) show(list);
      if (!data.length) return show(list, empty("The configuration has no models"));
      keep(
        list,
        known,
        data,
        (model) => model.id,
        (model) => card(model, said),
      );
      return show(who, `Rates and servers are as the daemon ${daemon.name} sees them.`);
    },
    fail: (error) => (known.clear(), show(list, problem(error)), true),
  });
}

function card(model, said) {
  return h(
    "section",
    { class: "panel stack", "aria-label": model.id },
    h(
      "div",
      { class: "head" },
      h(
        "h2",
        {},
        model.id,
        model.aliases.length ? h("span", { class: "muted" }, ` (${model.aliases.join(", ")})`) : null,
      ),
      drain(model, said),
    ),
    model.drained ? h("p", { class: "notice warn" }, drained(model.drained)) : null,
    h("div", { class: "columns" }, load(model), rates(model)),
    table(`Servers of ${model.id}`, SERVERS, rows(SERVERS, model.here.upstreams), { hiddenCaption: true }),
  );
}

const drained = ({ by, since }) =>
  by === "operator"
    ? `Out of service since ${ago(since)}: nothing new is taken, what is queued waits.`
    : "Out of service by the configuration: nothing new is taken, what is queued waits.";

function load(model) {
  const { batch, interactive, capacity, concurrency, reserve } = model;
  const ahead = Math.max(0, batch.running - concurrency); // a daemon claims before there is room, so that it is filled at once
  const all = batch.running - ahead + interactive.running;
  return h(
    "div",
    { class: "stack" },
    meter("Batch requests at once", batch.running - ahead, concurrency),
    capacity === null ? null : meter("All requests at once", all, capacity),
    facts([
      ["Interactive", number(interactive.running)],
      ["Queued", number(batch.queued + ahead)],
      ["Oldest in the queue", batch.oldest_queued_at ? ago(batch.oldest_queued_at) : null],
      ["Kept free", reserve ? number(reserve) : null],
    ]),
  );
}

function meter(text, amount, most) {
  const share = most ? amount / most : 0;
  return h(
    "div",
    {},
    h(
      "p",
      { class: "told" },
      h("span", {}, text),
      h("span", { class: "muted" }, `${number(amount)} of ${number(most)}`),
    ),
    bar(share, `${text}: ${number(amount)} of ${number(most)}`, share > 1 ? "warn" : ""),
  );
}

function rates(model) {
  const { per_minute: rate } = model.here;
  return facts([
    ["Attempts a minute", compact(Math.round(rate.attempts * 10) / 10)],
    ["Failed a minute", compact(Math.round(rate.failed * 10) / 10)],
    ["Tokens a minute", `${compact(Math.round(rate.input_tokens))} in, ${compact(Math.round(rate.output_tokens))} out`],
    ["Attempts today", number(model.today.attempts)],
    ["Cost today", money(model.today.cost_usd)],
    ["Endpoints", h("span", { class: "mono" }, model.endpoints.join(", "))],
    ["Open to", model.tiers ? model.tiers.join(", ") : "every tier"],
  ]);
}

const SERVERS = [
  {
    head: "Server",
    cell: (server) =>
      h(
        "div",
        {},
        h("span", { class: "mono" }, server.url),
        h("p", { class: "sub" }, `${server.model} · ${server.protocol}`),
      ),
  },
  {
    head: "State",
    cell: (server) =>
      h(
        "div",
        {},
        badge(server.state),
        server.retry_in_s ? h("p", { class: "sub" }, `again in ${span(server.retry_in_s)}`) : null,
      ),
  },
  {
    head: "In flight",
    number: true,
    cell: (server) => `${number(server.in_flight)} of ${number(server.max_connections)}`,
  },
  { head: "Weight", number: true, cell: (server) => number(server.weight) },
  { head: "Paced to", cell: (server) => paced(server) },
];

function paced({ requests_per_minute: requests, tokens_per_minute: tokens }) {
  const bounds = [
    requests ? `${compact(requests)} requests/min` : null,
    tokens ? `${compact(tokens)} tokens/min` : null,
  ].filter(Boolean);
  return bounds.length ? bounds.join(", ") : "–";
}

function drain(model, said) {
  const path = `v1/admin/models/${encodeURIComponent(model.id)}/drain`;
  const failed = (error) => said.bad(error);
  if (model.drained?.by === "configuration") return badge("paused");
  if (model.drained) {
    return action(
      h("button", { type: "button", class: "small primary" }, "Put back"),
      async () => {
        await json("DELETE", path);
        said.good(`${model.id} is back in service.`);
      },
      failed,
    );
  }
  return action(
    h("button", { type: "button", class: "small", "aria-label": `Drain ${model.id}` }, "Drain"),
    async () => {
      const lines = [
        "On every daemon, new requests for it are refused, batched and interactive.",
        "What is queued waits; what runs ends. It holds until you put it back.",
      ];
      if (!(await confirm(`Take ${model.id} out of service?`, lines, "Drain it"))) return;
      await json("POST", path);
      said.good(`${model.id} is being drained.`);
    },
    failed,
  );
}
