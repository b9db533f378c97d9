import { createHash } from 'node:crypto';

/** The faults that a developer asked for (`--latency`, `--fail-rate`, `--fault-seed`). */
export type FaultOptions = {
  /** Milliseconds that an answer is held back, uniform between the two. */
  latency?: { min: number; max: number } | undefined;
  /** The share of the requests that fails, 0 to 1. */
  failRate?: number | undefined;
  seed: number;
};

/** What befalls one request. `latency` is in milliseconds. */
export type Fault = { latency: number; fails: boolean };

/** What befalls the nth request: the same for the same seed, on every machine. */
export function faultOf({ latency, failRate = 0, seed }: FaultOptions, n: number): Fault {
  return {
    latency: latency ? Math.round(latency.min + draw(seed, n, 'latency') * (latency.max - latency.min)) : 0,
    fails: draw(seed, n, 'failure') < failRate,
  };
}

/** Uniform in [0, 1). */
function draw(seed: number, n: number, what: string): number {
  return createHash('sha256').update(`${seed} ${n} ${what}`).digest().readUIntBE(0, 6) / 2 ** 48;
}
