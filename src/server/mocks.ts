import { readFileSync } from 'node:fs';
import { type ErrorCode, errorCodes, type OperationName, operations } from '../contract/api.ts';
import { header } from '../contract/headers.ts';
import { parseJson, stringifyJson } from '../contract/json.ts';
import { type PetStatus, petJson } from '../contract/schemas.ts';
import type { RateLimitDecision } from '../store/limiter.ts';
import type { Seed } from '../store/store.ts';
import { invalidRequest, ServiceError, tooManyRequests, unauthorized } from './errors.ts';
import { type ServiceResponse, windowHeaders } from './response.ts';

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

export const MAX_RETRY_AFTER = 1_000_000;
/** The statuses for which a Retry-After can be requested. */
export const RETRYABLE_STATUSES: readonly number[] = [errorCodes.rate_limited, errorCodes.unavailable];

const errorStatuses: readonly number[] = [...new Set(Object.values(errorCodes))];

export const possibleStatuses = (operation: OperationName): number[] => [
  operations[operation].success.status,
  ...errorStatuses,
];

const NAME_AND_VALUE = /^\s*([^\s=;"]+)\s*(?:=\s*"?([^\s;"]*))?/;

/** The values of the preferences in a `Prefer` header by their names, which are in lower case (RFC 7240). */
const preferencesIn = (prefer: string): Map<string, string> =>
  new Map(
    prefer.split(',').map((text) => {
      const [, name = '', value = ''] = NAME_AND_VALUE.exec(text) ?? [];
      return [name.toLowerCase(), value];
    }),
  );

/** Preferences that people try instead of `code`, or of a fault rule with a latency. */
const MISTAKEN = ['status', 'error', 'latency', 'delay'];

/** Reads `Prefer: code=429, retry-after=1` (docs/testing.md); undefined without `code`. @throws ServiceError 400 */
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
  const others = names.includes('code') ? ['code', 'retry-after'] : MISTAKEN;
  return names.filter((name) => !others.includes(name)).join(', ');
}

const toInteger = (text: string): number => (/^[1-9]\d*$/.test(text) ? Number(text) : Number.NaN);

/**
 * Returns an example of the operation's response with a status, without running the operation. `allow` lists the methods of
 * its path.
 *
 * @throws ServiceError 400 if the status is not possible, or if `retryAfter` is invalid or not possible with the status
 */
export function mockResponse(
  { status, retryAfter, source }: RequestedMock,
  operation: OperationName,
  { allow }: { allow: string },
  rateLimit: RateLimitDecision,
): ServiceResponse {
  const possible = possibleStatuses(operation);
  if (!possible.includes(status))
    throw invalidRequest(
      `${source} is not supported for this operation. Use one of the codes ${possible.join(', ')}`,
    );
  if (retryAfter !== undefined && !(retryAfter <= MAX_RETRY_AFTER && RETRYABLE_STATUSES.includes(status)))
    throw invalidRequest(
      `${source} is not supported. Use retry-after with 1 to ${MAX_RETRY_AFTER} seconds and code=${RETRYABLE_STATUSES.join(' or code=')}`,
    );
  const name = errorNames.find((code) => errorCodes[code] === status);
  const message = `Mocked response (${source})`;
  const wait = retryAfter === undefined ? [] : [header.retryAfter, String(retryAfter)];
  switch (name) {
    case undefined:
      return {
        status,
        headers: operation === 'listPets' ? windowHeaders(rateLimit) : [],
        body: examples[operation](),
      };
    case 'unauthorized':
      return unauthorized(message);
    case 'method_not_allowed':
      return new ServiceError(name, message, [header.allow, allow]);
    case 'rate_limited':
      return new ServiceError(name, message, tooManyRequests(rateLimit).headers);
    default:
      return new ServiceError(name, message, wait);
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

type SampleData = {
  pets: { id: number; name: string; categoryId: number; status: PetStatus }[];
  orders: { placedAt: string }[];
};

const MINUTE = 60_000;

/**
 * The sample data of `pets serve --seed`: animals of every status in several categories, and orders of two weeks.
 *
 * @param now in milliseconds since the epoch; moves all orders, so that the last one is in this minute
 */
export function sampleData(now?: number): Seed {
  const text = readFileSync(new URL('sample-data.json', import.meta.url), 'utf8');
  const { pets, orders } = parseJson(text) as SampleData;
  const last = Date.parse(orders.at(-1)?.placedAt ?? '');
  const later = now === undefined ? 0 : Math.floor(now / MINUTE) * MINUTE - last;
  return {
    pets: pets.map((pet) => ({ ...pet, id: BigInt(pet.id), categoryId: BigInt(pet.categoryId) })),
    orders: orders.map((order) => ({
      ...order,
      placedAt: new Date(Date.parse(order.placedAt) + later).toISOString(),
    })),
  };
}
