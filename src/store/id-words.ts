/** The upper 32 bits of an int64; a number is exact. */
export const highWord = (id: number | bigint): number =>
  typeof id === 'number' ? Math.floor(id / 2 ** 32) : Number(BigInt.asIntN(32, id >> 32n));

/** The lower 32 bits of an int64; a number is exact. */
export const lowWord = (id: number | bigint): number =>
  typeof id === 'number' ? id >>> 0 : Number(BigInt.asUintN(32, id));

/** The int64 of two words. */
export const idOf = (high: number, low: number): bigint =>
  BigInt.asIntN(64, (BigInt(high) << 32n) | BigInt(low));
