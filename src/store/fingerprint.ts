import { hash } from 'node:crypto';
import type { Idempotency } from './store.ts';

/**
 * Identifies a request with an idempotency key: 32 hexadecimal digits of the salted SHA-256 of scope and key, and 32 of
 * the SHA-256 of the body.
 */
export type Fingerprint = { key: string; body: string };

/** The secret `salt` keeps clients from choosing two keys with the same digits. */
export function fingerprintOf({ scope, key, bodyHash }: Idempotency, salt: string): Fingerprint {
  // Without the length, two pairs of scope and key could have the same text. UTF-16 keeps unpaired surrogates distinct.
  const name = Buffer.from(`${salt}${scope.length}:${scope}${key}`, 'utf16le');
  return { key: hash('sha256', name).slice(0, 32), body: bodyHash.slice(0, 32) };
}
