import { isLosslessNumber } from 'lossless-json';
import { stringifyJson } from '../../contract/json.ts';

/** An object as `parseJson` returns it. Its fields may have any names and values. */
export type Fields = Readonly<Record<string, unknown>>;

/** Whether a value of `parseJson` is an object, and not a list, a number or null. */
export const isObject = (value: unknown): value is Fields =>
  typeof value === 'object' && value !== null && !Array.isArray(value) && !isLosslessNumber(value);

/** Whether a value of `parseJson` is a number. */
export const isNumber = (value: unknown): boolean =>
  typeof value === 'number' || typeof value === 'bigint' || isLosslessNumber(value);

/**
 * The value of a field, or undefined if there is none. A dotted path such as `customer.name` is a field of an object in a
 * field. If the path leads through a list, the value is the list of the values of its elements. A field whose own name
 * has dots has precedence.
 */
export function fieldAt(value: unknown, path: string): unknown {
  if (Array.isArray(value)) {
    const values = value.map((element) => fieldAt(element, path)).filter((each) => each !== undefined);
    return values.length > 0 ? values : undefined;
  }
  if (!isObject(value)) return undefined;
  if (Object.hasOwn(value, path)) return value[path];
  for (let dot = path.indexOf('.'); dot !== -1; dot = path.indexOf('.', dot + 1)) {
    const name = path.slice(0, dot);
    const found = Object.hasOwn(value, name) ? fieldAt(value[name], path.slice(dot + 1)) : undefined;
    if (found !== undefined) return found;
  }
  return undefined;
}

/** The value of a field, or the elements of a list; empty if there is no such field. */
export function valuesOf(object: unknown, field: string): unknown[] {
  const value = fieldAt(object, field);
  if (value === undefined) return [];
  return Array.isArray(value) ? value.flat(Number.POSITIVE_INFINITY) : [value];
}

/** Returns a string unchanged, an empty string for null and undefined, and JSON for any other value. */
export function cellText(value: unknown): string {
  if (typeof value === 'string') return value;
  return value === undefined || value === null ? '' : stringifyJson(value);
}

/** The fields at these paths as an object, whose fields are named after the paths. Missing fields are left out. */
export function pick(value: unknown, paths: readonly string[]): Fields {
  const entries = paths.map((path) => [path, fieldAt(value, path)] as const);
  return Object.fromEntries(entries.filter(([, field]) => field !== undefined));
}

/** The paths of all fields of these objects, in the order of their first appearance. */
export function fieldPaths(objects: readonly unknown[]): Set<string> {
  const paths = new Set<string>();
  const addFieldsOf = (value: unknown, prefix: string) => {
    if (Array.isArray(value)) for (const element of value) addFieldsOf(element, prefix);
    if (!isObject(value)) return;
    for (const [name, member] of Object.entries(value)) {
      paths.add(prefix + name);
      addFieldsOf(member, `${prefix}${name}.`);
    }
  };
  addFieldsOf(objects, '');
  return paths;
}

/**
 * The field that a user means. Tables print the names of fields in upper case, so a name in another case is accepted if
 * only one field has that name. Undefined if there is none.
 */
export function findField(objects: readonly unknown[], name: string): string | undefined {
  if (fieldAt(objects, name) !== undefined) return name;
  const similar = [...fieldPaths(objects)].filter((path) => path.toLowerCase() === name.toLowerCase());
  return similar.length === 1 ? similar[0] : undefined;
}
