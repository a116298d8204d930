// Numbers, times and sizes as people read them, in the browser's language. Times come in Unix seconds.

const LANGUAGE = navigator.languages?.length ? [...navigator.languages] : "en";
const whole = new Intl.NumberFormat(LANGUAGE);
const short = new Intl.NumberFormat(LANGUAGE, { notation: "compact", maximumFractionDigits: 1 });
const percentage = new Intl.NumberFormat(LANGUAGE, { style: "percent", maximumFractionDigits: 0 });
const clock = new Intl.DateTimeFormat(LANGUAGE, { timeStyle: "medium" });
const dateAndTime = new Intl.DateTimeFormat(LANGUAGE, { dateStyle: "medium", timeStyle: "short" });
const dayOnly = new Intl.DateTimeFormat(LANGUAGE, { dateStyle: "medium", timeZone: "UTC" });
const relative = new Intl.RelativeTimeFormat("en", { numeric: "auto", style: "short" });

const UNITS = [
  ["day", 86400],
  ["hour", 3600],
  ["minute", 60],
];
let ahead = 0;

/** Set the clock by the server's: the page's ages and waits are in its time. */
export function setClock(serverNow) {
  ahead = serverNow - Date.now() / 1000;
}

/** The server's time, in Unix seconds. */
export function now() {
  return Date.now() / 1000 + ahead;
}

export const number = (value) => whole.format(value);
export const compact = (value) => (Math.abs(value) < 10000 ? whole.format(value) : short.format(value));
export const percent = (share) => percentage.format(share);
export const time = (at) => clock.format(at * 1000);
export const moment = (at) => dateAndTime.format(at * 1000);
export const utc = (at) => `${new Date(at * 1000).toISOString().slice(0, 19).replace("T", " ")} UTC`;
export const day = (text) => dayOnly.format(new Date(`${text}T00:00:00Z`));

/** US dollars: cents where there are some, and more places for what is less than that. */
export function money(usd) {
  const places = usd === 0 || Math.abs(usd) >= 1 ? 2 : Math.abs(usd) >= 0.01 ? 4 : 6;
  return new Intl.NumberFormat(LANGUAGE, {
    style: "currency",
    currency: "USD",
    minimumFractionDigits: 2,
    maximumFractionDigits: places,
  }).format(usd);
}

/** "3 minutes ago", "in 2 hours". */
export function ago(at) {
  const seconds = at - now();
  const [unit, size] = UNITS.find(([, size]) => Math.abs(seconds) >= size) ?? ["second", 1];
  if (unit !== "second") return relative.format(Math.round(seconds / size), unit);
  if (Math.abs(seconds) < 10) return seconds > 0 ? "in a moment" : "just now";
  return relative.format(Math.round(seconds / 10) * 10, unit); // in tens, so that a page at rest does not flicker
}

/** A span of time in its two largest units: "2 h 5 min", "340 ms". */
export function span(seconds) {
  if (seconds < 1) return `${Math.round(seconds * 1000)} ms`;
  if (seconds < 60) return `${seconds < 10 ? Math.round(seconds * 10) / 10 : Math.round(seconds)} s`;
  const minutes = Math.round(seconds / 60);
  if (minutes < 60)
    return seconds < 600 && seconds % 60 >= 1
      ? `${Math.floor(seconds / 60)} min ${Math.floor(seconds % 60)} s`
      : `${minutes} min`;
  const hours = Math.floor(minutes / 60);
  if (hours < 24) return minutes % 60 ? `${hours} h ${minutes % 60} min` : `${hours} h`;
  const days = Math.floor(hours / 24);
  return hours % 24 ? `${days} d ${hours % 24} h` : `${days} d`;
}

/** A size in binary units. */
export function bytes(count) {
  const units = ["B", "KiB", "MiB", "GiB", "TiB"];
  const step = count < 1024 ? 0 : Math.min(units.length - 1, Math.floor(Math.log2(count) / 10));
  const value = count / 1024 ** step;
  return `${step && value < 10 ? value.toFixed(1) : Math.round(value)} ${units[step]}`;
}

/** "1 request", "2 requests". */
export function count(amount, one, many = `${one}s`) {
  return `${number(amount)} ${amount === 1 ? one : many}`;
}
