import type { WaitEvent } from '../../client/call.ts';
import { formatDuration } from '../../system/time-text.ts';
import { formatTime } from '../output/time.ts';
import type { CommandContext } from '../program/command.ts';

/** A wait of the client, or of `pets import` for requests of an earlier run that the service may still receive. */
export type Wait = Omit<WaitEvent, 'reason'> & { reason: WaitEvent['reason'] | 'earlier requests' };

const SECOND = 1_000;

/**
 * Waits, and says why: with a countdown on a terminal, and with one line elsewhere and with --debug. The wait ends when its time
 * has passed, also if the process or the machine slept meanwhile. It does not depend on the system time, which may be set to
 * another time.
 *
 * @param show shows a line of the countdown; undefined removes the countdown
 * @throws the reason of `signal` as soon as it is aborted
 */
export async function wait(
  { console, clock, sleep, uptime, globals }: CommandContext,
  { reason, milliseconds, until, status }: Wait,
  signal: AbortSignal,
  show: (line: string | undefined) => void = console.status,
): Promise<void> {
  const end = formatTime(until, clock.now(), console.timeZone());
  const cause =
    reason === 'connection' ? 'no response' : `${reason}${status === undefined ? '' : ` ${status}`}`;
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
      // Timers stop while the machine sleeps; the uptime does not, but some systems count it in whole seconds.
      const passed = uptime().milliseconds - started - SECOND;
      left = Math.min(left - step, milliseconds - passed);
    }
  } finally {
    if (console.hasStatus) show(undefined);
  }
}
