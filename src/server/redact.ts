import { REDACTED } from '../contract/recorded-text.ts';

/** Shorter secrets are not searched for, because they occur in ordinary text. */
const MIN_LENGTH = 6;

/** The maximum length of one encoded character of a secret: two backslashes, `u` and four digits. */
const MAX_ENCODED = 7;

/** The words that name a secret, such as those in X-Api-Key, `?access_token=` and `{"password":…}`. */
const SECRET_WORDS =
  '(?:api|access|auth|private|secret|subscription|functions)[-_.]?key|token|secret|passw(?:or)?d|passphrase|pwd|credentials?|signature|authori[sz]ation|authentication|(?<![a-z])(?:auth|jwt|sig|session|sid|dpop)(?![a-z])';

/** Whole names of secrets in requests. In responses, and as parts of longer names, they often name other things. */
const SECRET_NAMES = '(?:code|pass|(?:x-)?(?:otp|pin|key))';

const SECRET_HEADER = new RegExp(`^(?:set-)?cookie2?$|${SECRET_WORDS}`, 'i');
const SECRET_REQUEST_HEADER = new RegExp(`^${SECRET_NAMES}$`, 'i');
/** The beginning of a value that is secret in any header: a scheme, after which the credentials follow. */
const CREDENTIALS = /^\s*(?:bearer|basic)\s/i;

/** Whether the value of a header is a secret. */
export const isSecretHeader = (name: string, value: string, isOfRequest = true): boolean =>
  SECRET_HEADER.test(name) || CREDENTIALS.test(value) || (isOfRequest && SECRET_REQUEST_HEADER.test(name));

/** A generated API key, even one of another service. */
const GENERATED_KEY = /pets_[\w-]{43}/gi;
const GENERATED_LENGTH = 48;

/** The user and the password in a URL. No match continues past a slash, so that the search takes linear time. */
const USER_INFO = /:\/\/[^/?#\s"]+@/g;

const NAME = String.raw`[\w.[\]-]{0,40}(?:${SECRET_WORDS})[\w.[\]-]{0,40}`;
const MEMBER_VALUE = String.raw`\s*:\s*)(?:"(?:[^"\\]|\\.)*"?|[{[][^]*|[^\s",{}[\]]+)`;
/**
 * Patterns for values that are named like a secret: members of JSON objects, and parameters of URLs and of forms. If the
 * value of a member is an object or array, the rest of the text is replaced.
 */
const namedBy = (name: string, parameter: string): [pattern: RegExp, replacement: string][] => [
  [new RegExp(`("(?:${name})"${MEMBER_VALUE}`, 'gi'), `$1"${REDACTED}"`],
  [new RegExp(String.raw`((?:${parameter})=)[^&;#\s"]+`, 'gi'), `$1${REDACTED}`],
];
const WORD_PARAMETER = String.raw`(?:^|[\s?&;+])${NAME}`;
const NAMED = namedBy(NAME, WORD_PARAMETER);
const NAMED_IN_REQUEST = namedBy(`${NAME}|${SECRET_NAMES}`, `${WORD_PARAMETER}|(?:^|[?&;])${SECRET_NAMES}`);

const PART = /([\s&?;"]+)/;

export type Redactor = ReturnType<ReturnType<typeof createRequestRedactors>>;

/**
 * Returns a function that creates the redactor of a request from its headers. `GET /requests` and `--log` use it
 * (docs/testing.md). The redactor replaces the credentials in the headers, `secrets`, all generated API keys, users and
 * passwords in URLs, and the values of parameters, of form fields and of members of JSON objects that are named like a
 * secret. If a secret appears only after decoding, the part with the secret, or the whole text, is replaced.
 */
export function createRequestRedactors(secrets: readonly string[]) {
  const fixed = searchable(secrets);

  return (headers: readonly string[] = []) => {
    const known = [...fixed, ...searchable(credentialsOf(headers))];
    return {
      /** Redacts a text that the client has sent. */
      redact: redactorOf(known, NAMED_IN_REQUEST),
      /** Redacts a text that the service has sent. */
      redactResponse: redactorOf(known, NAMED),
      /** Redacts a sentence of the service. A word of it that equals a credential of the client stays. */
      redactSentence: redactorOf(fixed, []),
      /** How many characters at the end of a text that was cut off can be a part of a secret. */
      longest: MAX_ENCODED * Math.max(GENERATED_LENGTH, ...known.map(({ length }) => length)),
    };
  };
}

/** Returns a function that replaces secrets in a text, and the values that are named like one. */
function redactorOf(secrets: readonly string[], named: typeof NAMED) {
  const replace = (text: string): string => {
    const rest = secrets.reduce((rest, secret) => rest.replaceAll(secret, REDACTED), text);
    const withoutKeys = rest.replace(GENERATED_KEY, REDACTED).replace(USER_INFO, `://${REDACTED}@`);
    return named.reduce((rest, [pattern, replacement]) => rest.replace(pattern, replacement), withoutKeys);
  };
  const isClean = (text: string): boolean => {
    const decoded = decode(text);
    return replace(decoded) === decoded;
  };
  return (text: string): string => {
    const replaced = replace(text);
    if (isClean(replaced)) return replaced;
    const parts = replaced.split(PART).map((part) => (isClean(part) ? part : REDACTED));
    const joined = parts.join('');
    return isClean(joined) ? joined : REDACTED;
  };
}

/** The secrets to search for, as they are and decoded, because texts are also searched after they are decoded. */
const searchable = (secrets: readonly string[]): string[] =>
  [...new Set([...secrets, ...secrets.map(decode)])].filter(({ length }) => length >= MIN_LENGTH);

/** How many credentials of a request are searched for. A Digest header has about ten. */
const MAX_CREDENTIALS = 16;

/** The credentials in the headers of a request, except cookies. */
const credentialsOf = (headers: readonly string[]): string[] =>
  headers
    .filter((value, i) => {
      const name = headers[i - 1] ?? '';
      return i % 2 === 1 && isSecretHeader(name, value) && !/cookie/i.test(name);
    })
    .flatMap(credentialsIn)
    .slice(0, MAX_CREDENTIALS);

/** The credentials in the value of a header: its only word, or all words after the first, which is the scheme. */
function credentialsIn(value: string): string[] {
  const words = value.split(/\s+/).filter(Boolean);
  return words.length > 1 ? words.slice(1) : words;
}

/** Decodes percent-encoding and the escapes of JSON, even if a text was encoded twice. The result is in lower case. */
function decode(text: string): string {
  const once = (encoded: string): string =>
    encoded.replace(/(?:%|\\u00)([0-9a-f]{2})/gi, (_, hex) => String.fromCharCode(Number.parseInt(hex, 16)));
  return once(once(text)).replaceAll('\\', '').toLowerCase();
}
