/** The headers of a response; names are in lower case. */
export type HttpHeaders = Readonly<Record<string, string | string[] | undefined>>;

/** The value of a header; the first value if the header is repeated. */
export function readHeader(headers: HttpHeaders, name: string): string | undefined {
  return readHeaders(headers, name)[0];
}

/** All values of a header that may be repeated. */
export function readHeaders(headers: HttpHeaders, name: string): readonly string[] {
  const values = headers[name.toLowerCase()] ?? [];
  return typeof values === 'string' ? [values] : values;
}

/** An element of a header that is a list. Names of parameters are in lower case. */
export type ListElement = {
  /** `</v1/pets?page=2>` with its brackets, or the content of a quoted string, or a token. */
  value: string;
  /** A parameter without a value has an empty text. If a parameter is repeated, the first one counts. */
  parameters: Record<string, string | undefined>;
};

// Quoted strings and URLs may contain separators. Either may lack its end.
const UP_TO_COMMA = /(?:"(?:[^"\\]|\\.)*"?|<[^>]*>?|[^"<,])+/g;
const UP_TO_SEMICOLON = /(?:"(?:[^"\\]|\\.)*"?|<[^>]*>?|[^"<;])+/g;

/**
 * Reads a header whose elements have parameters, such as `</pets?page=2>; rel="next"` (Link, RFC 8288) or
 * `"minute";r=0;t=30` (RateLimit, RFC 9651). Valueless parameters and empty elements are valid.
 */
export const readList = (headers: HttpHeaders, name: string): ListElement[] =>
  (readHeaders(headers, name).join().match(UP_TO_COMMA) ?? [])
    .filter((text) => text.trim() !== '')
    .map((text) => {
      const [value = '', ...parameters] = text.match(UP_TO_SEMICOLON) ?? [];
      const entries = parameters.map((parameter): [string, string] => {
        const [, key = '', content = ''] = /^\s*([^\s=]*)\s*=?(.*)$/s.exec(parameter) ?? [];
        return [key.toLowerCase(), unquote(content)];
      });
      return { value: unquote(value), parameters: Object.fromEntries(entries.reverse()) };
    });

/** The text without spaces around it, and the content of a quoted string. */
function unquote(text: string): string {
  const trimmed = text.trim();
  return /^".*"$/s.test(trimmed) ? trimmed.slice(1, -1).replace(/\\(.)/gs, '$1') : trimmed;
}

/** The target of the first link with this relation (RFC 8288). `relation` must be in lower case. */
export function findLink(headers: HttpHeaders, relation: string): string | undefined {
  for (const { value, parameters } of readList(headers, 'Link')) {
    const relations = parameters['rel']?.toLowerCase().split(/\s+/) ?? [];
    if (relations.includes(relation) && /^<.*>$/s.test(value)) return value.slice(1, -1).trim();
  }
  return undefined;
}

const MONTHS = ['Jan', 'Feb', 'Mar', 'Apr', 'May', 'Jun', 'Jul', 'Aug', 'Sep', 'Oct', 'Nov', 'Dec'];

// The formats of RFC 9110, 5.6.7. Date.parse would accept other texts too, and read the third format as local time.
const FORMATS = [
  /^[A-Z][a-z]{2}, (?<day>\d{2}) (?<month>[A-Z][a-z]{2}) (?<year>\d{4}) (?<time>\d{2}:\d{2}:\d{2}) GMT$/,
  /^[A-Z][a-z]{5,8}, (?<day>\d{2})-(?<month>[A-Z][a-z]{2})-(?<year>\d{2}) (?<time>\d{2}:\d{2}:\d{2}) GMT$/,
  /^[A-Z][a-z]{2} (?<month>[A-Z][a-z]{2}) (?<day>[ \d]\d) (?<time>\d{2}:\d{2}:\d{2}) (?<year>\d{4})$/,
];

/** Parses an HTTP-date into milliseconds since the epoch; undefined for any other text. `now` is for two-digit years. */
export function parseHttpDate(text: string, now: number): number | undefined {
  const parts = FORMATS.map((format) => format.exec(text)?.groups).find((groups) => groups !== undefined);
  if (parts === undefined) return undefined;
  const { day = '', month = '', year = '', time = '' } = parts;
  const [hour = 0, minute = 0, second = 0] = time.split(':').map(Number);
  const fullYear = year.length === 4 ? Number(year) : expandYear(Number(year), now);
  const date = new Date(0);
  date.setUTCFullYear(fullYear, MONTHS.indexOf(month), Number(day));
  // Count a leap second as second 59.
  date.setUTCHours(hour, minute, Math.min(second, 59));
  // Date carries a day, hour or minute that is too large into the next larger unit. Reject such a date.
  const isValid =
    MONTHS.includes(month) &&
    date.getUTCDate() === Number(day) &&
    date.getUTCHours() === hour &&
    second <= 60;
  return isValid ? date.getTime() : undefined;
}

/** Expands a two-digit year. A year more than 50 years in the future is moved back a century (RFC 9110, 5.6.7). */
function expandYear(digits: number, now: number): number {
  const thisYear = new Date(now).getUTCFullYear();
  const year = thisYear - (thisYear % 100) + digits;
  return year > thisYear + 50 ? year - 100 : year;
}
