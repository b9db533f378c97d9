import { join } from 'node:path';
import * as z from 'zod/mini';
import { parseJson } from '../../contract/json.ts';
import type { NewPet } from '../../contract/schemas.ts';
import { isMissing } from '../../system/file-system.ts';
import { readBytes, removeFile } from '../../system/files.ts';
import { CliError } from '../errors/errors.ts';
import {
  animalHash,
  applyRecord,
  isForgotten,
  type Ledger,
  type LedgerEntry,
  LedgerHeader,
  LedgerRecord,
} from './ledger.ts';
import {
  createLocks,
  idOf,
  type LedgerPlace,
  type Locks,
  ledgerDirectory,
  resolvePointer,
  writePointer,
} from './ledger-directory.ts';
import { completeLines, readLedger, replaceLedger } from './ledger-file.ts';

/*
 * Converts the files of version 0.1 to ledgers, once. Version 0.1 had a job for each content instead of a ledger for
 * each file. The files of a job, and the lists of jobs, were:
 *
 *   <job>/progress.ndjson   a header, then the events of the rows. An event identifies its row by number.
 *   <job>/rows.ndjson       the rows of the content, one per line
 *   paths/<id>              {path, jobs}: the ids of the jobs of a path, the latest last. If `path` is `job <id>`, the
 *                           list has the jobs that are linked with that job: each may have sent rows of the others.
 *
 * The jobs of a path, and the jobs that are linked with them, become the ledger of the path. Each job of piped input
 * becomes a ledger, too. All ledgers are written before anything is removed, and existing ledgers are not replaced.
 * Therefore, the next run can complete the migration after a crash.
 */

const ID = /^[0-9a-f]{32}$/;

type PathIndex = { path: string; jobs: string[] };

type Job = {
  id: string;
  header: LedgerHeader;
  /** Only in a job of `--restart`: how many rows each other job (by nonce) had sent. The job ignores these rows. */
  disregards?: Record<string, number>;
  finishedAt: string | undefined;
  /** The entries of the rows that were sent, by origin: `<nonce>:<row>` of the job that first sent the row. */
  sends: Map<string, LedgerEntry>;
};

type OldEvent = {
  status: 'sending' | 'withdrawn' | 'added' | 'failed' | 'unknown' | 'finished';
  row: number;
  sentAt?: string;
  /** When the job was finished. */
  at?: string;
  /** The origin of the row, as in `sends`. Only an event that was copied from another job has it. */
  origin?: string;
};

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
      const path = join(directory, id, 'progress.ndjson');
      const progress = await readBytes(files, path);
      const rows = await readBytes(files, join(directory, id, 'rows.ndjson'));
      const job = unlessDamaged(path, () => toJob(id, progress, rows));
      if (job && !isForgotten(job.finishedAt, now)) jobs.set(id, job);
    }
    // A list and not a Map, because a path occurs once for each service to which its rows were sent.
    const paths: [path: string, own: Job[]][] = [];
    const links = new Map<string, Job[]>();
    for (const name of (await files.readdir(join(directory, 'paths'))).filter((each) => ID.test(each))) {
      const file = join(directory, 'paths', name);
      const bytes = await readBytes(files, file);
      const index = unlessDamaged(file, () => parseJson(`${bytes}`) as PathIndex);
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
    // After --restart, use only the jobs linked with the last job, because `disregards` does not list other linked
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

/** Parses the files of a job. Returns undefined if the header is missing or torn. @throws if a file is damaged */
function toJob(id: string, progress: Buffer | undefined, rowLines: Buffer | undefined): Job | undefined {
  const [first, ...lines] = completeLines(progress);
  if (first === undefined) return undefined;
  const old = parseJson(first) as LedgerHeader & Pick<Job, 'disregards'>;
  const header = z.parse(LedgerHeader, { ...old, kind: 'ledger', version: 1, epoch: 0 });
  const rows = [...completeLines(rowLines)];
  const job: Job = { ...old, id, header, finishedAt: undefined, sends: new Map() };
  const origins = new Map<number, string>();
  for (const text of lines) {
    const event = parseJson(text) as OldEvent;
    const { status, row } = event;
    job.finishedAt = status === 'finished' ? event.at : undefined;
    if (status === 'finished') continue;
    const origin = event.origin ?? origins.get(row) ?? `${header.nonce}:${row}`;
    origins.set(row, origin);
    const { line, pet } = parseJson(rows[row - 1] ?? '') as { line: number; pet: NewPet };
    const at = event.sentAt ?? job.sends.get(origin)?.at ?? header.startedAt;
    job.sends.delete(origin);
    if (status === 'withdrawn') continue;
    const known = { kind: status === 'sending' ? 'intent' : status, hash: animalHash(pet), n: 1, line, at };
    job.sends.set(origin, z.parse(LedgerRecord, { ...event, ...known }) as LedgerEntry);
  }
  return job;
}

function unlessDamaged<Value>(path: string, parse: () => Value): Value {
  try {
    return parse();
  } catch {
    throw new CliError(`${path}, written by an earlier version of pets, is damaged`, {
      code: 'damaged_file',
      hint: 'move the directory of this file away; pets then no longer knows which rows were already added',
    });
  }
}
