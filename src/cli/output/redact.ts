import { sanitizeForTerminal } from './sanitize.ts';

/**
 * The passwords in a word that is or contains a URL, as they are written. The URL of a database may lack a slash or the
 * colon. If special characters are not percent-encoded, a password can be longer than the user meant, but not shorter.
 * http(s) URLs are left out: those in arguments cannot contain passwords, so errors repeat them unchanged.
 */
function passwordsIn(word: string): string[] {
  const [, rest = ''] =
    /(?:^|[^\w+.-])(?!https?:)(?:[\w+.-]+:\/\/|postgres(?:ql)?(?:\/\/|:\/?))(.*)$/is.exec(word) ?? [];
  const [, afterUser] = /^[^:]*:(.+)@/s.exec(rest) ?? [];
  const [, parameter] = /[?&](?:ssl)?password=(.+)$/is.exec(rest) ?? [];
  return [afterUser, parameter].filter((password) => password !== undefined);
}

/** Whether a word that is or contains a URL also contains a password. */
export const hasPassword = (word: string): boolean => passwordsIn(word).length > 0;

/**
 * Returns a function that removes the passwords of the URLs in `words` from texts that repeat a URL, also in quotes or
 * with escapes. Undefined if there are no passwords. A password is found only where it is in a URL, because it can be an
 * ordinary word.
 */
export function createPasswordRemover(words: readonly string[]): ((text: string) => string) | undefined {
  const passwords = words.flatMap(passwordsIn);
  if (passwords.length === 0) return undefined;
  const pairs = passwords.flatMap((password): [string, string][] => [
    [`:${password}@`, '@'],
    [`password=${password}`, 'password='],
  ]);
  const replacements = pairs.flatMap(([found, replacement]) =>
    writtenForms(found).map((form) => [form, replacement] as const),
  );
  return (text) =>
    replacements.reduce((result, [form, replacement]) => result.replaceAll(form, replacement), text);
}

/** A text as it is, in JSON, and in quotes for a shell, each also with escapes for a terminal. */
function writtenForms(text: string): string[] {
  const forms = [text, JSON.stringify(text).slice(1, -1), text.replaceAll("'", `'\\''`)];
  return [...new Set(forms.flatMap((form) => [form, sanitizeForTerminal(form)]))];
}

/** Masks an API key. The last 4 characters are shown if the key has more than 8. */
export const maskKey = (key: string): string => `…${key.length > 8 ? key.slice(-4) : ''}`;

/**
 * Masks an API key in a text from a service, which may have echoed the key in plain, URL-encoded, JSON-escaped, base64
 * or hex form. The case of letters is ignored, because a key in a header name is printed in lower case.
 */
export const redactKey = (text: string, key: string): string => createRedactor(key)(text);

/** A key with fewer characters could be part of an ordinary word, so it is masked only if it is a word of its own. */
const MIN_KEY_LENGTH = 6;

/** Returns a function that does the same as `redactKey` for one key, and is faster if there are many texts. */
export function createRedactor(key: string): (text: string) => string {
  if (key === '') return (text) => text;
  const forms: string[] = [];
  // Longer forms come first, because a shorter form may be a prefix of a longer one.
  for (const form of [`Bearer ${key}`, key]) {
    for (const encoding of ['base64', 'base64url', 'hex'] as const) {
      // Remove the padding, so that the pattern matches padded and unpadded forms.
      forms.push(Buffer.from(form).toString(encoding).replace(/=+$/, ''));
    }
  }
  forms.push(JSON.stringify(key).slice(1, -1), encodeURIComponent(key), key);
  const pattern = forms.map((form) => form.replace(/[^\w]/g, '\\$&')).join('|');
  const anyForm = new RegExp(key.length < MIN_KEY_LENGTH ? `(?<!\\w)(?:${pattern})(?!\\w)` : pattern, 'gi');
  return (text) => text.replace(anyForm, () => maskKey(key));
}
