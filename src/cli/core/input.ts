import { isUtf8 } from 'node:buffer';
import { createReadStream } from 'node:fs';
import { resolve } from 'node:path';
import { addAbortSignal, type Readable } from 'node:stream';
import { findJsonError, NestingError, parseJson } from '../../contract/json.ts';
import { errnoOf } from '../../system/file-system.ts';
import { type CliError, fileError, usageError } from './errors.ts';

/** Limits the memory for an endless input. A million rows, as NDJSON with short names, take about 60 MB. */
const MAX_INPUT_BYTES = 256 * 1024 * 1024;

/** Reads an input to its end. @throws CliError if a system call fails, or it exceeds 256 MiB; the reason of `signal` */
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
    throw (error as NodeJS.ErrnoException).syscall ? inputError(name, error) : error;
  }
  return Buffer.concat(chunks);
}

export function inputError(name: string, error: unknown): CliError {
  const errno = errnoOf(error);
  if (errno === 'EISDIR')
    return fileError('read', name, new Error('it is a directory'), 'give the name of a file');
  const hint = errno === 'ENOENT' ? `check the path: ${resolve(name)}` : 'check its path and its mode';
  return fileError('read', name, error, hint);
}

/** Matches the first bytes of UTF-16: its byte order mark, or two ASCII characters. */
const UTF_16 = /^(?:\xff\xfe|\xfe\xff|(?:\0[\x01-\x7f]){2}|(?:[\x01-\x7f]\0){2})/;

/**
 * Checks text that a person may have edited, such as a list of animals, a profile or a key. Windows PowerShell writes
 * UTF-16, and many editors on Windows write a byte order mark. Returns the bytes without that mark.
 * @throws CliError if they are not UTF-8 text
 */
export function requireUtf8(bytes: Buffer, name: string, hint = 'use UTF-8 instead'): Buffer {
  const start = bytes.toString('latin1', 0, 8);
  if (UTF_16.test(start)) throw usageError(`${name} is UTF-16`, hint);
  // Null bytes are valid UTF-8, but no text has any. A workbook has some among its first bytes.
  if (!isUtf8(bytes) || start.includes('\0')) throw usageError(`${name} is not UTF-8 text`, hint);
  return start.startsWith('\xef\xbb\xbf') ? bytes.subarray(3) : bytes;
}

/** Reads a text file. @throws the errors of `readInput` and `requireUtf8` */
export const readUtf8File = async (path: string, signal?: AbortSignal): Promise<Buffer> =>
  requireUtf8(await readInput(createReadStream(path), path, signal), path);

/** Parses the JSON text of a file. @throws CliError, with the place of the error if it is known */
export function parseJsonDocument(text: string, name: string): unknown {
  try {
    return parseJson(text);
  } catch (error) {
    const found = findJsonError(text);
    const place = found === undefined ? name : `${name}, line ${found.line}, column ${found.column}`;
    // The message of JSON.parse is left out, because it quotes the text.
    const reason = error instanceof NestingError ? error.message : 'invalid JSON';
    throw usageError(`${place}: ${reason}`, 'correct the file');
  }
}
