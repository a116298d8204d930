// The page's beginning: who is signed in, then the view that the address names.

import { connection, get, Refused } from "./api.js";
import { setClock } from "./format.js";
import { h, show } from "./dom.js";
import { here } from "./router.js";
import { build, focusView, markWay, setAccount, setTitle } from "./shell.js";
import { batchView } from "./views/batch.js";
import { batchesView } from "./views/batches.js";
import { filesView } from "./views/files.js";
import { newBatchView } from "./views/new_batch.js";
import { operatorView } from "./views/operator.js";
import { signInView } from "./views/sign_in.js";
import { usageView } from "./views/usage.js";
import { webhookView } from "./views/webhook.js";
import { problem } from "./widgets.js";

const VIEWS = {
  batches: (parts) => (parts.length > 1 ? batchView : batchesView),
  new: () => newBatchView,
  files: () => has("files") && filesView,
  usage: () => usageView,
  webhook: () => has("webhooks") && webhookView,
  operator: () => operatorView,
};

const main = build();
let account = null;
let isAsking = false;
let leave = new AbortController();

/** Whether an extension is switched on: without it there is nothing to see of what it does. */
const has = (extension) => account.extensions.includes(extension);

function enter() {
  leave.abort();
  leave = new AbortController();
  markWay();
  const { parts, query } = here();
  const way = parts[0] ?? "batches";
  const view = (Object.hasOwn(VIEWS, way) && VIEWS[way](parts)) || missingView;
  show(main);
  view({ main, parts, query, account, signal: leave.signal });
  focusView();
  window.scrollTo(0, 0);
}

function missingView({ main }) {
  setTitle("Not found");
  show(main, h("h1", {}, "There is nothing here"), h("p", {}, h("a", { href: "#/batches" }, "To the batches")));
}

async function begin(session) {
  setClock(session.now);
  try {
    account = await get("v1/account");
  } catch (error) {
    if (error instanceof Refused && error.status === 401) return;
    show(
      main,
      h("h1", {}, "The console cannot start"),
      problem(error, () => begin(session)),
    );
    return;
  }
  isAsking = false;
  setAccount(account);
  window.addEventListener("hashchange", enter);
  enter();
}

function ask(event) {
  if (isAsking) return; // calls that were under way are refused one after the other
  isAsking = true;
  leave.abort();
  leave = new AbortController();
  window.removeEventListener("hashchange", enter);
  setAccount(null);
  signInView({
    main,
    why: event?.detail ?? (account ? "Your session has ended. Sign in to go on." : null),
    signedIn: begin,
  });
  account = null;
}

async function start() {
  try {
    const session = await get("console/session");
    await (session.signed_in ? begin(session) : ask());
  } catch (error) {
    show(main, h("h1", {}, "The console cannot start"), problem(error, start));
  }
}

connection.addEventListener("signed-out", ask);
start();
