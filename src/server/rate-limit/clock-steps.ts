import type { SteadyClock } from '../../contract/clock.ts';

/** Both clocks are read one after the other, and have different resolutions. Smaller differences are not a step. */
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
      // The process may have been suspended between the two readings. A third reading tells this from a step forward.
      lead = Math.max(lead, time - elapsed());
    }
    return time;
  };
}
