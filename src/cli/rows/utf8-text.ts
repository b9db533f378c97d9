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

/** The number of bytes decoded at once. It limits how many rows are in memory together. */
const PIECE_BYTES = 65_536;

/** How many bytes of a file identify its type. */
const SIGNATURE_BYTES = 8;

/**
 * Decodes UTF-8 input in pieces, without its byte order mark.
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
  for await (const chunk of withWholeSignature(input)) {
    if (isFirst) refuseBinary(chunk);
    isFirst = false;
    for (let i = 0; i < chunk.length; i += PIECE_BYTES) yield decode(chunk.subarray(i, i + PIECE_BYTES));
  }
  yield decode();
}

/** Joins the first chunks until they hold the bytes that identify a file type. */
async function* withWholeSignature(input: AsyncIterable<Uint8Array>): AsyncGenerator<Uint8Array> {
  let start: Uint8Array | undefined = new Uint8Array();
  for await (const chunk of input) {
    if (start === undefined) {
      yield chunk;
      continue;
    }
    start = start.length === 0 ? chunk : Buffer.concat([start, chunk]);
    if (start.length < SIGNATURE_BYTES) continue;
    yield start;
    start = undefined;
  }
  if (start !== undefined) yield start;
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

/** Reads from a text until what was read matches the pattern, the text ends, or it is longer than a row may be. */
export async function readUntil(texts: AsyncGenerator<string>, pattern: RegExp): Promise<string> {
  let head = '';
  while (head.length < MAX_ROW_BYTES && !pattern.test(head)) {
    const next = await texts.next();
    if (next.done) break;
    head += next.value;
  }
  return head;
}

/** Puts back a beginning that was read from the text. */
export async function* prepend(head: string, rest: AsyncGenerator<string>): AsyncGenerator<string> {
  yield head;
  yield* rest;
}
