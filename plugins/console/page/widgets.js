// Small parts that several views share.

import { Refused } from "./api.js";
import { h, show } from "./dom.js";
import { ago, compact, moment, number, percent, utc } from "./format.js";
import { OUTCOME, stateWord } from "./words.js";

/** The state of anything, as a badge. */
export function badge(state) {
  return h("span", { class: `badge ${state}` }, stateWord(state));
}

/** A moment: relative, or with `exact` as a date; the other form and UTC in the tooltip. */
export function when(at, { exact = false, none = "–" } = {}) {
  if (at === null || at === undefined) return h("span", { class: "muted" }, none);
  const title = exact ? `${ago(at)} (${utc(at)})` : `${moment(at)} (${utc(at)})`;
  return h("time", { datetime: new Date(at * 1000).toISOString(), title }, exact ? moment(at) : ago(at));
}

const SHARES = ["succeeded", "failed", "expired", "cancelled", "running"];

/** How far a batch is: a bar with a share for each outcome, and the same in words. */
export function progress(counts) {
  const { total } = counts;
  const done = total - counts.running - counts.queued;
  const told = [...SHARES, "queued"].filter((name) => counts[name]);
  const words = told.map((name) => `${number(counts[name])} ${OUTCOME[name].toLowerCase()}`).join(", ");
  return h(
    "div",
    { class: "progress" },
    h(
      "div",
      { class: "shares", role: "img", "aria-label": total ? `Of ${number(total)} requests: ${words}` : "No requests" },
      SHARES.filter((name) => counts[name]).map((name) =>
        h("span", { class: `share ${name}`, style: { "flex-grow": `${counts[name]}` } }),
      ),
      h("span", { class: "share rest", style: { "flex-grow": `${total ? counts.queued : 1}` } }),
    ),
    h(
      "p",
      { class: "told", "aria-hidden": "true" },
      h("span", {}, total ? `${compact(done)} of ${compact(total)}` : "no requests"),
      total ? h("span", { class: "muted" }, percent(Math.floor((100 * done) / total) / 100)) : null,
      ["failed", "expired", "cancelled", "running"]
        .filter((name) => counts[name])
        .map((name) => h("span", { class: `of ${name}` }, `${compact(counts[name])} ${OUTCOME[name].toLowerCase()}`)),
    ),
  );
}

/** A plain bar for one share of a whole, 0 to 1, with a label for who does not see it. */
export function bar(share, label, kind = "") {
  return h(
    "div",
    { class: `bar-of ${kind}`, role: "img", "aria-label": label },
    h("span", { style: { "inline-size": `${Math.min(1, Math.max(0, share)) * 100}%` } }),
  );
}

/** What went wrong, and a button to try again where that may help. */
export function problem(error, again = null) {
  return h(
    "div",
    { class: "notice bad", role: "alert" },
    h("p", {}, error.message),
    again ? h("button", { type: "button", onclick: again }, "Try again") : null,
  );
}

/** Show in `place` what went wrong, with a button that calls `again`; nothing where the call ended with its view. */
export function showProblem(place, error, again = null) {
  if (error.name !== "AbortError") show(place, problem(error, again));
}

/** What a view shows where there is nothing to show. */
export function empty(title, ...more) {
  return h("div", { class: "empty" }, h("p", { class: "empty-title" }, title), more);
}

/** A line that stands while something is fetched. */
export const loading = (text = "Loading…") => h("p", { class: "loading muted" }, text);

const LONG = 60;

/** Terms with what they are: `[[term, value], …]`. */
export function facts(pairs) {
  return h(
    "dl",
    { class: "facts" },
    pairs
      .filter(([, value]) => value !== null && value !== undefined)
      .map(([term, value]) =>
        h("div", { class: value.length > LONG ? "long" : null }, h("dt", {}, term), h("dd", {}, value)),
      ),
  );
}

/** A table: `columns` are `{head, cell, number}`; on narrow screens each row becomes a block with the heads beside the cells. */
export function table(caption, columns, body, { hiddenCaption = false, kind = "" } = {}) {
  return h(
    "table",
    { class: `data ${kind}`, role: "table" },
    h("caption", { class: hiddenCaption ? "unseen" : null }, caption),
    h(
      "thead",
      { role: "rowgroup" },
      h(
        "tr",
        { role: "row" },
        columns.map(({ head, number: isNumber }) =>
          h("th", { scope: "col", role: "columnheader", class: isNumber ? "n" : null }, head),
        ),
      ),
    ),
    body,
  );
}

/** A row of such a table. */
export function row(columns, item) {
  return h(
    "tr",
    { role: "row" },
    columns.map(({ head, cell, number: isNumber }, index) =>
      h(
        index ? "td" : "th",
        {
          scope: index ? null : "row",
          role: index ? "cell" : "rowheader",
          class: isNumber ? "n" : null,
          "data-head": head,
        },
        cell(item),
      ),
    ),
  );
}

/** The rows of a table whose content does not change. */
export function rows(columns, items) {
  return h(
    "tbody",
    { role: "rowgroup" },
    items.map((item) => row(columns, item)),
  );
}

/** A field with its label, and a hint below it. */
export function field(label, control, hint = null) {
  const id = control.id;
  if (hint) control.setAttribute("aria-describedby", `${id}-hint`);
  return h(
    "div",
    { class: "field" },
    h("label", { for: id }, label),
    control,
    hint ? h("p", { class: "hint", id: `${id}-hint` }, hint) : null,
  );
}

/** A choice: `options` are `[value, text]`. */
export function choice(id, options, chosen, onchange) {
  const select = h(
    "select",
    { id, onchange: () => onchange?.(select.value) },
    options.map(([value, text]) => h("option", { value, selected: value === chosen }, text)),
  );
  return select;
}

/** Run an action of a button: it cannot be pressed twice, and `failed` is told what went wrong. The button is not
    `disabled` meanwhile: the focus would leave it. */
export function action(button, work, failed) {
  let isBusy = false;
  button.addEventListener("click", async () => {
    if (isBusy) return;
    isBusy = true;
    try {
      await work();
    } catch (error) {
      if (error.name !== "AbortError") failed(error);
    } finally {
      isBusy = false;
    }
  });
  return button;
}

/** A place for the outcome of actions: `.good(text)`, `.bad(error)`. */
export function outcome() {
  const place = h("div", { class: "outcome", "aria-live": "polite" });
  const put = (kind, text) => place.replaceChildren(h("p", { class: `notice ${kind}` }, text));
  return {
    place,
    good: (text) => put("good", text),
    bad: (error) =>
      put(
        "bad",
        error instanceof Refused && error.retryAfter
          ? `${error.message} (again in ${error.retryAfter} s)`
          : error.message,
      ),
    clear: () => place.replaceChildren(),
  };
}
