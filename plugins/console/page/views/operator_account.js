// One account: its tier and quota, its keys, its spending; suspended, let in again, deleted.

import { get, json, post } from "../api.js";
import { ask, confirm, showSecret } from "../dialog.js";
import { h, show } from "../dom.js";
import { money, now, number } from "../format.js";
import { go, link } from "../router.js";
import { announce, keepFocus, setTitle } from "../shell.js";
import {
  action,
  badge,
  choice,
  empty,
  facts,
  field,
  loading,
  outcome,
  rows,
  showProblem,
  table,
  when,
} from "../widgets.js";
import { tierOptions } from "./operator_accounts.js";
import { days } from "./usage.js";

const HOUR = 3600;
const LASTS = [
  ["", "Until it is revoked"],
  [String(24 * HOUR), "A day"],
  [String(7 * 24 * HOUR), "A week"],
  [String(30 * 24 * HOUR), "30 days"],
  [String(365 * 24 * HOUR), "A year"],
];

export class AccountPanel {
  constructor(place, id, self, signal) {
    Object.assign(this, {
      id,
      isSelf: id === self.id,
      signal,
      said: outcome(),
      path: `v1/admin/accounts/${encodeURIComponent(id)}`,
    });
    this.content = h("div", {}, loading());
    show(
      place,
      h("a", { class: "back", href: link("operator/accounts") }, "← All accounts"),
      this.said.place,
      this.content,
    );
  }

  async load() {
    try {
      const options = { signal: this.signal };
      const account = await get(this.path, options);
      setTitle(`${account.name || account.id} · Operator`);
      const isGone = account.status === "deleted";
      const [keys, usage] = isGone
        ? [{ data: [] }, null]
        : await Promise.all([get(`${this.path}/keys`, options), get(`${this.path}/usage?days=30`, options)]);
      show(this.content, this.about(account), isGone ? null : this.keys(keys.data), usage ? days(usage) : null);
    } catch (error) {
      if (error.status === 404) show(this.content, empty("There is no such account"));
      else showProblem(this.content, error, () => this.load());
    }
  }

  /** Make a change, say so, and show what is now. */
  async change(work, told) {
    try {
      if ((await work()) === false) return;
      this.said.good(told);
      await this.load();
      keepFocus();
    } catch (error) {
      if (error.name !== "AbortError") this.said.bad(error);
    }
  }

  about(account) {
    return h(
      "section",
      { class: "panel stack" },
      h(
        "div",
        { class: "head" },
        h("h2", {}, account.name || "(deleted)"),
        account.status === "deleted" ? null : this.buttons(account),
      ),
      facts([
        ["Id", h("span", { class: "mono" }, account.id)],
        ["Status", badge(account.status)],
        ["Tier", account.tier],
        [
          "Daily quota",
          `${account.daily_quota_usd === null ? "none" : money(account.daily_quota_usd)} ${account.has_own_quota ? "(its own)" : "(its tier's)"}`,
        ],
        ["Spent today", money(account.spent_today_usd)],
        ["Unfinished batches", number(account.unfinished_batches)],
        ["Created", when(account.created_at, { exact: true })],
      ]),
    );
  }

  buttons(account) {
    const button = (text, work, kind = "") =>
      action(h("button", { type: "button", class: `small ${kind}` }, text), work, (error) => this.said.bad(error));
    const isSuspended = account.status === "suspended";
    return h(
      "div",
      { class: "buttons", role: "group", "aria-label": "Actions" },
      button("Change the quota", () => this.setQuota(account)),
      this.isSelf
        ? null
        : [
            button("Move to a tier", () => this.setTier(account)),
            isSuspended
              ? button(
                  "Let it in again",
                  () => this.change(() => json("POST", `${this.path}/resume`), "The account is let in again."),
                  "primary",
                )
              : button("Suspend", () => this.suspend(account), "danger"),
            button("Delete", () => this.remove(account), "danger"),
          ],
    );
  }

  async setTier(account) {
    const tier = choice("tier", await tierOptions(this.signal), account.tier);
    tier.setAttribute("name", "tier");
    const given = await ask(`Move ${account.name}`, [field("Tier", tier)], "Move it");
    if (given)
      await this.change(
        () => json("PUT", `${this.path}/tier`, { body: given }),
        `The account is on the tier ${given.tier}.`,
      );
  }

