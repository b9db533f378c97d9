import { randomBytes } from 'node:crypto';
import { join } from 'node:path';
import type { Client } from '../../client/client.ts';
import { realFiles } from '../../store/files.ts';
import type { Runtime } from '../command.ts';
import { connectionFor, withClient } from '../connect.ts';
import { exitCodes } from '../exit-codes.ts';
import type { Console } from '../output/console.ts';
import { stateDirectory } from '../paths.ts';
import type { Connection } from '../profiles/resolve.ts';
import { type CheckedInput, checkInput, type InputOptions } from './input.ts';
import { openJob } from './job.ts';
import type { Job } from './job-types.ts';
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
  const spool = await createSpool(place);
  const input = await checkInput(request, runtime, (row) => spool.write(row)).catch(async (error) => {
    await spool.discard();
    throw error;
  });
  if (request.dryRun || input.rows === 0) return showOnly(spool, input, connection, runtime);
  const { source, sha256 } = input;
  const options = { ...place, source, restart: request.restart === true, baseUrl: connection.baseUrl };
  const job = await openJob(spool, sha256, options);
  try {
    await addRows(job, connection, runtime, source.name);
    await writeResults(console, job);
    return summarize(job, console);
  } finally {
    await job.close();
  }
}

async function addRows(job: Job, connection: Connection, runtime: Runtime, name: string): Promise<void> {
  const { console, context } = runtime;
  const { added, failed, left } = job.counts();
  const since = `${job.startedAt.toISOString().slice(0, 16).replace('T', ' ')} UTC`;
  if (job.resumed && left + failed === 0) {
    console.notice(
      `nothing is sent: ${name} was added to ${connection.baseUrl} on ${since}. All of it again: --restart`,
    );
    return;
  }
  if (job.resumed)
    console.notice(`going on with the run of ${since}: ${added} of ${job.rows} rows are added`);
  const progress = createProgress(runtime, () => job.counts());
  const send = (client: Client) =>
    sendRows({ client, job, apiKey: connection.key, clock: context.clock, onSettled: progress.show });
  try {
    await withClient(runtime, connection, send, { showWait: progress.pause });
  } catch (error) {
    progress.end();
    const { added: done } = job.counts();
    console.notice(`${done} of ${job.rows} rows are added; to go on: ${goOnCommand(context.argv)}`);
    throw error;
  }
  progress.end();
}

/** The command that was typed, but for what would begin anew. */
export function goOnCommand(argv: readonly string[]): string {
  const words = argv.filter((word) => word !== '--restart');
  return [
    'pets',
    ...words.map((word) => (/^[\w@%+=:,./-]+$/.test(word) ? word : `'${word.replaceAll("'", `'\\''`)}'`)),
  ].join(' ');
}

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
  spool: SpoolFile,
  { source, rows }: CheckedInput,
  { baseUrl, profile }: Connection,
  { console }: Runtime,
): Promise<number> {
  try {
    await spool.complete();
    if (console.json) await writeJsonArray(console, readRows(realFiles, spool.path, rows), ({ pet }) => pet);
  } finally {
    await spool.discard();
  }
  const what =
    rows === 0 ? `${source.name} has no rows` : `the ${rows} rows of ${source.name} would be added`;
  console.notice(`nothing is sent: ${what} at ${baseUrl} (profile ${profile})`);
  return exitCodes.ok;
}
