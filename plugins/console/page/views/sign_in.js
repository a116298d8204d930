// Signing in: the key goes to the server once, for a cookie that scripts cannot read, and is forgotten.

import { h, show } from "../dom.js";
import { post } from "../api.js";
import { setTitle } from "../shell.js";

/** Show the form. `why`: what is said above it; `signedIn` is called with the session. */
export function signInView({ main, why, signedIn }) {
  setTitle("Sign in");
  const field = h("input", {
    id: "api-key",
    type: "password",
    required: true,
    autocomplete: "current-password",
    spellcheck: "false",
    autocapitalize: "none",
    placeholder: "hyi-…",
    "aria-describedby": "api-key-hint",
  });
  const button = h("button", { class: "primary", type: "submit" }, "Sign in");
  const wrong = h("p", { class: "notice bad", role: "alert", hidden: true });
  const form = h(
    "form",
    { class: "sign-in", onsubmit: (event) => submit(event, { field, button, wrong, signedIn }) },
    h("p", { class: "brand" }, "fibatchd"),
    h("h1", { tabindex: "-1" }, "Sign in"),
    why ? h("p", { class: "notice", role: "status" }, why) : null,
    h("label", { for: "api-key" }, "API key"),
    field,
    h("p", { id: "api-key-hint", class: "hint" }, "It is exchanged for a session, and not kept in this page."),
    wrong,
    button,
  );
  show(main, form);
  field.focus();
}

async function submit(event, { field, button, wrong, signedIn }) {
  event.preventDefault();
  button.disabled = true;
  wrong.hidden = true;
  try {
    const session = await post("console/session", { api_key: field.value });
    field.value = "";
    await signedIn(session);
  } catch (error) {
    wrong.textContent = error.retryAfter
      ? `${error.message}: ${error.retryAfter} s.`
      : `${error.message.replace(/\.$/, "")}.`;
    wrong.hidden = false;
    field.focus();
  } finally {
    button.disabled = false;
  }
}
