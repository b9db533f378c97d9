/** The headers of a response; names are in lower case. */
export type HttpHeaders = Readonly<Record<string, string | string[] | undefined>>;

/** The value of a header; the first value if the header is repeated. */
export function readHeader(headers: HttpHeaders, name: string): string | undefined {
  return readHeaders(headers, name)[0];
}

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
const UP_TO_COMMA = /(?:"(?:[^"\\]|\\.)*"?|<[^>]*>?|[^"<,]+)+/g;
const UP_TO_SEMICOLON = /(?:"(?:[^"\\]|\\.)*"?|<[^>]*>?|[^"<;]+)+/g;

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

// The formats of RFC 9110, 5.6.7. Date.parse alone would accept other texts too, and read the third format as local time.
const HTTP_DATE =
  /^(?:[A-Z][a-z]{2}, \d\d [A-Z][a-z]{2} \d{4} \d\d(?::[0-5]\d){2} GMT|[A-Z][a-z]{5,8}, \d\d-[A-Z][a-z]{2}-\d\d \d\d(?::[0-5]\d){2} GMT|[A-Z][a-z]{2} [A-Z][a-z]{2} [ \d]\d \d\d(?::[0-5]\d){2} \d{4})$/;

/** Parses an HTTP-date into milliseconds since the epoch; undefined for any other text. */
export function parseHttpDate(text: string): number | undefined {
  if (!HTTP_DATE.test(text)) return undefined;
  const time = Date.parse(text.endsWith(' GMT') ? text : `${text} GMT`);
  // Date.parse reads 30 February as 2 March.
  const isValid = new Date(time).getUTCDate() === Number(/\d+/.exec(text)?.[0]);
  return isValid ? time : undefined;
}
