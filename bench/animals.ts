import { createHash, randomBytes, randomUUID } from 'node:crypto';
import { closeSync, mkdirSync, openSync, rmSync, writeSync } from 'node:fs';
import { join } from 'node:path';
import { type PetStatus, petJson } from '../src/contract/schemas.ts';
import { fingerprintOf } from '../src/store/idempotency.ts';
import { JOURNAL, newHeader } from '../src/store/journal-file.ts';
import { type Entry, encodeBatch, encodeHeader } from '../src/store/journal-format.ts';
import { MAX_BATCH } from '../src/store/journal-writer.ts';

const CHUNK_BYTES = 2 ** 20;
const statuses: readonly PetStatus[] = ['available', 'pending', 'sold'];

/** `seeded`: a thousand a line; `added`: one a line, with its idempotency key, as `pets add --from` leaves it. */
export type Origin = 'seeded' | 'added';

/** Animal 1, 2, …: every third of them is available. */
export function animal(number: number) {
  const status = statuses[number % statuses.length] ?? 'available';
  return { id: BigInt(number), name: `Animal ${number}`, categoryId: 1n, status };
}

/**
 * Makes a store with a number of animals, as the product's own store would write it, just now, in place of what is in the
 * directory.
 *
 * @returns the secret that signs its cursors
 */
export function writeStore(directory: string, count: number, origin: Origin): string {
  const now = Date.now();
  const header = newHeader(randomBytes, now);
  rmSync(directory, { recursive: true, force: true });
  mkdirSync(directory, { recursive: true });
  const file = openSync(join(directory, JOURNAL), 'w');
  let lines = [encodeHeader(header)];
  let bytes = 0;
  const size = origin === 'seeded' ? MAX_BATCH : 1;
  for (let first = 1, seq = 1; first <= count; first += size, seq++) {
    const entries = Array.from({ length: Math.min(size, count - first + 1) }, (_, i) =>
      entryOf(first + i, origin, header.secret),
    );
    const { line } = encodeBatch(seq, now, entries);
    bytes += line.length;
    lines.push(line);
    if (bytes < CHUNK_BYTES) continue;
    writeSync(file, Buffer.concat(lines));
    [lines, bytes] = [[], 0];
  }
  writeSync(file, Buffer.concat(lines));
  closeSync(file);
  return header.secret;
}

function entryOf(number: number, origin: Origin, secret: string): Entry {
  const text = petJson(animal(number));
  if (origin === 'seeded') return { text };
  const bodyHash = createHash('sha256').update(text).digest('hex');
  return { text, fingerprint: fingerprintOf({ scope: 'dev', key: randomUUID(), bodyHash }, secret) };
}
