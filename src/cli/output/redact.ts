import { sanitizeForTerminal } from './sanitize.ts';

/** The forms of a text in output: unchanged, in JSON and in quotes for a shell, each also with escapes for a terminal. */
function writtenForms(text: string): string[] {
  const forms = [text, JSON.stringify(text).slice(1, -1), text.replaceAll("'", `'\\''`)];
  return forms.flatMap((form) => [form, sanitizeForTerminal(form)]);
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
  // Longer forms come first, because a shorter form may be a prefix of a longer one.
  const forms = [encodeURIComponent(key), ...writtenForms(key)].sort((a, b) => b.length - a.length);
  const pattern = forms.map((form) => form.replace(/[^\w\s]/g, '\\$&')).join('|');
  const isWord = key.length < MIN_KEY_LENGTH;
  // The case is ignored, because a key in a header name is printed in lower case.
  const any = new RegExp(isWord ? `(?<!\\w)(?:${pattern})(?!\\w)` : pattern, 'gi');
  const masked = maskKey(key);
  return (text) => text.replace(any, () => masked);
}
