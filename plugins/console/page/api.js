// Calls of the API, made with the session's cookie. Addresses are relative to the page's own, whatever prefix it has.

const BASE = new URL(".", window.location.href);
const OWN_PAGE = { "X-Fibatchd-Console": "1" };
const UNAVAILABLE = [502, 503, 504]; // the server's own, or a proxy's that does not reach it

/** Fires `signed-out` when a call was refused because the session is over, `reachable` with `detail` true, or false where it
    gave no answer, or none but that it cannot at the moment. */
export const connection = new EventTarget();

/** The API refused a call; `message` says why, in words for people. */
export class Refused extends Error {
  constructor(status, { message, code = null, param = null }, retryAfter) {
    super(message);
    Object.assign(this, { status, code, param, retryAfter });
  }
}

/** No answer came: the server, or the way to it, is down. */
export class Unreachable extends Error {}

/** Whether an error says no more than that the server cannot answer at the moment. */
export function isUnavailable(error) {
  return error instanceof Unreachable || UNAVAILABLE.includes(error.status);
}

/** The address of something below the page's own prefix, for links and downloads. */
export function address(path) {
  return new URL(path, BASE).href;
}

/** Make a call. Returns `{status, text, etag}`; 304 only where `etag` was given. Throws Refused or Unreachable. */
export async function call(method, path, { body, headers = {}, signal, etag } = {}) {
  const sent = { ...OWN_PAGE, ...headers };
  if (body !== undefined) sent["Content-Type"] = "application/json";
  if (etag) sent["If-None-Match"] = etag;
  let answer, text;
  try {
    const content = body === undefined ? undefined : JSON.stringify(body);
    answer = await fetch(address(path), { method, headers: sent, body: content, signal, cache: "no-store" });
    text = await answer.text();
  } catch (error) {
    if (error.name === "AbortError") throw error;
    reached(false);
    throw new Unreachable("The server cannot be reached.");
  }
  reached(!UNAVAILABLE.includes(answer.status));
  if (!answer.ok && answer.status !== 304) throw refusal(path, answer.status, text, answer.headers.get("Retry-After"));
  return { status: answer.status, text, etag: answer.headers.get("ETag") };
}

/** Make a call and return the JSON of its answer. */
export async function json(method, path, options) {
  return JSON.parse((await call(method, path, options)).text);
}

export const get = (path, options) => json("GET", path, options);
export const post = (path, body, options) => json("POST", path, { ...options, body });

/** Send a form or a text with its progress, 0 to 1. Returns the JSON of the answer. */
export function upload(path, content, { type, headers = {}, onprogress, signal }) {
  return new Promise((resolve, reject) => {
    const request = new XMLHttpRequest();
    request.open("POST", address(path));
    request.setRequestHeader("X-Fibatchd-Console", "1");
    if (type) request.setRequestHeader("Content-Type", type);
    for (const [name, value] of Object.entries(headers)) request.setRequestHeader(name, value);
    request.upload.addEventListener("progress", (event) => event.total && onprogress(event.loaded / event.total));
    request.addEventListener("error", () => reject(new Unreachable("The connection broke while the file was sent.")));
    request.addEventListener("abort", () => reject(new DOMException("cancelled", "AbortError")));
    request.addEventListener("load", () => {
      if (request.status < 400) resolve(JSON.parse(request.responseText));
      else reject(refusal(path, request.status, request.responseText, request.getResponseHeader("Retry-After")));
    });
    signal.addEventListener("abort", () => request.abort());
    request.send(content);
  });
}

function refusal(path, status, text, retryAfter) {
  let error;
  try {
    error = JSON.parse(text).error;
  } catch {
    error = null;
  }
  if (status === 401 && !path.startsWith("console/")) connection.dispatchEvent(new Event("signed-out"));
  return new Refused(
    status,
    error ?? { message: `The server answered with status ${status}.` },
    Number(retryAfter) || null,
  );
}

function reached(yes) {
  connection.dispatchEvent(new CustomEvent("reachable", { detail: yes }));
}

/** A query string of the parameters that have a value. */
export function query(parameters) {
  const given = Object.entries(parameters).filter(([, value]) => value !== undefined && value !== null && value !== "");
  return given.length ? `?${new URLSearchParams(given)}` : "";
}
