import { randomBytes } from 'node:crypto';
import { join } from 'node:path';
import type { Client } from '../../client/client.ts';
import { OutcomeUnknownError } from '../../client/errors.ts';
import { realFiles } from '../../store/files.ts';
import type { Runtime } from '../command.ts';
import { connectionFor, tellPlace, withClient } from '../connect.ts';
import { CallError } from '../errors/call-error.ts';
import { exitCodes } from '../errors/exit-codes.ts';
import { type Console, OutputError } from '../output/console.ts';
import { shellWords } from '../output/shell-words.ts';
import { stateDirectory } from '../paths.ts';
import { type Connection, placeOf } from '../profiles/resolve.ts';
import { type CheckedInput, checkInput, type InputOptions } from './input.ts';
import { openJob } from './job.ts';
import { dateOf } from './job-changed.ts';
import type { BulkPlace, InputRow, Job } from './job-types.ts';
import { createProgress } from './progress.ts';
import { writeJsonArray, writeResults } from './results.ts';
import { sendRows } from './send.ts';
import { createSpool, readRows, type SpoolFile } from './spool.ts';

export type BulkRequest = InputOptions & { dryRun?: boolean; restart?: boolean };

/** `pets add --from`: checks every row, adds those that are not added yet, and tells what became of each. */
export async function addFrom(request: BulkRequest, runtime: Runtime): Promise<number> {
  const connection = connectionFor(runtime);
  const { context, console } = runtime;
  const place = {
    directory: join(stateDirectory(context), 'bulk'),
    clock: context.clock,
    random: randomBytes,
  };
  const isKept = !request.dryRun || console.json;
  const { input, spool } = await collect(request, isKept ? place : undefined, runtime);
  if (request.dryRun || spool === undefined) return showOnly(spool, input, connection, runtime);
  const { source, sha256 } = input;
  const options = { ...place, source, restart: request.restart === true, baseUrl: connection.baseUrl };
  const job = await openJob(spool, sha256, options);
  try {
    await addRows(job, connection, runtime, source.name);
    // What became of the rows is no other because nobody reads it to its end.
    await writeResults(console, job).catch((error) => {
      if (!(error instanceof OutputError) || error.code !== 'EPIPE') throw error;
    });
    return summarize(job, console);
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
  place: BulkPlace | undefined,
  runtime: Runtime,
): Promise<{ input: CheckedInput; spool: SpoolFile | undefined }> {
  let spool: SpoolFile | undefined;
  let failure: unknown;
  const keep = async (row: InputRow) => {
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

async function addRows(job: Job, connection: Connection, runtime: Runtime, name: string): Promise<void> {
  const { console, context } = runtime;
  const { added, failed, left } = job.counts();
  const since = dateOf(job.startedAt.toISOString());
  if (job.resumed && left + failed === 0) {
    await job.finish();
    console.notice(
      `nothing is sent: ${name} was sent to ${connection.baseUrl} on ${since}. All of it again: --restart`,
    );
    return;
  }
  if (job.resumed)
    console.notice(`going on with the run of ${since}: ${added} of ${job.rows} rows are added`);
  tellPlace(runtime, connection, `adding ${left + failed} rows at`);
  const progress = createProgress(runtime, () => job.counts());
  const send = (client: Client) =>
    sendRows({ client, job, apiKey: connection.key, clock: context.clock, onSettled: progress.show });
  try {
    await withClient(runtime, connection, send, { showWait: progress.pause });
  } catch (error) {
    progress.end();
    const { added: done } = job.counts();
    const goOn = `to go on: ${goOnCommand(context)}`;
    console.notice(`${done} of ${job.rows} rows are added; ${goOn}`);
    // A row's own key is known to the next run, and no option takes it.
    const isInDoubt = error instanceof CallError && error.cause instanceof OutcomeUnknownError;
    throw isInDoubt ? new CallError(error.cause, connection, { hint: goOn }) : error;
  }
  progress.end();
}

/** The command that was typed, but for what would begin anew. */
const goOnCommand = ({ argv, platform }: Runtime['context']): string =>
  shellWords(['pets', ...argv.filter((word) => word !== '--restart')], platform);

function summarize(job: Job, console: Console): number {
  const { added, failed, unknown } = job.counts();
  const parts = [`${added} of ${job.rows} rows are added`];
  if (failed > 0) parts.push(`${failed} failed: the same command tries those again`);
  if (unknown > 0) parts.push(`${unknown} may have been added: look with pets list --all`);
  console.notice(parts.join('; '));
  return failed + unknown > 0 ? exitCodes.someFailed : exitCodes.ok;
}

/** Sends nothing; with `--json` it shows what would be sent. */
async function showOnly(
  spool: SpoolFile | undefined,
  { source, rows }: CheckedInput,
  connection: Connection,
  { console }: Runtime,
): Promise<number> {
  if (spool !== undefined) {
    try {
      await spool.complete();
      await writeJsonArray(console, readRows(realFiles, spool.path, rows), ({ pet }) => pet);
    } finally {
      await spool.discard();
    }
  } else if (console.json) await console.writeJson([]);
  const what =
    rows === 0
      ? `${source.name} has no rows`
      : `the ${rows} rows of ${source.name} would be added at ${placeOf(connection)}`;
  console.notice(`nothing is sent: ${what}`);
  return exitCodes.ok;
}
