// Calls that must not be carried out twice.

/** Sends a call with an idempotency key that stays the same for as long as nobody knows whether the call was carried out: where
    its answer was lost, to press the button once more makes no second batch. */
export class Once {
  key = null;

  /** Make `call`, a function of the headers to send, and return what it returns. */
  async send(call) {
    this.key ??= newKey();
    try {
      const answer = await call({ "Idempotency-Key": this.key });
      this.forget();
      return answer;
    } catch (error) {
      if (refused(error)) this.forget();
      throw error;
    }
  }

  /** What is sent next is another call. */
  forget() {
    this.key = null;
  }
}

/** Whether the API has refused the call, so that nothing came of it. A proxy may answer 5xx to a call that was carried out. */
export function refused(error) {
  return error.status < 500;
}

function newKey() {
  return [...crypto.getRandomValues(new Uint8Array(16))].map((byte) => byte.toString(16).padStart(2, "0")).join("");
}
