// Which view is shown: the part of the address behind `#`, such as `#/batches?status=failed`. One view at a time; leaving
// it aborts its signal, which ends all that it began.

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
  const given = Object.entries(parameters).filter(([, value]) => value);
  return `#/${path}${given.length ? `?${new URLSearchParams(given)}` : ""}`;
}

/** Go to a view. */
export function go(path, parameters) {
  window.location.hash = link(path, parameters);
}

/** Change the query of the present view, without showing it anew. */
export function setQuery(parameters) {
  const path = here().parts.map(encodeURIComponent).join("/");
  window.history.replaceState(null, "", link(path, parameters));
}
