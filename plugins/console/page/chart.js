// Charts over time, drawn here. Each is an image with a sentence that says what it shows, and a table of its figures below.

import { h, svg } from "./dom.js";
import { span, time } from "./format.js";
import { rows, table } from "./widgets.js";

const HEIGHT = 180;
const LEFT = 48,
  RIGHT = 8,
  TOP = 10,
  BOTTOM = 22;

const WIDE = 640,
  NARROW = 340;

/** Whether charts are drawn for a narrow screen. */
export const isNarrow = window.matchMedia(`(max-width: ${WIDE}px)`);

/** A chart's width in its own units: less on a narrow screen, so that its letters stay readable. */
const breadth = () => (isNarrow.matches ? NARROW : WIDE);

/** Bars, one stack for each bucket. `series`: `{name, kind, value(bucket)}`; `key` is the class of its mark. */
export function bars({ title, buckets, series, width, label, told }) {
  const most = nice(Math.max(1, ...buckets.map((bucket) => sum(series, bucket))), EVEN);
  const step = (breadth() - LEFT - RIGHT) / buckets.length;
  const drawn = buckets.flatMap((bucket, index) => {
    let base = 0;
    return series.map(({ kind, value }) => {
      const [from, size] = [base, value(bucket)];
      base += size;
      const height = ((HEIGHT - TOP - BOTTOM) * size) / most;
      return size
        ? svg("rect", {
            class: `area-${kind}`,
            x: round(LEFT + index * step + step * 0.08),
            width: round(step * 0.84),
            y: round(y(from + size, most)),
            height: round(Math.max(height, 1)),
            rx: 1.5,
          })
        : null;
    });
  });
  return figure({ title, told, series, most, label, drawn, buckets, width });
}

/** Lines, one for each series, through the buckets that have a value. */
export function lines({ title, buckets, series, width, label, told }) {
  const most = nice(
    Math.max(0.001, ...buckets.flatMap((bucket) => series.map(({ value }) => value(bucket) ?? 0))),
    ROUND,
  );
  const step = (breadth() - LEFT - RIGHT) / buckets.length;
  const drawn = series.map(({ kind, value }) => {
    const points = buckets
      .map((bucket, index) => [value(bucket), round(LEFT + (index + 0.5) * step)])
      .filter(([at]) => at !== null);
    const path = points.map(([at, x], index) => `${index ? "L" : "M"}${x} ${round(y(at, most))}${index ? "" : "h0.1"}`);
    return svg("path", { class: `line-${kind}`, d: path.join(""), "stroke-linecap": "round" });
  });
  return figure({ title, told, series, most, label, drawn, buckets, width });
}

function figure({ title, told, series, most, label, drawn, buckets, width }) {
  return h(
    "figure",
    {},
    h("figcaption", {}, title),
    svg(
      "svg",
      { viewBox: `0 0 ${breadth()} ${HEIGHT}`, role: "img", "aria-label": told },
      axes(most, label, buckets, width),
      drawn,
    ),
    h(
      "p",
      { class: "key", "aria-hidden": "true" },
      series.map(({ name, kind }) => h("span", { class: `k-${kind}` }, name)),
    ),
    h("details", {}, h("summary", {}, "Figures"), figures(title, series, buckets, label)),
  );
}

function axes(most, label, buckets, width) {
  const marks = [0, most / 2, most].map((value) => [
    svg("line", {
      class: "grid",
      x1: LEFT,
      x2: breadth() - RIGHT,
      y1: round(y(value, most)),
      y2: round(y(value, most)),
    }),
    svg("text", { x: LEFT - 6, y: round(y(value, most) + 4), "text-anchor": "end" }, label(value)),
  ]);
  const ends = [
    [LEFT, "start", buckets[0].at],
    [breadth() - RIGHT, "end", buckets.at(-1).at + width],
  ];
  return [marks, ends.map(([x, anchor, at]) => svg("text", { x, y: HEIGHT - 6, "text-anchor": anchor }, time(at)))];
}

function figures(title, series, buckets, label) {
  const columns = [
    { head: "From", cell: (bucket) => time(bucket.at) },
    ...series.map(({ name, value }) => ({
      head: name,
      number: true,
      cell: (bucket) => (value(bucket) === null ? "–" : label(value(bucket))),
    })),
  ];
  return table(title, columns, rows(columns, buckets), { hiddenCaption: true, kind: "dense" });
}

const y = (value, most) => TOP + (HEIGHT - TOP - BOTTOM) * (1 - value / most);
const round = (value) => Math.round(value * 10) / 10;
const sum = (series, bucket) => series.reduce((total, { value }) => total + value(bucket), 0);

const ROUND = [1, 2, 5, 10];
const EVEN = [2, 4, 6, 10, 20]; // of which the half is whole as well

/** The next number of those that begin with one of `steps` and go on with zeros. */
function nice(value, steps) {
  const power = 10 ** Math.floor(Math.log10(value));
  return power * steps.find((step) => step * power >= value);
}

/** A span of time for an axis. */
export const axisSpan = (seconds) => (seconds === 0 ? "0" : span(seconds));
