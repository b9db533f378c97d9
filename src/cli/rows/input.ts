import { isUtf8 } from 'node:buffer';
import { readdir } from 'node:fs/promises';
import { basename, dirname, join, parse } from 'node:path';
import { addAbortSignal, type Readable } from 'node:stream';
import { type CliError, fileError, usageError } from '../core/errors.ts';

const AS_UTF8 = 'save it as UTF-8; in Excel: Save As → CSV UTF-8 (comma delimited)';

/** Limits the memory for an endless input. The text of a million rows takes about 60 MB. */
const MAX_INPUT_BYTES = 256 * 1024 * 1024;

/**
 * Reads an input to its end.
 *
 * @throws CliError if the input cannot be read, or is larger than 256 MiB; the reason of `signal`
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
    throw (error as NodeJS.ErrnoException).syscall ? await unreadableFile(name, error) : error;
  }
  return Buffer.concat(chunks);
}

/** The text of an input in UTF-8, without its byte order mark. @throws CliError if the input is not UTF-8 text */
export function utf8Text(bytes: Buffer, name: string): Buffer {
  const start = bytes.toString('latin1', 0, 8);
  // This matches the ZIP signature of .xlsx and .ods, and the compound-file signature of .xls.
  if (/^(?:PK\x03\x04|\xd0\xcf\x11\xe0)/.test(start))
    throw usageError(`${name} is a workbook or an archive, not text`, AS_UTF8);
  // UTF-16 text may also be valid UTF-8, so it is detected by its first bytes. It starts with a byte order mark, or
  // every other byte is null.
  const isUtf16 = /^(?:\xff\xfe|\xfe\xff|(?:[^\0]\0)+$|(?:\0[^\0])+$)/.test(start);
  if (!isUtf16 && isUtf8(bytes)) return start.startsWith('\xef\xbb\xbf') ? bytes.subarray(3) : bytes;
  const details = isUtf16 ? ' (it looks like UTF-16)' : guessEncoding(bytes);
  throw usageError(`${name} is not UTF-8 text${details}`, AS_UTF8);
}

function guessEncoding(bytes: Buffer): string {
  try {
    new TextDecoder('utf-8', { fatal: true }).decode(bytes, { stream: true });
    return ' (it ends in the middle of a character)';
  } catch {
    // Without control characters (except whitespace), the bytes are probably text in a legacy encoding.
    const isText = !/[\x00-\x08\x0e-\x1f]/.test(bytes.toString('latin1'));
    return isText ? ' (it looks like Windows-1252)' : '';
  }
}

/** The error for a file that cannot be read. If the file does not exist, the hint names a similar file, if any. */
export async function unreadableFile(path: string, error: unknown): Promise<CliError> {
  const isMissing = (error as NodeJS.ErrnoException).code === 'ENOENT';
  const similar = isMissing ? await findSimilarFile(path) : undefined;
  return fileError('read', path, error, similar && `did you mean ${similar}?`);
}

/** A file in the same directory whose name differs only in case or in a missing extension. */
async function findSimilarFile(path: string): Promise<string | undefined> {
  const directory = dirname(path);
  const name = basename(path).toLowerCase();
  const names = await readdir(directory).catch(() => []);
  const found = names.sort().find((other) => {
    const { name: stem, base, ext } = parse(other.toLowerCase());
    return base === name || (stem === name && /^\.(?:[ct]sv|json|jsonl|ndjson)$/.test(ext));
  });
  return found && join(directory, found);
}
