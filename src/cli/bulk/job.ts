import type { BulkOptions, Job, Spool } from './job-types.ts';

/**
 * Opens the job of an input; `sha256` (hexadecimal) is that of its bytes. The spool is used up, also by an error.
 *
 * @throws CliError where another process has the job, the input has changed since it was partly added, or a file is
 *   damaged or cannot be written
 */
export async function openJob(_spool: Spool, _sha256: string, _options: BulkOptions): Promise<Job> {
  throw new Error('to be written');
}
