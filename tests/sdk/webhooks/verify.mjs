// Verifies deliveries with the npm package `standardwebhooks`: a JSON array on stdin, of {secret, body, headers, good}.
import { Webhook } from "standardwebhooks";

let text = "";
for await (const chunk of process.stdin) text += chunk;
for (const { secret, body, headers, good } of JSON.parse(text)) {
  let verified = null;
  try {
    verified = new Webhook(secret).verify(body, headers);
  } catch (error) {
    if (good) throw error;
  }
  if (good !== (verified !== null)) throw new Error(`expected ${good} for ${headers["webhook-id"]}`);
  if (good && verified.id !== headers["webhook-id"]) throw new Error("the event's id is not the webhook's");
}
console.log("verified");
