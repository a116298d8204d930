// One batch: where it is, how fast, what failed and why, what can be done with it.

import { Refused } from "../api.js";
import { h, show, swap } from "../dom.js";
import { compact, count, money, moment, number, span } from "../format.js";
import { poll } from "../live.js";
import { link } from "../router.js";
import { announce, setTitle } from "../shell.js";
import { badge, empty, facts, loading, outcome, problem, progress, rows, table, when } from "../widgets.js";
import { isFinal, KIND, meaning, OUTCOME, STATUS, waiting } from "../words.js";
import { BatchActions } from "./batch_actions.js";
import { ProgressPanel } from "./batch_progress.js";
import { RequestsPanel } from "./batch_requests.js";

const STEADY_MS = 1500;
const OVER_MS = 20000;
const LARGE = 100; // requests a millisecond: each answer has the server go through all of the batch's

/** Show the batch that the address names. */
export function batchView({ main, parts, query, signal }) {
  const id = parts[1];
  setTitle(id);
  show(main, back(), h("h1", { class: "mono" }, id), loading());
  let view = null;
  poll(`v1/account/batches/${encodeURIComponent(id)}`, {
    signal,
    every: (batch) => (batch && isFinal(batch) ? OVER_MS : Math.max(STEADY_MS, (batch?.counts.total ?? 0) / LARGE)),
    show: (batch) => {
      view ??= new BatchView(main, batch, query, signal);
      view.draw(batch);
    },
    fail: (error) => failed(main, error, view),
  });
}

function failed(main, error, view) {
  if (!(error instanceof Refused) || error.status >= 500) {
    if (!view) show(main, back(), h("h1", {}, "Batch"), problem(error));
    return true;
  }
  show(
    main,
    back(),
    h("h1", { tabindex: "-1" }, error.status === 404 ? "This batch is not there" : "Batch"),
    error.status === 404
      ? empty(
          "It was deleted, or it never was",
          h("p", {}, "A finished batch is deleted by itself some days after it ended."),
        )
      : problem(error),
  );
  return false;
}

const back = () => h("a", { class: "back", href: link("batches") }, "← All batches");

class BatchView {
  constructor(main, batch, query, signal) {
    this.said = outcome();
    this.actions = new BatchActions(batch, this.said, signal);
    this.progress = new ProgressPanel(batch.id, signal);
    this.requests = new RequestsPanel(batch.id, query, signal);
    this.head = h("div");
    this.summary = h("div");
    this.trouble = h("div");
    this.status = batch.status;
    const heading = h("h1", { tabindex: "-1", class: batch.label ? null : "mono" }, batch.label ?? batch.id);
    show(
      main,
      back(),
      h("div", { class: "head" }, h("div", {}, heading, this.head), this.actions.place),
      this.said.place,
      this.summary,
      this.trouble,
      this.progress.place,
      this.requests.place,
    );
    heading.focus({ preventScroll: true });
  }

  draw(batch) {
    setTitle(batch.label ?? batch.id);
    if (batch.status !== this.status) announce(`The batch is ${STATUS[batch.status].toLowerCase()} now`);
    this.status = batch.status;
    this.head = swap(this.head, subtitle(batch));
    this.summary = swap(this.summary, summary(batch));
    this.trouble = swap(this.trouble, trouble(batch));
    this.actions.draw(batch);
    this.progress.draw(batch);
    this.requests.draw(batch);
  }
}

function subtitle(batch) {
  return h(
    "p",
    { class: "row" },
    badge(batch.status),
    h("span", { class: "muted" }, KIND[batch.kind] ?? batch.kind),
    batch.label ? h("span", { class: "mono muted" }, batch.id) : null,
  );
}

