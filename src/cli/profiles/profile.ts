import * as z from 'zod/mini';
import { API_KEY_PATTERN } from '../../contract/headers.ts';
import { says } from '../../contract/issues.ts';

export const profileNames = ['prod', 'staging', 'local'] as const;
export const ProfileName = z.enum(profileNames, { error: `must be one of ${profileNames.join(', ')}` });
export type ProfileName = z.infer<typeof ProfileName>;

/** What a profile's file holds: one base URL, and the key that is sent to its origin alone. */
export const Profile = z.object(
  {
    baseUrl: z
      .string(says('must be a string'))
      .check(z.refine((text) => isBaseUrl(text), { error: 'must be an http(s) URL without user or query' })),
    key: z.optional(
      z
        .string(says('must be a string'))
        .check(z.regex(API_KEY_PATTERN, { error: 'must be visible ASCII characters' })),
    ),
    allowHttp: z.optional(z.boolean(says('must be true or false'))),
  },
  says('it must be a JSON object'),
);
export type Profile = z.infer<typeof Profile>;

export const Settings = z.object(
  { defaultProfile: z.optional(ProfileName) },
  says('it must be a JSON object'),
);
export type Settings = z.infer<typeof Settings>;

/** A base URL without a slash at its end, or undefined for what cannot be one. */
export function parseBaseUrl(text: string): string | undefined {
  if (!URL.canParse(text)) return undefined;
  const url = new URL(text);
  const isPlain = url.username === '' && url.password === '' && url.search === '' && url.hash === '';
  if (!/^https?:$/.test(url.protocol) || !isPlain) return undefined;
  return url.href.replace(/\/+$/, '');
}

const isBaseUrl = (text: string): boolean => parseBaseUrl(text) !== undefined;

/** Whether a URL stays on this machine: only there a key may travel in clear text. */
export function isLoopback(url: URL): boolean {
  return /^(localhost|127(\.\d+){3}|\[::1\])$/.test(url.hostname);
}

/** A key as it may be shown. */
export const maskKey = (key: string): string => `…${key.length > 8 ? key.slice(-4) : ''}`;

/**
 * A text that a service may have put the key into, as it may be shown: as it is, as a URL, a JSON text, base64 or hex has
 * it, and in any case, as a header's name is told in lower case.
 */
export const withoutKey = (text: string, key: string): string => keyMask(key)(text);

const SHORTEST_HIDDEN = 6;

/** The same for many texts. */
export function keyMask(key: string): (text: string) => string {
  // The longest first: a shorter one may be its beginning.
  const encoded = [`Bearer ${key}`, key].flatMap((form) =>
    // Padded or not: what is left of the padding tells nothing.
    (['base64', 'base64url', 'hex'] as const).map((to) => Buffer.from(form).toString(to).replace(/=+$/, '')),
  );
  const plain = [JSON.stringify(key).slice(1, -1), encodeURIComponent(key), key];
  // A few letters stand in every text: of so short a key only what a header has is masked.
  const forms = key.length < SHORTEST_HIDDEN ? [`Bearer ${key}`] : [...encoded, ...plain];
  const pattern = forms.map((form) => form.replace(/[^\w]/g, '\\$&')).join('|');
  const anyForm = new RegExp(pattern, 'gi');
  return (text) => text.replace(anyForm, () => maskKey(key));
}
