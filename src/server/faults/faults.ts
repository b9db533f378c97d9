import type { RouteMatch } from '../route-match.ts';
import type { FaultSettings } from './fault-settings.ts';
import type { MockRequest } from './mock-response.ts';
import { drawFault, drawLatency, type RandomFault } from './random-fault.ts';
import { createRuleMatcher } from './rule-match.ts';

/** The faults of the service. The random ones depend on `seed`. */
export type FaultOptions = FaultSettings & { seed: number };

/** What a rule does to a request. */
export type RuleFault = {
  /** The position of the rule, from 1. */
  number: number;
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
    applyRule(method: string, route: Pick<RouteMatch, 'operation' | 'params'>): RuleFault | undefined {
      const rule = rules.find(
        ({ setting: { times }, applied, matches }) =>
          (times === undefined || applied < times) && matches(method, route),
      );
      if (rule === undefined) return undefined;
      const { answer, retryAfter, latency } = rule.setting;
      const n = rule.applied++;
      const number = rules.indexOf(rule) + 1;
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
      ({ options, rules } = prepare({ ...settings, seed: settings.seed ?? options.seed }));
    },

    /** The current settings, with the number of times that each rule has applied. */
    current: () => ({
      ...options,
      rules: rules.map(({ setting, applied }) => ({ ...setting, applied })),
    }),
  };
}

const prepare = (options: FaultOptions) => ({
  options,
  rules: (options.rules ?? []).map((setting) => ({
    setting,
    applied: setting.applied ?? 0,
    matches: createRuleMatcher(setting),
  })),
});