function summary(batch) {
  const why = waiting(batch.waiting);
  return h(
    "section",
    { class: "panel stack", "aria-label": "Summary" },
    progress(batch.counts),
    why ? h("p", { class: "notice warn" }, `It waits. ${why}.`) : null,
    batch.error ? h("p", { class: "notice bad" }, `${batch.error.message} (${batch.error.code})`) : null,
    timeline(batch),
    facts([
      ["Models", batch.models.join(", ") || "–"],
      ["Endpoint", h("span", { class: "mono" }, batch.endpoint)],
      ["Tokens in", tokens(batch.tokens.input, batch.tokens.cached, "cached")],
      ["Tokens out", tokens(batch.tokens.output, batch.tokens.reasoning, "reasoning")],
      ["Known cost", money(batch.cost_usd)],
      ["Attempts of unknown cost", batch.cost_unknown_attempts ? number(batch.cost_unknown_attempts) : null],
      ["Took", batch.ended_at && batch.started_at ? lasted(batch.ended_at - batch.started_at) : null],
      ["Results are kept until", batch.results_expires_at ? when(batch.results_expires_at, { exact: true }) : null],
      ["Input file", file(batch.input_file_id)],
      [
        "Runs again",
        batch.rerun_of ? h("a", { class: "mono", href: link(`batches/${batch.rerun_of}`) }, batch.rerun_of) : null,
      ],
      [
        "Run again as",
        batch.reruns.length
          ? batch.reruns.map((id) => h("a", { class: "mono", href: link(`batches/${id}`) }, id, " "))
          : null,
      ],
    ]),
    metadata(Object.entries(batch.metadata ?? {})),
  );
}

const lasted = (seconds) => (seconds < 1 ? "less than a second" : span(seconds));

function metadata(pairs) {
  return pairs.length ? h("div", { class: "stack" }, h("h2", {}, "Metadata"), facts(pairs)) : null;
}

const tokens = (amount, part, word) => (part ? `${compact(amount)} (${compact(part)} ${word})` : compact(amount));
const file = (id) => (id ? h("span", { class: "mono" }, id) : null);

function timeline(batch) {
  const states = batch.timeline.map(({ state, at }, index) => {
    const before = batch.timeline[index - 1];
    return h(
      "li",
      {},
      h("strong", {}, state === "created" ? "Created" : (STATUS[state] ?? state)),
      when(at, { exact: true }),
      before && at - before.at >= 1 ? h("span", { class: "sub" }, ` after ${span(at - before.at)}`) : null,
    );
  });
  const next = isFinal(batch)
    ? null
    : h(
        "li",
        { class: "to-come" },
        h("strong", {}, "Must have started"),
        h("span", { class: "muted" }, moment(batch.expires_at)),
      );
  return h("ol", { class: "timeline", "aria-label": "Timeline" }, states, next);
}

function trouble(batch) {
  return h(
    "div",
    { class: batch.problems.length && batch.errors.length ? "columns" : null },
    batch.problems.length ? problems(batch) : null,
    batch.errors.length ? errors(batch.errors) : null,
  );
}

const SHOWN_PROBLEMS = 200;

function problems(batch) {
  const { problems: found } = batch;
  return h(
    "section",
    { class: "panel stack" },
    h(
      "h2",
      {},
      found.at(-1).code === "too_many_errors"
        ? `More than ${count(found.length - 1, "problem")} in the input`
        : `${count(found.length, "problem")} in the input`,
    ),
    h(
      "p",
      { class: "muted" },
      "Nothing of it has run. Mend these lines, and ",
      h("a", { href: link("new") }, "submit the file again"),
      ".",
    ),
    h(
      "ol",
      { class: "problems" },
      found
        .slice(0, SHOWN_PROBLEMS)
        .map(({ line, message, code }) =>
          h(
            "li",
            {},
            h("span", { class: "line" }, line === null ? "Whole file" : `Line ${number(line)}`),
            h("span", {}, message.replace(/^Line \d+: /, ""), " ", h("span", { class: "mono muted" }, code)),
          ),
        ),
    ),
    found.length > SHOWN_PROBLEMS
      ? h("p", { class: "muted" }, `and ${number(found.length - SHOWN_PROBLEMS)} more`)
      : null,
  );
}

const ERROR_COLUMNS = [
  { head: "Code", cell: ({ code }) => h("span", { class: "mono" }, code) },
  {
    head: "What it means",
    cell: ({ code, outcome: of }) =>
      of === "queued" ? "Failed an attempt, and will have another one" : (meaning(code) ?? "–"),
  },
  { head: "Outcome", cell: ({ outcome: of }) => OUTCOME[of] ?? of },
  { head: "Requests", number: true, cell: ({ count: amount }) => number(amount) },
];

function errors(found) {
  return h(
    "section",
    { class: "panel" },
    h("h2", {}, "Errors"),
    table("Errors by code", ERROR_COLUMNS, rows(ERROR_COLUMNS, found), { hiddenCaption: true }),
  );
}
