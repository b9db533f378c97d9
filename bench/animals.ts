import { createHash, randomUUID } from 'node:crypto';
import { closeSync, mkdirSync, openSync, rmSync, writeSync } from 'node:fs';
import { join } from 'node:path';
import { type PetStatus, petJson } from '../src/contract/schemas.ts';
import {
  encodeBatch,
  encodeHeader,
  JOURNAL_FILE,
  MAX_BATCH_ANIMALS,
  newHeader,
  type PetToWrite,
} from '../src/store/journal/format.ts';
import { fingerprintOf } from '../src/store/store.ts';

const CHUNK_BYTES = 2 ** 20;
const statuses: readonly PetStatus[] = ['available', 'pending', 'sold'];

/** How a store got its animals: `seeded`, 1,000 per journal line, or `added`, one per line with an idempotency key. */
export type Origin = 'seeded' | 'added';

/** The nth animal; every third one is available. */
export function animal(number: number) {
  const status = statuses[number % statuses.length] ?? 'available';
  return { id: BigInt(number), name: `Animal ${number}`, categoryId: 1n, status };
}

/** Replaces a directory with a store of `count` animals, in the format of `pets serve`. */
export function writeStore(directory: string, count: number, origin: Origin): void {
  const now = Date.now();
  const header = newHeader(now);
  rmSync(directory, { recursive: true, force: true });
  mkdirSync(directory, { recursive: true });
  const file = openSync(join(directory, JOURNAL_FILE), 'w');
  let lines = [encodeHeader(header)];
  let bytes = 0;
  const size = origin === 'seeded' ? MAX_BATCH_ANIMALS : 1;
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
}

function entryOf(number: number, origin: Origin, secret: string): PetToWrite {
  const { id, status } = animal(number);
  const text = petJson(animal(number));
  if (origin === 'seeded') return { id, status, text };
  const bodyHash = createHash('sha256').update(text).digest('hex');
  return {
    id,
    status,
    text,
    idempotency: fingerprintOf({ scope: 'dev', key: randomUUID(), bodyHash }, secret),
  };
}
