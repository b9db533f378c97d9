import { type Files, isMissing, type OpenFile, readAll, writeAll } from '../../store/files.ts';
import { damagedError, writeError } from './job-errors.ts';
import { LineReader, linesOf } from './lines.ts';
import {
  decodeEntry,
  decodeEvent,
  decodeHeader,
  type Entry,
  type Event,
  encodeEntry,
  encodeHeader,
  type Header,
} from './progress-format.ts';
import { RowStates, stateAfter } from './row-states.ts';

export const PROGRESS = 'progress.ndjson';

/** What a progress file says. `finishedAt`, an instant of ISO 8601, only where that is its last line. */
export type Progress = {
  header: Header;
  states: RowStates;
  finishedAt: string | undefined;
  file: ProgressFile;
};

/** A progress file that is open for appending. */
class ProgressFile {
  readonly path: string;
  #file: OpenFile;
  #end: number;
  #last: Promise<unknown> = Promise.resolve();
  #failure: Error | undefined;

  constructor(path: string, file: OpenFile, end: number) {
    this.path = path;
    this.#file = file;
    this.#end = end;
  }

  /** On the disk once it is done; gives the line's offset. One after the other. @throws CliError, from then on always */
  append(entry: Entry): Promise<number> {
    const appended = this.#last.then(() => this.#append(encodeEntry(entry)));
    this.#last = appended.catch(() => {});
    return appended;
  }

  /** Somebody may have tidied up: what is written to a file without a name is lost. @throws CliError */
  async expectThere(): Promise<void> {
    if (this.#failure) throw this.#failure;
    const { size, names } = await this.#file.status();
    if (names === 0) throw this.#fail(new Error('it was removed while rows were being added'));
    if (size !== this.#end) throw this.#fail(new Error('something else has changed it'));
  }

  /** Reads single lines, with every digit. @throws CliError where one is damaged */
  reader(): (offset: number) => Promise<Entry> {
    const lines = new LineReader(this.#file);
    return async (offset) => {
      const entry = decodeEntry(await lines.lineAt(offset));
      if ('why' in entry) throw damagedError(this.path, await this.#numberOf(offset), entry.why);
      return entry.data;
    };
  }

  async close(): Promise<void> {
    await this.#last;
    await this.#file.close();
  }

  async #append(line: Buffer): Promise<number> {
    await this.expectThere();
    const offset = this.#end;
    try {
      await writeAll(this.#file, line, offset);
      await this.#file.datasync();
    } catch (error) {
      throw this.#fail(error);
    }
    this.#end += line.length;
    return offset;
  }

  /** What a failed write or sync has left is not known: nothing is written behind it. */
  #fail(cause: unknown): Error {
    this.#failure = writeError(this.path, cause);
    return this.#failure;
  }

  async #numberOf(offset: number): Promise<number> {
    for await (const line of linesOf(this.#file)) if (line.offset >= offset) return line.number;
    return 0;
  }
}

/** Makes a progress file where there is none; on the disk once it is done, but for its name. */
export async function createProgress(
  files: Files,
  path: string,
  header: Omit<Header, 'version'>,
): Promise<Progress> {
  const file = await files.open(path, 'create');
  try {
    const line = encodeHeader(header);
    await writeAll(file, line, 0);
    await file.datasync();
    return {
      header: { version: 1, ...header },
      states: new RowStates(header.rows),
      finishedAt: undefined,
      file: new ProgressFile(path, file, line.length),
    };
  } catch (error) {
    await file.close();
    throw error;
  }
}

/**
 * Reads a progress file whose job this process has. A last line that was torn is cut off. Undefined where there is
 * none, or one that was torn in its first line: nothing is sent before that is on the disk.
 *
 * @throws CliError where it is damaged, and then it is as it was
 */
export async function loadProgress(files: Files, path: string): Promise<Progress | undefined> {
  let file: OpenFile;
  try {
    file = await files.open(path, 'change');
  } catch (error) {
    if (isMissing(error)) return undefined;
    throw error;
  }
  try {
    const replayed = await replay(file, path);
    if (!replayed) {
      await file.close();
      return undefined;
    }
    const { last, end, ...progress } = replayed;
    if ((await file.status()).size > end) await file.truncate(end);
    await rewrite(file, last, end);
    return { ...progress, file: new ProgressFile(path, file, end) };
  } catch (error) {
    await file.close();
    throw error;
  }
}

/**
 * Writes what stands there once more, and syncs it: whoever wrote it may have been killed before the sync, and after a
 * sync that failed a system may take for written what is not.
 */
async function rewrite(file: OpenFile, from: number, end: number): Promise<void> {
  const bytes = Buffer.alloc(end - from);
  await readAll(file, bytes, from);
  await writeAll(file, bytes, from);
  await file.datasync();
}

/** `last` is where the last whole line begins, `end` where it ends. */
type Replayed = Omit<Progress, 'file'> & { last: number; end: number };

async function replay(file: OpenFile, path: string): Promise<Replayed | undefined> {
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
      replayed = { header, states: new RowStates(header.rows), finishedAt: undefined, last: 0, end };
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
}
