import { createHash } from 'node:crypto';
import * as z from 'zod/mini';
import { API_PREFIX, errorCodes, type OperationName, operations } from '../contract/api.ts';
import { MAX_RETRY_AFTER, possibleStatuses, RETRYABLE_STATUSES, type RequestedMock } from './mocks.ts';
import { integerSchema } from './request/input.ts';

/** The longest latency that can be injected, in milliseconds. */
const MAX_LATENCY = 600_000;
const MAX_TIMES = 1_000_000;

const names = Object.keys(operations) as OperationName[];
const methods = [...new Set(names.map((name) => operations[name].method))];
const paths = [...new Set(names.map((name) => API_PREFIX + operations[name].path))];
const statuses = [...new Set(names.flatMap(possibleStatuses))].sort((a, b) => a - b);

/** An object in which unknown fields are errors, because a rule with a misspelled field would not do what it should. */
const strictObject = <Shape extends z.core.$ZodShape>(shape: Shape) =>
  z.strictObject(shape, {
    error: (issue) =>
      issue.code === 'unrecognized_keys'
        ? `has the unknown field ${JSON.stringify(issue.keys[0]?.slice(0, 50))}; the fields are ${Object.keys(shape).join(', ')}`
        : 'must be a JSON object',
  });

/** The schema of one of these values, which the error message lists. */
const oneOf = <const Value extends string | number>(values: readonly Value[]) =>
  z.literal(values, { error: `must be one of ${values.join(', ')}` });

/** A rule for responses (docs/testing.md). Without `match`, it applies to every operation that can have its answer. */
export const FaultRule = strictObject({
  match: z.optional(strictObject({ method: z.optional(oneOf(methods)), path: z.optional(oneOf(paths)) })),
  answer: z.optional(oneOf(statuses)),
  times: z.optional(integerSchema(1, MAX_TIMES)),
  retryAfter: z.optional(integerSchema(1, MAX_RETRY_AFTER, 'a whole number of seconds')),
  latency: z.optional(integerSchema(0, MAX_LATENCY, 'a whole number of milliseconds')),
}).check(
  z.refine(({ answer, latency }) => answer !== undefined || latency !== undefined, {
    error: 'must have an answer or a latency',
  }),
  z.refine(({ answer, retryAfter }) => retryAfter === undefined || RETRYABLE_STATUSES.includes(answer ?? 0), {
    path: ['retryAfter'],
    error: `can be used only with the answer ${RETRYABLE_STATUSES.join(' or ')}`,
  }),
  z.refine((rule) => names.some((name) => matches(rule, name)), {
    error:
      'matches no operation; check its method and path, and its answer (201 is only for POST /v1/pets, and 200 only for the others)',
  }),
);
/** `times`: how many requests the rule applies to; `retryAfter` is in seconds, and `latency` in milliseconds. */
export type FaultRule = z.output<typeof FaultRule>;

/** The body of `PUT /faults` and the file of `--faults`: an array. It becomes the field `rules`, so errors say `rule 2`. */
export const FaultRules = z.pipe(
  z.transform((rules: unknown) => ({ rules })),
  z.object({ rules: z.array(FaultRule, { error: 'must be a JSON array without an object around it' }) }),
);

/** The random faults: a latency in this range, in milliseconds, and the share of requests that fail, from 0 to 1. */
type RandomFaults = {
  latency?: { min: number; max: number } | undefined;
  failRate?: number | undefined;
  seed: number;
};

/** The faults of the service at its start. */
export type FaultOptions = RandomFaults & { rules?: readonly FaultRule[] | undefined };

/** What happens to a request. `latency` is in milliseconds. */
type Fault = { latency: number | undefined; mock: RequestedMock | undefined };

export type Faults = ReturnType<typeof createFaults>;

/** The faults that the service injects. They can be changed while the service runs (docs/testing.md). */
export function createFaults({ rules: initial = [], ...options }: FaultOptions = { seed: 0 }) {
  let lastNumber = 0;
  let random: RandomFaults = options;
  let rules = initial.map(withNumber);
  let requests = 0;

  /** Adds to a rule its number in this run of the service, and the count of requests to which it was applied. */
  function withNumber(rule: FaultRule) {
    return { ...rule, number: ++lastNumber, applied: 0 };
  }

  return {
    /**
     * Returns the random fault of the next request. Must be called once for each request that can get faults, in the
     * order of their arrival, because the faults depend on this order.
     */
    nextRandom: (): Fault => drawFault(random, requests++),

    /** Returns what the first matching rule that is not used up does, and counts its use; undefined without such a rule. */
    applyRule(operation: OperationName): (Fault & { number: number }) | undefined {
      const rule = rules.find((candidate) => hasUsesLeft(candidate) && matches(candidate, operation));
      if (rule === undefined) return undefined;
      rule.applied++;
      const { answer: status, retryAfter, latency, number } = rule;
      const mock = status === undefined ? undefined : { status, retryAfter, source: `fault rule ${number}` };
      return { number, latency, mock };
    },

    /** Replaces all faults, the random ones too, with rules. */
    replace(others: readonly FaultRule[]): void {
      random = { seed: random.seed };
      rules = others.map(withNumber);
    },

    /** Adds a rule before the others, so it decides about the next request that it matches. Drops used-up rules. */
    add(rule: FaultRule): void {
      rules = [withNumber(rule), ...rules.filter(hasUsesLeft)];
    },

    /** Removes the rule with a number. Returns whether it existed. */
    remove(number: number): boolean {
      const before = rules.length;
      rules = rules.filter((rule) => rule.number !== number);
      return rules.length < before;
    },

    /** The current faults. Each rule has its number, and how many requests it has applied to. */
    current: () => ({ ...random, rules }),
  };
}

const hasUsesLeft = ({ times, applied }: FaultRule & { applied: number }): boolean =>
  times === undefined || applied < times;

/** Whether a rule can apply to an operation. HEAD is handled like GET. */
function matches({ match = {}, answer }: Pick<FaultRule, 'match' | 'answer'>, name: OperationName): boolean {
  const { method, path } = operations[name];
  const isMatched =
    (match.method ?? method) === method && (match.path ?? API_PREFIX + path) === API_PREFIX + path;
  return isMatched && (answer === undefined || possibleStatuses(name).includes(answer));
}

/** The random fault of request `n`, from 0. It is the same on every machine, because it depends only on the arguments. */
export const drawFault = ({ latency, failRate = 0, seed }: RandomFaults, n: number): Fault => ({
  latency: latency && Math.round(latency.min + draw(seed, n, 'latency') * (latency.max - latency.min)),
  mock: failRate > 0 && draw(seed, n, 'failure') < failRate ? RANDOM_FAILURE : undefined,
});

const RANDOM_FAILURE: RequestedMock = {
  status: errorCodes.injected_fault,
  source: 'the fail rate chose this request',
};

/** A number from 0 to below 1, uniformly distributed. */
function draw(seed: number, n: number, purpose: string): number {
  return createHash('sha256').update(`${seed} ${n} ${purpose}`).digest().readUIntBE(0, 6) / 2 ** 48;
}
