import { createHash } from 'node:crypto';
import { chmod, readdir, readFile } from 'node:fs/promises';
import { join } from 'node:path';
import * as z from 'zod/mini';
import { ensureDirectory, type Files, isMissing, replaceFile, syncUpward } from '../../store/files.ts';
import { readStored } from '../../store/stored-json.ts';
import { damagedError } from './job-errors.ts';
import type { BulkOptions } from './job-types.ts';

export const PATHS = 'paths';
/** A job's directory. */
export const JOB_ID = /^[0-9a-f]{32}$/;

/** Of a path with more contents the oldest is forgotten. */
const MAX_JOBS = 100;

const Stored = z.object({
  version: z.literal(1),
  path: z.string(),
  baseUrl: z.string(),
  /** The last run one at the end. */
  jobs: z.array(z.string().check(z.regex(JOB_ID, 'must be 32 hexadecimal digits'))),
});

/** What names the job of a content (its SHA-256) for a service: a file that was renamed or copied has the same. */
export const jobIdOf = (baseUrl: string, sha256: string): string => hashOf(baseUrl, sha256);

/** Whether there is a job of any file. */
export const hasJobs = async (directory: string): Promise<boolean> =>
  (await readdir(directory).catch(() => [])).some((name) => JOB_ID.test(name));

/** The jobs that were run for the file's path, the last one at the end. @throws CliError where that is damaged */
export const readJobs = (options: BulkOptions, path: string): Promise<string[]> =>
  readEntry(entryOf(options, path));

/** The jobs that a file of the index names; none where there is no such file. @throws CliError */
export async function readEntry(entry: string): Promise<string[]> {
  let text: string;
  try {
    text = await readFile(entry, 'utf8');
  } catch (error) {
    if (isMissing(error)) return [];
    throw error;
  }
  const stored = readStored(Stored, text);
  if ('why' in stored) throw damagedError(entry, 1, stored.why);
  return stored.data.jobs;
}

/** What stands in the place of a path for the jobs that share rows with a job, whatever file they are of. */
export const sharersOf = (job: string): string => `job ${job}`;

/** Makes jobs the last ones of a path; on the disk once it is done. */
export async function addJobs(
  files: Files,
  options: BulkOptions,
  path: string,
  added: readonly string[],
): Promise<void> {
  const directory = join(options.directory, PATHS);
  await ensureDirectory(files, directory);
  await chmod(directory, 0o700);
  const { baseUrl, random } = options;
  const entry = entryOf(options, path);
  const jobs = [...(await readEntry(entry)).filter((other) => !added.includes(other)), ...added].slice(
    -MAX_JOBS,
  );
  const text = `${JSON.stringify({ version: 1, path, baseUrl, jobs } satisfies z.infer<typeof Stored>)}\n`;
  await replaceFile(files, entry, `new-${random(8).toString('hex')}`, [Buffer.from(text)]);
  await syncUpward(files, directory);
}

const entryOf = ({ directory, baseUrl }: BulkOptions, path: string) =>
  join(directory, PATHS, hashOf(baseUrl, path));

const hashOf = (...parts: string[]) =>
  createHash('sha256').update(JSON.stringify(parts)).digest('hex').slice(0, 32);
