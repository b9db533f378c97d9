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
  contentDirectory,
  createLocks,
  idOf,
  type LedgerPlace,
  type Locks,
  ledgerDirectory,
  readPointer,
  writePointer,
} from './ledger-directory.ts';
import { completeLines, readLedger, replaceLedger } from './ledger-file.ts';

/*
 * Migrates what version 0.1 kept, once. It had a job for each content instead of a ledger for each file:
 *
 *   <job>/progress.ndjson   a header, and an event for each thing that happened to a row, by the number of the row
 *   <job>/rows.ndjson       the rows of the content, one on each line
 *   paths/<id>              the jobs that a path has had, the last one last
 *
 *   paths/<id>              also, for the path `job <id>`, the jobs of any path whose rows that job was compared with
 *
 * The jobs of each path become its ledger, together with the jobs that they were compared with. So does each job of piped
 * input. Nothing is removed before all ledgers are written, and a ledger is not written again, so that after a crash the
 * next run completes the migration.
 */

const ID = /^[0-9a-f]{32}$/;

type PathIndex = { path: string; jobs: string[] };

type Job = {
  id: string;
  header: LedgerHeader;
  /** Of a job begun with `--restart`: how many rows other jobs, by their nonce, had sent. They do not count. */
  disregards?: Record<string, number>;
  finishedAt: string | undefined;
  /** What is known of each row that was sent, by its number. `origin` identifies the row among all jobs. */
  sends: Map<number, { origin: string; entry: LedgerEntry }>;
};

type OldEvent = {
  status: 'sending' | 'withdrawn' | 'added' | 'failed' | 'unknown' | 'finished';
  row: number;
  /** When a row was sent, and when the job was finished. */
  sentAt?: string;
  at?: string;
  /** If another job had already sent this row: the nonce of that job, and the number of the row in it. */
  origin?: string;
};

/** Converts any jobs in the old format to ledgers. @throws CliError if a file is damaged, or a job is running */
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
    const jobs: Job[] = [];
    for (const id of ids) {
      const path = join(directory, id, 'progress.ndjson');
      const progress = await readBytes(files, path);
      const rows = await readBytes(files, join(directory, id, 'rows.ndjson'));
      const job = unlessDamaged(path, () => toJob(id, progress, rows));
      if (job && !isForgotten(job.finishedAt, now)) jobs.push(job);
    }
    const jobsOf = new Map<string, Job[]>();
    for (const name of await files.readdir(join(directory, 'paths'))) {
      if (!ID.test(name)) continue;
      const file = join(directory, 'paths', name);
      const bytes = await readBytes(files, file);
      const index = unlessDamaged(file, () => parseJson(`${bytes}`) as PathIndex);
      jobsOf.set(
        index.path,
        index.jobs.flatMap((id) => jobs.find((job) => job.id === id) ?? []),
      );
    }
    const linked = (job: Job) => jobsOf.get(`job ${job.id}`) ?? [];
    const piped = new Set(jobs);
    for (const [path, own] of jobsOf) {
      if (path.startsWith('job ')) continue;
      for (const job of own) piped.delete(job);
      await migrateJobs(place, locks, own, linked, path);
    }
    for (const job of piped) await migrateJobs(place, locks, [job], linked, undefined);
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

/** Writes the ledger of a path, or of piped input, unless it exists. The last job comes last. */
async function migrateJobs(
  place: LedgerPlace,
  locks: Locks,
  jobs: Job[],
  linked: (job: Job) => Job[],
  path: string | undefined,
): Promise<void> {
  const { files, now } = place;
  const last = jobs.at(-1);
  if (last === undefined) return;
  const { baseUrl, sha256, source } = last.header;
  const id = idOf(baseUrl, path ?? sha256);
  const directory = ledgerDirectory(place, id);
  await locks.acquire(directory);
  if (!(await readLedger(files, directory))) {
    const ledger = toLedger({ ...last.header, source: path ?? source }, last, jobs, linked, now);
    await (await replaceLedger(files, directory, ledger)).close();
  }
  for (const job of jobs) {
    const content = contentDirectory(place, idOf(baseUrl, job.header.sha256));
    await locks.acquire(content);
    if (job === last || !(await readPointer(files, content))) await writePointer(files, content, id);
  }
}

/** From the most certain to the least certain outcome. */
const CERTAINTY: readonly LedgerEntry['kind'][] = ['added', 'unknown', 'intent', 'failed'];

function toLedger(
  header: LedgerHeader,
  last: Job,
  own: readonly Job[],
  linked: (job: Job) => Job[],
  now: number,
): Ledger {
  // A job that was begun with --restart does not count what the jobs of other paths sent before.
  const others = (last.disregards ? [last] : own).flatMap(linked);
  const isCounted = ({ header: { nonce }, sends }: Job) =>
    last.disregards?.[nonce] !== [...sends.values()].filter(({ entry }) => entry.kind !== 'failed').length;
  const known = new Map<string, LedgerEntry>();
  for (const job of new Set([last, ...[...own, ...others].filter(isCounted)])) {
    // The path has had no row for an entry that only jobs of other paths have.
    const goneSince = own.includes(job) ? undefined : new Date(now).toISOString();
    for (const { origin, entry } of job.sends.values()) {
      const before = known.get(origin);
      const isBetter = !before || CERTAINTY.indexOf(entry.kind) < CERTAINTY.indexOf(before.kind);
      if (isBetter) known.set(origin, { ...entry, goneSince: before ? before.goneSince : goneSince });
    }
  }
  const ledger: Ledger = { header, entries: new Map(), finishedAt: undefined };
  for (const entry of known.values())
    applyRecord(ledger, { ...entry, n: (ledger.entries.get(entry.hash)?.length ?? 0) + 1 });
  return { ...ledger, finishedAt: last.finishedAt };
}

const KINDS = { sending: 'intent', added: 'added', failed: 'failed', unknown: 'unknown' } as const;

/** Undefined if there is no complete header. @throws if the job is damaged */
function toJob(id: string, progress: Buffer | undefined, rowLines: Buffer | undefined): Job | undefined {
  const [first, ...lines] = completeLines(progress);
  if (first === undefined) return undefined;
  const old = parseJson(first) as LedgerHeader & Pick<Job, 'disregards'>;
  const header = z.parse(LedgerHeader, { ...old, kind: 'ledger', version: 1, epoch: 0 });
  const rows = [...completeLines(rowLines)];
  const job: Job = { ...old, id, header, finishedAt: undefined, sends: new Map() };
  for (const text of lines) {
    const event = parseJson(text) as OldEvent;
    const { status, row } = event;
    const before = job.sends.get(row);
    job.finishedAt = status === 'finished' ? event.at : undefined;
    if (status === 'withdrawn') job.sends.delete(row);
    if (status === 'withdrawn' || status === 'finished') continue;
    const { line, pet } = parseJson(rows[row - 1] ?? '') as { line: number; pet: NewPet };
    const at = event.sentAt ?? before?.entry.at ?? header.startedAt;
    const known = { kind: KINDS[status], hash: animalHash(pet), n: 1, line, at };
    const entry = z.parse(LedgerRecord, { ...event, ...known }) as LedgerEntry;
    job.sends.set(row, { origin: event.origin ?? before?.origin ?? `${header.nonce}:${row}`, entry });
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
