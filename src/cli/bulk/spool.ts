import { createHash } from 'node:crypto';
import { chmod } from 'node:fs/promises';
import { join } from 'node:path';
import * as z from 'zod/mini';
import { NewPet } from '../../contract/schemas.ts';
import {
  ensureDirectory,
  type Files,
  type OpenFile,
  realFiles,
  removeFile,
  writeAll,
} from '../../store/files.ts';
import { readStored } from '../../store/stored-json.ts';
import { damagedError, placeError, readError } from './job-errors.ts';
import type { BulkPlace, InputRow, Spool } from './job-types.ts';
import { linesOf } from './lines.ts';

export const SPOOL = /^spool-[0-9a-f]{16}\.ndjson$/;
const BUFFER_CHARS = 2 ** 16;

const StoredRow = z.object({ line: z.int(), pet: NewPet });

/** What `openJob` needs of a spool. */
export class SpoolFile implements Spool {
  readonly path: string;
  /** How many were written. */
  rows = 0;
  #files: Files;
  #directory: string;
  #file: OpenFile;
  #text = '';
  #end = 0;
  #hash = createHash('sha256');

  constructor(files: Files, directory: string, path: string, file: OpenFile) {
    this.#files = files;
    this.#directory = directory;
    this.path = path;
    this.#file = file;
  }

  async write(row: InputRow): Promise<void> {
    this.#text += rowText(row);
    this.rows++;
    if (this.#text.length >= BUFFER_CHARS) await this.#flush();
  }

  /** Brings all to the disk and closes the file; gives the SHA-256 of what it holds. */
  async complete(): Promise<string> {
    await this.#flush();
    try {
      await this.#file.datasync();
      await this.#file.close();
    } catch (error) {
      throw placeError(this.#directory, error);
    }
    return this.#hash.digest('hex');
  }

  async discard(): Promise<void> {
    await this.#file.close().catch(() => {});
    await removeFile(this.#files, this.path).catch((error) => {
      throw placeError(this.#directory, error);
    });
  }

  async #flush(): Promise<void> {
    const bytes = Buffer.from(this.#text);
    this.#text = '';
    this.#hash.update(bytes);
    try {
      await writeAll(this.#file, bytes, this.#end);
    } catch (error) {
      throw placeError(this.#directory, error);
    }
    this.#end += bytes.length;
  }
}

/** Begins a file for the rows of an input. @throws CliError where the directory cannot be written */
export async function createSpool({ directory, random, files = realFiles }: BulkPlace): Promise<SpoolFile> {
  const path = join(directory, `spool-${random(8).toString('hex')}.ndjson`);
  try {
    await ensureDirectory(files, directory);
    await chmod(directory, 0o700);
    return new SpoolFile(files, directory, path, await files.open(path, 'create'));
  } catch (error) {
    throw placeError(directory, error);
  }
}

/** The rows of a spool that are wanted, in constant memory. @throws CliError where one is damaged, or there are not so many */
export async function* readRows(
  files: Files,
  path: string,
  rows: number,
  isWanted: (row: number) => boolean = () => true,
): AsyncGenerator<InputRow & { row: number }> {
  const file = await files.open(path, 'read').catch((error) => {
    throw readError(path, error);
  });
  try {
    let last = 0;
    for await (const { bytes, number } of linesOf(file)) {
      last = number;
      if (!isWanted(number)) continue;
      const stored = readStored(StoredRow, bytes.toString());
      if ('why' in stored) throw damagedError(path, number, stored.why);
      yield { row: number, ...stored.data };
    }
    if (last !== rows) throw damagedError(path, last + 1, `it has ${last} rows of ${rows}`);
  } finally {
    await file.close();
  }
}

/** What two rows share that ask for the same animal, and no others: 132 bits of a hash. One without a status is available. */
export const animalHash = ({ status = 'available', ...pet }: NewPet): string =>
  createHash('sha256')
    .update(newPetJson({ ...pet, status }))
    .digest('base64url')
    .slice(0, 22);

/** A line of a spool; the SHA-256 of all of them is that of an input's rows. */
export const rowText = ({ line, pet }: InputRow): string => `{"line":${line},"pet":${newPetJson(pet)}}\n`;

function newPetJson({ name, categoryId, status }: NewPet): string {
  const last = status === undefined ? '' : `,"status":"${status}"`;
  return `{"name":${JSON.stringify(name)},"categoryId":${categoryId}${last}}`;
}
