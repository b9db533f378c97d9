import { isUtf8 } from 'node:buffer';
import { addAbortSignal, type Readable } from 'node:stream';
import { fileError, usageError } from '../core/errors.ts';

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
    throw (error as NodeJS.ErrnoException).syscall ? fileError('read', name, error) : error;
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
  // Without control characters (except whitespace), the bytes are probably text in an older encoding.
  const isText = !/[\x00-\x08\x0e-\x1f]/.test(bytes.toString('latin1'));
  const guess = isUtf16 ? ' (it looks like UTF-16)' : isText ? ' (it looks like Windows-1252)' : '';
  throw usageError(`${name} is not UTF-8 text${guess}`, AS_UTF8);
}
