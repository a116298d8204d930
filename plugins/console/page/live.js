// Light polling: one request after the other, answered 304 while nothing has changed, none while nobody looks.

import { call, isUnavailable, Refused } from "./api.js";

const SLOWEST_MS = 15000;

/** Ask for `path` again and again until `signal` is aborted, and hand each new answer's JSON to `show`.
    `every` gives the milliseconds to wait, from the last answer. A refusal goes to `fail`, and ends it unless `fail`
    returns true. While the server cannot answer it is asked less and less often. */
export async function poll(path, { every, show, fail, signal }) {
  let etag,
    last,
    failures = 0;
  while (!signal.aborted) {
    try {
      const answer = await call("GET", path, { etag, signal });
      failures = 0;
      if (answer.status !== 304) {
        etag = answer.etag;
        last = JSON.parse(answer.text);
        show(last);
      }
    } catch (error) {
      if (error.name === "AbortError") return;
      failures += 1;
      if (error instanceof Refused && !isUnavailable(error)) {
        etag = undefined; // what was shown may have given way to the refusal
        if (!fail(error)) return;
      }
    }
    await pause(failures ? backoff(failures) : every(last), signal);
    await visible(signal);
  }
}

/** The milliseconds to wait after so many failures in a row. */
export const backoff = (failures) => Math.min(SLOWEST_MS, 1000 * 2 ** failures);

/** A controller of what is begun anew now and then, and ends with `signal` at the latest. */
export function within(signal) {
  const part = new AbortController();
  signal.addEventListener("abort", () => part.abort(), { once: true, signal: part.signal });
  return part;
}

/** Wait; an aborted signal ends it. */
export function pause(ms, signal) {
  return until(signal, (over) => {
    const timer = setTimeout(over, ms);
    return () => clearTimeout(timer);
  });
}

/** Wait until somebody looks at the page. */
export function visible(signal) {
  if (!document.hidden || signal.aborted) return undefined;
  return until(signal, (over) => {
    document.addEventListener("visibilitychange", over);
    return () => document.removeEventListener("visibilitychange", over);
  });
}

/** Wait until what `begin` sees to calls its argument, or the signal is aborted; `begin` returns what takes it back. A page
    is open for weeks, so that no wait may leave a listener behind. */
function until(signal, begin) {
  return new Promise((resolve) => {
    const over = () => {
      end();
      signal.removeEventListener("abort", over);
      resolve();
    };
    const end = begin(over);
    signal.addEventListener("abort", over);
  });
}
