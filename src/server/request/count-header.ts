import type { IncomingMessage } from 'node:http';

/** How often a header stands in a request: Node joins or drops doubled ones, and only the raw list shows them. */
export function countHeader({ rawHeaders, headers }: IncomingMessage, name: string): number {
  if (headers[name] === undefined) return 0;
  // Most requests have no header twice, and need no second look.
  if (rawHeaders.length === 2 * Object.keys(headers).length) return 1;
  return rawHeaders.filter((value, i) => i % 2 === 0 && value.toLowerCase() === name).length;
}
