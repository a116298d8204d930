// The account's webhook: where it goes, its secret, what was delivered.

import { get, json, Refused } from "../api.js";
import { confirm, showSecret } from "../dialog.js";
import { h, keep, show } from "../dom.js";
import { count, span } from "../format.js";
import { poll, within } from "../live.js";
import { link } from "../router.js";
import { keepFocus, setTitle } from "../shell.js";
import {
  action,
  badge,
  empty,
  facts,
  field,
  loading,
  outcome,
  problem,
  row,
  showProblem,
  table,
  when,
} from "../widgets.js";

const STEADY_MS = 3000;
const EVENTS = 30;
const MOST = 100; // that one answer of the API holds

/** Show the webhook. */
export function webhookView({ main, signal }) {
  setTitle("Webhook");
  new WebhookPage(main, signal).load();
}

class WebhookPage {
  constructor(main, signal) {
    Object.assign(this, { signal, said: outcome() });
    this.setting = h("div", {}, loading());
    this.deliveries = h("section", { class: "panel", "aria-labelledby": "deliveries-title" });
    this.more = h("p", { class: "pager" }, h("button", { type: "button", onclick: () => this.watch(MOST) }, "Show more"));
    show(
      main,
      h("a", { class: "back", href: link("batches") }, "← All batches"),
      h("div", { class: "head" }, h("h1", {}, "Webhook")),
      h(
        "p",
        { class: "muted lead" },
        "When one of your batches has ended, an endpoint of yours is called. The call names the batch, never a prompt or a result.",
      ),
      this.said.place,
      this.setting,
      this.deliveries,
    );
    this.watch();
  }

  async load() {
    try {
      this.draw(await get("v1/batch_webhook", { signal: this.signal }));
    } catch (error) {
      if (error instanceof Refused && error.status === 404) this.draw(null);
      else showProblem(this.setting, error, () => this.load());
    }
  }

  draw(webhook) {
    const why = webhook?.disabled_reason ?? "its endpoint asked for that";
    show(
      this.setting,
      h(
        "section",
        { class: "panel stack" },
        h("h2", {}, webhook ? "Address and secret" : "No webhook is set"),
        webhook?.disabled_at
          ? h("p", { class: "notice warn" }, `It is disabled: ${why}. Save the address to enable it again.`)
          : null,
        this.form(webhook),
        webhook
          ? facts([
              ["Set", when(webhook.created_at, { exact: true })],
              ["Changed", when(webhook.updated_at, { exact: true })],
            ])
          : null,
      ),
    );
  }

  form(webhook) {
    const url = h("input", {
      id: "webhook-url",
      type: "url",
      required: true,
      value: webhook?.url ?? "",
      placeholder: "https://example.com/hooks/batches",
      spellcheck: "false",
      autocomplete: "off",
    });
    const save = h("button", { type: "submit", class: "primary" }, webhook ? "Save the address" : "Set the webhook");
    return h(
      "form",
      { class: "stack", onsubmit: (event) => (event.preventDefault(), this.set(url.value)) },
      field("Address", url, "HTTPS, and reachable from the Internet."),
      h("div", { class: "buttons" }, save, webhook ? this.buttons(webhook) : null),
    );
  }

  buttons(webhook) {
    const failed = (error) => this.said.bad(error);
    return [
      action(h("button", { type: "button" }, "Send a test"), () => this.test(), failed),
      action(h("button", { type: "button" }, "New secret"), () => this.rotate(webhook.url), failed),
      action(h("button", { type: "button", class: "danger" }, "Remove"), () => this.remove(), failed),
    ];
  }

  async set(url, rotate = false) {
    try {
      const webhook = await json("PUT", "v1/batch_webhook", { body: rotate ? { url, rotate_secret: true } : { url } });
      if (webhook.secret) {
        await showSecret(
          "Your signing secret",
          "It verifies what arrives. It is shown this once: keep it now.",
          webhook.secret,
        );
      }
      this.said.good(
        rotate
          ? "The secret is new. For a day, deliveries are signed with the old one as well."
          : "The webhook is set.",
      );
      this.draw(webhook);
    } catch (error) {
      this.said.bad(error);
    }
  }

