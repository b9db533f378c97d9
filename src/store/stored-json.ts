import * as z from 'zod/mini';
import { describeIssues, says } from '../contract/issues.ts';
import { tryParseJson } from '../contract/json.ts';

const sha256Rule = 'must be 64 hexadecimal digits';
const instantRule = 'must be an instant of ISO 8601';

const INSTANT = /^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(?:\.\d+)?Z$/;

export const Sha256 = z.string(says(sha256Rule)).check(z.regex(/^[0-9a-f]{64}$/, sha256Rule));
// Not zod's own: it brings along what describes schemas, which no start of the service needs.
export const Instant = z
  .string(says(instantRule))
  .check(z.refine((text) => INSTANT.test(text) && !Number.isNaN(Date.parse(text)), instantRule));

/** What a stored text holds by its schema, or why it is damaged: what was stored is parsed again when it is read. */
export function readStored<Schema extends z.ZodMiniType>(
  schema: Schema,
  text: string,
): { data: z.output<Schema> } | { why: string } {
  const value = tryParseJson(text);
  if (value === undefined) return { why: 'it is not JSON' };
  const parsed = z.safeParse(schema, value);
  return parsed.success ? { data: parsed.data } : { why: describeIssues(parsed.error) };
}
