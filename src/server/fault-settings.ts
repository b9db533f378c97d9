import * as z from 'zod/mini';
import { decimalToNumber } from '../contract/json.ts';
import { operationPaths } from '../contract/operations.ts';
import { MAX_RETRY_AFTER, operationsAt, RETRYABLE_STATUSES, statusesOf } from './mocks.ts';
import { allMethodsHeader, operationEntries } from './routes.ts';

/** The longest latency that can be injected, in milliseconds. */
export const MAX_LATENCY = 600_000;

const allStatuses = [...new Set(operationEntries.flatMap(({ name }) => statusesOf(name)))].sort(
  (a, b) => a - b,
);

export const MAX_RULES = 100;
const MAX_TIMES = 1_000_000;

/** The methods that a rule can match. Injected faults never affect OPTIONS. */
const methods = allMethodsHeader.split(', ').filter((method) => method !== 'OPTIONS');

/** The schema of an integer. `what` describes it in error messages. */
export const integerSchema = (min: number, max: number, what = 'an integer') => {
  const error = `must be ${what} from ${min} to ${max}`;
  return z.int({ error }).check(z.gte(min, { error }), z.lte(max, { error }));
};

/** The schema of an integer in a query. */
export const queryInteger = (min: number, max: number) =>
  z.pipe(z.transform(Number), integerSchema(min, max));

/** An object in which unknown fields are errors, because a rule with a misspelled field would never apply. */
const strictObject = <Shape extends z.core.$ZodShape>(shape: Shape, otherwise = 'must be a JSON object') =>
  z.strictObject(shape, {
    error: (issue) =>
      issue.code === 'unrecognized_keys'
        ? `has the unknown field ${JSON.stringify(issue.keys[0]?.slice(0, 50))}; the fields are ${Object.keys(shape).join(', ')}`
        : otherwise,
  });

const milliseconds = integerSchema(0, MAX_LATENCY, 'a whole number of milliseconds');
const LatencySetting = z.pipe(
  z.transform((value: unknown) => (typeof value === 'number' ? { min: value, max: value } : value)),
  strictObject(
    { min: milliseconds, max: milliseconds },
    'must be a number of milliseconds, or a range such as {"min":100,"max":300}',
  ).check(z.refine(({ min, max }) => min <= max, { error: 'must not have a min above its max' })),
);

const failRateError = 'must be a number from 0 to 1';
const FailRate = z.pipe(
  z.transform(decimalToNumber),
  z
    .number({ error: failRateError })
    .check(z.gte(0, { error: failRateError }), z.lte(1, { error: failRateError })),
);

const Match = strictObject({
  method: z.optional(z.enum(methods, { error: `must be one of ${methods.join(', ')}` })),
  /** A path under the API prefix. A segment such as `{petId}` matches every value. */
  path: z.optional(z.string({ error: 'must be a string' })),
});

/** A rule for responses (docs/testing.md). Without `match`, it applies to every operation that can have its answer. */
export const FaultRule = strictObject({
  match: z.optional(Match),
  answer: z.optional(z.literal(allStatuses, { error: `must be one of ${allStatuses.join(', ')}` })),
  times: z.optional(integerSchema(1, MAX_TIMES)),
  retryAfter: z.optional(integerSchema(1, MAX_RETRY_AFTER, 'a whole number of seconds')),
  latency: z.optional(LatencySetting),
  applied: z.optional(integerSchema(0, Number.MAX_SAFE_INTEGER)),
  /** Accepted, so that the current settings can be set again; but each rule gets a new number. */
  number: z.optional(integerSchema(1, Number.MAX_SAFE_INTEGER)),
}).check(
  z.refine(({ answer, latency }) => answer !== undefined || latency !== undefined, {
    error: 'must have an answer or a latency',
  }),
  z.refine(({ answer, retryAfter }) => retryAfter === undefined || RETRYABLE_STATUSES.includes(answer ?? 0), {
    path: ['retryAfter'],
    error: `can be used only with the answer ${RETRYABLE_STATUSES.join(' or ')}`,
  }),
  z.refine(({ match, answer }) => operationsAt(match, answer).size > 0, {
    error: `matches no operation; the paths are ${operationPaths}; check also the method, and the answer if there is one (201 is only for POST /v1/pets, and 200 only for the others)`,
  }),
);
/** `times`: how many requests the rule applies to; `applied`: how many it has applied to; `retryAfter` is in seconds. */
export type FaultRule = z.output<typeof FaultRule>;

/** Checks the number of rules before the rules, so that a long list cannot cause a long error. */
const Rules = z.pipe(
  z
    .array(z.unknown(), { error: 'must be a JSON array' })
    .check(z.maxLength(MAX_RULES, { error: `must have at most ${MAX_RULES} rules` })),
  z.array(FaultRule),
);

/** The faults of the service as users set them: an object, or only the array of rules. */
export const FaultSettings = z.pipe(
  z.transform((value: unknown) => (Array.isArray(value) ? { rules: value } : value)),
  strictObject(
    {
      latency: z.optional(LatencySetting),
      failRate: z.optional(FailRate),
      seed: z.optional(integerSchema(0, Number.MAX_SAFE_INTEGER)),
      rules: z.optional(Rules),
    },
    'must be an array of rules, or an object with latency, failRate, seed or rules',
  ),
);
export type FaultSettings = z.output<typeof FaultSettings>;
