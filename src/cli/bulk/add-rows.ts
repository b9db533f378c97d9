import type { Client } from '../../client/client.ts';
import { InterruptedError, OutcomeUnknownError, RateLimitError } from '../../client/errors.ts';
import type { Runtime } from '../command.ts';
import { tellPlace, withClient } from '../connect.ts';
import { CliError } from '../errors/cli-error.ts';
import { CallError } from '../explain/call-error.ts';
import type { Connection } from '../profiles/resolve.ts';
import { goOnCommand } from './commands.ts';
import { dateOf } from './job-changed.ts';
import type { Job } from './job-types.ts';
import { createProgress } from './progress.ts';
import { sendRows } from './send.ts';

/** `nothingSince`: nothing was sent, as since then every row has a result that stays. */
export type Outcome = { nothingSince: Date | undefined };

/** Sends what is left of a job, and shows how far it is. @throws CliError, CallError */
export async function addRows(job: Job, connection: Connection, runtime: Runtime): Promise<Outcome> {
  const { console, context } = runtime;
  const { added, failed, left } = job.counts();
  if (left + failed === 0) {
    const nothingSince = job.finishedAt ?? job.startedAt;
    await job.finish();
    return { nothingSince };
  }
  if (job.resumed) {
    const since = dateOf(job.startedAt.toISOString());
    console.notice(`going on with the run of ${since}: ${added} of ${job.rows} rows are added`);
  }
  if (job.taken > 0) {
    console.notice(
      `${job.taken} of ${job.rows} rows were sent by earlier runs of the file: none is added again`,
    );
  }
  tellPlace(runtime, connection, `adding ${left + failed} rows at`);
  const progress = createProgress(runtime, () => job.counts());
  const send = (client: Client) =>
    sendRows({ client, job, apiKey: connection.key, clock: context.clock, onSettled: progress.show });
  try {
    await withClient(runtime, connection, send, { showWait: progress.pause });
  } catch (error) {
    progress.end();
    const goOn = `to go on: ${goOnCommand(context)}`;
    console.notice(`${job.counts().added} of ${job.rows} rows are added; ${goOn}`);
    throw error instanceof CallError ? ofBulk(error, goOn, context.clock.now()) : error;
  }
  progress.end();
  return { nothingSince: undefined };
}

/** What a failure is to a run that goes on by itself. */
function ofBulk(error: CallError, goOn: string, now: number): unknown {
  const { cause, connection } = error;
  if (cause instanceof OutcomeUnknownError) {
    // A row's own key is known to the next run, and no option takes it.
    return cause.cause instanceof InterruptedError
      ? interruptedError(cause.honoured)
      : new CallError(cause, connection, { hint: goOn });
  }
  if (cause instanceof RateLimitError && isOfDay(cause, now)) {
    return new CallError(ofDay(cause), connection, { hint: 'the same command goes on then' });
  }
  return error;
}

const interruptedError = (honoured: boolean): CliError =>
  new CliError('interrupted; one row was on its way, and whether it is added is open', {
    code: 'interrupted',
    hint: honoured
      ? 'the same command settles it, and adds it once'
      : 'the same command goes on, and tells that row as unknown: this service knows no repetition',
  });

const MINUTE = 60_000;

/** A ban is told by its code; of one that another process has met, and that is over sooner, no more is known than when. */
const LONGEST_BAN = 10 * MINUTE;

/** The edge of a minute is waited for: what ends a run is the day's limit. */
const isOfDay = ({ until, code, isAnswer }: RateLimitError, now: number): boolean =>
  code !== 'key_banned' && until - now > (isAnswer ? MINUTE : LONGEST_BAN);

/** The words of the service are its own. */
function ofDay(error: RateLimitError): RateLimitError {
  const { until, code = 'rate_limited', isAnswer, message } = error;
  const words = isAnswer ? `${message} (the limit of the day)` : "the day's limit is used up";
  return new RateLimitError(until, { error: { code, message: words, status: 429 } });
}
