import { join } from 'node:path';
import { StoreDamagedError } from './errors.ts';
import { type Files, type OpenFile, readAll } from './files.ts';
import { IdempotencyKeys, isOver } from './idempotency.ts';
import { Inventory } from './inventory.ts';
import { cutTornTail, damagedAt, JOURNAL, rewriteLast } from './journal-file.ts';
import { decodeHeader, type Header } from './journal-format.ts';
import { replay } from './journal-replay.ts';
import { LineScanner } from './journal-scan.ts';
import type { OrderJson } from './store.ts';

/** What a journal says, folded into memory. */
export type Contents = {
  inventory: Inventory;
  keys: IdempotencyKeys;
  orders: OrderJson[];
  /** The sequence number of the last record. */
  seq: number;
};

/** A journal that is open for appending at `end`, a byte offset. */
export type Journal = { file: OpenFile; header: Header; contents: Contents; end: number };

type Line = { pet: number; scope: string; key: string; body: string };

/**
 * Opens the journal and reads all of it; what this returns is on the disk. `now` is in milliseconds since 1970.
 *
 * @throws StoreDamagedError, and then the file is as it was
 */
export async function loadJournal(
  files: Files,
  directory: string,
  now: number,
  onWarning: (message: string) => void,
): Promise<Journal> {
  const path = join(directory, JOURNAL);
  const file = await files.open(path, 'change');
  try {
    const { size } = await file.status();
    const contents: Contents = {
      inventory: new Inventory(),
      keys: new IdempotencyKeys(),
      orders: [],
      seq: 0,
    };
    let header: Header | undefined;
    const replayed = await replay(file, size, (bytes, start, end, offset) => {
      if (!header) header = decodeHeader(bytes.subarray(start, end), path);
      else
        fold(contents, new LineScanner(bytes, start, end), now, (why) => damagedAt(directory, offset, why));
    });
    if (!header) throw await noHeader(file, path);
    const torn = await cutTornTail(files, directory, file, replayed, size);
    const end = await rewriteLast(file, replayed);
    await file.datasync();
    if (torn) {
      onWarning(
        `${path}: its last ${torn.length} bytes, from byte ${torn.offset} on, were not completely written before the ` +
          `server or the machine stopped; they were cut off, and are kept in ${join(directory, torn.saved)}`,
      );
    }
    return { file, header, contents, end };
  } catch (error) {
    await file.close().catch(() => {});
    throw error;
  }
}

function fold(
  contents: Contents,
  line: LineScanner,
  now: number,
  damaged: (why: string) => StoreDamagedError,
) {
  const { inventory } = contents;
  const first = inventory.size;
  let lastId = inventory.lastId;
  const scanned = line.scan((id, status, bytes, start, end) => {
    if (lastId !== undefined && id <= lastId) throw damaged(`animal ${id} follows animal ${lastId}`);
    lastId = id;
    inventory.append(id, status, bytes, start, end);
  });
  if (!scanned) throw damaged('its record has an unknown form');
  const { seq, at, order, keys } = scanned;
  if (seq !== contents.seq + 1) throw damaged(`record ${seq} follows record ${contents.seq}`);
  contents.seq = seq;
  if (order !== undefined) contents.orders.push(order);
  if (keys === undefined || isOver({ at }, now)) return;
  const count = inventory.size - first;
  const entries = keys();
  if (!Array.isArray(entries)) throw damaged('its record has an unknown form');
  for (const entry of entries) {
    if (!isKeyEntry(entry, count)) throw damaged('its record has an unknown form');
    contents.keys.remember({ ...entry, bodyHash: entry.body }, first + entry.pet, at);
  }
}

// By hand: there may be one for each of a million animals.
function isKeyEntry(value: unknown, count: number): value is Line {
  if (typeof value !== 'object' || value === null) return false;
  const { pet, scope, key, body } = value as Partial<Record<keyof Line, unknown>>;
  return (
    typeof pet === 'number' &&
    Number.isInteger(pet) &&
    pet >= 0 &&
    pet < count &&
    [scope, key, body].every((text) => typeof text === 'string')
  );
}

/** The first line is not valid: say why as well as can be. */
async function noHeader(file: OpenFile, path: string): Promise<Error> {
  const start = Buffer.alloc(1024);
  const read = await readAll(file, start, 0);
  const line = start.subarray(0, read).toString('latin1').split('\n', 1)[0] ?? '';
  try {
    decodeHeader(Buffer.from(line, 'latin1'), path);
  } catch (error) {
    if (error instanceof Error) return error;
  }
  return new StoreDamagedError(`${path} is damaged at byte 0`, 'restore the file from a backup');
}
