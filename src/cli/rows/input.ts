import { isUtf8 } from 'node:buffer';
import { addAbortSignal, type Readable } from 'node:stream';
import { findJsonError, NestingError, parseJson } from '../../contract/json.ts';
import { fileError, usageError } from '../core/errors.ts';

export const rowFormats = ['csv', 'ndjson', 'json'] as const;
export type RowFormat = (typeof rowFormats)[number];

/** Matches a name that is empty or invisible in a list. U+2800 is the blank Braille pattern. */
export const EMPTY_NAME = /^[\s\u2800]*$/;

const AS_UTF8 = 'save it as UTF-8; in Excel: Save As → CSV UTF-8 (comma delimited)';

/** Limits the memory for an endless input. The text of a million rows takes about 60 MB. */
const MAX_INPUT_BYTES = 256 * 1024 * 1024;

/**
 * Reads an input to its end.
 *
 * @throws CliError if the input cannot be read, or is larger than 256 MiB; the reason of `signal` if it is aborted
 */
export async function readInput(input: Readable, name: string, signal?: AbortSignal): Promise<Buffer> {
  const chunks: Uint8Array[] = [];
  let size = 0;
  if (signal) addAbortSignal(signal, input);
  try {
    for await (const chunk of input) {
      size += chunk.length;
      if (size > MAX_INPUT_BYTES) throw usageError(`${name} is larger than 256 MiB`, 'split the file');
      chunks.push(chunk);
    }
  } catch (error) {
    signal?.throwIfAborted();
    throw (error as NodeJS.ErrnoException).syscall ? fileError('read', name, error) : error;
  }
  return Buffer.concat(chunks);
}

/** Returns the bytes without a byte order mark. @throws CliError if they are not UTF-8 text */
export function requireUtf8(bytes: Buffer, name: string): Buffer {
  // UTF-16 without a byte order mark may also be valid UTF-8, but has null bytes, and so has the start of a workbook.
  if (!isUtf8(bytes) || bytes.subarray(0, 8).includes(0))
    throw usageError(`${name} is not UTF-8 text`, AS_UTF8);
  return bytes.toString('latin1', 0, 3) === '\xef\xbb\xbf' ? bytes.subarray(3) : bytes;
}

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
