// What the API's names mean, in plain words.

import { ago, moment } from "./format.js";

export const STATUS = {
  validating: "Validating",
  in_progress: "In progress",
  finalizing: "Finalizing",
  cancelling: "Cancelling",
  completed: "Completed",
  failed: "Failed",
  expired: "Expired",
  cancelled: "Cancelled",
};

export const KIND = { inline: "Inline", file: "From a file", message_batches: "Message Batch" };

export const OUTCOME = {
  succeeded: "Succeeded",
  failed: "Failed",
  expired: "Expired",
  cancelled: "Cancelled",
  running: "Running",
  queued: "Queued",
};

const OTHERS = {
  pending: "Pending",
  delivered: "Delivered",
  abandoned: "Abandoned",
  up: "Up",
  paused: "Paused",
  down: "Down",
  probing: "Probing",
  active: "Active",
  suspended: "Suspended",
  deleted: "Deleted",
  revoked: "Revoked",
  alive: "Alive",
  gone: "Gone",
};

/** What a state of anything is called: a batch's, a request's, a delivery's, a server's, an account's. */
export const stateWord = (state) => STATUS[state] ?? OUTCOME[state] ?? OTHERS[state] ?? state;

const WAITING = {
  validating: () => "Its input file is being checked",
  finalizing: () => "Its result files are being written",
  quota: (until) => `Your daily quota is used up; it goes on ${until ? ago(until) : "when the quota renews"}`,
  access: () => "Your account may not run batches at the moment; it goes on when it may again",
  drained: () => "The operator has taken the model out of service; it goes on when the model is back",
  model_down: () => "No server of the model can be reached; it is tried again and again",
  paused: (until) => `The model's servers asked for a pause${until ? `; they are asked again ${ago(until)}` : ""}`,
  interactive: () => "It gives way to interactive requests, and goes on when they leave room",
  retry: (until) => `What is left waits for its next attempt${until ? `, ${ago(until)}` : ""}`,
  turn: () => "Other batches have the model's places; its turn comes",
};

/** Why a batch waits, as a sentence without its full stop; null where it does not. */
export function waiting(reason) {
  if (!reason) return null;
  return (WAITING[reason.reason] ?? (() => `It waits (${reason.reason})`))(reason.until);
}

const CODES = {
  invalid_request: "The model's server refused the request as invalid",
  forbidden: "The model's server refused the request",
  model_not_found: "The model does not exist, or may not be used with this key",
  rate_limited: "The model's server was still limiting requests after every retry",
  timeout: "No answer in time, after every retry",
  service_unavailable: "No server of the model could take it, after every retry",
  upstream_error: "The model's server failed or broke off, after every retry",
  result_too_large: "The answer was larger than a result may be",
  batch_failed: "Never ran: the batch failed",
  batch_expired: "Never ran: the time it had to start was over",
  batch_cancelled: "Never ran: the batch was cancelled",
  owner_unauthorized: "The key or account that created the batch is no longer valid",
};

/** What an error code means; null for one that says it itself. */
export const meaning = (code) => CODES[code] ?? null;

export const isFinal = (batch) =>
  batch.ended_at !== null || ["completed", "failed", "expired", "cancelled"].includes(batch.status);

/** When a batch started, ends, or ended, in a few words, and the moment meant. */
export function timing(batch) {
  if (batch.ended_at !== null) return { text: `ended ${ago(batch.ended_at)}`, at: batch.ended_at };
  return {
    text: `must start ${ago(batch.expires_at)}`,
    at: batch.expires_at,
    title: `What has not started by ${moment(batch.expires_at)} expires`,
  };
}
