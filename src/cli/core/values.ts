import { isLosslessNumber } from 'lossless-json';
import * as z from 'zod/mini';
import { describeIssues, int64Text, stringifyJson } from '../../contract/json.ts';

/** An invalid value. The message says what the value must be; the caller adds the name of the argument. */
export class ArgumentError extends Error {}

/** Returns a parser that accepts what a schema accepts, for example a schema that the service uses too. */
export function parseWith<Schema extends z.ZodMiniType>(schema: Schema): (text: string) => z.output<Schema> {
  return (text) => {
    const result = z.safeParse(schema, text);
    if (!result.success) throw new ArgumentError(describeIssues(result.error));
    return result.data;
  };
}

export const oneOf = <Word extends string>(words: readonly Word[]): ((text: string) => Word) =>
  parseWith(z.enum(words, { error: `must be one of ${words.join(', ').replace(/, \w+:\w+/g, '')}` }));

/** Matches a name that is empty, or has only white space and blank Braille patterns (U+2800). */
export const EMPTY_NAME_PATTERN = /^[\s\u2800]*$/;

/** Parses a signed 64-bit integer. The error mentions the range only if the text is an integer. */
export function parseInt64Argument(text: string): bigint {
  if (!/^-?\d+$/.test(text)) throw new ArgumentError('must be a whole number');
  if (/^-?0\d/.test(text)) throw new ArgumentError('must be written without leading zeros');
  return parseWith(int64Text)(text);
}

/** Returns a parser for a number from `min` to `max`. The text must match `form`. `what` names the kind of number. */
const numberParser =
  (what: string, form: RegExp, min: number, max: number) =>
  (text: string): number => {
    const value = Number(text);
    if (form.test(text) && value >= min && value <= max) return value;
    throw new ArgumentError(`must be ${what} from ${min} to ${max}`);
  };

/** About 12 days. In milliseconds, this is less than 2^31, where setTimeout overflows. */
const MAX_SECONDS = 1_000_000;

export const secondsParser = (min: number) =>
  numberParser(
    'a number of seconds with at most three decimals, such as 0.5,',
    /^\d{1,7}(\.\d{1,3})?$/,
    min,
    MAX_SECONDS,
  );

export const integerParser = (min: number, max: number) => numberParser('an integer', /^\d{1,16}$/, min, max);

export const parseFraction = numberParser('a number', /^(\d|\d?\.\d{1,9})$/, 0, 1);

/** An object as `parseJson` returns it. Its fields may have any names and values. */
export type Fields = Readonly<Record<string, unknown>>;

/** Whether a value of `parseJson` is an object, and not a list, a number or null. */
export const isObject = (value: unknown): value is Fields =>
  typeof value === 'object' && value !== null && !Array.isArray(value) && !isLosslessNumber(value);

export const isNumber = (value: unknown): boolean =>
  typeof value === 'number' || typeof value === 'bigint' || isLosslessNumber(value);

export const fieldAt = (value: unknown, name: string): unknown =>
  isObject(value) && Object.hasOwn(value, name) ? value[name] : undefined;

/** The elements of a field that is a list, otherwise its only value; empty if there is no such field. */
export function valuesOf(object: unknown, name: string): unknown[] {
  const value = fieldAt(object, name);
  return value === undefined ? [] : [value].flat();
}

/** Returns a string unchanged, an empty string for null and undefined, and JSON for any other value. */
export function cellText(value: unknown): string {
  if (typeof value === 'string') return value;
  return value === undefined || value === null ? '' : stringifyJson(value);
}

/** Returns an object with only these fields. Missing fields are left out. */
export function pickFields(value: unknown, names: readonly string[]): Fields {
  const entries = names.map((name) => [name, fieldAt(value, name)] as const);
  return Object.fromEntries(entries.filter(([, field]) => field !== undefined));
}

/** The names of all fields of these objects, in order of first appearance. */
export function fieldNames(objects: Iterable<unknown>): string[] {
  const names = new Set<string>();
  for (const object of objects) for (const name of Object.keys(object ?? {})) names.add(name);
  return [...names];
}

/** Returns the name unchanged. @throws ArgumentError if it is empty, usually because of an unset shell variable */
export function checkFieldName(text: string): string {
  if (text === '') throw new ArgumentError('must not contain an empty field name');
  return text;
}

/** Parses names of fields that are separated by commas. `resolve` converts a typed name to the name of the field. */
export function parseFields(text: string, resolve = (name: string) => name): string[] {
  const fields = text.split(',').map((name) => resolve(checkFieldName(name.trim())));
  if (new Set(fields).size < fields.length) throw new ArgumentError('must not name a field twice');
  return fields;
}
