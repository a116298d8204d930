// What operators see and do: models and their servers, accounts and keys, tiers. Nothing of what users sent.

import { h, show } from "../dom.js";
import { link } from "../router.js";
import { setTitle } from "../shell.js";
import { empty } from "../widgets.js";
import { AccountPanel } from "./operator_account.js";
import { accountsPanel } from "./operator_accounts.js";
import { modelsPanel } from "./operator_models.js";
import { daemonsPanel, spendingPanel, tiersPanel } from "./operator_tables.js";

const TABS = [
  ["models", "Models", modelsPanel],
  ["accounts", "Accounts", accountsPanel],
  ["tiers", "Tiers", tiersPanel],
  ["spending", "Spending", spendingPanel],
  ["daemons", "Daemons", daemonsPanel],
];

/** Show the part that the address names. */
export function operatorView({ main, parts, query, account, signal }) {
  setTitle("Operator");
  if (!account.is_admin) {
    return show(main, h("h1", {}, "Operator"), empty("This is for accounts of the tier admin"));
  }
  const tab = parts[1] ?? "models";
  const [, title, panel] = TABS.find(([name]) => name === tab) ?? TABS[0];
  setTitle(`${title} · Operator`);
  const tabs = h(
    "nav",
    { "aria-label": "Operator" },
    h(
      "ul",
      { class: "tabs" },
      TABS.map(([name, text]) =>
        h("li", {}, h("a", { href: link(`operator/${name}`), "aria-current": name === tab ? "page" : null }, text)),
      ),
    ),
  );
  const place = h("div");
  show(main, h("div", { class: "head" }, h("h1", {}, "Operator")), tabs, place);
  if (tab === "accounts" && parts[2]) return new AccountPanel(place, parts[2], account, signal).load();
  return panel({ place, query, account, signal });
}
