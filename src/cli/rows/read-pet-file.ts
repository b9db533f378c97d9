import { createHash } from 'node:crypto';
import { createReadStream } from 'node:fs';
import { realpath, stat } from 'node:fs/promises';
import * as z from 'zod/mini';
import { InterruptedError } from '../../client/errors.ts';
import { NewPet } from '../../contract/schemas.ts';
import { fileError, usageError } from '../errors/errors.ts';
import type { CommandContext } from '../program/command.ts';
import type { RowFormat } from './formats.ts';
import { describeNotText, refuseWorkbook, unreadableFile } from './input-file.ts';
import { formatOfPath, readRows } from './read-rows.ts';
import { describeInvalidRow, EmptyNames, RowErrorReporter } from './row-errors.ts';

export type InputOptions = { from: string; format?: RowFormat | undefined };

/** An animal of the input, and the line on which it is, from 1. */
export type PetRow = { line: number; pet: NewPet };

/** An input that was checked. */
export type PetFile = {
  /** As the user typed it. */
  name: string;
  /** The real path; undefined for standard input and other pipes. */
  path: string | undefined;
  /** The SHA-256 of the bytes of the input, in hexadecimal digits. */
  sha256: string;
  rows: PetRow[];
};

/** The maximum number of ignored fields that a notice names. */
const FIELDS_SHOWN = 10;
const ROWS_BETWEEN_SIGNALS = 500;

/**
 * Reads and checks all rows of a file or of standard input. Each error in a row is reported on stderr with its line.
 *
 * @throws CliError if the input cannot be read, has an error, or has too many rows
 */
export async function readPetFile(
  { from, format }: InputOptions,
  { console, stdin, onSignal }: CommandContext,
  maxRows: number,
): Promise<PetFile> {
  const source = await sourceOf(from);
  const { name } = source;
  refuseWorkbook(name);
  const form = formatFor(source, format);
  const bytes = from === '-' ? stdin : createReadStream(from);
  const interrupt = new AbortController();
  const stop = () => {
    interrupt.abort(new InterruptedError());
    bytes.destroy(interrupt.signal.reason);
  };
  // Opening a named pipe blocks until it has a writer, and cannot be aborted: then the signal ends the process.
  const canAbort = from === '-' || source.path !== undefined;
  const unsubscribe = canAbort ? onSignal(['SIGINT'], stop) : () => {};
  const contentHash = createHash('sha256');
  const rows: PetRow[] = [];
  const fields = new Set<string>();
  const emptyNames = new EmptyNames();
  const errors = new RowErrorReporter(console, name);
  let read = 0;
  try {
    for await (const row of readRows(hashed(bytes, contentHash), form)) {
      if (read++ === maxRows) {
        throw usageError(`${name} has more than ${maxRows} rows; nothing was sent`, 'split the file');
      }
      // Rows come many at a time; signals are handled only between turns of the event loop.
      if (read % ROWS_BETWEEN_SIGNALS === 1) {
        await new Promise((resolve) => setImmediate(resolve));
        interrupt.signal.throwIfAborted();
      }
      if ('error' in row) {
        await errors.report(row.line, row);
        continue;
      }
      const parsed = z.safeParse(NewPet, row.value);
      if (!parsed.success) {
        await errors.report(row.line, describeInvalidRow(parsed.error, row));
        continue;
      }
      for (const field of Object.keys(row.value as object)) fields.add(field);
      emptyNames.check(row.line, parsed.data.name);
      rows.push({ line: row.line, pet: parsed.data });
    }
  } catch (error) {
    if ((error as NodeJS.ErrnoException).syscall) throw fileError('read', name, error);
    throw describeNotText(error, name, form);
  } finally {
    unsubscribe();
  }
  errors.throwIfAny();
  for (const notice of notices(fields, rows, emptyNames)) console.notice(notice);
  return { ...source, sha256: contentHash.digest('hex'), rows };
}

function* notices(fields: Set<string>, rows: readonly PetRow[], emptyNames: EmptyNames): Generator<string> {
  if (fields.delete('id')) {
    yield 'ids are not sent; the service assigns a new id to each animal';
  }
  const unknown = [...fields].filter((field) => field !== '' && !(field in NewPet.shape));
  if (unknown.length > 0) {
    const hasStatus = rows.some(({ pet }) => pet.status !== undefined);
    const lost = hasStatus ? '' : '; no row has a status, so every animal becomes available';
    yield `fields not sent, because the service does not have them: ${unknown.slice(0, FIELDS_SHOWN).join(', ')}${lost}`;
  }
  const empty = emptyNames.describe();
  if (empty !== undefined) yield empty;
}

/** The name and path of the input. Pipes get no path, because a later run could not find its ledger by it. */
async function sourceOf(from: string): Promise<Pick<PetFile, 'name' | 'path'>> {
  if (from === '-') return { name: 'standard input', path: undefined };
  try {
    const isFile = (await stat(from)).isFile();
    return { name: from, path: isFile ? await realpath(from) : undefined };
  } catch (error) {
    throw await unreadableFile(from, error);
  }
}

/** Without a file name the format is detected from the text. */
function formatFor(
  { name, path }: Pick<PetFile, 'name' | 'path'>,
  format: RowFormat | undefined,
): RowFormat | undefined {
  if (format !== undefined || path === undefined) return format;
  const found = formatOfPath(name);
  if (found === undefined) {
    throw usageError(`cannot detect the format of ${name}`, 'use --format csv, ndjson or json');
  }
  return found;
}

async function* hashed(
  input: AsyncIterable<Uint8Array>,
  hash: ReturnType<typeof createHash>,
): AsyncGenerator<Uint8Array> {
  for await (const chunk of input) {
    hash.update(chunk);
    yield chunk;
  }
}
