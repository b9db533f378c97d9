import { randomBytes } from 'node:crypto';
import { join } from 'node:path';
import type { Runtime } from '../command.ts';
import { connectionFor } from '../connect.ts';
import { usageError } from '../errors/cli-error.ts';
import { OutputError } from '../output/console.ts';
import { stateDirectory } from '../paths.ts';
import { addRows } from './add-rows.ts';
import { skipCommand } from './commands.ts';
import { createPreview, type Preview, showDryRun } from './dry-run.ts';
import { type CheckedInput, checkInput, type InputOptions } from './input.ts';
import { openJob } from './job.ts';
import { hasJobs } from './job-index.ts';
import type { BulkPlace, InputRow } from './job-types.ts';
import { writeResults } from './results.ts';
import { createSpool, type SpoolFile } from './spool.ts';
import { summarize, tellNoRows } from './summary.ts';

export type BulkRequest = InputOptions & { dryRun?: boolean; restart?: boolean; skipAdded?: boolean };

/** `pets add --from`: checks every row, adds those that are not added yet, and tells what became of each. */
export async function addFrom(request: BulkRequest, runtime: Runtime): Promise<number> {
  const { restart = false, skipAdded = false } = request;
  if (restart && skipAdded) {
    throw usageError(
      '--restart and --skip-added exclude each other',
      '--skip-added adds what is not added yet, --restart every row, whatever was added before',
    );
  }
  const connection = connectionFor(runtime);
  const { context, console } = runtime;
  const place = {
    directory: join(stateDirectory(context), 'bulk'),
    clock: context.clock,
    random: randomBytes,
  };
  const isKept = !request.dryRun || console.json;
  const preview = request.dryRun ? createPreview(await hasJobs(place.directory)) : undefined;
  const { input, spool } = await collect(request, { place: isKept ? place : undefined, preview }, runtime);
  const { source, sha256 } = input;
  if (skipAdded && source.path === undefined) {
    await spool?.discard();
    throw usageError(
      `--skip-added needs a file: runs of ${source.name} are not known by a name`,
      'write it to a file, always the same one, and add that',
    );
  }
  const { baseUrl } = connection;
  const options = { ...place, source, restart, skipAdded, skipCommand: skipCommand(context), baseUrl };
  if (preview) return showDryRun({ input, spool, preview, options, connection }, runtime);
  if (!spool) return tellNoRows(console, source.name);
  const job = await openJob(spool, sha256, options);
  try {
    const outcome = await addRows(job, connection, runtime);
    // What became of the rows is no other because nobody reads it to its end.
    await writeResults(console, job, outcome).catch((error) => {
      if (!(error instanceof OutputError) || error.code !== 'EPIPE') throw error;
    });
    return summarize(console, job, outcome);
  } finally {
    await job.close();
  }
}

/**
 * Checks the input, and keeps its rows. That they cannot be kept is told only where the input is good: whoever mends
 * it, or only wants it checked, needs no place.
 */
async function collect(
  request: BulkRequest,
  { place, preview }: { place: BulkPlace | undefined; preview: Preview | undefined },
  runtime: Runtime,
): Promise<{ input: CheckedInput; spool: SpoolFile | undefined }> {
  let spool: SpoolFile | undefined;
  let failure: unknown;
  const keep = async (row: InputRow) => {
    preview?.take(row);
    if (place === undefined || failure !== undefined) return;
    try {
      spool ??= await createSpool(place);
      await spool.write(row);
    } catch (error) {
      failure = error;
    }
  };
  try {
    const input = await checkInput(request, runtime, keep);
    if (failure !== undefined) throw failure;
    return { input, spool };
  } catch (error) {
    await spool?.discard().catch(() => {});
    throw error;
  }
}
