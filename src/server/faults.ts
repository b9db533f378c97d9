import { createHash } from 'node:crypto';
import * as z from 'zod/mini';
import { type ErrorCode, errorCodes } from '../contract/error-codes.ts';
import { header } from '../contract/headers.ts';
import { decimalToNumber, stringifyJson } from '../contract/json.ts';
import { type OperationName, operationPaths, operations } from '../contract/operations.ts';
import { petJson } from '../contract/schemas.ts';
import type { RateLimitDecision } from '../store/limits/limiter.ts';
import { invalidRequest, methodNotAllowed, ServiceError, tooManyRequests, unauthorized } from './errors.ts';
import { type ServiceResponse, windowHeaders } from './response.ts';
import { allMethodsHeader, matchSegments, operationEntries, type Params, segmentsOf } from './routes.ts';
import { sampleData } from './sample-data.ts';

/** The longest latency that can be injected, in milliseconds. */
export const MAX_LATENCY = 600_000;

/** The longest Retry-After that can be requested, in seconds. */
const MAX_RETRY_AFTER = 1_000_000;
/** The statuses for which a Retry-After can be requested. */
const RETRYABLE_STATUSES: readonly number[] = [errorCodes.rate_limited, errorCodes.unavailable];

const errorStatuses: readonly number[] = [...new Set(Object.values(errorCodes))];

/** The statuses that a mocked response of an operation can have. */
const statusesOf = (operation: OperationName): number[] => [
  operations[operation].success.status,
  ...errorStatuses,
];

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
type Match = z.output<typeof Match>;

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

/** The faults of the service. The random ones depend on `seed`. */
export type FaultOptions = FaultSettings & { seed: number };

/** A response that a `Prefer` header, a fault rule or `--fail-rate` asks for, instead of running the operation. */
export type RequestedMock = {
  /** NaN if a `Prefer` header gives no positive integer. */
  status: number;
  /** The value of Retry-After, in seconds; NaN if a `Prefer` header gives no positive integer for it. */
  retryAfter?: number | undefined;
  /** What requested it; quoted in the message and in the log, such as `Prefer: code=503` or `fault rule 3`. */
  source: string;
  /** The value of Preference-Applied; undefined unless a `Prefer` header asks for the response. */
  applied?: string;
};

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

/**
 * The operations that a rule can apply to, each with the path parameters in the path of the rule. If `answer` is a
 * success status, only operations with that status match.
 */
function operationsAt({ method, path }: Match = {}, answer?: number): Map<OperationName, Params> {
  const found = new Map<OperationName, Params>();
  for (const each of operationEntries) {
    const params = path === undefined ? {} : matchSegments(segmentsOf(each.path), segmentsOf(path));
    const hasMethod = method === undefined || each.method === (method === 'HEAD' ? 'GET' : method);
    const hasAnswer = answer === undefined || statusesOf(each.name).includes(answer);
    if (params && hasMethod && hasAnswer) found.set(each.name, params);
  }
  return found;
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

/** The preferences in a `Prefer` header, which are separated by commas outside of quotes (RFC 7240). */
const PREFERENCE = /(?:[^,"]|"(?:[^"\\]|\\.)*"?)+/g;
const NAME_AND_VALUE = /^\s*([^\s=;"]+)\s*(?:=\s*"?([^\s;"]*))?/;

/** The values of preferences by their names, which are in lower case. */
const preferencesIn = (prefer: string): Map<string, string> =>
  new Map(
    (prefer.match(PREFERENCE) ?? []).map((text) => {
      const [, name = '', value = ''] = NAME_AND_VALUE.exec(text) ?? [];
      return [name.toLowerCase(), value];
    }),
  );

/** Preferences that people try instead of `code`, or of a fault rule with a latency. */
const MISTAKEN = ['status', 'error', 'latency', 'delay'];

/**
 * Reads `Prefer: code=429, retry-after=1` (docs/testing.md). Returns undefined if the header has no `code`.
 *
 * @throws ServiceError 400 if the header has another preference that people try instead
 */
export function parsePrefer(prefer: string): RequestedMock | undefined {
  const preferences = preferencesIn(prefer);
  const [code, wait] = [preferences.get('code'), preferences.get('retry-after')];
  const mistaken = MISTAKEN.find((name) => preferences.has(name));
  if (code === undefined && mistaken !== undefined)
    throw invalidRequest(
      `Prefer: ${mistaken}=… is not supported. Use Prefer: code=503, or code=429, retry-after=1; for delays, use a fault rule with a latency`,
    );
  if (code === undefined) return undefined;
  const applied = wait === undefined ? `code=${code}` : `code=${code}, retry-after=${wait}`;
  return {
    status: toInteger(code),
    retryAfter: wait === undefined ? undefined : toInteger(wait),
    source: `${header.prefer}: ${applied}`,
    applied,
  };
}

/** The names of the preferences in a `Prefer` header that have no effect, separated by commas. */
export function ignoredPreferences(prefer: string): string {
  const names = [...preferencesIn(prefer).keys()].filter((name) => name !== '');
  const known = names.includes('code') ? ['code', 'retry-after'] : MISTAKEN;
  return names.filter((name) => !known.includes(name)).join(', ');
}

const toInteger = (text: string): number => (/^[1-9]\d*$/.test(text) ? Number(text) : Number.NaN);

/**
 * Returns an example of the operation's response with a status, without running the operation. `path` is the one that was
 * requested, and `allow` lists its methods.
 *
 * @throws ServiceError 400 if the status is not possible, or if `retryAfter` is invalid or not possible with the status
 */
export function mockResponse(
  { status, retryAfter, source }: RequestedMock,
  operation: OperationName,
  { path, allow, rateLimit }: { path: string; allow: string; rateLimit: RateLimitDecision },
): ServiceResponse {
  const possible = statusesOf(operation);
  if (!possible.includes(status))
    throw invalidRequest(
      `${source} is not supported for this operation. Use one of the codes ${possible.join(', ')}`,
    );
  if (retryAfter !== undefined && !(retryAfter <= MAX_RETRY_AFTER && RETRYABLE_STATUSES.includes(status)))
    throw invalidRequest(
      `${source} is not supported. Use retry-after with 1 to ${MAX_RETRY_AFTER} seconds and code=${RETRYABLE_STATUSES.join(' or code=')}`,
    );
  const name = errorNames.find((each) => errorCodes[each] === status);
  switch (name) {
    case undefined:
      return {
        status,
        headers: operation === 'listPets' ? windowHeaders(rateLimit) : [],
        body: examples[operation](),
      };
    case 'unauthorized':
      return unauthorized(`Mocked response (${source})`);
    case 'method_not_allowed':
      return methodNotAllowed(path, allow);
    case 'rate_limited':
      return tooManyRequests(rateLimit);
    default:
      return new ServiceError(
        name,
        `Mocked response (${source})`,
        retryAfter === undefined ? [] : [header.retryAfter, String(retryAfter)],
      );
  }
}

const errorNames = Object.keys(errorCodes) as ErrorCode[];

const petTexts = () => sampleData().pets.map(petJson);

const examples: Record<OperationName, () => string> = {
  listPets: () => `[${petTexts().slice(0, 2).join(',')}]`,
  createPet: () => petTexts()[0] ?? '',
  getPet: () => petTexts()[0] ?? '',
  listOrders: () => stringifyJson(sampleData().orders.slice(0, 2)),
};
