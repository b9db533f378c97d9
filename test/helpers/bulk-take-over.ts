import type { OpenOther } from '../../src/cli/bulk/other-jobs.ts';
import { createProgress, loadProgress } from '../../src/cli/bulk/progress-file.ts';
import { rowStates } from '../../src/cli/bulk/row-states.ts';
import { takeOver } from '../../src/cli/bulk/take-over.ts';
import { type Files, syncUpward } from '../../src/store/files.ts';
import { added, failed, HASH, sha256 } from './bulk-rows.ts';
import { SimulatedDisk } from './store-disk.ts';
import { randomOf } from './store-fixtures.ts';

const ROWS = 40;
const TAKEN = 30;
const PATH = '/later/progress.ndjson';

const header = (nonce: string) => {
  const startedAt = '2026-11-20T12:00:00.000Z';
  const hashes = { sha256: sha256(nonce), rowsSha256: sha256(nonce) };
  return { source: 'animals.csv', baseUrl: 'http://localhost/v1', rows: ROWS, startedAt, nonce, ...hashes };
};

/** How often it was said to be done, and how often something of it was found. */
export type TakeOverFigures = { done: number; found: number };

/**
 * Lets a job take rows over from another on a disk that fails at a moment which `seed` decides; throws where a part of
 * them is found afterwards, or not all although it was said to be done, or what the job knew before is gone.
 */
export async function simulateTakeOver(seed: number): Promise<TakeOverFigures> {
  const random = randomOf(seed);
  const disk = new SimulatedDisk(random);
  const isBegun = random() < 0.5;
  for (const directory of ['/first', '/later']) await disk.mkdir(directory);
  const first = await createProgress(disk, '/first/progress.ndjson', header('1'.repeat(32)));
  for (let row = 1; row <= TAKEN; row++) {
    const sending = { row, status: 'sending' as const, idempotencyKey: `${row}`, apiKeyHash: HASH };
    first.states.set(
      row,
      rowStates.doubt,
      await first.file.append({ ...sending, sentAt: header('').startedAt }),
    );
    if (row === TAKEN) continue;
    first.states.set(row, rowStates.added, await first.file.append({ row, ...added(row) }));
  }
  if (isBegun) {
    const begun = await createProgress(disk, PATH, header('2'.repeat(32)));
    await begun.file.append({ row: ROWS, ...failed() });
    await begun.file.close();
  }
  for (const directory of ['/first', '/later']) await syncUpward(disk, directory);

  const when = disk.calls + Math.floor(random() * 45);
  const fate = random() < 0.7 ? 'halt' : { errno: 'EIO' as const };
  disk.fate = (call) => (call === when ? fate : undefined);
  const told = { isDone: false };
  const other: OpenOther = { rows: '', isLast: true, progress: first, close: async () => {} };
  const shared = Array.from({ length: TAKEN }, (_, i) => ({
    row: i + 1,
    other,
    otherRow: i + 1,
    origin: `${first.header.nonce}:${i + 1}`,
  }));
  const living = take(disk, shared, isBegun).then(
    () => {
      told.isDone = true;
    },
    () => {},
  );
  await Promise.race([living, disk.halted]);
  disk.end();
  disk.losePower();
  disk.restart();

  const found = await loadProgress(disk, PATH);
  const taken = found?.origins.size ?? 0;
  const fail = (what: string) => {
    throw new Error(`take-over, seed ${seed}: ${what}`);
  };
  if (taken !== TAKEN && (taken !== 0 || told.isDone)) fail(`${taken} of ${TAKEN} rows are there`);
  if (isBegun && found?.states.counts().failed !== 1) fail('what the job knew before is gone');
  if (found && taken > 0 && found.states.counts().added !== TAKEN - 1) fail('not all are added');
  return { done: Number(told.isDone), found: Number(taken > 0) };
}

async function take(disk: Files, shared: Parameters<typeof takeOver>[3], isBegun: boolean): Promise<void> {
  const begun = isBegun ? await loadProgress(disk, PATH) : undefined;
  await takeOver(disk, '/later', begun ?? header('3'.repeat(32)), shared);
  await syncUpward(disk, '/later');
}
