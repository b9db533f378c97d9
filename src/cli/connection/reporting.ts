import type { Deprecation } from '../../client/response.ts';
import type { AttemptEvent, WaitEvent } from '../../client/retry.ts';
import type { OperationName } from '../../contract/operations.ts';
import { formatDuration } from '../../contract/time-text.ts';
import type { Context } from '../core/context.ts';
import type { StatusLine } from '../output/console.ts';
import { sanitizeForTerminal } from '../output/sanitize.ts';
import { formatTime } from '../output/time.ts';
import type { CommandContext } from '../program/command.ts';

const SECOND = 1_000;
const DAY = 86_400_000;

/** Prints that the service will remove an operation, or has announced a date for that which has passed. */
export function reportDeprecation(
  { console, clock }: CommandContext,
  { operation, sunset, link }: { operation: OperationName } & Deprecation,
): void {
  const now = clock.now();
  const day = sunset?.toLocaleDateString('en-GB', { dateStyle: 'long', timeZone: 'UTC' });
  const days = sunset && Math.ceil((sunset.getTime() - now) / DAY);
  let when = days === undefined ? 'on a day that it has not announced' : `on ${day} (in ${days} days)`;
  if (days !== undefined && days <= 0) when = `soon (${day} has passed)`;
  const what = operation === 'getPet' ? 'single animals' : 'data that this command uses';
  const then = operation === 'getPet' ? '; pets get will then search the whole list' : '';
  const more = link === undefined ? '' : ` (see ${link})`;
  console.notice(`the service stops offering ${what} ${when}${then}${more}`);
}

/** A wait of the client, or of `pets import` for requests of an earlier run that the service may still receive. */
type Wait = Omit<WaitEvent, 'reason'> & { reason: WaitEvent['reason'] | 'earlier requests' };

/**
 * Returns `onWait` and `sleep` for the client, which report every wait. The report is a countdown on a terminal, and one
 * line elsewhere. With --debug, every wait also prints a line.
 *
 * @param show shows a line of the countdown; undefined removes the countdown
 */
export function createWaitReporter(
  { console, clock, sleep, globals }: CommandContext,
  show: (line: StatusLine | undefined) => void,
): { onWait(wait: Wait): void; sleep: Context['sleep'] } {
  let current: Wait | undefined;
  const timeOf = (instant: number) => formatTime(instant, clock.now(), console.timeZone());

  return {
    onWait(wait) {
      current = wait;
      const { reason, milliseconds, until } = wait;
      if (!globals.debug && console.hasStatus) return;
      const event = {
        reason,
        seconds: Math.ceil(milliseconds / SECOND),
        until: new Date(until).toISOString(),
      };
      const [text] = waitLine(reason, milliseconds, timeOf(until));
      console.event({ wait: event }, console.errorColors.dim(text), 2);
    },
    async sleep(milliseconds, signal) {
      if (!console.hasStatus || current === undefined) return sleep(milliseconds, signal);
      const { reason, until } = current;
      try {
        // Count the steps instead of reading the clock, which may be set to another time during the wait.
        for (let left = milliseconds; left > 0; ) {
          show(waitLine(reason, left, timeOf(until)));
          // Sleep until the next full second, so that the countdown shows every second.
          const step = left % SECOND || SECOND;
          await sleep(step, signal);
          left -= step;
        }
      } finally {
        show(undefined);
      }
    },
  };
}

/** `time` is the end of the wait. */
function waitLine(reason: string, milliseconds: number, time: string): StatusLine {
  const left = formatDuration(milliseconds);
  return [`waiting ${left} (${reason}), until ${time}`, `waiting ${left}, until ${time}`, `waiting ${left}`];
}

/** The maximum number of characters of a body that --debug prints. */
const MAX_BODY_SHOWN = 4_096;

/** Logs one attempt with its headers and the start of its bodies, for --debug. */
export function reportAttempt(
  { console }: CommandContext,
  { request, outcome, timings }: AttemptEvent,
  redact: (text: string) => string,
): void {
  const { method, url, headers: sent } = request;
  const result = 'response' in outcome ? outcome.response : { failure: String(outcome.error) };
  // Redact the API key before cutting the body, because a part of a key would not be recognized.
  const cut = (body = '') => redact(body).slice(0, MAX_BODY_SHOWN) || undefined;
  const bodies = { requestBody: cut(request.body), body: 'body' in result ? cut(result.body) : undefined };
  const lines = [
    `${method} ${url.href}`,
    ...messageLines('>', sent, bodies.requestBody),
    `${'status' in result ? result.status : `failed: ${result.failure}`} (${timingsText(timings)})`,
    ...('headers' in result ? messageLines('<', result.headers, bodies.body) : []),
  ];
  console.event(
    { debug: { method, url: url.href, times: timings, request: sent, ...result, ...bodies } },
    console.errorColors.dim(lines.map(sanitizeForTerminal).join('\n')),
  );
}

/** The lines of the headers, an empty line, and the lines of the body. Each line starts with `mark`. */
function messageLines(mark: string, headers: object, body: string | undefined): string[] {
  const fields = Object.entries(headers).map(([name, value]) => `${name}: ${value}`);
  const lines = body === undefined ? fields : [...fields, '', ...body.trimEnd().split(/\r?\n/)];
  return lines.map((line) => `  ${mark} ${line}`);
}

function timingsText({ connected, firstByte, whole }: AttemptEvent['timings']): string {
  const steps = { connected, 'first byte': firstByte, complete: whole };
  return Object.entries(steps)
    .filter(([, time]) => time !== undefined)
    .map(([step, time]) => `${step} ${time} ms`)
    .join(', ');
}
