import type { Deprecation } from '../client/deprecation.ts';
import type { Attempted, Wait } from '../client/sender.ts';
import type { OperationName } from '../contract/operations.ts';
import type { Runtime } from './command.ts';
import type { Context } from './context.ts';
import type { StatusLine } from './output/console.ts';
import { durationText, instantText } from './output/time.ts';
import { visible } from './output/visible.ts';

const SECOND = 1_000;
const DAY = 86_400_000;

/** The command that calls an operation, and what to type instead of it. */
const INSTEAD: Partial<Record<OperationName, { command: string; instead: string }>> = {
  getPet: { command: 'pets get', instead: ': use pets list --status <status>' },
};

export function tellDeprecation(
  { console, context }: Runtime,
  { operation, sunset, link }: { operation: OperationName } & Deprecation,
): void {
  const { command, instead } = INSTEAD[operation] ?? { command: 'this operation', instead: '' };
  const day = sunset?.toLocaleDateString('en-GB', { dateStyle: 'long', timeZone: 'UTC' });
  const days = sunset && Math.ceil((sunset.getTime() - context.clock.now()) / DAY);
  const more = link === undefined ? '' : ` (see ${link})`;
  if (days === undefined || days > 0) {
    const when = day === undefined ? '' : ` on ${day} (in ${days} days)`;
    console.notice(`${command} goes away${when}${instead}${more}`);
  } else console.notice(`${command} was to go away on ${day}${instead}${more}`);
}

/**
 * How a client waits: every wait of a second and more is told, why, how long and until when: by a countdown on a
 * terminal, by one line elsewhere.
 */
export function createWaiting(
  { console, context, globals }: Runtime,
  show: (line: StatusLine | undefined) => void,
): { onWait(wait: Wait): void; sleep: Context['sleep'] } {
  const { clock, sleep } = context;
  let current: Wait | undefined;

  async function countDown(
    { reason, until }: Wait,
    milliseconds: number,
    signal: AbortSignal,
  ): Promise<void> {
    const end = clock.now() + milliseconds;
    try {
      for (let left = milliseconds; left > 0; left = end - clock.now()) {
        show(waitLine(reason, left, until, clock.now()));
        // To the next full second, so that none is left out.
        await sleep(left % SECOND || SECOND, signal);
      }
    } finally {
      show(undefined);
    }
  }

  return {
    onWait(wait) {
      current = wait;
      const { reason, milliseconds, until } = wait;
      if (milliseconds < SECOND && !globals.debug) return;
      if (console.hasStatus && !globals.debug) return;
      const event = {
        reason,
        seconds: Math.ceil(milliseconds / SECOND),
        until: new Date(until).toISOString(),
      };
      console.event(
        { wait: event },
        console.errorColours.dim(waitLine(reason, milliseconds, until, clock.now())[0]),
        2,
      );
    },
    sleep: (milliseconds, signal) =>
      console.hasStatus && current !== undefined && milliseconds >= SECOND
        ? countDown(current, milliseconds, signal)
        : sleep(milliseconds, signal),
  };
}

function waitLine(reason: string, milliseconds: number, until: number, now: number): StatusLine {
  const [left, time] = [durationText(milliseconds), instantText(until, now)];
  return [`waiting ${left} (${reason}), until ${time}`, `waiting ${left}, until ${time}`, `waiting ${left}`];
}

/** One attempt, with both sides' headers. */
export function tellAttempt({ console }: Runtime, { request, outcome, times }: Attempted): void {
  const { method, url, headers: sent } = request;
  const came = 'reply' in outcome ? outcome.reply : { failure: String(outcome.failure) };
  const { body: _, ...told } = { body: undefined, ...came };
  const headerLines = (mark: string, headers: object) =>
    Object.entries(headers).map(([name, value]) => `  ${mark} ${name}: ${value}`);
  const lines = [
    `${method} ${url.href}`,
    ...headerLines('>', sent),
    `${'status' in came ? came.status : `failed: ${came.failure}`} (${timesText(times)})`,
    ...('headers' in came ? headerLines('<', came.headers) : []),
  ];
  console.event(
    { debug: { method, url: url.href, times, request: sent, ...told } },
    console.errorColours.dim(lines.map(visible).join('\n')),
  );
}

function timesText({ connected, firstByte, whole }: Attempted['times']): string {
  const steps = { connected, 'first byte': firstByte, whole };
  return Object.entries(steps)
    .filter(([, time]) => time !== undefined)
    .map(([step, time]) => `${step} ${time} ms`)
    .join(', ');
}
