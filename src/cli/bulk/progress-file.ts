import { type Files, type OpenFile, readAll, writeAll } from '../../store/files.ts';
import { damagedError, writeError } from './job-errors.ts';
import { LineReader, linesOf } from './lines.ts';
import { decodeEntry, type Entry, encodeEntry, encodeHeader, type Header } from './progress-format.ts';
import { type Known, openIfThere, replay } from './progress-replay.ts';
import { RowStates } from './row-states.ts';

export const PROGRESS = 'progress.ndjson';
const PART_BYTES = 2 ** 18;

/** A progress file that was read, and is open for appending. */
export type Progress = Known & { file: ProgressFile };

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

  /** What it holds, in parts. */
  async *parts(): AsyncGenerator<Buffer> {
    const part = Buffer.allocUnsafeSlow(PART_BYTES);
    for (let position = 0; position < this.#end; position += part.length) {
      const read = await readAll(this.#file, part, position);
      yield part.subarray(0, Math.min(read, this.#end - position));
    }
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
      origins: new Map(),
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
  const file = await openIfThere(files, path, 'change');
  if (!file) return undefined;
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
