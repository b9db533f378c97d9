import * as z from 'zod/mini';
import { describeIssues, says } from '../contract/issues.ts';
import { tryParseJson } from '../contract/json.ts';

const sha256Rule = 'must be 64 hexadecimal digits';

export const Sha256 = z.string(says(sha256Rule)).check(z.regex(/^[0-9a-f]{64}$/, sha256Rule));
export const Instant = z.iso.datetime(says('must be an instant of ISO 8601'));

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
