import { hash, timingSafeEqual } from 'node:crypto';

const ID_BYTES = 8;
const TAG_BYTES = 12;

/** An opaque cursor (design D1): the id that the next page follows, with a tag so that only this store's are taken. */
export function encodeCursor(after: bigint, secret: string): string {
  const bytes = Buffer.allocUnsafe(ID_BYTES + TAG_BYTES);
  bytes.writeBigInt64BE(after);
  bytes.write(tag(after, secret), ID_BYTES, 'hex');
  return bytes.toString('base64url');
}

/** The id behind a cursor, or undefined for one that this store did not make. */
export function decodeCursor(cursor: string, secret: string): bigint | undefined {
  const bytes = Buffer.from(cursor, 'base64url');
  // Node skips characters that are no base64url: only the one spelling counts.
  if (bytes.length !== ID_BYTES + TAG_BYTES || bytes.toString('base64url') !== cursor) return undefined;
  const after = bytes.readBigInt64BE();
  return timingSafeEqual(bytes.subarray(ID_BYTES), Buffer.from(tag(after, secret), 'hex'))
    ? after
    : undefined;
}

/** In hexadecimal. Far less of the digest than would let somebody hash on from where it ends. */
function tag(after: bigint, secret: string): string {
  return hash('sha256', `${secret}${after}`).slice(0, 2 * TAG_BYTES);
}
