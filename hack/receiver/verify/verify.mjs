// Verify a webhook delivery: node verify.mjs HEADER < BODY, with the signing secret in WEBHOOK_SECRET.
// Exits with status 0 if the delivery is authentic, else with 1 and the reason. With a folder in WEBHOOK_EVENTS it stores
// each event there once, and prints "repeated" for one that is stored already.

import { createHash, createHmac, randomUUID, timingSafeEqual } from 'node:crypto';
import { linkSync, readFileSync, unlinkSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { pathToFileURL } from 'node:url';

// verify throws unless header (Service-Signature) signs exactly body: a Buffer of the raw bytes before any parsing.
export function verify(header, body, secret, tolerance = 300) {
  let timestamp;
  const signatures = [];
  if (!secret) throw new Error('no secret');
  if (header.length > 4096) throw new Error('header too long');
  for (const element of header.split(',')) {
    const equals = element.indexOf('=');
    if (equals < 0) throw new Error('malformed header');
    const name = element.slice(0, equals);
    const value = element.slice(equals + 1);
    if (name === 't') {
      if (timestamp !== undefined || !/^(0|[1-9][0-9]{0,17})$/.test(value)) throw new Error('malformed timestamp');
      timestamp = value;
    } else if (name === 'v1' && /^[0-9A-Fa-f]{64}$/.test(value)) {
      signatures.push(Buffer.from(value, 'hex')); // other schemes are ignored
    }
  }
  if (timestamp === undefined) throw new Error('no timestamp');
  if (Math.abs(Date.now() / 1000 - Number(timestamp)) > tolerance) throw new Error('timestamp too far from now');
  const expected = createHmac('sha256', secret).update(`${timestamp}.`).update(body).digest();
  // During a rotation there are two signatures; one match is enough.
  if (!signatures.some((signature) => timingSafeEqual(expected, signature))) {
    throw new Error('no signature matches this secret and body');
  }
}

// store stores an event under its dedupe_key and reports whether it is new. Verify the body first.
export function store(body, folder) {
  const { dedupe_key: key } = JSON.parse(body);
  const draft = join(folder, `${randomUUID()}.draft`);
  writeFileSync(draft, body);
  try {
    linkSync(draft, join(folder, createHash('sha256').update(key).digest('hex'))); // fails if the name exists
    return true;
  } catch (error) {
    if (error.code === 'EEXIST') return false;
    throw error;
  } finally {
    unlinkSync(draft);
  }
}

if (process.argv[1] && import.meta.url === pathToFileURL(process.argv[1]).href) {
  try {
    const body = readFileSync(0);
    verify(process.argv[2], body, process.env.WEBHOOK_SECRET);
    const events = process.env.WEBHOOK_EVENTS;
    console.log(events && !store(body, events) ? 'repeated' : 'verified');
  } catch (refused) {
    console.error(`refused: ${refused.message}`);
    process.exitCode = 1;
  }
}
