import { findJsonError, NestingError, parseJson } from '../../contract/json.ts';
import { usageError } from '../core/errors.ts';

export const rowFormats = ['csv', 'ndjson', 'json'] as const;
export type RowFormat = (typeof rowFormats)[number];

/** Matches a name that is empty or invisible in a list. U+2800 is the blank Braille pattern. */
export const EMPTY_NAME = /^[\s\u2800]*$/;

/** Parses the JSON text of a file. @throws CliError, with the line of the error if it is known */
export function parseJsonDocument(text: string, name: string): unknown {
  try {
    return parseJson(text);
  } catch (error) {
    const found = findJsonError(text);
    const place = found === undefined ? name : `${name}, line ${found.line}`;
    // The message of JSON.parse is left out, because it quotes the text.
    const reason = error instanceof NestingError ? `: ${error.message}` : '';
    throw usageError(`${place}: invalid JSON${reason}`);
  }
}
