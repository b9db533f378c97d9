import { createHash, randomBytes } from 'node:crypto';
import { readdir, utimes } from 'node:fs/promises';
import { join } from 'node:path';
import { onTestFinished } from 'vitest';
import type { EntryOf, LedgerEntry, RowId } from '../../src/cli/bulk/ledger.ts';
import { type BulkRun, openRun, type RunOptions } from '../../src/cli/bulk/open-run.ts';
import type { PlannedRow } from '../../src/cli/bulk/plan.ts';
import { pendingRows } from '../../src/cli/bulk/send.ts';
import type { PetFile, PetRow } from '../../src/cli/rows/read-file.ts';
import type { NewPet } from '../../src/contract/schemas.ts';
import { realFileSystem } from '../../src/system/file-system.ts';
import { manualClock } from './clock.ts';
import { temporaryDirectory } from './temp.ts';

export const BASE_URL = 'http://127.0.0.1:7387/v1';
export const sha256 = (text: string) => createHash('sha256').update(text).digest('hex');
export const API_KEY_HASH = sha256('key');
export const SKIP = { skipAdded: true };

/** Animals that are named `Animal 1`, `Animal 2`, and so on. The first number is `skipped + 1`. */
export const animals = (count: number, skipped = 0): NewPet[] =>
  Array.from({ length: count }, (_, i) => ({
    name: `Animal ${skipped + i + 1}`,
    categoryId: 2n ** 53n + 1n,
  }));

/** The animals as rows of a CSV file, from line 2, because line 1 is the header. */
export const rowsOf = (pets: readonly NewPet[]): PetRow[] => pets.map((pet, i) => ({ line: i + 2, pet }));

export const contentOf = (pets: readonly NewPet[]): string =>
  pets.map(({ name, categoryId, status }) => `${name},${categoryId},${status}`).join('\n');

/** The file /animals.csv with these animals. */
export const inputOf = (pets: readonly NewPet[], more: Partial<PetFile> = {}): PetFile => ({
  name: 'animals.csv',
  path: '/animals.csv',
  sha256: sha256(contentOf(pets)),
  rows: rowsOf(pets),
  ...more,
});

const AT = '2026-11-20T12:00:00.000Z';
const base = ({ hash, n, line = 2 }: RowId & { line?: number }) => ({ hash, n, line, at: AT });

export const intent = (row: RowId, more: Partial<EntryOf<'intent'>> = {}): LedgerEntry => ({
  kind: 'intent',
  ...base(row),
  apiKeyHash: API_KEY_HASH,
  ...more,
});
export const added = (row: RowId, id = 1n): LedgerEntry => ({
  kind: 'added',
  ...base(row),
  pet: { id: id + 2n ** 60n, name: `Animal ${id}`, categoryId: 1n, status: 'available' },
});
export const failed = (row: RowId, failures = 1): LedgerEntry => ({
  kind: 'failed',
  ...base(row),
  failures,
  error: { code: 'invalid_request', message: 'no', status: 400 },
});
export const unknown = (row: RowId): LedgerEntry => ({ kind: 'unknown', ...base(row), message: 'lost' });
export const notSent = (row: RowId): LedgerEntry => ({ kind: 'notSent', ...base(row) });

/** The rows that a run has to send. */
export const pendingOf = ({ plan }: BulkRun): PlannedRow[] => pendingRows(plan.rows);

/** Writes to the ledger that the first `count` pending rows were added. Does not write the record `finished`. */
export async function addRows(run: BulkRun, count = Number.POSITIVE_INFINITY): Promise<void> {
  for (const row of pendingOf(run).slice(0, count)) {
    await run.file.append(intent(row));
    await run.file.append({ ...added(row, BigInt(row.line)), line: row.line });
  }
}

export const RUN_OPTIONS: Omit<RunOptions, 'directory' | 'now'> = {
  files: realFileSystem,
  random: randomBytes,
  baseUrl: BASE_URL,
  apiKeyHash: API_KEY_HASH,
  addAgain: false,
  skipAdded: false,
  skipCommand: 'pets import animals.csv --skip-added',
  timeZone: () => 'UTC',
};

export type Bulk = Awaited<ReturnType<typeof bulk>>;

/** Creates a state directory and a manual clock, and returns functions that run /animals.csv with them. */
export async function bulk() {
  const clock = manualClock();
  const directory = join(await temporaryDirectory(), 'state', 'bulk');
  const options: RunOptions = { ...RUN_OPTIONS, directory, now: 0 };
  const open = async (input: readonly NewPet[] | PetFile, more: Partial<RunOptions> = {}) => {
    const run = await openRun('rows' in input ? input : inputOf(input), {
      ...options,
      now: clock.now(),
      ...more,
    });
    onTestFinished(() => run.close().catch(() => {}));
    return run;
  };
  return {
    clock,
    options,
    open,
    /** Adds the pending rows, and returns their names. With `count`, stops after that many rows, as if interrupted. */
    async run(input: readonly NewPet[] | PetFile, more?: Partial<RunOptions>, count?: number) {
      const run = await open(input, more);
      const names = pendingOf(run)
        .map(({ pet }) => pet.name)
        .slice(0, count);
      await addRows(run, count);
      if (count === undefined)
        await run.file.append({ kind: 'finished', at: new Date(clock.now()).toISOString() });
      await run.close();
      return names;
    },
    /** Sets the modification time of each ledger directory to the clock's time. `pets` takes it as the time of the last use. */
    async setLastUse() {
      for (const id of await readdir(join(directory, 'ledgers')))
        await utimes(join(directory, 'ledgers', id), clock.now() / 1_000, clock.now() / 1_000);
    },
    /** The files below the state directory whose paths end with `name`. */
    async find(name: string) {
      const paths = await readdir(directory, { recursive: true }).catch(() => []);
      return paths.filter((path) => path.endsWith(name)).map((path) => join(directory, path));
    },
  };
}

/** The code, message and hint of the error with which a run is refused; undefined if the run is not refused. */
export const refusalOf = (work: Promise<unknown>) =>
  work.then(
    () => undefined,
    ({ code, message, hint }) => ({ code, message, hint }),
  );
