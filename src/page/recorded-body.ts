import type { DescribedRequest } from '../server/tools/describe-request.ts';

type Message = DescribedRequest['request'];

/** What the service shows instead of a secret (docs/service.md 13.1). */
export const REDACTED = '[redacted]';

/** The longest beginning of a body that the service records, in bytes. */
const MAX_BYTES = 16 * 1024;

/** Whether only the beginning of a body was recorded. */
export function isBodyCutOff({ body, bodyBytes }: Message): boolean {
  if (body === undefined) return false;
  if (bodyBytes > MAX_BYTES) return true;
  // Redaction changes the length.
  return !body.includes(REDACTED) && new TextEncoder().encode(body).length < bodyBytes;
}
