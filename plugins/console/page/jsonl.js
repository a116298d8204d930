// A look through a JSONL file before it is sent: how many requests, for which models, and the lines that cannot be right.
// In pieces, so that the page stays alive; the server has the last word.

const MOST_PROBLEMS = 100;
const BREATH_MS = 30;

/** Read a file of requests. `told(found)` is called now and then, and at the end with `found.done`.
    `found`: `{requests, models, urls, problems, done, share}`; a problem is `{line, message}`. */
export async function look(file, told, signal) {
  const found = { requests: 0, models: new Map(), urls: new Map(), problems: [], more: 0, done: false, share: 0 };
  const names = new Set();
  let line = 0,
    read = 0,
    rest = "",
    breathed = performance.now();
  const reader = file
    .stream()
    .pipeThrough(new TextDecoderStream("utf-8", { fatal: true }))
    .getReader();
  try {
    for (;;) {
      const { value, done } = await reader.read();
      if (signal.aborted) return;
      const lines = (value ?? "").split("\n"); // of the new piece alone: a line may be as long as the file
      lines[0] = rest + lines[0];
      rest = done ? "" : lines.pop();
      read += value?.length ?? 0;
      for (const text of lines) {
        line += 1;
        if (text.trim()) check(text, line, found, names);
        if (performance.now() - breathed < BREATH_MS) continue;
        told(found);
        await new Promise((resolve) => setTimeout(resolve));
        if (signal.aborted) return;
        breathed = performance.now();
      }
      found.share = file.size ? Math.min(1, read / file.size) : 1;
      if (done) break;
    }
  } catch {
    note(found, line + 1, "The file is not UTF-8 text");
  }
  if (!found.requests && !found.problems.length) note(found, null, "The file has no requests");
  Object.assign(found, { done: true, share: 1 });
  told(found);
}

function check(text, line, found, names) {
  found.requests += 1;
  let item;
  try {
    item = JSON.parse(text);
  } catch {
    return note(found, line, "Not valid JSON");
  }
  if (typeof item !== "object" || item === null || Array.isArray(item)) return note(found, line, "Not a JSON object");
  if (typeof item.custom_id !== "string" || !item.custom_id) note(found, line, "custom_id is missing");
  else if (names.has(item.custom_id)) note(found, line, `custom_id ${JSON.stringify(item.custom_id)} occurs twice`);
  else names.add(item.custom_id);
  if (typeof item.body !== "object" || item.body === null) return note(found, line, "body is missing");
  if (typeof item.body.model === "string") count(found.models, item.body.model);
  else note(found, line, "body.model is missing");
  if (typeof item.url === "string") count(found.urls, item.url);
}

function count(map, name) {
  map.set(name, (map.get(name) ?? 0) + 1);
}

function note(found, line, message) {
  if (found.problems.length < MOST_PROBLEMS) found.problems.push({ line, message });
  else found.more += 1;
}
