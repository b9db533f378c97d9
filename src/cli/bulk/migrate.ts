import { join } from 'node:path';
import { isMissing } from '../../system/file-system.ts';
import { removeFile } from '../../system/files.ts';
import { applyRecord, isForgotten, type Ledger, type LedgerEntry } from './ledger.ts';
import {
  createLocks,
  idOf,
  type LedgerPlace,
  type Locks,
  ledgerDirectory,
  resolvePointer,
  writePointer,
} from './ledger-directory.ts';
import { readLedger, replaceLedger } from './ledger-file.ts';
import { type Job, readJob, readPathIndex } from './old-format.ts';

/*
 * Converts the files of version 0.1 (see `old-format.ts`) to ledgers, once. The jobs of a path, and the jobs that are
 * linked with them, become the ledger of the path. Each job of piped input becomes a ledger, too. All ledgers are
 * written before anything is removed, and existing ledgers are not replaced. Therefore, the next run can complete the
 * migration after a crash.
 */

const ID = /^[0-9a-f]{32}$/;

/** Converts the jobs of version 0.1, if there are any. @throws CliError if a file is damaged, or a job is running */
export async function migrateOldFormat(place: LedgerPlace): Promise<void> {
  const { directory, files, now } = place;
  const names = await files.readdir(directory).catch((error): string[] => {
    if (isMissing(error)) return [];
    throw error;
  });
  const ids = names.filter((name) => ID.test(name));
  if (ids.length === 0 && !names.includes('paths')) return;
  const locks = createLocks(place, 'a file');
  try {
    for (const name of ['.', 'paths', ...ids]) await locks.acquire(join(directory, name));
    const jobs = new Map<string, Job>();
    for (const id of ids) {
      const job = await readJob(place, id);
      if (job && !isForgotten(job.finishedAt, now)) jobs.set(id, job);
    }
    // A list and not a Map, because a path occurs once for each service to which its rows were sent.
    const paths: [path: string, own: Job[]][] = [];
    const links = new Map<string, Job[]>();
    for (const name of (await files.readdir(join(directory, 'paths'))).filter((each) => ID.test(each))) {
      const index = await readPathIndex(place, name);
      const listed = index.jobs.flatMap((each) => jobs.get(each) ?? []);
      if (index.path.startsWith('job ')) links.set(index.path, listed);
      else paths.push([index.path, listed]);
    }
    const linked = (job: Job) => links.get(`job ${job.id}`) ?? [];
    const withPath = new Set(paths.flatMap(([, own]) => own));
    const piped = [...jobs.values()].filter((job) => !withPath.has(job));
    for (const [path, own] of [...paths, ...piped.map((job) => [undefined, [job]] as const)])
      await writeLedger(place, locks, path, own, linked);
    // Remove the paths after the jobs, because a job without a path would be migrated as piped input.
    for (const name of [...ids, 'paths', '.']) {
      for (const file of await files.readdir(join(directory, name))) {
        const isOld = /^(progress|rows|spool-\w+)\.|^new-/.test(file) || (name === 'paths' && ID.test(file));
        if (isOld) await removeFile(files, join(directory, name, file));
      }
    }
  } finally {
    await locks.release();
  }
}

/** Writes the ledger of a path or of piped input, unless it exists. Then makes the contents of the jobs use this ledger. */
async function writeLedger(
  place: LedgerPlace,
  locks: Locks,
  path: string | undefined,
  own: readonly Job[],
  linked: (job: Job) => Job[],
): Promise<void> {
  const last = own.at(-1);
  if (last === undefined) return;
  const { baseUrl, sha256, source } = last.header;
  const id = idOf(baseUrl, path ?? sha256);
  const directory = ledgerDirectory(place, id);
  await locks.acquire(directory);
  if (!(await readLedger(place.files, directory))) {
    // After --add-again, use only the jobs linked with the last job, because `disregards` does not list other linked
    // jobs.
    const others = (last.disregards ? [last] : own).flatMap(linked);
    const ledger: Ledger = {
      header: { ...last.header, source: path ?? source },
      entries: new Map(),
      finishedAt: undefined,
    };
    for (const entry of mergeSends(last, own, others, new Date(place.now).toISOString()))
      applyRecord(ledger, entry);
    await replaceLedger(place.files, directory, { ...ledger, finishedAt: last.finishedAt });
  }
  for (const job of own) {
    const content = idOf(baseUrl, job.header.sha256);
    await locks.acquire(ledgerDirectory(place, content));
    if (job === last || (await resolvePointer(place, content)) === content)
      await writePointer(place, content, id);
  }
}

/** The kinds of entries, from the most certain to the least certain outcome. */
const CERTAINTY: readonly LedgerEntry['kind'][] = ['added', 'unknown', 'intent', 'failed'];

/** Yields the most certain entry of each row that was sent. Sets `goneSince` on entries that are in no job of `own`. */
function* mergeSends(
  last: Job,
  own: readonly Job[],
  others: readonly Job[],
  goneSince: string,
): Generator<LedgerEntry> {
  const countSends = ({ sends }: Job) => [...sends.values()].filter(({ kind }) => kind !== 'failed').length;
  const counted = [...own.toReversed(), ...others].filter(
    (job) => job === last || last.disregards?.[job.header.nonce] !== countSends(job),
  );
  const sends = counted.flatMap((job) => [...job.sends]);
  sends.sort(([, a], [, b]) => CERTAINTY.indexOf(a.kind) - CERTAINTY.indexOf(b.kind));
  const seen = new Set<string>();
  const numbers = new Map<string, number>();
  for (const [origin, entry] of sends) {
    if (seen.has(origin)) continue;
    seen.add(origin);
    const n = (numbers.get(entry.hash) ?? 0) + 1;
    numbers.set(entry.hash, n);
    const isOwn = own.some((job) => job.sends.has(origin));
    yield { ...entry, n, goneSince: isOwn ? undefined : goneSince };
  }
}
