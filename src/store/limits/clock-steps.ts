import type { SteadyClock } from '../../contract/clock.ts';

/**
 * How many milliseconds the two clocks may differ without a step of the system time. They are read one after the other,
 * and have different resolutions.
 */
const TOLERANCE = 100;

/**
 * Returns a function that reads the current time. If the system time was set back since the last call, that function first
 * calls `onSetBack` with the number of milliseconds, so that stored times can be moved by as much.
 */
export function detectSetBack(
  { now, elapsed }: SteadyClock,
  onSetBack: (milliseconds: number) => void,
): () => number {
  let lead = now() - elapsed();

  return () => {
    const before = elapsed();
    const time = now();
    const currentLead = time - before;
    if (currentLead < lead - TOLERANCE) {
      onSetBack(lead - currentLead);
      lead = currentLead;
    } else if (currentLead > lead + TOLERANCE) {
      // Either the system time was set forward, or the process was suspended between the two readings. Read `elapsed`
      // again, because a suspension must not increase `lead`.
      lead = Math.max(lead, time - elapsed());
    }
    return time;
  };
}
