import * as z from 'zod/mini';
import { decimalToNumber } from '../../contract/json.ts';
import { allMethods } from '../routes.ts';
import { isPossibleStatus, MAX_RETRY_AFTER, mockableStatuses, RETRYABLE_STATUSES } from './mock-response.ts';
import { matchedOperations } from './rule-match.ts';

/** The longest latency, in milliseconds. */
export const MAX_LATENCY = 600_000;
export const MAX_RULES = 100;
const MAX_TIMES = 1_000_000;

/** Injected faults never affect OPTIONS. */
const methods = allMethods.split(', ').filter((method) => method !== 'OPTIONS');

const integer = (min: number, max: number, what = 'an integer') => {
  const error = `must be ${what} from ${min} to ${max}`;
  return z.int({ error }).check(z.gte(min, { error }), z.lte(max, { error }));
};

/** An object in which unknown fields are errors, because a rule with a misspelled field would never apply. */
const strictObject = <Shape extends z.core.$ZodShape>(shape: Shape, otherwise = 'must be a JSON object') =>
  z.strictObject(shape, {
    error: (issue) =>
      issue.code === 'unrecognized_keys'
        ? `has the unknown field ${JSON.stringify(issue.keys[0]?.slice(0, 50))}; possible are ${Object.keys(shape).join(', ')}`
        : otherwise,
  });

const milliseconds = integer(0, MAX_LATENCY, 'a whole number of milliseconds');
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
  path: z.optional(z.string({ error: 'must be a string' })),
}).check(
  z.refine((match) => matchedOperations(match).size > 0, {
    error: 'must match an operation, such as {"method":"POST","path":"/v1/pets"}',
  }),
);

/** A rule decides the response to some requests (docs/service.md 11). Without `match`, it applies to every operation. */
export const FaultRule = strictObject({
  match: z.optional(Match),
  answer: z.optional(z.literal(mockableStatuses, { error: `must be one of ${mockableStatuses.join(', ')}` })),
  times: z.optional(integer(1, MAX_TIMES)),
  retryAfter: z.optional(integer(1, MAX_RETRY_AFTER, 'a whole number of seconds')),
  latency: z.optional(LatencySetting),
  applied: z.optional(integer(0, Number.MAX_SAFE_INTEGER)),
}).check(
  z.refine(({ answer, latency }) => answer !== undefined || latency !== undefined, {
    error: 'must have an answer or a latency',
  }),
  z.refine(({ answer, retryAfter }) => retryAfter === undefined || RETRYABLE_STATUSES.includes(answer ?? 0), {
    path: ['retryAfter'],
    error: `can be used only with the answer ${RETRYABLE_STATUSES.join(' or ')}`,
  }),
  z.refine(({ match = {}, answer }) => isPossibleAnywhere(match, answer), {
    path: ['answer'],
    error: 'is not the success status of any matched operation',
  }),
);
/** `times`: how many requests the rule applies to; `applied`: how many it has applied to; `retryAfter` is in seconds. */
export type FaultRule = z.output<typeof FaultRule>;

const isPossibleAnywhere = (match: z.output<typeof Match>, answer: number | undefined) =>
  answer === undefined || [...matchedOperations(match).keys()].some((name) => isPossibleStatus(name, answer));

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
  strictObject({
    latency: z.optional(LatencySetting),
    failRate: z.optional(FailRate),
    seed: z.optional(integer(0, Number.MAX_SAFE_INTEGER)),
    rules: z.optional(Rules),
  }),
);
export type FaultSettings = z.output<typeof FaultSettings>;
