import { isLosslessNumber, LosslessNumber, parse, stringify } from 'lossless-json';
import * as z from 'zod/mini';

/** A schema option that sets the message for an invalid value. The message for a missing value is `is required`. */
export const fieldError = (message: string) => ({
  error: (issue: { input?: unknown }) => (issue.input === undefined ? 'is required' : message),
});

/**
 * Formats validation errors on one line: `categoryId is required; status must be one of …`. `whole` is the name of the
 * value itself, for an error that concerns no single field.
 */
export const describeIssues = ({ issues }: Pick<z.core.$ZodError, 'issues'>, whole?: string): string =>
  issues
    .map(({ path, message }) => [path.length > 0 ? nameOf(path) : whole, message].filter(Boolean).join(' '))
    .join('; ');

/** Names a value: `match.path`, or `rule 2: match.path` if it is in the second element of `rules`. */
function nameOf(path: readonly PropertyKey[]): string {
  const [list, index, ...rest] = typeof path[0] === 'number' ? ['elements', ...path] : path;
  if (typeof list !== 'string' || typeof index !== 'number') return path.map(String).join('.');
  const element = `${list.replace(/s$/, '')} ${index + 1}`;
  return rest.length === 0 ? element : `${element}: ${rest.map(String).join('.')}`;
}

// Numbers that JSON.parse may change: those with 16 digits or more, a fraction or an exponent, and minus zero. A match
// inside a string does no harm: the slower parser returns the same value.
const INEXACT = /\d(?:\d{15}|[.eE])|-0(?!\d)/;

/** The default limit of nesting levels, checked before parsing, because lossless-json could overflow the stack. */
const MAX_DEPTH = 500;

/** The text may be JSON, but has too many nesting levels to be parsed. */
export class NestingError extends SyntaxError {}

/**
 * Parses JSON without losing digits: a safe integer becomes a `number`, another integer a `bigint`. Minus zero and
 * numbers with a fraction or an exponent become a `LosslessNumber`, which keeps its text. If an object has duplicate
 * names, the last one wins, as with JSON.parse.
 *
 * @throws SyntaxError if the text is not JSON, or NestingError if it is nested deeper than `maxDepth`
 */
export function parseJson(text: string, maxDepth = MAX_DEPTH): unknown {
  if (isDeeperThan(text, maxDepth)) throw new NestingError(`nested deeper than ${maxDepth} levels`);
  if (!INEXACT.test(text)) return JSON.parse(text);
  return parse(text, undefined, { parseNumber, onDuplicateKey: ({ newValue }) => newValue });
}

/** Like `parseJson`, but returns undefined instead of throwing. */
export function tryParseJson(text: string): unknown {
  try {
    return parseJson(text);
  } catch {
    return undefined;
  }
}

/** The line and column, from 1, at which a text stops being JSON; undefined for JSON, or if the position is unknown. */
export function findJsonError(text: string): { line: number; column: number } | undefined {
  try {
    parse(text, undefined, { onDuplicateKey: ({ newValue }) => newValue });
    return undefined;
  } catch (error) {
    // Unlike JSON.parse, lossless-json reports the position of every error except too many nesting levels.
    const [, position] = / at position (\d+)$/.exec((error as Error).message) ?? [];
    if (position === undefined) return undefined;
    const lines = text.slice(0, Number(position)).split('\n');
    return { line: lines.length, column: (lines.at(-1)?.length ?? 0) + 1 };
  }
}

/** Formats a value as JSON with every digit that `parseJson` read: on one line, or with `indent` spaces per level. */
export function stringifyJson(value: unknown, { indent }: { indent?: number | undefined } = {}): string {
  return stringify(value, undefined, indent) ?? 'null';
}

function parseNumber(text: string): number | bigint | LosslessNumber {
  if (!/^-?\d+$/.test(text) || text === '-0') return new LosslessNumber(text);
  const value = Number(text);
  return Number.isSafeInteger(value) ? value : BigInt(text);
}

function isDeeperThan(text: string, maxDepth: number): boolean {
  // Most texts have at most `maxDepth` opening brackets in all. Counting these takes less time than following the levels.
  if (text.split(/[{[]/, maxDepth + 2).length <= maxDepth + 1) return false;
  let depth = 0;
  let inString = false;
  for (let i = 0; i < text.length; i++) {
    const char = text.charCodeAt(i);
    if (inString) {
      if (char === 0x5c) i++;
      else if (char === 0x22) inString = false;
    } else if (char === 0x22) inString = true;
    else if (char === 0x7b || char === 0x5b) {
      if (++depth > maxDepth) return true;
    } else if (char === 0x7d || char === 0x5d) depth--;
  }
  return false;
}

export const INT64_MIN = -(2n ** 63n);
export const INT64_MAX = 2n ** 63n - 1n;

const range = `must be an integer from ${INT64_MIN} to ${INT64_MAX}`;

const NUMBER = /^(-?)(\d+)(?:\.(\d+))?(?:[eE]([+-]?\d+))?$/;
const MAX_DIGITS = String(INT64_MAX).length;

const isInInt64Range = (value: bigint) => value >= INT64_MIN && value <= INT64_MAX;

/** Parses an int64 in canonical decimal form (no `+`, leading zero or exponent); undefined for any other text. */
export function parseInt64(text: string): bigint | undefined {
  if (!/^(?:0|-?[1-9]\d{0,18})$/.test(text)) return undefined;
  const value = BigInt(text);
  return isInInt64Range(value) ? value : undefined;
}

const int64From = <Input>(convert: (value: unknown) => bigint | undefined) =>
  z.pipe(
    z.custom<Input>((value) => convert(value) !== undefined, fieldError(range)),
    z.transform((value: Input) => convert(value) ?? 0n),
  );

/**
 * An int64 in a document read by `parseJson` (docs/service.md 2). As in JSON Schema, `3.0` and `3e0` are the integer 3;
 * `1.5` and `"3"` are not integers.
 */
export const int64 = int64From<unknown>(integerOf);

/** An int64 in a path, a query or a command-line argument, in canonical decimal form. */
export const int64Text = int64From<string>((value) =>
  typeof value === 'string' ? parseInt64(value) : undefined,
);

function integerOf(value: unknown): bigint | undefined {
  if (typeof value === 'bigint') return isInInt64Range(value) ? value : undefined;
  if (typeof value === 'number') return Number.isSafeInteger(value) ? BigInt(value) : undefined;
  return isLosslessNumber(value) ? integerOfText(value.toString()) : undefined;
}

/** Converts the text of a JSON number; undefined if the number is not an int64. Takes time linear in the length. */
function integerOfText(text: string): bigint | undefined {
  const [, sign = '', whole = '', fraction = '', exponent = '0'] = NUMBER.exec(text) ?? [];
  const digits = (whole + fraction).replace(/^0+/, '');
  let end = digits.length;
  while (digits[end - 1] === '0') end--;
  if (end === 0) return 0n;
  const zeros = Number(exponent) - fraction.length + digits.length - end;
  // The exponent may be huge, so check the number of digits before building them.
  if (zeros < 0 || end + zeros > MAX_DIGITS) return undefined;
  const value = BigInt(sign + digits.slice(0, end) + '0'.repeat(zeros));
  return isInInt64Range(value) ? value : undefined;
}
