import { MAX_ROW_BYTES } from './read-row.ts';

/** The input is no text, or none in UTF-8. The message says what it is; who knows its name says that. */
export class NotTextError extends Error {
  /** Whether a program for tables has written it, whatever its name says. */
  readonly isWorkbook: boolean;

  constructor(
    message: string,
    { isWorkbook = false, cause }: { isWorkbook?: boolean; cause?: unknown } = {},
  ) {
    super(message, { cause });
    this.isWorkbook = isWorkbook;
  }
}

/** So much is decoded at once, whatever the chunks are: the rows of one piece are in memory together. */
const PIECE_BYTES = 65_536;

/** The bytes that tell what an input is. */
const SIGNATURE_BYTES = 8;

/**
 * The text of an input, piece by piece, without its byte order mark.
 *
 * @throws NotTextError where it comes to bytes that are none
 */
export async function* utf8Text(input: AsyncIterable<Uint8Array>): AsyncGenerator<string> {
  const decoder = new TextDecoder('utf-8', { fatal: true });
  let isFirst = true;
  for await (const chunk of startingWhole(input)) {
    if (isFirst) refuseSignature(chunk);
    isFirst = false;
    for (let i = 0; i < chunk.length; i += PIECE_BYTES) {
      const piece = chunk.subarray(i, i + PIECE_BYTES);
      yield decode(
        () => decoder.decode(piece, { stream: true }),
        () => guessOf(piece),
      );
    }
  }
  yield decode(
    () => decoder.decode(),
    () => ' to its end: a character is cut off',
  );
}

function decode(read: () => string, guess: () => string): string {
  try {
    return read();
  } catch (cause) {
    throw new NotTextError(`is not UTF-8 text${guess()}`, { cause });
  }
}

/** Text of any old encoding has no controls; what has some is no text at all. */
function guessOf(bytes: Uint8Array): string {
  const isText = !/[\x00-\x08\x0e-\x1f]/.test(Buffer.from(bytes).toString('latin1'));
  return isText ? ' (it looks like Windows-1252)' : '';
}

/** The same bytes; the first chunk has as many as tell what they are. */
async function* startingWhole(input: AsyncIterable<Uint8Array>): AsyncGenerator<Uint8Array> {
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

/** What is no UTF-8 text by its first bytes, though some of it could be read as if it were. */
function refuseSignature(bytes: Uint8Array): void {
  const start = Buffer.from(bytes.subarray(0, SIGNATURE_BYTES)).toString('latin1');
  // .xlsx and .ods are archives; .xls is a compound file.
  if (/^(?:PK\x03\x04|\xd0\xcf\x11\xe0)/.test(start))
    throw new NotTextError('is a workbook or an archive, not text', { isWorkbook: true });
  // With its byte order mark, or every other byte of its first letters is null.
  if (/^(?:\xff\xfe|\xfe\xff|(?:[^\0]\0)+$|(?:\0[^\0])+$)/.test(start))
    throw new NotTextError('is not UTF-8 text (it looks like UTF-16)');
}

/** Takes of a text what it begins with, until `enough` matches that. */
export async function readHead(texts: AsyncGenerator<string>, enough: RegExp): Promise<string> {
  let head = '';
  while (head.length < MAX_ROW_BYTES && !enough.test(head)) {
    const next = await texts.next();
    if (next.done) break;
    head += next.value;
  }
  return head;
}

/** A text that was looked into, whole again. */
export async function* startingWith(head: string, rest: AsyncGenerator<string>): AsyncGenerator<string> {
  yield head;
  yield* rest;
}
