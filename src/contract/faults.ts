/** The longest latency that can be injected, in milliseconds. */
export const MAX_LATENCY = 600_000;
