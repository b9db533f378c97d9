import * as z from 'zod/mini';
import { int64Text } from '../../contract/int64.ts';
import { describeIssues } from '../../contract/issues.ts';

/** An invalid value. The message says what the value must be; the caller adds the name of the argument. */
export class ArgumentError extends Error {}

/** Returns a parser that accepts what a schema of the contract accepts, so that the service would accept it too. */
export function parseWith<Schema extends z.ZodMiniType>(schema: Schema): (text: string) => z.output<Schema> {
  return (text) => {
    const result = z.safeParse(schema, text);
    if (!result.success) throw new ArgumentError(describeIssues(result.error));
    return result.data;
  };
}

/** Returns a parser that accepts one of these words. */
export const oneOf = <Word extends string>(words: readonly Word[]): ((text: string) => Word) =>
  parseWith(z.enum(words, { error: `must be one of ${words.join(', ')}` }));

const parseInRange = parseWith(int64Text);

/** Parses a signed 64-bit integer. The error mentions the range only if the text is an integer. */
export function parseInt64Argument(text: string): bigint {
  if (!/^-?\d+$/.test(text)) throw new ArgumentError('must be a whole number');
  return parseInRange(text);
}

/** About 12 days. In milliseconds it is below 2^31, where setTimeout overflows. */
const MAX_SECONDS = 1_000_000;

/** Returns a parser for a number of seconds with up to three decimals. */
export function seconds(min: number): (text: string) => number {
  return (text) => {
    if (!/^\d{1,7}(\.\d{1,3})?$/.test(text) || Number(text) < min || Number(text) > MAX_SECONDS) {
      throw new ArgumentError(`must be a number of seconds from ${min} to ${MAX_SECONDS}`);
    }
    return Number(text);
  };
}

/** Returns a parser for a whole number within bounds. */
export function integer(min: number, max: number): (text: string) => number {
  return (text) => {
    if (!/^\d{1,16}$/.test(text) || Number(text) < min || Number(text) > max) {
      throw new ArgumentError(`must be an integer from ${min} to ${max}`);
    }
    return Number(text);
  };
}
