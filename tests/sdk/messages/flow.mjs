// All that the Node SDK does with Message Batches and messages. Run from a copy beside the node_modules of any of its
// releases, with the server's address and a key; ends with status 0 where everything was as it should be.

import assert from "node:assert/strict";
import Anthropic from "@anthropic-ai/sdk";

const [base, key] = process.argv.slice(2);
const tool = { name: "get_weather", input_schema: { type: "object", properties: { city: { type: "string" } } } };
const clientOf = (prefix, apiKey = key) => new Anthropic({ baseURL: base + prefix, apiKey, maxRetries: 0 });
const params = (text, model, more = {}) => ({ model, max_tokens: 64, messages: [{ role: "user", content: text }], ...more });
const item = (custom_id, body) => ({ custom_id, params: body });

async function all(pages) {
  const found = [];
  for await (const each of pages) found.push(each);
  return found;
}

async function ended(client, batch) {
  while (batch.processing_status !== "ended") {
    assert.equal(batch.request_counts.succeeded, 0);
    await new Promise((resolve) => setTimeout(resolve, 20));
    batch = await client.messages.batches.retrieve(batch.id);
  }
  return batch;
}

function isAMessage(message, model) {
  assert.equal(message.model, model);
  assert.deepEqual(message.content.map((block) => block.text), ["Hello there"]);
  assert.deepEqual([message.stop_reason, message.stop_sequence], ["end_turn", null]);
  const { input_tokens, cache_read_input_tokens, output_tokens } = message.usage;
  assert.deepEqual([input_tokens, cache_read_input_tokens, output_tokens], [20, 10, 12]);
}

function isAToolCall(message) {
  const [text, call] = message.content;
  assert.deepEqual([text.text, call.name, call.input], ["Looking.", "get_weather", { city: "Paris", days: 3 }]);
  assert.equal(message.stop_reason, "tool_use");
}

async function aBatch(client, model) {
  const requests = [
    item("plain", params("Hello there", model)),
    item("tool", params("tool", model, { tools: [tool] })),
    item("wrong", params("x", model, { max_tokens: null })),
    item("unknown", params("x", "no-such-model")),
    item("rejected", params("error 422", model)),
    item("failing", params("error 500", model)),
  ];
  const batch = await ended(client, await client.messages.batches.create({ requests }));
  const { processing, succeeded, errored } = batch.request_counts;
  assert.deepEqual([processing, succeeded, errored], [0, 2, 4]);
  const entries = await all(await client.messages.batches.results(batch.id));
  assert.deepEqual(entries.map((entry) => entry.custom_id), requests.map((each) => each.custom_id));
  isAMessage(entries[0].result.message, model);
  isAToolCall(entries[1].result.message);
  assert.deepEqual(
    entries.slice(2).map((entry) => entry.result.error.error.type),
    ["invalid_request_error", "not_found_error", "invalid_request_error", "api_error"],
  );
  return batch;
}

async function interactive(client, model) {
  isAMessage(await client.messages.create(params("Hello there", model)), model);
  const stream = client.messages.stream(params("Hello there", model));
  let text = "";
  stream.on("text", (piece) => (text += piece));
  isAMessage(await stream.finalMessage(), model);
  assert.equal(text, "Hello there");
  isAToolCall(await client.messages.stream(params("tool", model, { tools: [tool] })).finalMessage());
}

async function lists(client) {
  const ids = (await all(client.messages.batches.list({ limit: 1 }))).map((batch) => batch.id);
  assert.ok(ids.length >= 2);
  assert.deepEqual(ids, [...new Set(ids)].sort().reverse());
}

async function cancelling(client, model) {
  const requests = Array.from({ length: 40 }, (_, n) => item(String(n), params("slow", model)));
  const created = await client.messages.batches.create({ requests });
  const batch = await ended(client, await client.messages.batches.cancel(created.id));
  const { succeeded, canceled } = batch.request_counts;
  assert.ok(canceled > 0);
  assert.equal(succeeded + canceled, 40);
  assert.equal((await client.messages.batches.delete(batch.id)).type, "message_batch_deleted");
  await assert.rejects(client.messages.batches.retrieve(batch.id), (error) => {
    assert.ok(error instanceof Anthropic.NotFoundError);
    assert.match(error.requestID ?? error.request_id, /^req_/);
    return error.error.error.type === "not_found_error";
  });
}

async function refusals(client) {
  const requests = [item("a", params("x", "native")), item("a", params("x", "native"))];
  await assert.rejects(client.messages.batches.create({ requests }), Anthropic.BadRequestError);
  await assert.rejects(clientOf("", "hyi-" + "x".repeat(43)).messages.batches.list(), Anthropic.AuthenticationError);
  await assert.rejects(client.messages.create(params("x", "no-such-model")), Anthropic.NotFoundError);
}

// The beta namespace reads what there is, though it sends its header with every call.
async function beta(client, batch) {
  const batches = client.beta.messages.batches;
  assert.equal((await batches.retrieve(batch.id)).processing_status, "ended");
  assert.equal((await all(await batches.results(batch.id))).length, 6);
  const requests = [item("a", params("x", "native"))];
  const betas = ["message-batches-2024-09-24"];
  await assert.rejects(batches.create({ requests, betas }), (error) => /anthropic-beta/.test(error.message));
}

let batch;
for (const prefix of ["/anthropic", ""]) {
  for (const model of ["translated", "native"]) {
    batch = await aBatch(clientOf(prefix), model);
    await interactive(clientOf(prefix), model);
  }
}
await lists(clientOf(""));
await cancelling(clientOf("/anthropic"), "translated");
await refusals(clientOf(""));
await beta(clientOf("/anthropic"), batch);
