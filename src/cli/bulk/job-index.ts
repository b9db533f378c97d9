import { createHash } from 'node:crypto';
import { chmod, readFile } from 'node:fs/promises';
import { join } from 'node:path';
import * as z from 'zod/mini';
import { ensureDirectory, type Files, isMissing, replaceFile, syncUpward } from '../../store/files.ts';
import { readStored } from '../../store/stored-json.ts';
import { damagedError } from './job-errors.ts';
import type { BulkOptions } from './job-types.ts';

export const PATHS = 'paths';
/** A job's directory. */
export const JOB_ID = /^[0-9a-f]{32}$/;

const Stored = z.object({
  version: z.literal(1),
  path: z.string(),
  baseUrl: z.string(),
  job: z.string().check(z.regex(JOB_ID, 'must be 32 hexadecimal digits')),
});

/** What names the job of a content (its SHA-256) for a service: a file that was renamed or copied has the same. */
export const jobIdOf = (baseUrl: string, sha256: string): string => hashOf(baseUrl, sha256);

/** The job that was last run for the file's path. @throws CliError where that is damaged */
export const readLastJob = (options: BulkOptions, path: string): Promise<string | undefined> =>
  readEntry(entryOf(options, path));

/** The job that a file of the index names; undefined where there is no such file. @throws CliError */
export async function readEntry(entry: string): Promise<string | undefined> {
  let text: string;
  try {
    text = await readFile(entry, 'utf8');
  } catch (error) {
    if (isMissing(error)) return undefined;
    throw error;
  }
  const stored = readStored(Stored, text);
  if ('why' in stored) throw damagedError(entry, 1, stored.why);
  return stored.data.job;
}

/** On the disk once it is done. */
export async function writeLastJob(
  files: Files,
  options: BulkOptions,
  path: string,
  job: string,
): Promise<void> {
  const directory = join(options.directory, PATHS);
  await ensureDirectory(files, directory);
  await chmod(directory, 0o700);
  const { baseUrl, random } = options;
  const text = `${JSON.stringify({ version: 1, path, baseUrl, job } satisfies z.infer<typeof Stored>)}\n`;
  const entry = entryOf(options, path);
  await replaceFile(files, entry, `new-${random(8).toString('hex')}`, [Buffer.from(text)]);
  await syncUpward(files, directory);
}

const entryOf = ({ directory, baseUrl }: BulkOptions, path: string) =>
  join(directory, PATHS, hashOf(baseUrl, path));

const hashOf = (...parts: string[]) =>
  createHash('sha256').update(JSON.stringify(parts)).digest('hex').slice(0, 32);
