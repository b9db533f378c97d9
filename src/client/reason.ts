import { tryParseJson } from '../contract/json.ts';

/** Removes the API key from a text. Used before a text is cut, because a part of a key would not be recognized. */
export type Redact = (text: string) => string;

/** Fields in which services explain an error, such as those of problem details (RFC 9457). */
const REASON_FIELDS = ['detail', 'message', 'title', 'error'] as const;

/** The maximum length of a text in a message, in characters. */
const MAX_TEXT = 200;

/** How much of a body is searched for a text, in characters. */
const MAX_SEARCHED = 8_192;

/** Why a request failed, in the words of the service; undefined if the body does not say it, or is a web page. */
export function reasonIn(body: string, redact: Redact): string | undefined {
  const value = tryParseJson(body);
  if (value === undefined) return isPage(body) ? undefined : textOf(body, redact);
  const isEmpty = typeof value === 'object' && Object.keys(value ?? {}).length === 0;
  return explanationIn(value) ?? (isEmpty ? undefined : textOf(body, redact));
}

/** The explanation in a JSON value: a string, the joined explanations of an array, or the first of `REASON_FIELDS`. */
export function explanationIn(value: unknown): string | undefined {
  if (typeof value === 'string') return value.trim() || undefined;
  if (Array.isArray(value)) {
    const texts = value.map(explanationIn);
    return texts.length === 0 || texts.includes(undefined) ? undefined : texts.join('; ');
  }
  if (typeof value !== 'object' || value === null) return undefined;
  const fields = value as Record<string, unknown>;
  return REASON_FIELDS.map((name) => explanationIn(fields[name])).find((text) => text !== undefined);
}

/** The start of the text in a body, on one line and without the markup of a web page; undefined if there is no text. */
export function textOf(body: string, redact: Redact): string | undefined {
  const start = redact(body.slice(0, 2 * MAX_SEARCHED)).slice(0, MAX_SEARCHED);
  const text = isPage(body) ? withoutMarkup(start) : start;
  const characters = Array.from(text.replace(/\s+/g, ' ').trim());
  if (characters.length <= MAX_TEXT) return characters.join('') || undefined;
  return `${characters.slice(0, MAX_TEXT).join('')}…`;
}

const isPage = (body: string): boolean => /^\s*</.test(body);

const ENTITIES: Record<string, string> = { lt: '<', gt: '>', quot: '"', '#39': "'", nbsp: ' ', amp: '&' };

function withoutMarkup(page: string): string {
  const content = page.replace(/<!--.*?-->|<(script|style|title)\b.*?<\/\1\s*>/gis, ' ');
  const texts = [content, page].map((each) => each.replace(/<[^>]*>/g, ' '));
  const text = texts.find((each) => /\S/.test(each)) ?? '';
  return text.replace(/&(\w+|#39);/g, (entity, name: string) => ENTITIES[name] ?? entity);
}
