import { REDACTED } from '../contract/recorded-text.ts';

/** Shorter secrets are not searched for, because they occur in ordinary text. */
const MIN_LENGTH = 6;

/** How many characters a character of an encoded secret can take up: two backslashes, and `u` with four digits. */
const MAX_ENCODED = 7;

/** The words that name a secret, such as those in X-Api-Key, `?access_token=` and `{"password":…}`. */
const SECRET_WORDS =
  '(?:api|access|auth|private|secret|subscription|functions)[-_.]?key|token|secret|passw(?:or)?d|passphrase|pwd|credentials?|signature|authori[sz]ation|authentication|(?<![a-z])(?:auth|jwt|sig|session|sid|dpop)(?![a-z])';

const SECRET_HEADER = new RegExp(`^(?:set-)?cookie2?$|${SECRET_WORDS}`, 'i');

/** Whether a header has a secret as its value. */
export const isSecretHeader = (name: string): boolean => SECRET_HEADER.test(name);

/** A generated API key, also of another service. */
const GENERATED_KEY = /pets_[\w-]{43}/gi;
const GENERATED_LENGTH = 48;

/** The user and the password in a URL. They contain no slash, so that no text is searched twice. */
const USER_INFO = /:\/\/[^/?#\s"]+@/g;

const NAME = String.raw`[\w.[\]-]{0,40}(?:${SECRET_WORDS})[\w.[\]-]{0,40}`;
/** A parameter of a URL or of a form whose name has one of these words. */
const PARAMETER = new RegExp(String.raw`((?:^|[\s?&;])${NAME}=)[^&;#\s"]+`, 'gi');
/** A member of a JSON object whose name has one of these words, and whose value is not an object or an array. */
const MEMBER = new RegExp(String.raw`("${NAME}"\s*:\s*)(?:"(?:[^"\\]|\\.)*"?|[^\s",{}[\]]+)`, 'gi');

const PART = /([\s&?;"]+)/;

export type Redactor = {
  redact(text: string): string;
  /** How many characters at the end of a text that was cut off can be a part of a secret. */
  longest: number;
};

/**
 * Creates a function that replaces secrets in a text: those in `secrets`, all generated API keys, users and passwords in URLs,
 * and the values of parameters and of members of JSON objects that are named like a secret. If there is a secret in a text only
 * after decoding, the part with the encoded secret is replaced as a whole.
 */
export function createRedactor(secrets: readonly string[]): Redactor {
  const known = [...new Set([...secrets, ...secrets.map(decode)])].filter(
    ({ length }) => length >= MIN_LENGTH,
  );
  const replace = (text: string): string =>
    known
      .reduce((rest, secret) => rest.replaceAll(secret, REDACTED), text)
      .replace(GENERATED_KEY, REDACTED)
      .replace(USER_INFO, `://${REDACTED}@`)
      .replace(PARAMETER, `$1${REDACTED}`)
      .replace(MEMBER, `$1"${REDACTED}"`);
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
}

/** Undoes percent-encoding and the escapes of JSON, also if a text was encoded twice, and ignores case. */
function decode(text: string): string {
  const once = (encoded: string): string =>
    encoded.replace(/(?:%|\\u00)([0-9a-f]{2})/gi, (_, hex) => String.fromCharCode(Number.parseInt(hex, 16)));
  return once(once(text)).replaceAll('\\', '').toLowerCase();
}
