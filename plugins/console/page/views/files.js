// The account's files: what was uploaded, what batches have written.

import { address, get, json, query as queryOf } from "../api.js";
import { confirm } from "../dialog.js";
import { h, show } from "../dom.js";
import { bytes } from "../format.js";
import { link } from "../router.js";
import { keepFocus, setTitle } from "../shell.js";
import { action, choice, empty, field, loading, outcome, rows, showProblem, table, when } from "../widgets.js";

const PAGE = 50;
const PURPOSE = { batch: "Input", batch_output: "Result" };

/** Show the files. */
export function filesView({ main, signal }) {
  setTitle("Files");
  const said = outcome();
  const place = h("div", {}, loading());
  const list = new FileList(place, said, signal);
  const purpose = choice(
    "purpose",
    [
      ["", "All"],
      ["batch", "Input files"],
      ["batch_output", "Result files"],
    ],
    "",
    (value) => list.load(value),
  );
  show(main, h("div", { class: "head" }, h("h1", {}, "Files"), field("Kind", purpose)), said.place, place);
  list.load("");
}

class FileList {
  constructor(place, said, signal) {
    Object.assign(this, { place, said, signal, asked: 0 });
  }

  /** What was asked for last is shown: an answer to what was asked before it would be of another kind. */
  async load(purpose, after = null) {
    const asked = ++this.asked;
    try {
      const page = await get(`v1/files${queryOf({ limit: PAGE, purpose, after })}`, { signal: this.signal });
      if (asked !== this.asked) return;
      if (!after) this.begin();
      this.add(page, purpose);
    } catch (error) {
      if (asked === this.asked) showProblem(this.place, error, () => this.load(purpose));
    }
  }

  begin() {
    this.columns = [
      {
        head: "File",
        cell: (file) =>
          h("div", {}, h("span", { class: "wrap" }, file.filename), h("p", { class: "sub mono" }, file.id)),
      },
      { head: "Kind", cell: (file) => PURPOSE[file.purpose] ?? file.purpose },
      { head: "Size", number: true, cell: (file) => bytes(file.bytes) },
      { head: "Made", cell: (file) => when(file.created_at) },
      { head: "Kept until", cell: (file) => (file.expires_at ? when(file.expires_at, { exact: true }) : "–") },
      { head: "Actions", cell: (file) => this.actions(file) },
    ];
    this.body = rows(this.columns, []);
    this.more = h("button", { type: "button" }, "Show more");
    show(this.place, table("Files, newest first", this.columns, this.body, { hiddenCaption: true }), this.more);
  }

  add({ data, has_more: hasMore, last_id: last }, purpose) {
    this.body.append(...rows(this.columns, data).children);
    if (!this.body.children.length) {
      show(
        this.place,
        empty(
          "No files",
          h("p", {}, "Input files appear here when a batch is submitted from one, result files when it has ended."),
        ),
      );
      return;
    }
    this.more.hidden = !hasMore;
    this.more.onclick = () => this.load(purpose, last);
  }

  actions(file) {
    const way = (text, props) =>
      h("a", { class: "button small", "aria-label": `${text} ${file.filename}`, ...props }, text.replace(" from", ""));
    return h(
      "div",
      { class: "buttons" },
      way("Download", { href: address(`v1/files/${file.id}/content`), download: true }),
      file.purpose === "batch" ? way("New batch from", { href: link("new", { file: file.id }) }) : null,
      this.remover(file),
    );
  }

  remover(file) {
    const button = h(
      "button",
      { type: "button", class: "small danger", "aria-label": `Delete ${file.filename}` },
      "Delete",
    );
    const remove = async () => {
      const lines = [
        `${file.filename} (${bytes(file.bytes)}) will be gone, for good.`,
        "A batch that is being checked from it will fail; one that runs goes on.",
      ];
      if (!(await confirm("Delete this file?", lines, "Delete the file"))) return;
      await json("DELETE", `v1/files/${file.id}`);
      button.closest("tr").remove();
      keepFocus();
      this.said.good("The file was deleted.");
    };
    return action(button, remove, (error) => this.said.bad(error));
  }
}
