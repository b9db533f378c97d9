import * as z from 'zod/mini';
import { describeIssues, fieldError } from '../contract/issues.ts';
import { tryParseJson } from '../contract/json.ts';

const SHA256_RULE = 'must be 64 hexadecimal digits';
const INSTANT_RULE = 'must be an ISO 8601 time';
const INSTANT = /^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(?:\.\d+)?Z$/;

export const Sha256 = z.string(fieldError(SHA256_RULE)).check(z.regex(/^[0-9a-f]{64}$/, SHA256_RULE));
/** A UTC time such as `2026-11-20T12:00:00.000Z`. zod's schema for times would load its JSON Schema converter. */
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
