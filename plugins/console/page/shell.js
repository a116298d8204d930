// What stands around every view: the bar with the way to the others, the place of the view, what is said aloud.

import { connection, json } from "./api.js";
import { h, show } from "./dom.js";
import { here, link } from "./router.js";

const main = h("main", { id: "main", tabindex: "-1" });
const spoken = h("p", { class: "unseen", role: "status", "aria-live": "polite" });
const offline = h(
  "p",
  { class: "notice warn offline", role: "status", hidden: true },
  "The server does not answer at the moment. What you see is as it was; it is tried again by itself.",
);
const ways = h("ul", { class: "ways" });
const who = h("div", { class: "who" });
const bar = h(
  "header",
  { class: "bar", hidden: true },
  h("a", { class: "brand", href: link("batches") }, "fibatchd"),
  h("nav", { "aria-label": "Views" }, ways),
  who,
);

/** Put the shell on the page. Returns the place where views go. */
export function build() {
  const skip = h(
    "a",
    { class: "skip", href: "#main", onclick: (event) => (event.preventDefault(), focusView()) },
    "Skip to the content",
  );
  document.body.append(skip, bar, offline, main, spoken);
  connection.addEventListener("reachable", ({ detail }) => (offline.hidden = detail));
  return main;
}

/** Say something to who does not see the page. */
export function announce(text) {
  spoken.textContent = "";
  window.requestAnimationFrame(() => (spoken.textContent = text));
}

/** Name the view in the window's title. */
export function setTitle(text) {
  document.title = `${text} · fibatchd`;
}

/** Move the focus to the view's heading, as a new page would. */
export function focusView() {
  const heading = main.querySelector("h1") ?? main;
  heading.setAttribute("tabindex", "-1");
  heading.focus({ preventScroll: true });
}

/** Move the focus to the heading where what had it is gone. */
export function keepFocus() {
  if (document.activeElement === document.body) focusView();
}

/** Show whose session it is, and the ways that are open to the account; null: nobody's. */
export function setAccount(account) {
  bar.hidden = account === null;
  if (account === null) return;
  const has = (extension) => account.extensions?.includes(extension);
  const open = [
    ["batches", "Batches", true],
    ["files", "Files", has("files")],
    ["usage", "Usage", true],
    ["webhook", "Webhook", has("webhooks")],
    ["operator", "Operator", account.is_admin],
  ].filter(([, , isOpen]) => isOpen);
  show(
    ways,
    open.map(([path, text]) => h("li", {}, h("a", { href: link(path) }, text))),
  );
  show(
    who,
    h("span", { title: account.id }, account.name),
    h("button", { class: "quiet", type: "button", onclick: signOut }, "Sign out"),
  );
  markWay();
}

/** Mark the way to the view that is shown. */
export function markWay() {
  const present = here().parts[0] ?? "batches";
  for (const way of ways.querySelectorAll("a")) {
    const isHere =
      way.getAttribute("href") === link(present) || (present === "new" && way.getAttribute("href") === link("batches"));
    if (isHere) way.setAttribute("aria-current", "page");
    else way.removeAttribute("aria-current");
  }
}

async function signOut() {
  try {
    await json("DELETE", "console/session");
  } catch {
    return announce("You are still signed in: the server did not answer");
  }
  return connection.dispatchEvent(new CustomEvent("signed-out", { detail: "You have signed out." }));
}
