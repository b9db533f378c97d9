/** Where `pets serve` listens without --port. */
export const DEFAULT_PORT = 7387;
