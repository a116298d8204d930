// A new batch from a JSONL file: drop it or pick it, see what is in it and what is wrong with it, send it with progress.

import { json, post, upload } from "../api.js";
import { h, show, swap } from "../dom.js";
import { bytes, count, number, percent } from "../format.js";
import { look } from "../jsonl.js";
import { within } from "../live.js";
import { Once, refused } from "../once.js";
import { go, link } from "../router.js";
import { announce, setTitle } from "../shell.js";
import { bar, choice, empty, facts, field, outcome } from "../widgets.js";

const CHAT = "/v1/chat/completions";
const ENDPOINTS = [CHAT, "/v1/embeddings", "/v1/responses"];

/** Show the form; with `file` in the address it is for a file that is uploaded already. */
export function newBatchView({ main, query, account, signal }) {
  setTitle("New batch");
  const given = query.get("file");
  const head = [
    h("a", { class: "back", href: link("batches") }, "← All batches"),
    h("div", { class: "head" }, h("h1", {}, "New batch")),
  ];
  if (!account.can_create_batches || !account.batches_enabled) {
    const why = account.batches_enabled
      ? "Your account may not create batches"
      : "Batches are switched off on this server";
    return show(
      main,
      head,
      empty(why, h("p", {}, "What you have submitted before goes on, and its results can be read.")),
    );
  }
  const form = given ? new UploadedForm(given, account, signal) : new FileForm(account, signal);
  return show(main, head, form.place);
}

/** What both ways have in common: the endpoint, a description, the button, the outcome. */
class Form {
  constructor(account, signal) {
    Object.assign(this, { account, signal, once: new Once() });
    this.said = outcome();
    this.endpoint = choice(
      "endpoint",
      ENDPOINTS.map((path) => [path, path]),
      CHAT,
    );
    this.description = h("input", { id: "description", maxlength: "512", autocomplete: "off" });
    this.send = h("button", { type: "submit", class: "primary" }, "Submit the batch");
    this.asFile = account.extensions.includes("files");
    this.fields = h(
      "div",
      { class: "columns" },
      this.asFile && field("Endpoint", this.endpoint, "Where each request would go if you sent it yourself."),
      field("Description", this.description, "Optional. It is kept as metadata, and shown in the list."),
    );
  }

  metadata() {
    const description = this.description.value.trim();
    return description ? { description } : null;
  }

  /** Create the batch from an uploaded file, and go to it. */
  async create(file) {
    const call = {
      input_file_id: file,
      endpoint: this.endpoint.value,
      completion_window: "24h",
      metadata: this.metadata(),
    };
    const { signal } = this;
    this.open(await this.once.send((headers) => post("v1/batches", call, { signal, headers })));
  }

  open(batch) {
    announce("The batch was submitted");
    go(`batches/${batch.id}`);
  }
}

class UploadedForm extends Form {
  constructor(file, account, signal) {
    super(account, signal);
    this.place = h(
      "form",
      { class: "panel stack", onsubmit: (event) => this.submit(event, file), oninput: () => this.once.forget() },
      h("p", {}, "From the uploaded file ", h("span", { class: "mono" }, file), "."),
      this.fields,
      this.said.place,
      h("div", { class: "buttons" }, this.send),
    );
  }

  async submit(event, file) {
    event.preventDefault();
    this.send.disabled = true;
    try {
      await this.create(file);
    } catch (error) {
      this.said.bad(error);
    } finally {
      this.send.disabled = false;
    }
  }
}

class FileForm extends Form {
  constructor(account, signal) {
    super(account, signal);
    this.input = h("input", {
      type: "file",
      id: "file",
      class: "unseen",
      tabindex: "-1",
      "aria-label": "JSONL file",
      accept: ".jsonl,.ndjson,.json,.txt",
      onchange: () => this.choose(this.input.files[0]),
    });
    this.drop = this.dropZone();
    this.found = h("div");
    this.sending = h("div", { "aria-live": "off" });
    this.stop = h("button", { type: "button", hidden: true, onclick: () => this.upload?.abort() }, "Stop");
    this.rest = h(
      "div",
      { class: "panel stack", hidden: true },
      this.found,
      this.fields,
      this.sending,
      h("div", { class: "buttons" }, this.send, this.stop),
    );
    this.place = h(
      "form",
      { class: "stack", onsubmit: (event) => this.submit(event), oninput: () => this.once.forget() },
      this.drop,
      this.said.place,
      this.rest,
    );
    // A file that is dropped beside the zone would be opened in place of the page.
    for (const name of ["dragover", "drop"])
      window.addEventListener(name, (event) => event.preventDefault(), { signal });
  }

  dropZone() {
    const over = (is) => (event) => (event.preventDefault(), zone.classList.toggle("over", is));
    const zone = h(
      "div",
      {
        class: "drop",
        ondragover: over(true),
        ondragleave: over(false),
        ondrop: (event) => (over(false)(event), this.choose(event.dataTransfer.files[0])),
      },
      h("p", {}, "Drop a JSONL file here, one request a line, or"),
      this.input,
      h("button", { type: "button", class: "primary", onclick: () => this.input.click() }, "Choose a file"),
      h(
        "p",
        { class: "hint" },
        `Up to ${number(this.account.limits.max_requests)} requests and ${bytes(this.account.limits.max_body_bytes)}. `,
        this.asFile
          ? "The file stays under Files."
          : "File batches are switched off here, so its requests are sent in one call.",
      ),
      (this.example = h(
        "details",
        { class: "example", open: true },
        h("summary", {}, "What a line looks like"),
        h(
          "pre",
          {},
          '{"custom_id": "q-1", "method": "POST", "url": "/v1/chat/completions", "body": {"model": "my-model", "messages": [{"role": "user", "content": "Hello"}]}}',
        ),
      )),
    );
    return zone;
  }

