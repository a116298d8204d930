// The whole life of file batches through the OpenAI SDK for Node, of whatever release stands in node_modules.
//
//     node files_flow.mjs BASE_URL KEY

import assert from "node:assert/strict";
import { createReadStream, writeFileSync } from "node:fs";
import { mkdtempSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import OpenAI, { toFile } from "openai";

const [base, key] = process.argv.slice(2);
const client = new OpenAI({ baseURL: `${base}/v1`, apiKey: key, maxRetries: 0 });
const FINAL = ["completed", "failed", "expired", "cancelled"];

function line(custom_id, content, more = {}) {
  const body = { model: "glm-5.3-flash", messages: [{ role: "user", content }], ...more };
  return JSON.stringify({ custom_id, method: "POST", url: "/v1/chat/completions", body }) + "\n";
}

async function ended(batch) {
  for (let tries = 0; !FINAL.includes(batch.status); tries++) {
    assert(tries < 1200, JSON.stringify(batch));
    await sleep(50);
    batch = await client.batches.retrieve(batch.id);
  }
  return batch;
}

const create = (id, more = {}, options = {}) =>
  client.batches.create(
    { input_file_id: id, endpoint: "/v1/chat/completions", completion_window: "24h", ...more },
    options,
  );

async function read(id) {
  const text = await (await client.files.content(id)).text();
  return text.split("\n").filter(Boolean).map((one) => JSON.parse(one));
}

async function wholeLife() {
  const path = join(mkdtempSync(join(tmpdir(), "files-")), "in.jsonl");
  writeFileSync(path, line("a", "one") + line("b", "refuse this"));
  const file = await client.files.create({ file: createReadStream(path), purpose: "batch" }); // chunked, file first
  assert.deepEqual([file.object, file.purpose, file.filename, file.status], ["file", "batch", "in.jsonl", "processed"]);
  const batch = await ended(await create(file.id, { metadata: { run: "1" } }));
  assert.equal(batch.status, "completed", JSON.stringify(batch));
  assert.deepEqual(batch.request_counts, { total: 2, completed: 1, failed: 1 });
  const [[good], [bad]] = [await read(batch.output_file_id), await read(batch.error_file_id)];
  assert.equal(good.custom_id, "a");
  assert(good.response.body.choices[0].message.content);
  assert.equal(bad.response.body.error.code, "invalid_request");
  const remove = client.files.delete ?? client.files.del; // its name before release 5
  assert((await remove.call(client.files, batch.output_file_id)).deleted);
  await assert.rejects(client.files.content(batch.output_file_id), { status: 404 });
  return file;
}

async function invalid() {
  const file = await client.files.create({
    purpose: "batch",
    file: await toFile(Buffer.from("nonsense\n" + line("a", "x", { stream: true })), "bad.jsonl"),
  });
  const batch = await ended(await create(file.id));
  const found = batch.errors.data.map((problem) => [problem.line, problem.code, problem.param]);
  assert.deepEqual(found, [[1, "invalid_json_line", null], [2, "streaming_unsupported", "body.stream"]]);
}

async function pagers() {
  const all = async (pager) => {
    const ids = [];
    for await (const one of pager) ids.push(one.id);
    return ids;
  };
  const before = new Set(await all(client.files.list({ purpose: "batch" })));
  const made = [];
  for (let n = 0; n < 250; n++) {
    const file = await toFile(Buffer.from(line("a", "x")), `${n}.jsonl`);
    made.unshift((await client.files.create({ file, purpose: "batch" })).id);
  }
  const pages = await all(client.files.list({ purpose: "batch", limit: 40 }));
  assert.deepEqual(pages.filter((id) => !before.has(id)), made);
  const batches = [];
  for (const id of made.slice(0, 45)) batches.unshift((await create(id)).id);
  const listed = await all(client.batches.list({ limit: 20 }));
  assert.deepEqual(listed.slice(0, 45), batches);
  assert.equal(listed.length, new Set(listed).size);
}

const file = await wholeLife();
await invalid();
await assert.rejects(create("file-" + "0".repeat(32)), { status: 400, param: "input_file_id" });
const headers = { "Idempotency-Key": "the same" };
const twice = [await create(file.id, {}, { headers }), await create(file.id, {}, { headers })];
assert.equal(twice[0].id, twice[1].id);
await pagers();
const slow = await toFile(Buffer.from(line("a", "take your time") + line("b", "take your time")), "slow.jsonl");
const cancelling = await client.batches.cancel((await create((await client.files.create({ file: slow, purpose: "batch" })).id)).id);
assert(["cancelling", "cancelled"].includes(cancelling.status));
console.log("ok");
