import * as z from 'zod/mini';
import { describeIssues, fieldError, parseInt64, tryParseJson } from '../contract/json.ts';
import { type PetStatus, petJson } from '../contract/schemas.ts';

/*
 * The exact JSON text of an animal, such as {"id":1,"name":"Rex","categoryId":3,"status":"available"}. Stores keep it, and
 * responses contain it byte for byte. Its form is defined in `petJson`, this module and create_animals (animals.sql).
 */

const START = '{"id":';

/** Where the digits of the id begin in a text. */
export const ID_OFFSET = START.length;

/** The length of the shortest possible text, in bytes. */
export const MIN_TEXT_BYTES = petJson({ id: 1n, name: '', categoryId: 1n, status: 'sold' }).length;

/** The text of an animal from its id and the result of `petJsonAfterId`. */
export const textWithId = (id: bigint | string, rest: string): string => `${START}${id}${rest}`;

/** An animal in a longer text. `length` is the length of its text. `id` can be a number for faster parsing. */
export type AnimalInText = { id: number | bigint; status: PetStatus; length: number };

const INTEGER = '(0|-?[1-9]\\d{0,18})';
// Every quote inside a JSON string follows a backslash, so `","` ends the name. But if an animal has an unknown field,
// the match can continue to the end of a later animal. `readAnimal` rejects such a match.
const ANIMAL = new RegExp(
  `\\{"id":${INTEGER},"name":".*?","categoryId":${INTEGER},"status":"(available|pending|sold)"\\}`,
  'sy',
);

/** Reads the animal at a position of a text with one character per byte. Undefined if there is none in this form. */
export function readAnimal(text: string, position: number): AnimalInText | undefined {
  ANIMAL.lastIndex = position;
  const match = ANIMAL.exec(text);
  if (match === null) return undefined;
  const [matched, id = '', categoryId = '', status] = match;
  // No JSON string can contain the start of an animal, because quotes in a string are escaped.
  if (!isInt64(id) || !isInt64(categoryId) || matched.includes(START, 1)) return undefined;
  const { length } = matched;
  return { id: id.length < 16 ? Number(id) : BigInt(id), status: status as PetStatus, length };
}

const isInt64 = (text: string): boolean => text.length < 19 || parseInt64(text) !== undefined;

const SHA256_RULE = 'must be 64 hexadecimal digits';
const INSTANT_RULE = 'must be an ISO 8601 time';
const INSTANT = /^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(?:\.\d+)?Z$/;

export const Sha256 = z.string(fieldError(SHA256_RULE)).check(z.regex(/^[0-9a-f]{64}$/, SHA256_RULE));
/** A UTC time such as `2026-11-20T12:00:00.000Z`. */
export const IsoTime = z
  .string(fieldError(INSTANT_RULE))
  .check(z.refine((text) => INSTANT.test(text) && !Number.isNaN(Date.parse(text)), INSTANT_RULE));

/** Parses and validates the text of a stored file. `why` describes the damage. */
export function parseStoredJson<Schema extends z.ZodMiniType>(
  schema: Schema,
  text: string,
): { data: z.output<Schema> } | { why: string } {
  const value = tryParseJson(text);
  if (value === undefined) return { why: 'it is not valid JSON' };
  const parsed = z.safeParse(schema, value);
  return parsed.success ? { data: parsed.data } : { why: describeIssues(parsed.error) };
}
