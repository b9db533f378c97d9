import { isLosslessNumber } from 'lossless-json';
import { stringifyJson } from '../../contract/json.ts';
import { ArgumentError } from './parsers.ts';

/** An object as `parseJson` returns it. Its fields may have any names and values. */
export type Fields = Readonly<Record<string, unknown>>;

/** Whether a value of `parseJson` is an object, and not a list, a number or null. */
export const isObject = (value: unknown): value is Fields =>
  typeof value === 'object' && value !== null && !Array.isArray(value) && !isLosslessNumber(value);

export const isNumber = (value: unknown): boolean =>
  typeof value === 'number' || typeof value === 'bigint' || isLosslessNumber(value);

/** The value of a field, or undefined if there is none. */
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
