import { join } from 'node:path';
import * as z from 'zod/mini';
import { parseJson } from '../../contract/json.ts';
import type { NewPet } from '../../contract/schemas.ts';
import { readBytes } from '../../system/files.ts';
import { CliError } from '../core/errors.ts';
import { animalHash, type LedgerEntry, LedgerHeader, LedgerRecord } from './ledger.ts';
import type { LedgerPlace } from './ledger-directory.ts';
import { completeLines } from './ledger-file.ts';

/*
 * Reads the files of version 0.1, which had a job for each content instead of a ledger for each file. The files of a job,
 * and the lists of jobs, were:
 *
 *   <job>/progress.ndjson   a header, then the events of the rows. An event identifies its row by number.
 *   <job>/rows.ndjson       the rows of the content, one per line
 *   paths/<id>              {path, jobs}: the ids of the jobs of a path, the latest last. If `path` is `job <id>`, the
 *                           list has the jobs that are linked with that job. Linked jobs may have sent the same rows.
 */

type PathIndex = { path: string; jobs: string[] };

export type Job = {
  id: string;
  header: LedgerHeader;
  /** Only in a job of `--add-again`: how many rows each other job (by nonce) had sent. The job ignores these rows. */
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

/** Reads the files of a job. Undefined if the header is missing or torn. @throws CliError if a file is damaged */
export async function readJob({ directory, files }: LedgerPlace, id: string): Promise<Job | undefined> {
  const path = join(directory, id, 'progress.ndjson');
  const progress = await readBytes(files, path);
  const rows = await readBytes(files, join(directory, id, 'rows.ndjson'));
  return unlessDamaged(path, () => toJob(id, progress, rows));
}

/** Reads a list of jobs in the directory `paths`. @throws CliError if the file is damaged */
export async function readPathIndex({ directory, files }: LedgerPlace, name: string): Promise<PathIndex> {
  const path = join(directory, 'paths', name);
  const bytes = await readBytes(files, path);
  return unlessDamaged(path, () => parseJson(`${bytes}`) as PathIndex);
}

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
