const FORM = /^v1([0-9a-f]{16})$/;

/**
 * The cursor of the page after the animal with id `after` (docs/service.md, D1): the version of the format, then the id
 * as 64 bits in hexadecimal. Clients must not interpret a cursor, so a later version can change the format.
 */
export const encodeCursor = (after: bigint): string =>
  `v1${BigInt.asUintN(64, after).toString(16).padStart(16, '0')}`;

/** The id in a cursor; undefined if the text does not have the form of a cursor. */
export function decodeCursor(cursor: string): bigint | undefined {
  const digits = FORM.exec(cursor)?.[1];
  return digits === undefined ? undefined : BigInt.asIntN(64, BigInt(`0x${digits}`));
}
