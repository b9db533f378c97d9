import type { OperationName } from '../contract/api.ts';
import type { Faults, LoggedRequest } from './text.ts';

export type Rule = Faults['rules'][number];
type Match = NonNullable<Rule['match']>;
/** A rule as a user adds it. */
export type NewRule = Pick<Rule, 'match' | 'answer' | 'times' | 'retryAfter' | 'latency'>;

/** The requests that a rule can match, by the names of their operations. */
export const operations: Readonly<Record<string, Required<Match>>> = {
  listPets: { method: 'GET', path: '/v1/pets' },
  createPet: { method: 'POST', path: '/v1/pets' },
  getPet: { method: 'GET', path: '/v1/pets/{petId}' },
  listOrders: { method: 'GET', path: '/v1/store/orders' },
} satisfies Record<OperationName, Required<Match>>;

/** The statuses that the form offers. */
export const statuses = [400, 401, 404, 408, 409, 410, 422, 429, 500, 503];

/** The seconds in the Retry-After of a rule that the page adds for 429 or 503. */
const RETRY_AFTER = 2;

/**
 * A rule for an operation, or for all of them without `match`. `answer` is undefined if the request is carried out;
 * `seconds` is its delay; `times` is undefined if the rule applies to all requests.
 */
export const newRule = (match: Match | undefined, answer?: number, seconds = 0, times?: number): NewRule => ({
  ...(match && { match }),
  ...(answer !== undefined && { answer }),
  ...((answer === 429 || answer === 503) && { retryAfter: RETRY_AFTER }),
  ...((seconds !== 0 || answer === undefined) && { latency: Math.round(seconds * 1_000) }),
  ...(times !== undefined && { times }),
});

/** The rules for the next request that matches, by the labels of their buttons in the details of a request. */
export const nextFaults = (match: Match): Readonly<Record<string, NewRule>> => ({
  'Fail next with 503': newRule(match, 503, 0, 1),
  'Fail next with 429': newRule(match, 429, 0, 1),
  'Delay next by 3 s': newRule(match, undefined, 3, 1),
});

/** The `match` of a rule for requests with the operation of this one; undefined if no rule can match them. */
export const matchOf = ({ operation = '' }: Pick<LoggedRequest, 'operation'>): Match | undefined =>
  Object.hasOwn(operations, operation) ? operations[operation] : undefined;

/** Whether a fault can still affect a request. */
export const areFaultsActive = ({ latency, failRate = 0, rules }: Faults): boolean =>
  latency !== undefined || failRate > 0 || rules.some((rule) => !isUsedUp(rule));

export const isUsedUp = ({ times, applied }: Rule): boolean => times !== undefined && applied >= times;

export const matchLabel = ({ method, path }: Match = {}): string =>
  [method, path].filter(Boolean).join(' ') || 'every request';

export function describeEffect({ answer, retryAfter, latency }: Partial<Rule>): string {
  const retry = retryAfter === undefined ? '' : `, Retry-After ${retryAfter} s`;
  const delay = latency === undefined ? '' : `takes ${latency / 1_000} s longer`;
  return [delay, answer && `gets ${answer}${retry}`].filter(Boolean).join(' and ');
}

/** Formats a range of milliseconds in seconds, such as `0.1 to 0.3 s`. */
export const formatLatency = ({ min, max }: { min: number; max: number }): string =>
  min === max ? `${min / 1_000} s` : `${min / 1_000} to ${max / 1_000} s`;
