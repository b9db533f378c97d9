import { type HttpHeaders, readHeader, readHeaders } from './headers.ts';

/** The content codings that `decodeBody` supports (RFC 9110, 12.5.3). */
export const ACCEPT_ENCODING = 'gzip, br';

/** The limit for a body in bytes, both as received and as decoded. A usual page of 100 animals is much smaller. */
export const MAX_RESPONSE_BYTES = 64 * 1024 * 1024;

export const TOO_LARGE = 'larger than 64 MiB';

/** The text of a body. If the body cannot be decoded, `unreadable` is the reason, and the text is empty. */
export type DecodedBody = { body: string; unreadable?: string };

/**
 * Decodes a body according to its `Content-Encoding` and charset, and removes a byte order mark. A missing end is not
 * an error here, because only parsing the JSON shows whether the missing part matters.
 */
export function decodeBody(bytes: Buffer, headers: HttpHeaders): DecodedBody {
  try {
    return { body: decodeText(decompress(bytes, headers), headers) };
  } catch (error) {
    if (error instanceof UnreadableError) return { body: '', unreadable: error.message };
    throw error;
  }
}

class UnreadableError extends Error {}

function decompress(bytes: Buffer, headers: HttpHeaders): Buffer {
  const coding = readHeaders(headers, 'Content-Encoding').join(', ').toLowerCase();
  if (['', 'identity'].includes(coding)) return bytes;
  // No import statement, because loading zlib takes a millisecond and most services do not compress.
  const { constants, gunzipSync, brotliDecompressSync } = process.getBuiltinModule('node:zlib');
  const maxOutputLength = MAX_RESPONSE_BYTES;
  try {
    if (['gzip', 'x-gzip'].includes(coding))
      return gunzipSync(bytes, { maxOutputLength, finishFlush: constants.Z_SYNC_FLUSH });
    if (coding === 'br')
      return brotliDecompressSync(bytes, { maxOutputLength, finishFlush: constants.BROTLI_OPERATION_FLUSH });
  } catch (error) {
    const { code, message } = error as NodeJS.ErrnoException;
    throw new UnreadableError(
      code === 'ERR_BUFFER_TOO_LARGE' ? TOO_LARGE : `invalid ${coding} data (${message})`,
    );
  }
  throw new UnreadableError(`Content-Encoding ${coding} is not supported`);
}

function decodeText(bytes: Buffer, headers: HttpHeaders): string {
  const type = readHeader(headers, 'Content-Type') ?? '';
  const [, quoted, token] = /;\s*charset\s*=\s*(?:"([^"]*)"|([^;\s]+))/i.exec(type) ?? [];
  const charset = quoted ?? token ?? 'utf-8';
  try {
    // `stream` drops an incomplete last character. It also avoids a bug of Node 20, which decodes windows-1252 as
    // ISO 8859-1 without this option (nodejs/node#56542).
    return new TextDecoder(charset, { fatal: true }).decode(bytes, { stream: true });
  } catch (error) {
    throw new UnreadableError(
      error instanceof RangeError ? `charset ${charset} is not supported` : `not valid ${charset} text`,
    );
  }
}
