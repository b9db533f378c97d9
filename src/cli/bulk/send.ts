import type { Client } from '../../client/client.ts';
import { ApiFailure, InterruptedError, OutcomeUnknownError } from '../../client/errors.ts';
import { readQuota } from '../../client/rate-limit.ts';
import type { Clock } from '../../contract/clock.ts';
import { hashKey } from '../../store/keys.ts';
import { withoutKey } from '../profiles/profile.ts';
import type { Doubt, Job, RowResult } from './job-types.ts';
import type { Quota } from './progress.ts';

const HOUR = 3_600_000;

/** A service remembers an idempotency key for 24 hours (design D10); an hour of them is kept for clocks that differ. */
const REPEATABLE_FOR = 23 * HOUR;

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
export async function sendRows({ client, job, apiKey, clock, onSettled }: SendOptions): Promise<void> {
  const apiKeyHash = hashKey(apiKey);
  let isAsked = false;
  for await (const { row, pet, idempotencyKey, doubt } of job.pending()) {
    // Whether the key is good and idempotency is honoured is known before the first row is risked.
    if (!isAsked) await client.call('listPets', { query: { limit: 1 } }, { paced: true });
    isAsked = true;
    const lost = doubt && whyNotAgain(doubt, client.honoursIdempotency(), { apiKeyHash, now: clock.now() });
    if (lost !== undefined) {
      await job.settle(row, { status: 'unknown', idempotencyKey, message: lost });
      onSettled();
      continue;
    }
    await job.sending(row, { apiKeyHash });
    let quota: Quota | undefined;
    try {
      const { value, headers } = await client.call(
        'createPet',
        { body: pet },
        { idempotencyKey, paced: true },
      );
      await job.settle(row, { status: 'added', pet: value });
      quota = readQuota(headers);
    } catch (error) {
      const result = resultOf(error, apiKey);
      if (result !== undefined) await job.settle(row, result);
      if (result?.status !== 'failed') throw error;
    }
    onSettled(quota);
  }
  await job.finish();
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
  // A send in the future: a clock was wrong, and nobody knows which.
  if (age < 0 || age > REPEATABLE_FOR) return `${sent}, more than 23 hours ago`;
  return undefined;
}

/** What a failure says of the row; undefined where the row is left to the next run. */
function resultOf(error: unknown, apiKey: string): RowResult | undefined {
  if (error instanceof ApiFailure && ROW_STATUSES.includes(error.status)) {
    const { status, code = `http_${status}`, message } = error;
    return {
      status: 'failed',
      error: { code: withoutKey(code, apiKey), message: withoutKey(message, apiKey), status },
    };
  }
  // Where the key is honoured the next run repeats the row; where not, nobody may, and it is told as what it is.
  if (error instanceof OutcomeUnknownError && !error.honoured && !(error.cause instanceof InterruptedError)) {
    const { idempotencyKey, cause } = error;
    return {
      status: 'unknown',
      idempotencyKey,
      message: withoutKey(`no answer: ${cause instanceof Error ? cause.message : cause}`, apiKey),
    };
  }
  return undefined;
}
