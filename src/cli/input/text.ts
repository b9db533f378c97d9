import { MAX_ROW_BYTES } from './read-row.ts';

/** The input is not UTF-8 text: UTF-16 or Latin-1 of a spreadsheet, or no text at all. Who knows its name says so. */
export class NotUtf8Error extends Error {}

/** So much is decoded at once, whatever the chunks are: the rows of one piece are in memory together. */
const PIECE_BYTES = 65_536;

/**
 * The text of an input, piece by piece, without its byte order mark.
 *
 * @throws NotUtf8Error where it comes to bytes that are none
 */
export async function* utf8Text(input: AsyncIterable<Uint8Array>): AsyncGenerator<string> {
  const decoder = new TextDecoder('utf-8', { fatal: true });
  const decode = (...bytes: Parameters<typeof decoder.decode>) => {
    try {
      return decoder.decode(...bytes);
    } catch (cause) {
      throw new NotUtf8Error('not UTF-8 text', { cause });
    }
  };
  for await (const chunk of input)
    for (let i = 0; i < chunk.length; i += PIECE_BYTES)
      yield decode(chunk.subarray(i, i + PIECE_BYTES), { stream: true });
  yield decode();
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
