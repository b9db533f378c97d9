import { HOST_NAME_PATTERN } from '../../contract/headers.ts';
import { API_PREFIX } from '../../contract/operations.ts';
import type { PlanName } from '../../contract/plans.ts';
import { isAddressBlock } from '../../system/address-blocks.ts';
import { ArgumentError } from '../core/parsers.ts';
import { parseBaseUrl } from '../profiles/profile.ts';

export type ServeOptions = {
  port?: number;
  host: string;
  data?: string;
  ephemeral?: boolean;
  resettable?: boolean;
  /** A file, or true for the sample data. */
  seed?: string | true;
  plan?: PlanName;
  keyFile?: string;
  profile: boolean;
  /** The delay of responses, in milliseconds. */
  latency?: { min: number; max: number };
  failRate?: number;
  faultSeed?: number;
  /** The path of a JSON file. */
  faults?: string;
  banAfter: number;
  /** The length of a ban, in seconds. */
  banFor: number;
  publicUrl?: string;
  trustProxy?: string[];
  allowHost?: string[];
  cors?: string[];
  log?: boolean;
  /** True with `--page`, false with `--no-page`. */
  page?: boolean;
  /** The words of the command after `--`. Empty without a command. */
  command: string[];
};

/** The plan of new API keys without `--plan`. */
export const DEFAULT_PLAN: PlanName = 'pro';

/** Parses the value of --latency: a number or a range of milliseconds, such as `200` or `100-300`. */
export function parseLatency(text: string): { min: number; max: number } {
  const match = /^(\d{1,5})(?:-(\d{1,5}))?$/.exec(text);
  const min = Number(match?.[1]);
  const max = Number(match?.[2] ?? match?.[1]);
  if (!match || min > max)
    throw new ArgumentError('must be milliseconds up to 99999, or a range, for example 200 or 100-300');
  return { min, max };
}

/** Parses the value of --allow-host: a host name or an address, without a port. */
export function parseHostName(text: string): string {
  if (HOST_NAME_PATTERN.test(text)) return text.toLowerCase();
  throw new ArgumentError('must be a host name or an address, without a port');
}

/** Parses the value of --public-url. Returns the base URL, which ends with /v1 even if that part is left out. */
export function parsePublicUrl(text: string): string {
  const url = parseBaseUrl(text);
  if (url === undefined)
    throw new ArgumentError(
      'must be a valid http(s) URL without user, query or fragment, for example https://shop.example/inventory',
    );
  return url.endsWith(API_PREFIX) ? url : url + API_PREFIX;
}

/** Parses the value of --trust-proxy: an address or a CIDR block. */
export function parseAddressBlock(text: string): string {
  if (isAddressBlock(text)) return text;
  throw new ArgumentError('must be an IP address or a CIDR block, for example 10.0.0.0/8');
}

/** Matches a scheme, which may be that of an app or a browser extension, a host and a port. */
const ORIGIN = /^(?!(?:wss?|ftp|file|data|blob):)[a-z][a-z0-9+.-]*:\/\/[\w.:[\]-]+$/;

/** Parses the value of --cors: an origin, as browsers send it in the Origin header, or `*`. A pattern has no effect. */
export function parseOrigin(text: string): string {
  const origin = text.toLowerCase().replace(/\/$/, '');
  if (origin === '*') return origin;
  if (!ORIGIN.test(origin) || !URL.canParse(origin))
    throw new ArgumentError(
      'must be * alone, or an origin without *, such as http://localhost:5173 or tauri://localhost',
    );
  // A browser leaves out the usual port.
  return /^https?:/.test(origin) ? new URL(origin).origin : origin;
}
