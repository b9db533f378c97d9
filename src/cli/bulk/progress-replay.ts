import { type Files, isMissing, type OpenFile, withFile } from '../../store/files.ts';
import { damagedError } from './job-errors.ts';
import { linesOf } from './lines.ts';
import { decodeEvent, decodeHeader, type Event, type Header } from './progress-format.ts';
import { RowStates, stateAfter } from './row-states.ts';

/** What a progress file says. `finishedAt`, an instant of ISO 8601, only where that is its last line. */
export type Known = {
  header: Header;
  states: RowStates;
  /** Of rows that were taken over: which job has sent them. */
  origins: Map<number, string>;
  finishedAt: string | undefined;
};

/** Reads a progress file as it is: nothing is mended, and nobody hindered. Undefined where there is none. */
export async function lookAtProgress(files: Files, path: string): Promise<Known | undefined> {
  const file = await openIfThere(files, path, 'read');
  return file && withFile(file, () => replay(file, path));
}

/** Opens a file; undefined where there is none. */
export async function openIfThere(
  files: Files,
  path: string,
  how: Parameters<Files['open']>[1],
): Promise<OpenFile | undefined> {
  try {
    return await files.open(path, how);
  } catch (error) {
    if (isMissing(error)) return undefined;
    throw error;
  }
}

/** `last` is where the last whole line begins, `end` where it ends. */
export type Replayed = Known & { last: number; end: number };

/** What the lines of a progress file say; undefined where not even the first is whole. @throws CliError */
export async function replay(file: OpenFile, path: string): Promise<Replayed | undefined> {
  let replayed: Replayed | undefined;
  let torn: number | undefined;
  for await (const { bytes, offset, number, hasNewline } of linesOf(file)) {
    if (torn) throw damagedError(path, torn, 'it is not complete, and others follow');
    // A page of the line that did not reach the disk reads as zeros, which no JSON has.
    if (!hasNewline || bytes.includes(0)) {
      torn = number;
      continue;
    }
    const text = bytes.toString();
    const end = offset + bytes.length + 1;
    if (!replayed) {
      const header = decodeHeader(text, path);
      const states = new RowStates(header.rows);
      replayed = { header, states, origins: new Map(), finishedAt: undefined, last: 0, end };
      continue;
    }
    const event = decodeEvent(text);
    if (!event || ('row' in event && event.row > replayed.header.rows)) {
      throw damagedError(path, number, 'it is not what pets writes there');
    }
    apply(replayed, event, offset);
    replayed.last = offset;
    replayed.end = end;
  }
  return replayed;
}

function apply(replayed: Replayed, event: Event, offset: number): void {
  replayed.finishedAt = event.status === 'finished' ? event.at : undefined;
  if (event.status === 'finished') return;
  replayed.states.set(event.row, stateAfter[event.status], offset);
  // It stays, whatever becomes of the row here: it is the same send.
  if ('origin' in event && event.origin !== undefined) replayed.origins.set(event.row, event.origin);
}
