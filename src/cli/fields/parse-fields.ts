import { ArgumentError } from '../core/parsers.ts';

/** Parses the name of a field. An empty argument is usually an unset shell variable. */
export function parseField(text: string): string {
  if (text === '') throw new ArgumentError('must be the name of a field');
  return text;
}

/** Parses names of fields that are separated by commas. `resolve` converts a name to that of the field. */
export function parseFields(text: string, resolve = (name: string) => name): string[] {
  const fields = text.split(',').map((name) => resolve(parseField(name.trim())));
  if (new Set(fields).size < fields.length) throw new ArgumentError('must not name a field twice');
  return fields;
}
