// How a batch goes: requests over time, how long they take, when it may end.

import { axisSpan, bars, isNarrow, lines } from "../chart.js";
import { h, swap } from "../dom.js";
import { ago, compact, moment, number, span } from "../format.js";
import { poll, within } from "../live.js";
import { isFinal } from "../words.js";

const STEADY_MS = 4000;
const OVER_MS = 600000;
const LARGE = 25; // requests a millisecond: each answer has the server sort all that have ended
const FEWEST = 3; // of fewer figures there is no course to be seen

export class ProgressPanel {
  constructor(id, signal) {
    Object.assign(this, { id, signal, asked: null });
    this.content = h("div");
    this.place = h(
      "section",
      { class: "panel", hidden: true, "aria-labelledby": "progress-title" },
      h("h2", { id: "progress-title" }, "Progress over time"),
      this.content,
    );
    isNarrow.addEventListener("change", () => this.found && this.show(this.found), { signal });
  }

  /** Begin to ask once there is something to be seen; when the batch has ended, once more. */
  draw(batch) {
    const phase = batch.started_at === null ? null : isFinal(batch) ? "over" : "running";
    if (phase === this.phase || phase === null) return;
    this.phase = phase;
    this.asked?.abort();
    this.asked = within(this.signal);
    poll(`v1/account/batches/${this.id}/progress?buckets=60`, {
      signal: this.asked.signal,
      every: () => (phase === "over" ? OVER_MS : Math.max(STEADY_MS, batch.counts.total / LARGE)),
      show: (found) => this.show(found),
      fail: (error) => error.status >= 500, // for a while; another refusal says that the batch is gone
    });
  }

  show(found) {
    this.found = found;
    const known = found.buckets.filter((bucket) => bucket.succeeded + bucket.failed);
    this.place.hidden = known.length < FEWEST;
    if (this.place.hidden) return;
    this.content = swap(
      this.content,
      h(
        "div",
        { class: "stack" },
        forecast(found.forecast),
        h("div", { class: "columns" }, throughput(found), latency(found)),
      ),
    );
  }
}

function forecast(found) {
  if (!found) return null;
  const late = found.in_time
    ? null
    : h(
        "strong",
        { class: "unknown" },
        " That is after its time to start is over: what has not started by then expires.",
      );
  return h(
    "p",
    {},
    `At ${compact(Math.round(found.per_minute * 10) / 10)} requests a minute, as in the last ${span(found.basis_s)}, it ends `,
    h(
      "time",
      { datetime: new Date(found.ends_at * 1000).toISOString() },
      `${ago(found.ends_at)}, about ${moment(found.ends_at)}`,
    ),
    ".",
    late,
  );
}

function throughput({ buckets, bucket_s: width }) {
  const most = buckets.reduce((best, bucket) =>
    bucket.succeeded + bucket.failed > best.succeeded + best.failed ? bucket : best,
  );
  return bars({
    title: `Requests that ended, each ${span(width)}`,
    buckets,
    width,
    label: compact,
    series: [
      { name: "Succeeded", kind: "good", value: (bucket) => bucket.succeeded },
      { name: "Failed", kind: "bad", value: (bucket) => bucket.failed },
    ],
    told:
      `Requests that ended in each ${span(width)}: ${number(most.succeeded + most.failed)} at most, ` +
      `${number(buckets.reduce((sum, bucket) => sum + bucket.succeeded, 0))} succeeded and ${number(buckets.reduce((sum, bucket) => sum + bucket.failed, 0))} failed in all.`,
  });
}

function latency({ buckets, bucket_s: width }) {
  const known = buckets.filter((bucket) => bucket.p50_s !== null);
  const slowest = Math.max(0, ...known.map((bucket) => bucket.max_s));
  return lines({
    title: "Time that a request takes",
    buckets,
    width,
    label: axisSpan,
    series: [
      { name: "Half are faster than", kind: "a", value: (bucket) => bucket.p50_s },
      { name: "95 % are faster than", kind: "b", value: (bucket) => bucket.p95_s },
    ],
    told: known.length
      ? `Time that a request takes: in the last figures half take less than ${span(known.at(-1).p50_s)}, 95 % less than ${span(known.at(-1).p95_s)}; the slowest took ${span(slowest)}.`
      : "No request has ended yet.",
  });
}
