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
