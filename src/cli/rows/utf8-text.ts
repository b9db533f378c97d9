import { MAX_ROW_BYTES } from './row.ts';

/** The input is not UTF-8 text. The message has no subject: the caller adds the name of the input. */
export class NotTextError extends Error {
  /** Whether the input is a spreadsheet, whatever its extension. */
  readonly isWorkbook: boolean;

  constructor(message: string, isWorkbook = false) {
    super(message);
    this.isWorkbook = isWorkbook;
  }
}

/** How many bytes of a file identify its type. */
const SIGNATURE_BYTES = 8;

/**
 * Decodes UTF-8 input in pieces, without its byte order mark. The first piece has at least 1 MiB, or the whole text, so
 * that the format and the header can be recognized in it.
 *
 * @throws NotTextError at bytes that are not UTF-8
 */
export async function* utf8Text(input: AsyncIterable<Uint8Array>): AsyncGenerator<string> {
  const decoder = new TextDecoder('utf-8', { fatal: true });
  const decode = (bytes?: Uint8Array): string => {
    try {
      return decoder.decode(bytes, { stream: bytes !== undefined });
    } catch {
      const details = bytes === undefined ? ' (it ends in the middle of a character)' : guessEncoding(bytes);
      throw new NotTextError(`is not UTF-8 text${details}`);
    }
  };
  let isFirst = true;
  for await (const chunk of withWholeHead(input)) {
    if (isFirst) refuseBinary(chunk);
    isFirst = false;
    yield decode(chunk);
  }
  yield decode();
}

/** Joins the first chunks to one of at least 1 MiB. */
async function* withWholeHead(input: AsyncIterable<Uint8Array>): AsyncGenerator<Uint8Array> {
  const head: Uint8Array[] = [];
  let missing = MAX_ROW_BYTES;
  for await (const chunk of input) {
    if (missing <= 0) {
      yield chunk;
      continue;
    }
    head.push(chunk);
    missing -= chunk.length;
    if (missing <= 0) yield Buffer.concat(head);
  }
  if (missing > 0) yield Buffer.concat(head);
}

/** Text in an old encoding has no control characters. */
function guessEncoding(bytes: Uint8Array): string {
  const isText = !/[\x00-\x08\x0e-\x1f]/.test(Buffer.from(bytes).toString('latin1'));
  return isText ? ' (it looks like Windows-1252)' : '';
}

/** Refuses spreadsheets and UTF-16 by their first bytes, because they may be valid UTF-8 for a while. */
function refuseBinary(bytes: Uint8Array): void {
  const start = Buffer.from(bytes.subarray(0, SIGNATURE_BYTES)).toString('latin1');
  // The ZIP signature of .xlsx and .ods, and the compound-file signature of .xls.
  if (/^(?:PK\x03\x04|\xd0\xcf\x11\xe0)/.test(start))
    throw new NotTextError('is a workbook or an archive, not text', true);
  // UTF-16 with a byte order mark, or with every other byte null.
  if (/^(?:\xff\xfe|\xfe\xff|(?:[^\0]\0)+$|(?:\0[^\0])+$)/.test(start))
    throw new NotTextError('is not UTF-8 text (it looks like UTF-16)');
}

export async function* prepend(head: string, rest: AsyncIterable<string>): AsyncGenerator<string> {
  yield head;
  yield* rest;
}
