// Questions before something that cannot be undone, and secrets that are shown once.

import { h, newId } from "./dom.js";
import { keepFocus } from "./shell.js";

/** Ask in plain words. Resolves to true where `verb` was chosen. */
export function confirm(title, text, verb, { danger = true } = {}) {
  return open(
    title,
    [text].flat().map((line) => h("p", {}, line)),
    (close) => [
      h("button", { type: "button", class: danger ? "danger" : "primary", onclick: () => close(true) }, verb),
      h("button", { type: "button", autofocus: true, onclick: () => close(false) }, "Keep it as it is"),
    ],
  );
}

/** Show a secret, this once, with a button that copies it. */
export function showSecret(title, text, secret) {
  const field = h(
    "textarea",
    { class: "secret", readonly: true, rows: 2, spellcheck: "false", "aria-label": title, onfocus: () => field.select() },
    secret,
  );
  const copied = h("span", { role: "status", class: "muted" });
  const copy = h(
    "button",
    {
      type: "button",
      autofocus: true,
      onclick: async () => {
        field.select();
        try {
          await navigator.clipboard.writeText(secret);
          copied.textContent = "Copied";
        } catch {
          // not allowed, or not there: browsers offer it over TLS only
          copied.textContent = "Press Ctrl-C to copy it";
        }
      },
    },
    "Copy",
  );
  return open(title, [h("p", {}, text), field, h("div", { class: "row" }, copy, copied)], (close) => [
    h("button", { type: "button", class: "primary", onclick: () => close(true) }, "I have kept it"),
  ]);
}

/** Ask for values by a form: `fields` are elements with named controls. Resolves to their values, null where it was closed. */
export function ask(title, fields, verb) {
  const form = h("form", { id: newId("form"), method: "dialog" }, fields);
  return open(
    title,
    [form],
    (close) => {
      form.addEventListener("submit", (event) => {
        event.preventDefault();
        close(Object.fromEntries(new FormData(form)));
      });
      return [
        h("button", { type: "submit", form: form.id, class: "primary" }, verb),
        h("button", { type: "button", onclick: () => close(null) }, "Cancel"),
      ];
    },
    null,
  );
}

function open(title, content, buttons, unanswered = false) {
  return new Promise((resolve) => {
    const heading = h("h2", { id: newId("dialog") }, title);
    let answer = unanswered;
    const closed = () => {
      window.removeEventListener("hashchange", leave);
      dialog.remove();
      keepFocus(); // the button that opened it may have been drawn anew
      resolve(answer);
    };
    const dialog = h("dialog", { "aria-labelledby": heading.id, onclose: closed });
    const leave = () => dialog.close(); // what it asks about is not shown any more
    const close = (value) => ((answer = value), dialog.close());
    dialog.append(heading, ...content, h("div", { class: "buttons" }, buttons(close)));
    document.body.append(dialog);
    window.addEventListener("hashchange", leave);
    dialog.showModal();
  });
}
