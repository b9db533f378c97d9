import { createHash } from 'node:crypto';

/** The faults of `pets serve --latency --fail-rate --fault-seed` (docs/service.md 11). */
export type FaultOptions = {
  /** Delay of each response in milliseconds, uniformly distributed. */
  latency?: { min: number; max: number } | undefined;
  /** The fraction of requests that fail, from 0 to 1. */
  failRate?: number | undefined;
  seed: number;
};

/** The fault of one request. `latency` is in milliseconds. */
export type InjectedFault = { latency: number; fails: boolean };

/** The fault of the nth request. The same seed and `n` give the same fault on every machine. */
export function drawFault({ latency, failRate = 0, seed }: FaultOptions, n: number): InjectedFault {
  return {
    latency: latency ? Math.round(latency.min + draw(seed, n, 'latency') * (latency.max - latency.min)) : 0,
    fails: draw(seed, n, 'failure') < failRate,
  };
}

/** A number from 0 to below 1, uniformly distributed. */
function draw(seed: number, n: number, purpose: string): number {
  return createHash('sha256').update(`${seed} ${n} ${purpose}`).digest().readUIntBE(0, 6) / 2 ** 48;
}
