import { hash } from 'node:crypto';
import { parseInt64 } from '../contract/int64.ts';

const TAG_LENGTH = 16;

/** An opaque cursor (design D1): the id that the next page follows, behind a tag so that only this store's are taken. */
export const encodeCursor = (after: bigint, secret: string): string =>
  hash('sha256', `${secret}${after}`, 'base64url').slice(0, TAG_LENGTH) + after;

/** The id behind a cursor, or undefined for one that this store did not make. */
export function decodeCursor(cursor: string, secret: string): bigint | undefined {
  const after = parseInt64(cursor.slice(TAG_LENGTH));
  return after !== undefined && encodeCursor(after, secret) === cursor ? after : undefined;
}
