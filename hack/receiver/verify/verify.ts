// Verify a webhook delivery: node verify.ts HEADER < BODY, with the signing secret in WEBHOOK_SECRET.
// Exits with status 0 if the delivery is authentic, else with 1 and the reason. With a folder in WEBHOOK_EVENTS it stores
// each event there once, and prints "repeated" for one that is stored already.

import { createHash, randomUUID, webcrypto } from 'node:crypto';
import { link, unlink, writeFile } from 'node:fs/promises';
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { pathToFileURL } from 'node:url';

/** The body of a delivery. data depends on event. */
export interface WebhookEvent {
  event: 'mock_attempt.submitted' | 'mock_attempt.scored' | 'exam.content_updated' | 'webhook.test';
  created: number;
  data: Record<string, unknown>;
  id: string;
  dedupe_key: string;
}

/** verify rejects unless header (Service-Signature) signs exactly body: the raw bytes before any parsing. */
export async function verify(header: string, body: Buffer, secret: string, tolerance = 300): Promise<void> {
  let timestamp: string | undefined;
  const signatures: string[] = [];
  if (!secret) throw new Error('no secret');
  if (header.length > 4096) throw new Error('header too long');
  for (const element of header.split(',')) {
    const at = element.indexOf('=');
    if (at < 0) throw new Error('malformed header');
    const [name, value] = [element.slice(0, at), element.slice(at + 1)];
    if (name === 't') {
      if (timestamp !== undefined || !/^(0|[1-9][0-9]{0,17})$/.test(value)) throw new Error('malformed timestamp');
      timestamp = value;
    } else if (name === 'v1' && /^[0-9A-Fa-f]{64}$/.test(value)) {
      signatures.push(value); // other schemes are ignored
    }
  }
  if (timestamp === undefined) throw new Error('no timestamp');
  if (Math.abs(Date.now() / 1000 - Number(timestamp)) > tolerance) throw new Error('timestamp too far from now');
  const hmac = { name: 'HMAC', hash: 'SHA-256' };
  const key = await webcrypto.subtle.importKey('raw', Buffer.from(secret), hmac, false, ['verify']);
  const message = Buffer.concat([Buffer.from(`${timestamp}.`), body]);
  // During a rotation there are two signatures; one match is enough. subtle.verify compares in constant time.
  for (const signature of signatures) {
    if (await webcrypto.subtle.verify('HMAC', key, Buffer.from(signature, 'hex'), message)) return;
  }
  throw new Error('no signature matches this secret and body');
}

/** store stores an event under its dedupe_key and reports whether it is new. Verify the body first. */
export async function store(body: Buffer, folder: string): Promise<boolean> {
  const event: WebhookEvent = JSON.parse(body.toString());
  const draft = join(folder, `${randomUUID()}.draft`);
  await writeFile(draft, body);
  try {
    await link(draft, join(folder, createHash('sha256').update(event.dedupe_key).digest('hex'))); // fails if the name exists
    return true;
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === 'EEXIST') return false;
    throw error;
  } finally {
    await unlink(draft);
  }
}

if (process.argv[1] && import.meta.url === pathToFileURL(process.argv[1]).href) {
  try {
    const body = readFileSync(0);
    await verify(process.argv[2] ?? '', body, process.env.WEBHOOK_SECRET ?? '');
    const events = process.env.WEBHOOK_EVENTS;
    console.log(events && !(await store(body, events)) ? 'repeated' : 'verified');
  } catch (refused) {
    console.error(`refused: ${(refused as Error).message}`);
    process.exitCode = 1;
  }
}
