import { REDACTED } from '../../contract/recorded-text.ts';

/** How many characters a character of a secret can take up: backslashes, and `u` with four digits. */
const MAX_ESCAPED = 9;

/** Shorter credentials are not searched for, because they occur in ordinary text. */
const MIN_LENGTH = 6;

/** How many credentials of an Authorization header are searched for. Digest has about ten. */
const MAX_CREDENTIALS = 16;

/**
 * The user and the password in a URL, which can be percent-encoded, or escaped as in JSON. They contain no slash, so that no
 * text is searched twice.
 */
const USER_INFO =
  /((?::|%3a|\\u003a)(?:\\{0,4}\/|%2f|\\u002f){2})(?:(?!%2f|\\u002f)[^/?#\s"])+(@|%40|\\u0040)/gi;

/** A generated API key, also of another service. */
const GENERATED_KEY = new RegExp(
  `${escapable('pets_')}(?:[\\w-]|%(?:25)?[0-9a-f]{2}|\\\\{1,4}u00[0-9a-f]{2}){43}`,
  'gi',
);
const GENERATED_LENGTH = 48;

export type Redactor = {
  redact(text: string): string;
  /** How many characters at the end of a text that was cut off can be a part of a secret. */
  longest: number;
};

/**
 * Creates a redactor that removes secrets and all generated API keys, also if they are percent-encoded or escaped as in
 * JSON, and users and passwords in URLs.
 */
export function createTextRedactor(secrets: readonly string[]): Redactor {
  const long = secrets.filter(({ length }) => length >= MIN_LENGTH);
  const patterns = [GENERATED_KEY, ...long.map((secret) => new RegExp(escapable(secret), 'gi'))];
  return {
    redact: (text) =>
      patterns
        .reduce((rest, pattern) => rest.replace(pattern, REDACTED), text)
        .replace(USER_INFO, `$1${REDACTED}$2`),
    longest: MAX_ESCAPED * Math.max(GENERATED_LENGTH, ...long.map(({ length }) => length)),
  };
}

/**
 * Makes a redactor also remove the credentials in an Authorization header, as clients encode them. They are not searched for
 * with a regular expression, because a client could send credentials for which that takes very long, or which are too long
 * for an expression.
 */
export function withCredentials({ redact, longest }: Redactor, authorization: string): Redactor {
  const encoded = credentialsIn(authorization)
    .slice(0, MAX_CREDENTIALS)
    .flatMap((text) => [text, encodeURIComponent(text), JSON.stringify(text).slice(1, -1)])
    .filter(({ length }) => length >= MIN_LENGTH);
  const forms = [...new Set(encoded)];
  return {
    redact: (text) => redact(forms.reduce((rest, form) => rest.replaceAll(form, REDACTED), text)),
    longest: Math.max(longest, ...forms.map(({ length }) => length)),
  };
}

/** The credentials in an Authorization header: all of its words, except the first one if there are more. */
function credentialsIn(authorization: string): string[] {
  const words = authorization.split(/\s+/).filter(Boolean);
  return words.length > 1 ? words.slice(1) : words;
}

/** The source of a regular expression that matches the text, and each of its characters also as an escape. */
function escapable(text: string): string {
  return Array.from(text, (character) => {
    const hex = character.charCodeAt(0).toString(16).padStart(2, '0');
    // The number of backslashes is limited, so that a text of backslashes is not searched in quadratic time.
    return `(?:\\\\{0,4}\\x${hex}|%(?:25)?${hex}|\\\\{1,4}u00${hex})`;
  }).join('');
}

/** Headers whose values are never shown. */
const SECRET_HEADERS = new Set(['authorization', 'proxy-authorization', 'cookie', 'set-cookie']);

/** The headers by their names in lower case. Repeated headers are joined (RFC 9110, 5.3). `lines` has names and values by turns. */
export function redactHeaders(lines: readonly string[], { redact }: Redactor): Record<string, string> {
  // Any name may occur, such as __proto__.
  const headers: Record<string, string> = Object.create(null);
  for (let i = 0; i < lines.length; i += 2) {
    const name = (lines[i] ?? '').toLowerCase();
    const value = SECRET_HEADERS.has(name) ? REDACTED : redact(lines[i + 1] ?? '');
    const shown = redact(lines[i] ?? '').toLowerCase();
    headers[shown] = shown in headers ? `${headers[shown]}, ${value}` : value;
  }
  return headers;
}
