// Asks npm's stripe of each case (a line of JSON on standard input) whether it believes it: a line true or false.

import { createRequire } from 'node:module';
import { createInterface } from 'node:readline';

const require = createRequire(`${process.argv[2]}/`);
const Stripe = require('stripe');
const webhooks = Stripe.webhooks ?? new Stripe('sk_test_none').webhooks;

for await (const line of createInterface({ input: process.stdin })) {
  const { header, body, secret } = JSON.parse(line);
  let believed = true;
  try {
    webhooks.signature.verifyHeader(Buffer.from(body, 'base64'), header, secret, 300);
  } catch {
    believed = false; // also what it says by other errors, such as an empty signature
  }
  console.log(believed);
}
