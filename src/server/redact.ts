import { REDACTED } from '../contract/recorded-text.ts';

/** Shorter secrets are not searched for, because they occur in ordinary text. */
const MIN_LENGTH = 6;

/** The maximum length of one encoded character of a secret: two backslashes, `u` and four digits. */
const MAX_ENCODED = 7;

/** The words that name a secret, such as those in X-Api-Key, `?access_token=` and `{"password":…}`. */
const SECRET_WORDS =
  '(?:api|access|auth|private|secret|subscription|functions)[-_.]?key|token|secret|passw(?:or)?d|passphrase|pwd|credentials?|signature|authori[sz]ation|authentication|(?<![a-z])(?:auth|jwt|sig|session|sid|dpop)(?![a-z])';

const SECRET_HEADER = new RegExp(`^(?:set-)?cookie2?$|${SECRET_WORDS}`, 'i');

/** The beginning of a value that is secret in any header: a scheme, after which the credentials follow. */
const CREDENTIALS = /^\s*(?:bearer|basic)\s/i;

/** Whether the value of a header is a secret. */
export const isSecretHeader = (name: string, value: string): boolean =>
  SECRET_HEADER.test(name) || CREDENTIALS.test(value);

/** A generated API key, even one of another service. */
const GENERATED_KEY = /pets_[\w-]{43}/gi;
const GENERATED_LENGTH = 48;

/** The user and the password in a URL. No match continues past a slash, so that the search takes linear time. */
const USER_INFO = /:\/\/[^/?#\s"]+@/g;

const NAME = String.raw`[\w.[\]-]{0,40}(?:${SECRET_WORDS})[\w.[\]-]{0,40}`;
/** A parameter of a URL or of a form whose name contains one of `SECRET_WORDS`. */
const PARAMETER = new RegExp(String.raw`((?:^|[\s?&;+])${NAME}=)[^&;#\s"]+`, 'gi');
/** A member of a JSON object with such a name. If its value is an object or array, the rest of the text is replaced. */
const MEMBER = new RegExp(String.raw`("${NAME}"\s*:\s*)(?:"(?:[^"\\]|\\.)*"?|[{[][^]*|[^\s",{}[\]]+)`, 'gi');
/** A field of a multipart form with such a name. Lengths are bounded, so that no long line is searched many times. */
const FORM_FIELD = new RegExp(
  String.raw`(\bname="?${NAME}"?[^\n]{0,200}\n(?:[^\r\n]{1,200}\r?\n){0,5}\r?\n)[^]+?(?=\r?\n--|$)`,
  'gi',
);

const PART = /([\s&?;"]+)/;

export type Redactor = {
  redact(text: string): string;
  /** How many characters at the end of a text that was cut off can be a part of a secret. */
  longest: number;
};

/**
 * Returns a function that creates the redactor of a request from its headers. `GET /requests` and `--log` use it
 * (docs/testing.md). The redactor replaces the credentials in the headers, `secrets`, all generated API keys, users and
 * passwords in URLs, and the values of parameters, of form fields and of members of JSON objects that are named like a
 * secret. If a secret appears only after decoding, the part with the secret, or the whole text, is replaced.
 */
export function createRequestRedactors(
  secrets: readonly string[],
): (headers?: readonly string[]) => Redactor {
  const fixed = searchable(secrets);
  return (headers = []) => {
    const known = [...fixed, ...searchable(credentialsOf(headers))];
    const replace = (text: string): string =>
      known
        .reduce((rest, secret) => rest.replaceAll(secret, REDACTED), text)
        .replace(MEMBER, `$1"${REDACTED}"`)
        .replace(GENERATED_KEY, REDACTED)
        .replace(USER_INFO, `://${REDACTED}@`)
        .replace(PARAMETER, `$1${REDACTED}`)
        .replace(FORM_FIELD, `$1${REDACTED}`);
    const isClean = (text: string): boolean => {
      const decoded = decode(text);
      return replace(decoded) === decoded;
    };
    return {
      redact(text) {
        const replaced = replace(text);
        if (isClean(replaced)) return replaced;
        const parts = replaced.split(PART).map((part) => (isClean(part) ? part : REDACTED));
        const joined = parts.join('');
        return isClean(joined) ? joined : REDACTED;
      },
      longest: MAX_ENCODED * Math.max(GENERATED_LENGTH, ...known.map(({ length }) => length)),
    };
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

/** Decodes percent-encoding and the escapes of JSON, also if a text was encoded twice. The result is in lower case. */
function decode(text: string): string {
  const once = (encoded: string): string =>
    encoded.replace(/(?:%|\\u00)([0-9a-f]{2})/gi, (_, hex) => String.fromCharCode(Number.parseInt(hex, 16)));
  return once(once(text)).replaceAll('\\', '').toLowerCase();
}
