import { createHash } from 'node:crypto';
import { setMaxListeners } from 'node:events';
import type { FaultRule, FaultSettings } from './fault-settings.ts';
import type { MockRequest } from './mock-response.ts';
import { createRuleMatcher, type FaultRequest } from './rule-match.ts';

/** The faults of the service. The random ones depend on `seed`. */
export type FaultOptions = FaultSettings & { seed: number };

/** What a rule does to a request. */
export type RuleFault = {
  /** Replaces the random latency; in milliseconds. */
  latency: number | undefined;
  /** If undefined, the rule only changes the latency. */
  mock: MockRequest | undefined;
};

export type Faults = ReturnType<typeof createFaults>;

/** The faults that the service injects. They can be replaced while the service runs (docs/service.md 11). */
export function createFaults(initial: FaultOptions = { seed: 0 }) {
  let { options, rules } = prepare(initial);
  let requests = 0;

  return {
    /**
     * Returns the random fault of the next request. Must be called once for each request under the API prefix, in the
     * order of their arrival, because the faults depend on this order.
     */
    nextRandom: (): RandomFault => drawFault(options, requests++),

    /** Finds the first rule that applies to a request, and counts that it has applied. */
    applyRule(method: string, request: FaultRequest): RuleFault | undefined {
      const rule = rules.find((each) => isLeft(each) && each.matches(method, request));
      if (rule === undefined) return undefined;
      const { match, answer, retryAfter, latency } = rule.setting;
      const n = rule.applied++;
      return {
        latency: latency && drawLatency(latency, options.seed, n),
        mock: answer === undefined ? undefined : { status: answer, retryAfter, source: nameRule(match) },
      };
    },

    /** Replaces all settings. With a seed, the sequence of random faults starts again; otherwise, it continues. */
    replace(settings: FaultSettings): void {
      if (settings.seed !== undefined) requests = 0;
      ({ options, rules } = prepare({ ...settings, seed: settings.seed ?? options.seed }));
    },

    /**
     * Adds a rule before the others, so that it decides about the next request that it matches, and drops the rules that have
     * no effect any more.
     *
     * @returns false if there are `limit` rules already
     */
    add(rule: FaultRule, limit: number): boolean {
      const left = rules.filter(isLeft);
      if (left.length >= limit) return false;
      rules = [prepareRule(rule), ...left];
      return true;
    },

    /** The current settings, with the number of times that each rule has applied. */
    current: () => ({
      ...options,
      rules: rules.map(({ setting, applied }) => ({ ...setting, applied })),
    }),
  };
}

const prepare = (options: FaultOptions) => ({ options, rules: (options.rules ?? []).map(prepareRule) });

const prepareRule = (setting: FaultRule) => ({
  setting,
  applied: setting.applied ?? 0,
  matches: createRuleMatcher(setting),
});

type Rule = ReturnType<typeof prepareRule>;

/** Whether a rule still applies to requests. */
const isLeft = ({ setting: { times }, applied }: Rule): boolean => times === undefined || applied < times;

/** How the log and the message name a rule. Not by its position, which changes. */
const nameRule = ({ method, path }: FaultRule['match'] = {}): string =>
  `your rule for ${[path ? '' : 'all', method, path?.slice(0, MAX_PATH) ?? 'requests'].filter(Boolean).join(' ')}`;

/** How many characters of a path are shown. The paths of all operations are shorter, except for their ids. */
const MAX_PATH = 100;

export type Latencies = ReturnType<typeof createLatencies>;

/** The waits of responses that an injected latency delays. @param sleep rejects when the signal is aborted */
export function createLatencies(sleep: (milliseconds: number, signal: AbortSignal) => Promise<void>) {
  const begin = () => {
    const controller = new AbortController();
    // Each response that waits adds a listener, so many listeners are not a leak.
    setMaxListeners(0, controller.signal);
    return controller;
  };
  let ending = begin();
  return {
    async wait(milliseconds: number): Promise<void> {
      if (!ending.signal.aborted) await sleep(milliseconds, ending.signal).catch(() => {});
    },
    /** Ends all waits at once, and later ones until `resume`: something waits for these requests. */
    end: () => ending.abort(),
    resume: () => {
      ending = begin();
    },
  };
}

/** Milliseconds, uniformly distributed. */
export type Latency = NonNullable<FaultSettings['latency']>;

/** The random fault of one request. `latency` is in milliseconds. */
export type RandomFault = { latency: number; fails: boolean };

/** The fault of the nth request. The same seed and `n` give the same fault on every machine. */
export const drawFault = ({ latency, failRate = 0, seed }: FaultOptions, n: number): RandomFault => ({
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
