import { randomBytes } from 'node:crypto';
import { join } from 'node:path';
import { stringifyJson } from '../../contract/json.ts';
import type { Runtime } from '../command.ts';
import { connectionFor, withClient } from '../connect.ts';
import { exitCodes } from '../exit-codes.ts';
import { stateDirectory } from '../paths.ts';
import type { Connection } from '../profiles/resolve.ts';
import { checkInput, type InputOptions } from './input.ts';
import { openJob } from './job.ts';
import type { Job } from './job-types.ts';
import { createProgress } from './progress.ts';
import { writeResults } from './results.ts';
import { sendRows } from './send.ts';
import { createSpool } from './spool.ts';

export type BulkRequest = InputOptions & { dryRun?: boolean; restart?: boolean };

/** `pets add --from`: checks every row, adds those that are not added yet, and tells what became of each. */
export async function addFrom(request: BulkRequest, runtime: Runtime): Promise<number> {
  const connection = connectionFor(runtime);
  if (request.dryRun) return showOnly(request, connection, runtime);
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
  if (input.rows === 0) {
    await spool.discard();
    console.notice(`${input.source.name} has no rows`);
    if (console.json) await console.writeJson([]);
    return exitCodes.ok;
  }
  const { source, sha256 } = input;
  const options = { ...place, source, restart: request.restart === true, baseUrl: connection.baseUrl };
  const job = await openJob(spool, sha256, options);
  try {
    await addRows(job, connection, runtime, source.name);
    await writeResults(runtime, job);
    return summarize(job, runtime);
  } finally {
    await job.close();
  }
}

async function addRows(job: Job, connection: Connection, runtime: Runtime, name: string): Promise<void> {
  const { console, context } = runtime;
  const { added, failed, left } = job.counts();
  const since = `${job.startedAt.toISOString().slice(0, 16).replace('T', ' ')} UTC`;
  if (job.resumed && left + failed === 0) {
    console.notice(`nothing is sent: ${name} was added to ${connection.baseUrl} on ${since}. All of it again: --restart`);
    return;
  }
  if (job.resumed) console.notice(`going on with the run of ${since}: ${added} of ${job.rows} rows are added`);
  const progress = createProgress(runtime, () => job.counts());
  const send = (client: Parameters<Parameters<typeof withClient>[2]>[0]) =>
    sendRows({ client, job, apiKey: connection.key, clock: context.clock, onSettled: progress.show });
  try {
    await withClient(runtime, connection, send, { showWait: progress.pause });
  } catch (error) {
    progress.end();
    const { added: done } = job.counts();
    const again = name === 'standard input' ? 'the same input again goes on' : 'the same command goes on';
    console.notice(`${done} of ${job.rows} rows are added: ${again}`);
    throw error;
  }
  progress.end();
}

function summarize(job: Job, { console }: Runtime): number {
  const { added, failed, unknown } = job.counts();
  const parts = [`${added} of ${job.rows} rows are added`];
  if (failed > 0) parts.push(`${failed} failed: the same command tries those again`);
  if (unknown > 0) parts.push(`${unknown} may have been added: look with pets list --all`);
  console.notice(parts.join('; '));
  return failed + unknown > 0 ? exitCodes.someFailed : exitCodes.ok;
}

/** Checks all and sends nothing; with `--json` it shows what would be sent. */
async function showOnly(request: BulkRequest, connection: Connection, runtime: Runtime): Promise<number> {
  const { console } = runtime;
  let separator = '[';
  const { rows, source } = await checkInput(request, runtime, async ({ pet }) => {
    if (!console.json) return;
    await console.write(separator + stringifyJson(pet));
    separator = ',\n';
  });
  if (console.json) await console.write(separator === '[' ? '[]\n' : ']\n');
  const { baseUrl, profile } = connection;
  console.notice(
    `nothing is sent: the ${rows} rows of ${source.name} would be added at ${baseUrl} (profile ${profile})`,
  );
  return exitCodes.ok;
}
