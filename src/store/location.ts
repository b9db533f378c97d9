import type { Clock } from '../contract/clock.ts';
import type { StoreLocation } from './backend.ts';
import { journalLocation } from './journal/journal-location.ts';

/** Finds the kind of store that the value of `--data` names. No other function looks at the form of that value. */
export async function parseLocation(text: string, clock: Clock): Promise<StoreLocation> {
  return journalLocation(text, clock);
}