  async rotate(url) {
    const lines = [
      "A new secret is made and shown once. For a day, deliveries are signed with both; then the old one is gone.",
    ];
    if (await confirm("Make a new secret?", lines, "Make a new secret", { danger: false })) await this.set(url, true);
  }

  async test() {
    const event = await json("POST", "v1/batch_webhook/test");
    const [attempt] = event.attempts;
    if (event.status === "delivered")
      this.said.good(`The test arrived: status ${attempt.status_code} after ${span(attempt.duration_ms / 1000)}.`);
    else this.said.bad(new Error(`The test did not arrive: ${attempt.error ?? `status ${attempt.status_code}`}.`));
  }

  async remove() {
    const lines = [
      "No batch will be told of any more, and the secret is gone.",
      "What waits to be delivered is given up.",
    ];
    if (!(await confirm("Remove the webhook?", lines, "Remove the webhook"))) return;
    await json("DELETE", "v1/batch_webhook");
    this.said.good("The webhook was removed.");
    this.draw(null);
  }

  /** Follow the latest deliveries, so many of them. */
  watch(limit = EVENTS) {
    this.asked?.abort();
    this.asked = within(this.signal);
    const title = h("h2", { id: "deliveries-title" }, "Deliveries");
    const known = new Map();
    let body = null;
    poll(`v1/batch_webhook/events?limit=${limit}`, {
      signal: this.asked.signal,
      every: () => STEADY_MS,
      show: ({ data, has_more: hasMore }) => {
        this.more.hidden = !hasMore || limit === MOST;
        if (!data.length)
          return (
            (body = null),
            show(
              this.deliveries,
              title,
              empty(
                "Nothing was delivered yet",
                h("p", {}, "Each batch that ends appears here, with every attempt to tell you."),
              ),
            )
          );
        const columns = this.columns();
        if (!body) {
          known.clear();
          body = h("tbody", { role: "rowgroup" });
          show(this.deliveries, title, table("The latest deliveries", columns, body, { hiddenCaption: true }), this.more);
          keepFocus();
        }
        return keep(
          body,
          known,
          data,
          (event) => event.id,
          (event) => row(columns, event),
        );
      },
      fail: (error) => ((body = null), show(this.deliveries, title, problem(error)), true),
    });
  }

  columns() {
    return [
      {
        head: "Event",
        cell: (event) =>
          h(
            "div",
            {},
            h("span", {}, event.type),
            h(
              "p",
              { class: "sub" },
              event.data.id
                ? h("a", { class: "mono", href: link(`batches/${event.data.id}`) }, event.data.id)
                : h("span", { class: "mono" }, event.id),
            ),
          ),
      },
      {
        head: "Status",
        cell: (event) =>
          h(
            "div",
            {},
            badge(event.status),
            event.next_attempt_at ? h("p", { class: "sub" }, "next attempt ", when(event.next_attempt_at)) : null,
          ),
      },
      { head: "When", cell: (event) => when(event.created_at) },
      { head: "Attempts", cell: attempts },
      { head: "Action", cell: (event) => this.redeliver(event) },
    ];
  }

  redeliver(event) {
    return action(
      h("button", { type: "button", class: "small", "aria-label": `Deliver again: ${event.id}` }, "Deliver again"),
      async () => {
        await json("POST", `v1/batch_webhook/events/${event.id}/redeliver`);
        this.said.good("It is being delivered again.");
      },
      (error) => this.said.bad(error),
    );
  }
}

function attempts(event) {
  if (!event.attempts.length) return h("span", { class: "muted" }, "none yet");
  const last = event.attempts.at(-1);
  const each = event.attempts.map((attempt) => h("li", {}, when(attempt.at, { exact: true }), `: ${told(attempt)}`));
  return h(
    "details",
    {},
    h("summary", {}, `${count(event.attempts.length, "attempt")}, ${told(last)}`),
    h("ol", { class: "sub" }, each),
  );
}

const told = ({ status_code: status, error, duration_ms: ms }) =>
  `${error ?? `status ${status}`} in ${span(ms / 1000)}`;
