import type { AttemptEvent, WaitEvent } from '../../client/call.ts';
import { formatDuration } from '../../system/time-text.ts';
import { sanitizeForTerminal } from '../output/text.ts';
import { formatTime } from '../output/time.ts';
import type { CommandContext } from '../program/command.ts';

// What stderr shows of the requests of a command: why it waits, and with --debug each attempt.

/** A wait of the client, or of `pets import` for requests of an earlier run that the service may still receive. */
export type Wait = Omit<WaitEvent, 'reason'> & { reason: WaitEvent['reason'] | 'earlier requests' };

/** What a line says instead of a reason that is not clear by itself. */
const CAUSES: Partial<Record<Wait['reason'], string>> = {
  connection: 'no response',
  'still in progress': 'an earlier attempt is still in progress',
  'earlier requests': 'earlier requests may still arrive',
};

const SECOND = 1_000;

/**
 * Waits, and reports why: with a countdown if the console has a status line, with one line if it has none (but not with
 * --quiet), and with --debug always with one line. The wait ends when its time has passed, even if the process or the
 * machine slept. It does not depend on the system time, which may be changed.
 *
 * @param show shows a line of the countdown; undefined removes the countdown
 * @throws the reason of `signal` as soon as it is aborted
 */
export async function wait(
  { console, clock, sleep, uptime, globals }: CommandContext,
  { reason, milliseconds, until, status }: Wait,
  signal: AbortSignal,
  show: (line: string | undefined) => void = console.showStatus,
): Promise<void> {
  const end = formatTime(until, clock.now(), console.messageTimeZone());
  const cause = `${CAUSES[reason] ?? reason}${status === undefined ? '' : ` ${status}`}`;
  const lineAt = (left: number) => `waiting ${formatDuration(left)} (${cause}), until ${end}`;
  if (globals.debug || !(console.hasStatus || globals.quiet)) {
    const times = { seconds: Math.ceil(milliseconds / SECOND), until: new Date(until).toISOString() };
    const event = { reason, ...(status !== undefined && { status }), ...times };
    console.event({ wait: event }, console.errorColors.dim(lineAt(milliseconds)));
  }
  const started = uptime().milliseconds;
  try {
    for (let left = milliseconds; left > 0; ) {
      if (console.hasStatus) show(lineAt(left));
      // Sleep until the next full second, so that the countdown shows every second.
      const step = left % SECOND || SECOND;
      await sleep(step, signal);
      // Timers may stop while the machine sleeps. The uptime does not, but some systems count it in whole seconds.
      const passed = uptime().milliseconds - started - SECOND;
      left = Math.min(left - step, milliseconds - passed);
    }
  } finally {
    if (console.hasStatus) show(undefined);
  }
}

/** Logs one attempt with its headers and bodies, for --debug. */
export function reportAttempt(
  { console }: CommandContext,
  { request, outcome, milliseconds }: AttemptEvent,
): void {
  const { method, url, headers: sent, body: requestBody } = request;
  // The error code is left out, because the body contains it.
  const result =
    'response' in outcome ? { ...outcome.response, code: undefined } : { failure: String(outcome.error) };
  const lines = [
    `${method} ${url.href}`,
    ...messageLines('>', sent, requestBody),
    `${'status' in result ? result.status : `failed: ${result.failure}`} (${milliseconds} ms)`,
    ...('headers' in result ? messageLines('<', result.headers, result.body) : []),
  ];
  console.event(
    { debug: { method, url: url.href, milliseconds, request: sent, requestBody, ...result } },
    console.errorColors.dim(lines.map(sanitizeForTerminal).join('\n')),
  );
}

/** The lines of the headers and, after an empty line, those of a body if there is one. Each line has `mark` in front. */
function messageLines(mark: string, headers: object, body = ''): string[] {
  const fields = Object.entries(headers).map(([name, value]) => `${name}: ${value}`);
  const lines = body === '' ? fields : [...fields, '', ...body.trimEnd().split(/\r?\n/)];
  return lines.map((line) => `  ${mark} ${line}`);
}