  async choose(file) {
    if (!file) return;
    this.looking?.abort();
    this.looking = within(this.signal);
    Object.assign(this, { file, uploaded: null });
    this.once.forget();
    this.said.clear();
    this.rest.hidden = false;
    this.example.open = false;
    if (file.size > this.account.limits.max_body_bytes)
      this.said.bad(
        new Error(`The file has ${bytes(file.size)}; ${bytes(this.account.limits.max_body_bytes)} is the most.`),
      );
    await look(file, (found) => this.tell(found), this.looking.signal);
  }

  tell(found) {
    const url = [...found.urls.keys()].find((path) => ENDPOINTS.includes(path));
    if (url && found.done && url !== this.endpoint.value) {
      this.endpoint.value = url;
      this.once.forget();
    }
    this.found = swap(this.found, inFile(this.file, found));
    if (found.done)
      announce(
        `${count(found.requests, "request")}, ${found.problems.length ? count(found.problems.length + found.more, "problem") : "no problems seen"}`,
      );
  }

  async submit(event) {
    event.preventDefault();
    this.said.clear();
    this.upload = within(this.signal);
    this.send.disabled = true;
    this.stop.hidden = false;
    try {
      await (this.asFile ? this.sendFile() : this.sendInline());
    } catch (error) {
      if (error.name !== "AbortError") this.said.bad(error);
      else this.said.bad(new Error("Stopped; nothing was submitted."));
    } finally {
      this.send.disabled = false;
      this.stop.hidden = true;
      show(this.sending);
    }
  }

  async sendFile() {
    this.uploaded ??= await this.uploadFile();
    this.stop.hidden = true;
    const { id } = this.uploaded;
    try {
      await this.create(id);
    } catch (error) {
      // It would count against the storage, for nothing; but where no answer came, a batch may be there that reads it.
      if (refused(error)) {
        this.uploaded = null;
        await json("DELETE", `v1/files/${id}`).catch(() => null);
      }
      throw error;
    }
  }

  uploadFile() {
    const form = new FormData();
    form.append("purpose", "batch");
    form.append("file", this.file);
    return upload("v1/files", form, { onprogress: (share) => this.progress(share), signal: this.upload.signal });
  }

  /** The lines as they are become the elements of `requests`. */
  async sendInline() {
    const lines = (await wholeText(this.file)).split("\n").filter((line) => line.trim());
    const metadata = this.metadata();
    const body = `{"requests":[${lines.join(",")}]${metadata ? `,"metadata":${JSON.stringify(metadata)}` : ""}}`;
    const how = {
      type: "application/json",
      onprogress: (share) => this.progress(share),
      signal: this.upload.signal,
    };
    this.open(await this.once.send((headers) => upload("v1/batches", body, { ...how, headers })));
  }

  progress(share) {
    show(
      this.sending,
      h("p", {}, share < 1 ? `Sending: ${percent(share)}` : "Sent; the server is storing it…"),
      bar(share, `${percent(share)} sent`, "large"),
    );
  }
}

/** A file's text. What is not UTF-8 is refused: its bytes would be others by the time they are sent. */
async function wholeText(file) {
  try {
    return new TextDecoder("utf-8", { fatal: true }).decode(await file.arrayBuffer());
  } catch {
    throw new Error("The file is not UTF-8 text.");
  }
}

function inFile(file, found) {
  const models = [...found.models].sort(([, a], [, b]) => b - a);
  return h(
    "div",
    { class: "stack" },
    h("h2", {}, file.name),
    facts([
      ["Size", bytes(file.size)],
      ["Requests", found.done ? number(found.requests) : `${number(found.requests)} so far (${percent(found.share)})`],
      [
        "Models",
        models.length
          ? models
              .slice(0, 5)
              .map(([name, amount]) => `${name} (${number(amount)})`)
              .join(", ")
          : "–",
      ],
    ]),
    found.problems.length
      ? problems(found)
      : found.done
        ? h("p", { class: "notice good" }, "No problems seen. The server checks every request once more.")
        : null,
  );
}

function problems(found) {
  return h(
    "div",
    { class: "stack" },
    h(
      "p",
      { class: "notice warn" },
      `${count(found.problems.length + found.more, "problem")} seen. A file with problems is refused as a whole.`,
    ),
    h(
      "ol",
      { class: "problems" },
      found.problems
        .slice(0, 20)
        .map(({ line, message }) =>
          h(
            "li",
            {},
            h("span", { class: "line" }, line === null ? "Whole file" : `Line ${number(line)}`),
            h("span", {}, message),
          ),
        ),
    ),
    found.problems.length + found.more > 20
      ? h("p", { class: "hint" }, `and ${number(found.problems.length + found.more - 20)} more`)
      : null,
  );
}
