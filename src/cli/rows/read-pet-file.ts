import { createHash, type Hash } from 'node:crypto';
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

/** An animal of the input. Lines count from 1. */
export type PetRow = { line: number; pet: NewPet };

/** An input whose rows are all valid. */
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
  const isPiped = from === '-';
  const name = isPiped ? 'standard input' : from;
  const path = isPiped ? undefined : await realPathOf(from);
  refuseWorkbook(name);
  const form = format ?? (path === undefined ? undefined : formatOfPath(from));
  if (path !== undefined && form === undefined)
    throw usageError(`cannot detect the format of ${name}`, 'use --format csv, ndjson or json');
  const input = isPiped ? stdin : createReadStream(from);
  // Opening a named pipe blocks until it has a writer. This cannot be aborted, so the signal must end the process.
  const canAbort = isPiped || path !== undefined;
  const interrupt = new AbortController();
  const stop = () => {
    interrupt.abort(new InterruptedError());
    input.destroy(interrupt.signal.reason);
  };
  const unsubscribe = canAbort ? onSignal(['SIGINT'], stop) : () => {};
  const hash = createHash('sha256');
  const rows: PetRow[] = [];
  const fields = new Set<string>();
  const emptyNames = new EmptyNames();
  const errors = new RowErrorReporter(console, name);
  let read = 0;
  try {
    for await (const row of readRows(hashed(input, hash), form)) {
      if (read++ === maxRows)
        throw usageError(`${name} has more than ${maxRows} rows; nothing was sent`, 'split the file');
      // Many rows are parsed at a time, but signals are handled only between turns of the event loop.
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
    interrupt.signal.throwIfAborted();
  } catch (error) {
    if ((error as NodeJS.ErrnoException).syscall) throw fileError('read', name, error);
    throw describeNotText(error, name, form);
  } finally {
    unsubscribe();
  }
  errors.throwIfAny();
  for (const notice of [describeIgnoredFields(fields, rows), emptyNames.describe()].flat())
    if (notice !== undefined) console.notice(notice);
  return { name, path, sha256: hash.digest('hex'), rows };
}

function describeIgnoredFields(fields: ReadonlySet<string>, rows: readonly PetRow[]): string[] {
  const ids = fields.has('id') ? ['ids are not sent; the service assigns a new id to each animal'] : [];
  const unknown = [...fields].filter((field) => !['', 'id'].includes(field) && !(field in NewPet.shape));
  if (unknown.length === 0) return ids;
  const hasStatus = rows.some(({ pet }) => pet.status !== undefined);
  const lost = hasStatus ? '' : '; no row has a status, so every animal becomes available';
  const names = unknown.slice(0, FIELDS_SHOWN).join(', ');
  return [...ids, `fields not sent, because the service does not have them: ${names}${lost}`];
}

/** The real path of a file. Pipes have none, because a later run could not find its ledger by their path. */
async function realPathOf(from: string): Promise<string | undefined> {
  try {
    return (await stat(from)).isFile() ? await realpath(from) : undefined;
  } catch (error) {
    throw await unreadableFile(from, error);
  }
}

async function* hashed(input: AsyncIterable<Uint8Array>, hash: Hash): AsyncGenerator<Uint8Array> {
  for await (const chunk of input) {
    hash.update(chunk);
    yield chunk;
  }
}
