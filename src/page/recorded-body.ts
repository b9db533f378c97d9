import { MAX_RECORDED_BODY, REDACTED } from '../contract/recorded-text.ts';
import type { DescribedRequest } from '../server/tools/log-entry.ts';

type Message = DescribedRequest['request'];

/** Whether only the beginning of a body was recorded. */
export function isBodyCutOff({ body, bodyBytes }: Message): boolean {
  if (body === undefined) return false;
  if (bodyBytes > MAX_RECORDED_BODY) return true;
  // Redaction changes the length.
  return !body.includes(REDACTED) && new TextEncoder().encode(body).length < bodyBytes;
}
