import * as z from 'zod/mini';
import { int64Text } from '../contract/int64.ts';
import { describeIssues } from '../contract/issues.ts';

/** What an argument must be; program.ts says which argument it was. */
export class ArgumentError extends Error {}

/** Reads an argument by a schema of the contract, so that the command line refuses just what the service would. */
export function by<Schema extends z.ZodMiniType>(schema: Schema): (text: string) => z.output<Schema> {
  return (text) => {
    const result = z.safeParse(schema, text);
    if (!result.success) throw new ArgumentError(describeIssues(result.error));
    return result.data;
  };
}

/** One of these words. */
export const oneOf = <Word extends string>(words: readonly Word[]): ((text: string) => Word) =>
  by(z.enum(words, { error: `must be one of ${words.join(', ')}` }));

const readInt64 = by(int64Text);

/** An int64; the bounds are told only to who has written a number. */
export function int64Argument(text: string): bigint {
  if (!/^-?\d+$/.test(text)) throw new ArgumentError('must be a whole number');
  return readInt64(text);
}

/** Longer than any wait makes sense, and below what overflows a timer into an immediate one. */
const MAX_SECONDS = 1_000_000;

/** A number of seconds: digits, perhaps a fraction. */
export function seconds(min: number): (text: string) => number {
  return (text) => {
    if (!/^\d{1,7}(\.\d{1,3})?$/.test(text) || Number(text) < min || Number(text) > MAX_SECONDS) {
      throw new ArgumentError(`must be a number of seconds from ${min} to ${MAX_SECONDS}`);
    }
    return Number(text);
  };
}

/** A whole number within bounds. */
export function integer(min: number, max: number): (text: string) => number {
  return (text) => {
    if (!/^\d{1,16}$/.test(text) || Number(text) < min || Number(text) > max) {
      throw new ArgumentError(`must be an integer from ${min} to ${max}`);
    }
    return Number(text);
  };
}
