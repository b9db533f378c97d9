import { createHash } from 'node:crypto';

/** Milliseconds, uniformly distributed. */
export type Latency = { min: number; max: number };

/** The random faults of the service (docs/service.md 11). */
export type RandomFaultOptions = {
  /** The delay of each response. */
  latency?: Latency | undefined;
  /** The fraction of requests that fail, from 0 to 1. */
  failRate?: number | undefined;
  seed: number;
};

/** The random fault of one request. `latency` is in milliseconds. */
export type RandomFault = { latency: number; fails: boolean };

/** The fault of the nth request. The same seed and `n` give the same fault on every machine. */
export const drawFault = ({ latency, failRate = 0, seed }: RandomFaultOptions, n: number): RandomFault => ({
  latency: latency ? drawLatency(latency, seed, n) : 0,
  fails: failRate > 0 && draw(seed, n, 'failure') < failRate,
});

/** The nth latency, in milliseconds. */
export const drawLatency = ({ min, max }: Latency, seed: number, n: number): number =>
  Math.round(min + draw(seed, n, 'latency') * (max - min));

/** A number from 0 to below 1, uniformly distributed. */
function draw(seed: number, n: number, purpose: string): number {
  return createHash('sha256').update(`${seed} ${n} ${purpose}`).digest().readUIntBE(0, 6) / 2 ** 48;
}
