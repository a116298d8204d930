// Which view is shown: the part of the address behind `#`, such as `#/batches?status=failed`. One view at a time; leaving
// it aborts its signal, which ends all that it began.

import { query } from "./api.js";

/** Where the address points: `{parts, query}`. */
export function here() {
  const [path, search = ""] = window.location.hash.replace(/^#\/?/, "").split("?");
  return { parts: path.split("/").filter(Boolean).map(decode), query: new URLSearchParams(search) };
}

function decode(part) {
  try {
    return decodeURIComponent(part);
  } catch {
    return part;
  }
}

/** The address of a view. */
export function link(path, parameters = {}) {
  return `#/${path}${query(parameters)}`;
}

/** Go to a view. */
export function go(path) {
  window.location.hash = link(path);
}

/** Change the query of the present view, without showing it anew. */
export function setQuery(parameters) {
  const path = here().parts.map(encodeURIComponent).join("/");
  window.history.replaceState(null, "", link(path, parameters));
}
