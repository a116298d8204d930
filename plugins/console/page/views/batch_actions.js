// What can be done with a batch: cancel, delete, download, run again. Each where its state allows it.

import { address, json, post } from "../api.js";
import { confirm } from "../dialog.js";
import { h, present, show } from "../dom.js";
import { count } from "../format.js";
import { Once } from "../once.js";
import { go } from "../router.js";
import { announce, keepFocus } from "../shell.js";
import { action } from "../widgets.js";
import { isFinal } from "../words.js";

const VERSION = { "anthropic-version": "2023-06-01" };
const AGAIN = ["failed", "expired", "cancelled"];

export class BatchActions {
  constructor(batch, said, signal) {
    Object.assign(this, { said, signal, again: new Once() });
    this.route = batch.api === "message_batches" ? `v1/messages/batches/${batch.id}` : `v1/batches/${batch.id}`;
    this.place = h("div", { class: "buttons", role: "group", "aria-label": "Actions" });
  }

  draw(batch) {
    this.batch = batch;
    const old = [...this.place.children];
    const fresh = present([this.downloads(), this.rerun(), this.cancel(), this.remove()]);
    if (old.length === fresh.length && fresh.every((button, index) => button.isEqualNode(old[index]))) return;
    const held = old.find((button) => button === document.activeElement)?.textContent;
    show(this.place, fresh);
    fresh.find((button) => button.textContent === held)?.focus();
    keepFocus();
  }

  downloads() {
    const { batch } = this;
    if (!isFinal(batch) || !batch.counts.total) return null;
    if (batch.api === "message_batches")
      return [this.download("Download results", `${this.route}/results`, `${batch.id}.jsonl`)];
    return [
      this.download(
        batch.kind === "file" ? "All results" : "Download results",
        `${this.route}/output.jsonl`,
        `${batch.id}.jsonl`,
      ),
      batch.output_file_id ? this.download("Output file", `v1/files/${batch.output_file_id}/content`) : null,
      batch.error_file_id ? this.download("Error file", `v1/files/${batch.error_file_id}/content`) : null,
    ];
  }

  download(text, path, name = true) {
    return h("a", { class: "button", href: address(path), download: name }, text);
  }

  rerun() {
    const { counts } = this.batch;
    const outcomes = AGAIN.filter((name) => counts[name]);
    if (!isFinal(this.batch) || !outcomes.length) return null;
    const amount = outcomes.reduce((sum, name) => sum + counts[name], 0);
    const text = counts.failed === amount ? "Run the failed ones again" : "Run the rest again";
    return this.button(text, {}, async () => {
      const question = `${count(amount, "request")} that did not succeed will run again, as a new batch with the same metadata. It costs what it costs the first time.`;
      if (!(await confirm("Run again?", question, text, { danger: false }))) return;
      const path = `v1/batches/${this.batch.id}/rerun`;
      const again = await this.again.send((headers) => post(path, { outcomes }, { headers }));
      announce("A new batch was created");
      go(`batches/${again.id}`);
    });
  }

  cancel() {
    if (isFinal(this.batch) || ["finalizing", "cancelling"].includes(this.batch.status)) return null;
    return this.button("Cancel", { class: "danger" }, async () => {
      const { queued, running } = this.batch.counts;
      const lines = [`${count(queued, "request")} that ${queued === 1 ? "has" : "have"} not started will never run.`];
      if (running)
        lines.push(
          `${count(running, "request")} running now will finish and keep ${running === 1 ? "its result" : "their results"}.`,
        );
      if (!(await confirm("Cancel this batch?", lines, "Cancel the batch"))) return;
      await json("POST", `${this.route}/cancel`, { headers: VERSION });
      this.said.good("The batch is being cancelled.");
    });
  }

  remove() {
    const mayGo = this.batch.api === "message_batches" ? isFinal(this.batch) : !this.batch.counts.running;
    if (!mayGo) return null;
    return this.button("Delete", { class: "danger" }, async () => {
      const lines = ["The batch, its requests and all of its results will be gone, for good."];
      if (!isFinal(this.batch)) lines.push("What has not run yet never will.");
      if (!(await confirm("Delete this batch?", lines, "Delete the batch"))) return;
      await json("DELETE", this.route, { headers: VERSION });
      announce("The batch was deleted");
      go("batches");
    });
  }

  button(text, props, work) {
    return action(h("button", { type: "button", ...props }, text), work, (error) => this.said.bad(error));
  }
}
