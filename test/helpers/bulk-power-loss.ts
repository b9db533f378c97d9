import { createProgress, loadProgress, type Progress } from '../../src/cli/bulk/progress-file.ts';
import { rowStates } from '../../src/cli/bulk/row-states.ts';
import { syncUpward, writeAll } from '../../src/store/files.ts';
import { added, failed, HASH, sha256 } from './bulk-rows.ts';
import { SimulatedDisk } from './store-disk.ts';
import { randomOf } from './store-fixtures.ts';

const ROWS = 6;
const PATH = '/job/progress.ndjson';

/** A progress file of these bytes, on a disk in memory. */
export async function progressOf(bytes: Buffer): Promise<{ disk: SimulatedDisk; path: string }> {
  const disk = new SimulatedDisk(randomOf(1));
  await disk.mkdir('/job');
  const file = await disk.open(PATH, 'create');
  if (bytes.length > 0) await writeAll(file, bytes, 0);
  await file.close();
  return { disk, path: PATH };
}

/** What happened under a seed, to see that something did. */
export type BulkFigures = { lives: number; doubts: number; settled: number; torn: number };

/**
 * Lets a progress file live several lives on a disk that fails, and whose process is killed or loses its power, at
 * moments that `seed` decides; throws where something was forgotten that was said to be on the disk.
 */
export async function simulateBulkPowerLoss(seed: number): Promise<BulkFigures> {
  const random = randomOf(seed);
  const disk = new SimulatedDisk(random);
  await disk.mkdir('/job');
  await syncUpward(disk, '/job');
  const figures = { lives: 0, doubts: 0, settled: 0, torn: 0 };
  /** What each row is known to be at least: sent, or settled so. */
  const known = new Map<number, number>();
  for (let life = 0; life < 5; life++) {
    figures.lives++;
    if (life < 4) plan(disk, random, figures);
    const living = live(disk, random, known, figures).catch((error) => {
      if (error?.code !== 'file_error' && !/simulated/.test(error?.message)) {
        throw new Error(`power loss, seed ${seed}: ${error.message}`, { cause: error });
      }
    });
    await Promise.race([living, disk.halted]);
    disk.end();
    if (random() < 0.7) disk.losePower();
    disk.restart();
  }
  return figures;
}

function plan(disk: SimulatedDisk, random: () => number, figures: BulkFigures): void {
  const when = Math.floor(random() * 60);
  const errno = random() < 0.5 ? ('ENOSPC' as const) : ('EIO' as const);
  const fate = random() < 0.7 ? 'halt' : { errno };
  disk.fate = (call, name) => {
    if (name === 'truncate') figures.torn++;
    return call === when ? fate : undefined;
  };
}

async function live(
  disk: SimulatedDisk,
  random: () => number,
  known: Map<number, number>,
  figures: BulkFigures,
): Promise<void> {
  const progress = (await loadProgress(disk, PATH)) ?? (await begin(disk, known));
  await syncUpward(disk, '/job');
  const { states, file } = progress;
  for (const [row, state] of known) check(row, state, states.state(row));
  for (let row = 1; row <= ROWS; row++) {
    if (states.state(row) === rowStates.added) continue;
    const sending = { row, idempotencyKey: `${row}`, apiKeyHash: HASH, sentAt: '2026-11-20T12:00:00.000Z' };
    if (states.state(row) !== rowStates.doubt) {
      // A failed try is over: what is written next may take its place.
      known.delete(row);
      await file.append({ status: 'sending', ...sending });
    } else figures.doubts++;
    known.set(row, rowStates.doubt);
    if (random() < 0.2) continue;
    const result = random() < 0.5 ? added(row) : failed('x'.repeat(random() * 1000));
    await file.append({ row, ...result });
    known.set(row, rowStates[result.status]);
    figures.settled++;
  }
}

function check(row: number, promised: number, found: number): void {
  // A result that was on its way may have arrived.
  const isKept = promised === rowStates.doubt ? found !== rowStates.fresh : found === promised;
  if (!isKept) throw new Error(`row ${row} was ${promised}, and is ${found}`);
}

async function begin(disk: SimulatedDisk, known: Map<number, number>): Promise<Progress> {
  if (known.size > 0) throw new Error('all was forgotten');
  await disk.unlink(PATH).catch(() => {});
  const hash = sha256('');
  const startedAt = '2026-11-20T12:00:00.000Z';
  const more = { source: 'animals.csv', baseUrl: 'http://localhost/v1', nonce: '0'.repeat(32), startedAt };
  return createProgress(disk, PATH, { ...more, sha256: hash, rowsSha256: hash, rows: ROWS });
}