  async setQuota(account) {
    const amount = h("input", {
      id: "quota",
      name: "quota",
      inputmode: "decimal",
      pattern: "[0-9]+([.][0-9]{1,12})?",
      autocomplete: "off",
      value: account.daily_quota_usd ?? "",
    });
    const given = await ask(
      `Daily quota of ${account.name}`,
      [field("US dollars a day", amount, "Leave it empty for none. It renews at 00:00 UTC.")],
      "Set the quota",
    );
    if (given)
      await this.change(
        () => json("PUT", `${this.path}/quota`, { body: { daily_quota_usd: given.quota || null } }),
        "The quota is set.",
      );
  }

  async suspend(account) {
    const lines = [
      "Its keys are refused everywhere from the next request on.",
      "Its batches fail as soon as one of their requests would start.",
    ];
    if (await confirm(`Suspend ${account.name}?`, lines, "Suspend the account")) {
      await this.change(() => json("POST", `${this.path}/suspend`), "The account is suspended.");
    }
  }

  async remove(account) {
    const lines = ["Its keys stop working, its batches end, and its batches, results and files are erased, for good."];
    if (!(await confirm(`Delete ${account.name}?`, lines, "Delete the account"))) return;
    await json("DELETE", this.path);
    announce("The account was deleted");
    go("operator/accounts");
  }

  keys(keys) {
    const columns = [
      {
        head: "Key",
        cell: (key) =>
          h("div", {}, h("span", { class: "mono" }, `${key.prefix}…`), h("p", { class: "sub mono" }, key.id)),
      },
      { head: "State", cell: keyState },
      { head: "Models", cell: (key) => (key.models ? key.models.join(", ") : "all of the account's") },
      { head: "Created", cell: (key) => when(key.created_at) },
      { head: "Expires", cell: (key) => (key.expires_at ? when(key.expires_at) : "never") },
      { head: "Action", cell: (key) => (key.revoked_at ? "–" : this.revoke(key)) },
    ];
    return h(
      "section",
      { class: "panel" },
      h(
        "div",
        { class: "head" },
        h("h2", {}, "Keys"),
        h("button", { type: "button", class: "small primary", onclick: () => this.createKey() }, "New key"),
      ),
      keys.length
        ? table("Keys, oldest first", columns, rows(columns, keys), { hiddenCaption: true })
        : h("p", { class: "muted" }, "It has no keys."),
    );
  }

  revoke(key) {
    return action(
      h("button", { type: "button", class: "small danger", "aria-label": `Revoke ${key.prefix}…` }, "Revoke"),
      async () => {
        const lines = ["Calls with it are refused from now on, and batches that were created with it fail."];
        if (!(await confirm(`Revoke ${key.prefix}…?`, lines, "Revoke the key"))) return;
        await this.change(() => json("DELETE", `v1/admin/keys/${key.id}`), "The key was revoked.");
      },
      (error) => this.said.bad(error),
    );
  }

  async createKey() {
    const lasts = choice("lasts", LASTS, "");
    lasts.setAttribute("name", "lasts");
    const models = h("input", { id: "key-models", name: "models", autocomplete: "off", spellcheck: "false" });
    const given = await ask(
      "New key",
      [
        field("It works for", lasts),
        field("Models", models, "Optional: ids with commas between them. Empty: all that the account may use."),
      ],
      "Make the key",
    );
    if (!given) return;
    const names = given.models
      .split(",")
      .map((name) => name.trim())
      .filter(Boolean);
    await this.change(async () => {
      const key = await post(`${this.path}/keys`, {
        ...(given.lasts && { expires_in_s: Number(given.lasts) }),
        ...(names.length && { models: names }),
      });
      await showSecret("The new key", "It is shown this once: hand it over now.", key.secret);
    }, "The key was made.");
  }
}

function keyState(key) {
  if (key.revoked_at) return badge("revoked");
  return badge(key.expires_at && key.expires_at <= now() ? "expired" : "active");
}
