// Imports a program of docs/webhooks.md and asks it whether it believes each case, a line of JSON on standard input. Its clock
// stands at the given time, in milliseconds. It prints a line for each: what the program would print.

import { createInterface } from 'node:readline';
import { pathToFileURL } from 'node:url';

const [, , program, now] = process.argv;
const { verify } = await import(pathToFileURL(program).href);
Date.now = () => Number(now);

for await (const line of createInterface({ input: process.stdin })) {
  const { header, body, secret } = JSON.parse(line);
  try {
    await verify(header, Buffer.from(body, 'base64'), secret);
    console.log('verified');
  } catch (refused) {
    console.log(`refused: ${refused.message}`);
  }
}
