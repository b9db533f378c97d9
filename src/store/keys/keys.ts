import { hash, randomBytes } from 'node:crypto';
import * as z from 'zod/mini';
import { describeIssues, fieldError } from '../../contract/issues.ts';
import { MAX_QUOTA, PlanName, plans, type Quota } from '../../contract/plans.ts';
import { KeyNotFoundError, StoreError, StoreRequestError } from '../errors.ts';
import { Instant, Sha256 } from '../stored-json.ts';

const quota = z.optional(
  z.custom<number>(
    (value) => Number.isSafeInteger(value) && Number(value) >= 1 && Number(value) <= MAX_QUOTA,
    fieldError('must be an integer from 1 to 10^15'),
  ),
);
export const KeyName = z
  .string(fieldError('must be a string'))
  .check(
    z.regex(
      /^[a-z0-9][a-z0-9._-]{0,63}$/,
      'must have 1 to 64 characters (a-z, 0-9, dot, dash, underscore) and begin with a letter or digit',
    ),
  );

const hasBothOrNoQuota = (key: { perMinute?: number | undefined; perDay?: number | undefined }) =>
  (key.perMinute === undefined) === (key.perDay === undefined);

const NewKey = z.object({ name: KeyName, plan: PlanName, perMinute: quota, perDay: quota }).check(
  z.refine((key) => key.plan === 'enterprise' || (key.perMinute ?? key.perDay) === undefined, {
    path: ['plan'],
    error: 'must be enterprise for a key with its own quota',
  }),
  z.refine(hasBothOrNoQuota, { error: 'a quota needs both requests per minute and requests per day' }),
);

/** An API key as a store keeps it: only a hash of the key. `created` is an ISO 8601 time. */
export type StoredKey = z.infer<typeof StoredKey>;
export const StoredKey = z.extend(z.object(NewKey.shape, fieldError('must be a JSON object')), {
  sha256: Sha256,
  created: Instant,
});

/** Only enterprise keys can have their own `quota`. `key` is generated if it is missing. */
export type KeyRequest = { name: string; plan: PlanName; quota?: Quota | undefined; key?: string };

/** A new key. `key` cannot be recovered later. */
export type CreatedKey = { name: string; plan: PlanName; quota: Quota; key: string };

/** An API key with 256 random bits. The prefix lets secret scanners recognize it. */
export const generateKey = (): string => `pets_${randomBytes(32).toString('base64url')}`;

/** The SHA-256 of an API key in hexadecimal. */
export const hashKey = (key: string): string => hash('sha256', key);

/** The API key's own quota if it has one, otherwise the quota of its plan. */
export function quotaOf(key: Pick<StoredKey, 'plan' | 'perMinute' | 'perDay'>): Quota {
  const { perMinute, perDay } = plans[key.plan];
  return { perMinute: key.perMinute ?? perMinute, perDay: key.perDay ?? perDay };
}

/**
 * Checks the request for a new API key, and generates the key if it is missing. `now` is in milliseconds since 1970.
 *
 * @throws StoreRequestError if the request is not valid
 */
export function makeKey(
  { name, plan, quota: ownQuota, key = generateKey() }: KeyRequest,
  now: number,
): { created: CreatedKey; stored: StoredKey } {
  const parsed = NewKey.safeParse({ name, plan, ...ownQuota });
  if (!parsed.success) {
    throw new StoreRequestError(
      `cannot create the key: ${describeIssues(parsed.error)}`,
      'see: pets help keys add',
    );
  }
  const stored = { ...parsed.data, sha256: hashKey(key), created: new Date(now).toISOString() };
  return { created: { name, plan, quota: quotaOf(stored), key }, stored };
}

export const keyExistsError = (name: string): StoreError =>
  new StoreError(`a key named ${name} already exists`, 'choose another name, or revoke that key first');

/** The error if no key has the name. `names` are the names of all keys. */
export function keyNotFoundError(name: string, names: readonly string[]): KeyNotFoundError {
  const hint = names.length > 0 ? `existing keys: ${names.join(', ')}` : 'the store has no keys';
  return new KeyNotFoundError(`there is no key named ${JSON.stringify(name)}`, hint);
}
