import { sanitizeForTerminal } from './sanitize.ts';

/**
 * The passwords in a word that is or contains a URL, as they are written. The URL of a database may lack a slash or the
 * colon. If special characters are not percent-encoded, a result can be longer than the password, but not shorter.
 */
function passwordsIn(word: string): string[] {
  const [, rest = ''] =
    /(?:^|[^\w+.-])(?:[\w+.-]+:\/\/|postgres(?:ql)?(?:\/\/|:\/?))(.*)$/is.exec(word) ?? [];
  const [, afterUser] = /^[^:]*:(.+)@/s.exec(rest) ?? [];
  const [, parameter] = /[?&](?:ssl)?password=(.+)$/is.exec(rest) ?? [];
  return [afterUser, parameter].filter((password) => password !== undefined);
}

/**
 * Returns a function that removes the passwords of the URLs in `words` from texts that repeat a URL, also in quotes or
 * with escapes. It finds a password only within a URL, because passwords can be ordinary words.
 */
export function createPasswordRemover(words: readonly string[]): (text: string) => string {
  const passwords = words.flatMap(passwordsIn);
  if (passwords.length === 0) return (text) => text;
  const forms = (text: string, shown: string) => writtenForms(text).map((form) => [form, shown] as const);
  return createReplacer(
    passwords.flatMap((each) => [...forms(`:${each}@`, '@'), ...forms(`password=${each}`, 'password=')]),
  );
}

/** Returns a text unchanged, as in JSON, and as in quotes for a shell, each also with escapes for a terminal. */
function writtenForms(text: string): string[] {
  const forms = [text, JSON.stringify(text).slice(1, -1), text.replaceAll("'", `'\\''`)];
  return forms.flatMap((form) => [form, sanitizeForTerminal(form)]);
}

/**
 * Returns a function that replaces the first text of each pair by the second. It ignores case, because a key in a header name
 * is printed in lower case. With `areWords`, a text within a longer word is not replaced.
 */
function createReplacer(
  replacements: readonly (readonly [string, string])[],
  areWords = false,
): (text: string) => string {
  // Longer forms come first, because a shorter form may be a prefix of a longer one.
  const sorted = replacements.toSorted(([a], [b]) => b.length - a.length);
  const shown = new Map(sorted.map(([text, instead]) => [text.toLowerCase(), instead]));
  const pattern = [...shown.keys()].map((text) => text.replace(/[^\w\s]/g, '\\$&')).join('|');
  const any = new RegExp(areWords ? `(?<!\\w)(?:${pattern})(?!\\w)` : pattern, 'gi');
  return (text) => text.replace(any, (found) => shown.get(found.toLowerCase()) ?? '[redacted]');
}

/** Masks an API key. The last 4 characters are shown if the key has more than 8. */
export const maskKey = (key: string): string => `…${key.length > 8 ? key.slice(-4) : ''}`;

/** A key with fewer characters could be part of an ordinary word, so it is masked only if it is a word of its own. */
const MIN_KEY_LENGTH = 6;

/**
 * Returns a function that masks an API key in texts of a service, which may have echoed the key in plain, URL-encoded or
 * JSON-escaped form.
 */
export function createRedactor(key: string): (text: string) => string {
  if (key === '') return (text) => text;
  const forms = [encodeURIComponent(key), ...writtenForms(key)];
  const masked = maskKey(key);
  return createReplacer(
    forms.map((form) => [form, masked]),
    key.length < MIN_KEY_LENGTH,
  );
}
