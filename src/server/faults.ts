import { createHash } from 'node:crypto';
import { errorCodes } from '../contract/error-codes.ts';
import type { OperationName } from '../contract/operations.ts';
import { type FaultRule, type FaultSettings, MAX_RULES } from './fault-settings.ts';
import { operationsAt, type RequestedMock } from './mocks.ts';
import type { Params } from './routes.ts';

/** The faults of the service. The random ones depend on `seed`. */
export type FaultOptions = FaultSettings & { seed: number };

/** A random fault. `latency` is in milliseconds. */
export type Fault = { latency: number | undefined; mock: RequestedMock | undefined };

/** What a rule sees of a request: the method, the operation and the path parameters. */
export type FaultRequest = { method: string; operation: OperationName; params: Params };

export type Faults = ReturnType<typeof createFaults>;

/** The faults that the service injects. They can be changed while the service runs (docs/testing.md). */
export function createFaults(initial: FaultOptions = { seed: 0 }) {
  let lastNumber = 0;
  let options = initial;
  let rules = (initial.rules ?? []).map(numbered);
  let requests = 0;

  /** Gives a rule its number in this run of the service. */
  function numbered({ applied = 0, ...rule }: FaultRule) {
    return { ...rule, number: ++lastNumber, applied };
  }

  return {
    /**
     * Returns the random fault of the next request. Must be called once for each request that can get faults, in the
     * order of their arrival, because the faults depend on this order.
     */
    nextRandom: (): Fault => drawFault(options, requests++),

    /** Returns what the first matching rule does, if any, and counts its use. A latency replaces the random one. */
    applyRule(request: FaultRequest): (Fault & { number: number }) | undefined {
      const rule = rules.find((each) => isLeft(each) && matches(each, request));
      if (rule === undefined) return undefined;
      const { answer, retryAfter, latency, number } = rule;
      const n = rule.applied++;
      return {
        number,
        latency: latency && drawLatency(latency, options.seed, n),
        mock:
          answer === undefined ? undefined : { status: answer, retryAfter, source: `fault rule ${number}` },
      };
    },

    /** Replaces all settings. With a seed, the sequence of random faults starts again; otherwise, it continues. */
    replace(settings: FaultSettings): void {
      if (settings.seed !== undefined) requests = 0;
      options = { ...settings, seed: settings.seed ?? options.seed };
      rules = (settings.rules ?? []).map(numbered);
    },

    /**
     * Adds a rule before the others, so it decides about the next request that it matches. Drops the rules that have no
     * effect any more.
     *
     * @returns false if `MAX_RULES` rules still have an effect; then nothing changes
     */
    add(rule: FaultRule): boolean {
      const left = rules.filter(isLeft);
      if (left.length >= MAX_RULES) return false;
      rules = [numbered(rule), ...left];
      return true;
    },

    /** Removes the rule with a number. Returns whether it existed. */
    remove(number: number): boolean {
      const before = rules.length;
      rules = rules.filter((rule) => rule.number !== number);
      return rules.length < before;
    },

    /** The current settings. Each rule has its number, and how many requests it has applied to. */
    current: () => ({ ...options, rules }),
  };
}

/** Whether a rule still applies to requests. */
const isLeft = ({ times, applied = 0 }: FaultRule): boolean => times === undefined || applied < times;

function matches({ match, answer }: FaultRule, { method, operation, params }: FaultRequest): boolean {
  const required = operationsAt(match, answer).get(operation);
  if (required === undefined || (match?.method ?? method) !== method) return false;
  return Object.entries(required).every(([name, value]) => value.startsWith('{') || value === params[name]);
}

/** The fault of the nth request. The same seed and `n` give the same fault on every machine. */
export const drawFault = ({ latency, failRate = 0, seed }: FaultOptions, n: number): Fault => ({
  latency: latency && drawLatency(latency, seed, n),
  mock: failRate > 0 && draw(seed, n, 'failure') < failRate ? RANDOM_FAILURE : undefined,
});

const RANDOM_FAILURE: RequestedMock = {
  status: errorCodes.injected_fault,
  source: 'the fail rate chose this request',
};

/** The nth latency, in milliseconds, uniformly distributed. */
const drawLatency = ({ min, max }: NonNullable<FaultSettings['latency']>, seed: number, n: number): number =>
  Math.round(min + draw(seed, n, 'latency') * (max - min));

/** A number from 0 to below 1, uniformly distributed. */
function draw(seed: number, n: number, purpose: string): number {
  return createHash('sha256').update(`${seed} ${n} ${purpose}`).digest().readUIntBE(0, 6) / 2 ** 48;
}
