import type { Client } from '../../client/client.ts';
import { ApiFailure, InterruptedError, OutcomeUnknownError } from '../../client/errors.ts';
import { readQuota } from '../../client/rate-limit.ts';
import { REPEATABLE_FOR } from '../../client/sender.ts';
import type { Clock } from '../../contract/clock.ts';
import { hashKey } from '../../store/keys.ts';
import { withoutKey } from '../profiles/profile.ts';
import type { Doubt, Job, PendingRow } from './job-types.ts';
import type { Quota } from './progress.ts';

/** What a service says of one row; any other failure is one of the whole input. */
const ROW_STATUSES: readonly number[] = [400, 413, 422];

export type SendOptions = {
  client: Client;
  job: Job;
  apiKey: string;
  clock: Clock;
  onSettled(quota?: Quota): void;
};

/**
 * Sends what is left of a job, row by row. A failure that is not the row's own stops it: the rows behind would meet
 * it too, and the next run goes on.
 *
 * @throws ClientError, and CliError where the progress cannot be recorded
 */
export async function sendRows(options: SendOptions): Promise<void> {
  const { client, job, onSettled } = options;
  let isAsked = false;
  for await (const pending of job.pending()) {
    // Whether the key is good and idempotency is honoured is known before the first row is risked.
    if (!isAsked) await client.call('listPets', { query: { limit: 1 } }, { paced: true });
    isAsked = true;
    onSettled(await sendRow(pending, options));
  }
  await job.finish();
}

/** Sends one row, or settles it where it must not be sent. What the service says of its window, if it has said it. */
async function sendRow(
  { row, pet, idempotencyKey, doubt }: PendingRow,
  { client, job, apiKey, clock }: SendOptions,
): Promise<Quota | undefined> {
  const apiKeyHash = hashKey(apiKey);
  const unknown = (message: string) =>
    job.settle(row, { status: 'unknown', idempotencyKey, message: withoutKey(message, apiKey) });
  const why = doubt && whyNotAgain(doubt, client.honoursIdempotency(), { apiKeyHash, now: clock.now() });
  if (why !== undefined) {
    await unknown(why);
    return undefined;
  }
  const record = {
    sending: () => job.sending(row, { apiKeyHash }),
    // What an earlier run has sent stays in doubt, whatever becomes of this attempt.
    withdrawn: async () => {
      if (doubt === undefined) await job.withdraw(row);
    },
  };
  try {
    const { value, headers } = await client.call(
      'createPet',
      { body: pet },
      { idempotencyKey, paced: true, record },
    );
    await job.settle(row, { status: 'added', pet: value });
    return readQuota(headers);
  } catch (error) {
    if (error instanceof ApiFailure && ROW_STATUSES.includes(error.status)) {
      const { status, code = `http_${status}`, message } = error;
      if (doubt) await unknown(`sent in an earlier run without an answer, and now refused: ${message}`);
      else await job.settle(row, { status: 'failed', error: masked({ code, message, status }, apiKey) });
      return undefined;
    }
    // Where the key is honoured the next run repeats the row; where not, nobody may, and it is told as what it is.
    if (
      error instanceof OutcomeUnknownError &&
      !error.honoured &&
      !(error.cause instanceof InterruptedError)
    ) {
      await unknown(`no answer: ${error.cause instanceof Error ? error.cause.message : error.cause}`);
    }
    throw error;
  }
}

function masked<Failure extends { code: string; message: string }>(
  failure: Failure,
  apiKey: string,
): Failure {
  const { code, message } = failure;
  return { ...failure, code: withoutKey(code, apiKey), message: withoutKey(message, apiKey) };
}

/** Why a row whose outcome is unknown must not be sent again; undefined where it may. */
function whyNotAgain(
  { sentAt, apiKeyHash }: Doubt,
  honoured: boolean,
  current: { apiKeyHash: string; now: number },
): string | undefined {
  const sent = `sent on ${new Date(sentAt).toISOString()} without an answer`;
  if (!honoured) return `${sent}, and the service has not shown that it knows a repetition`;
  if (apiKeyHash !== current.apiKeyHash) return `${sent}, with another API key`;
  const age = current.now - sentAt;
  if (age < 0) return `${sent}, and the clock was set back since`;
  if (age > REPEATABLE_FOR) return `${sent}, more than 23 hours ago`;
  return undefined;
}
