import { HOST_NAME_PATTERN } from '../../contract/headers.ts';
import { ArgumentError } from '../arguments.ts';

/** Longer than any client waits. */
const MAX_LATENCY = 600_000;

/** `200`, or `100-300`: milliseconds. */
export function latency(text: string): { min: number; max: number } {
  const match = /^(\d{1,6})(?:-(\d{1,6}))?$/.exec(text);
  const min = Number(match?.[1]);
  const max = Number(match?.[2] ?? match?.[1]);
  if (!match || min > max || max > MAX_LATENCY) {
    throw new ArgumentError(`must be milliseconds up to ${MAX_LATENCY}, as 200 or 100-300`);
  }
  return { min, max };
}

/** A share of all requests. */
export function share(text: string): number {
  if (!/^\d?(\.\d{1,9})?$/.test(text) || text === '' || Number(text) > 1) {
    throw new ArgumentError('must be a number from 0 to 1');
  }
  return Number(text);
}

/** A name as a Host header has it, without a port. */
export function hostName(text: string): string {
  if (!HOST_NAME_PATTERN.test(text)) {
    throw new ArgumentError('must be a host name or an address, without a port');
  }
  return text.toLowerCase();
}

/** An origin as a browser sends it, or `*`. */
export function webOrigin(text: string): string {
  if (text === '*') return text;
  const url = URL.canParse(text) ? new URL(text) : undefined;
  if (url && /^https?:$/.test(url.protocol) && url.href === `${url.origin}/`) return url.origin;
  throw new ArgumentError('must be an origin, as http://localhost:5173, or *');
}
