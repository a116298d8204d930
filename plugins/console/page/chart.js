// Charts over time, drawn here. Each is an image with a sentence that says what it shows, and a table of its figures below.

import { h, svg } from "./dom.js";
import { span, time } from "./format.js";
import { rows, table } from "./widgets.js";

const WIDTH = window.innerWidth < 640 ? 340 : 640; // so that its letters stay readable
const HEIGHT = 180;
const LEFT = 48, RIGHT = 8, TOP = 10, BOTTOM = 22;

/** Bars, one stack for each bucket. `series`: `{name, kind, value(bucket)}`; `key` is the class of its mark. */
export function bars({ title, buckets, series, width, label, told }) {
  const most = nice(Math.max(1, ...buckets.map((bucket) => sum(series, bucket))));
  const step = (WIDTH - LEFT - RIGHT) / buckets.length;
  const drawn = buckets.flatMap((bucket, index) => {
    let base = 0;
    return series.map(({ kind, value }) => {
      const [from, size] = [base, value(bucket)];
      base += size;
      const height = ((HEIGHT - TOP - BOTTOM) * size) / most;
      return size ? svg("rect", {
        class: `area-${kind}`, x: round(LEFT + index * step + step * 0.08), width: round(step * 0.84),
        y: round(y(from + size, most)), height: round(Math.max(height, 1)), rx: 1.5,
      }) : null;
    });
  });
  return figure({ title, told, series, most, label, drawn, buckets, width });
}

/** Lines, one for each series; a bucket without a value is a gap. */
export function lines({ title, buckets, series, width, label, told }) {
  const most = nice(Math.max(0.001, ...buckets.flatMap((bucket) => series.map(({ value }) => value(bucket) ?? 0))));
  const step = (WIDTH - LEFT - RIGHT) / buckets.length;
  const drawn = series.map(({ kind, value }) => {
    let isGap = true;
    const path = buckets.map((bucket, index) => {
      const at = value(bucket);
      if (at === null) return ((isGap = true), "");
      const point = `${round(LEFT + (index + 0.5) * step)} ${round(y(at, most))}`;
      const command = isGap ? `M${point}h0.1` : `L${point}`;
      isGap = false;
      return command;
    });
    return svg("path", { class: `line-${kind}`, d: path.join(""), "stroke-linecap": "round" });
  });
  return figure({ title, told, series, most, label, drawn, buckets, width });
}

function figure({ title, told, series, most, label, drawn, buckets, width }) {
  return h("figure", {}, h("figcaption", {}, title),
    svg("svg", { viewBox: `0 0 ${WIDTH} ${HEIGHT}`, role: "img", "aria-label": told }, axes(most, label, buckets, width), drawn),
    h("p", { class: "key", "aria-hidden": "true" }, series.map(({ name, kind }) => h("span", { class: `k-${kind}` }, name))),
    h("details", {}, h("summary", {}, "Figures"), figures(title, series, buckets, label)));
}

function axes(most, label, buckets, width) {
  const marks = [0, most / 2, most].map((value) => [
    svg("line", { class: "grid", x1: LEFT, x2: WIDTH - RIGHT, y1: round(y(value, most)), y2: round(y(value, most)) }),
    svg("text", { x: LEFT - 6, y: round(y(value, most) + 4), "text-anchor": "end" }, label(value)),
  ]);
  const ends = [[LEFT, "start", buckets[0].at], [WIDTH - RIGHT, "end", buckets.at(-1).at + width]];
  return [marks, ends.map(([x, anchor, at]) => svg("text", { x, y: HEIGHT - 6, "text-anchor": anchor }, time(at)))];
}

function figures(title, series, buckets, label) {
  const columns = [
    { head: "From", cell: (bucket) => time(bucket.at) },
    ...series.map(({ name, value }) => ({ head: name, number: true, cell: (bucket) => (value(bucket) === null ? "–" : label(value(bucket))) })),
  ];
  return table(title, columns, rows(columns, buckets), { hiddenCaption: true, kind: "dense" });
}

const y = (value, most) => TOP + (HEIGHT - TOP - BOTTOM) * (1 - value / most);
const round = (value) => Math.round(value * 10) / 10;
const sum = (series, bucket) => series.reduce((total, { value }) => total + value(bucket), 0);

/** The next round number: 1, 2 or 5 with zeros. */
function nice(value) {
  const power = 10 ** Math.floor(Math.log10(value));
  return power * ([1, 2, 5, 10].find((step) => step * power >= value) ?? 10);
}

/** A span of time for an axis. */
export const axisSpan = (seconds) => (seconds === 0 ? "0" : span(seconds));
