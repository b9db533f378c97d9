import { createHmac, timingSafeEqual } from 'node:crypto';

const ID_BYTES = 8;
const TAG_BYTES = 12;

/** An opaque cursor (design D1): the id that the next page follows, signed so that only this store's are taken. */
export function encodeCursor(after: bigint, secret: string): string {
  const id = Buffer.alloc(ID_BYTES);
  id.writeBigInt64BE(after);
  return Buffer.concat([id, tag(id, secret)]).toString('base64url');
}

/** The id behind a cursor, or undefined for one that this store did not make. */
export function decodeCursor(cursor: string, secret: string): bigint | undefined {
  const bytes = Buffer.from(cursor, 'base64url');
  // Node skips characters that are no base64url: only the one spelling counts.
  if (bytes.length !== ID_BYTES + TAG_BYTES || bytes.toString('base64url') !== cursor) return undefined;
  const id = bytes.subarray(0, ID_BYTES);
  return timingSafeEqual(bytes.subarray(ID_BYTES), tag(id, secret)) ? id.readBigInt64BE() : undefined;
}

function tag(id: Buffer, secret: string): Buffer {
  return createHmac('sha256', secret).update(id).digest().subarray(0, TAG_BYTES);
}
