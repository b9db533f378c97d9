import * as z from 'zod/mini';
import { API_KEY_PATTERN, LOOPBACK_NAME_PATTERN } from '../../contract/headers.ts';
import { fieldError } from '../../contract/issues.ts';
import { shellQuote } from '../core/shell-words.ts';

export const profileNames = ['prod', 'staging', 'local'] as const;
export const ProfileName = z.enum(profileNames, { error: `must be one of ${profileNames.join(', ')}` });
export type ProfileName = z.infer<typeof ProfileName>;

/** The contents of a profile file. The key is only sent to the origin of the base URL. */
export const Profile = z.object(
  {
    baseUrl: z.string(fieldError('must be a string')).check(
      z.refine((text) => parseBaseUrl(text) !== undefined, {
        error: 'must be an http(s) URL without user, query or fragment',
      }),
    ),
    key: z.optional(
      z
        .string(fieldError('must be a string'))
        .check(z.regex(API_KEY_PATTERN, { error: 'must be visible ASCII characters' })),
    ),
  },
  fieldError('must be a JSON object'),
);
export type Profile = z.infer<typeof Profile>;

export const Settings = z.object(
  { defaultProfile: z.optional(ProfileName) },
  fieldError('must be a JSON object'),
);
export type Settings = z.infer<typeof Settings>;

/** The service and key that a command uses. The key is only sent to the origin of the base URL. It may be empty. */
export type Connection = {
  profile: ProfileName;
  baseUrl: string;
  key: string;
  keySource: KeySource;
  /** True if another command needs --base-url to use this base URL. */
  needsBaseUrl?: boolean;
};

/** The command that lists all animals of the same service, even if the default profile changes before the user runs it. */
export function listAllCommand(
  { profile, baseUrl, keySource, needsBaseUrl }: Connection,
  platform: NodeJS.Platform,
): string {
  const words = ['pets', 'list', '--all'];
  // With --profile, PETS_API_KEY would have no effect.
  if (keySource !== 'PETS_API_KEY') words.push('--profile', profile);
  if (needsBaseUrl) words.push('--base-url', baseUrl);
  return shellQuote(words, platform);
}

/** Where the key comes from, as shown in messages. */
export type KeySource = 'PETS_API_KEY' | 'this login' | `profile ${ProfileName}`;

/** The URL of a proxy, which may contain a user and password, and the environment variable with this URL. */
export type ProxySetting = { address: string; variable: string };

/** Host and port of a proxy, for messages. */
export function proxyLabel({ address }: ProxySetting): string {
  const url = new URL(address);
  return `${url.hostname}:${portOf(url)}`;
}

/** The port of an http(s) URL, which is often the default port of its protocol. */
export const portOf = ({ port, protocol }: URL): string => port || (protocol === 'https:' ? '443' : '80');

/** The port of `pets serve` without --port and without a command. */
export const DEFAULT_PORT = 7387;

/** The URL without trailing slashes; undefined if the text is not usable as a base URL. */
export function parseBaseUrl(text: string): string | undefined {
  if (!URL.canParse(text)) return undefined;
  const url = new URL(text);
  // `url.search` and `url.hash` are also empty after a bare `?` or `#`.
  const isPlain = url.username === '' && url.password === '' && !/[?#]/.test(text);
  if (!/^https?:$/.test(url.protocol) || !isPlain) return undefined;
  return url.href.replace(/\/+$/, '');
}

/** The base URL with https://, or with http:// for this machine; undefined if the text needs more than a scheme. */
export function addScheme(text: string): string | undefined {
  const url = text.includes('://') ? undefined : parseBaseUrl(`https://${text}`);
  return url && isLoopbackUrl(new URL(url)) ? parseBaseUrl(`http://${text}`) : url;
}

/** Whether a URL refers to this machine. Plain http to another machine needs the permission of the user. */
export const isLoopbackUrl = (url: URL): boolean => LOOPBACK_NAME_PATTERN.test(url.hostname);
