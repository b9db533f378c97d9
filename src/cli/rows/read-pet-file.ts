import { createHash } from 'node:crypto';
import { createReadStream, fstatSync } from 'node:fs';
import { realpath, stat } from 'node:fs/promises';
import { InterruptedError } from '../../client/errors.ts';
import { NewPet } from '../../contract/schemas.ts';
import { fileError, usageError } from '../core/errors.ts';
import type { CommandContext } from '../program/command.ts';
import { readInput, requireFormat, unreadableFile, utf8Text } from './input-file.ts';
import { readRows } from './read-rows.ts';
import { EMPTY_NAME, type RowError, type RowFormat, type RowValue } from './row.ts';
import { checkRow, RowErrorReporter } from './row-errors.ts';

export type InputOptions = { from: string; format?: RowFormat | undefined };

/** An animal of the input. Lines count from 1. */
export type PetRow = { line: number; pet: NewPet };

/** An input whose rows are all valid. */
export type PetFile = {
  /** The path as the user typed it, or `standard input`. */
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
 * Reads and checks all rows of a file or of standard input. Errors in rows are reported on stderr.
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
  // Node reads a directory on standard input as an empty stream.
  if (isPiped && stdin.fd !== undefined && fstatSync(stdin.fd).isDirectory())
    throw fileError('read', name, { code: 'EISDIR' });
  const path = isPiped ? undefined : await realPathOf(from);
  const isFile = path !== undefined;
  const form = isFile ? requireFormat(from, 'use --format csv, ndjson or json', format) : format;
  const input = isPiped ? stdin : createReadStream(from);
  // Opening a named pipe blocks until a process writes to it. Nothing can abort that, so Ctrl-C must end the process.
  const canAbort = isPiped || isFile;
  const interrupt = new AbortController();
  const stop = () => {
    interrupt.abort(new InterruptedError());
    input.destroy(interrupt.signal.reason);
  };
  const unsubscribe = canAbort ? onSignal(['SIGINT'], stop) : () => {};
  const rows: PetRow[] = [];
  const fields = new Set<string>();
  const errors = new RowErrorReporter(console, name);
  let read = 0;
  try {
    const bytes = await readInput(input, name);
    // A command that fails often leaves an empty file or pipe.
    if (bytes.length === 0)
      throw usageError(
        `${name} is empty`,
        'check the command that created it; a CSV file without animals needs a header line',
      );
    for (const row of readRows(utf8Text(bytes, name, form), form)) {
      if (read++ === maxRows)
        throw usageError(`${name} has more than ${maxRows} rows; nothing was sent`, 'split the file');
      // Wait for the next turn of the event loop, so that Ctrl-C is handled.
      if (read % ROWS_BETWEEN_SIGNALS === 1) {
        await new Promise((resolve) => setImmediate(resolve));
        interrupt.signal.throwIfAborted();
      }
      const checked = checkName(checkRow(row, NewPet));
      if ('error' in checked) {
        await errors.report(row.line, checked);
        continue;
      }
      for (const field of Object.keys((row as RowValue).value as object)) fields.add(field);
      rows.push({ line: row.line, pet: checked.pet });
    }
    interrupt.signal.throwIfAborted();
    errors.throwIfAny();
    for (const notice of describeIgnoredFields(fields, rows)) console.notice(notice);
    return { name, path, sha256: createHash('sha256').update(bytes).digest('hex'), rows };
  } finally {
    unsubscribe();
  }
}

/** Refuses a name that is empty or invisible, because the usual cause is a mistake in the file. */
function checkName(row: { pet: NewPet } | RowError): { pet: NewPet } | RowError {
  const isEmpty = 'pet' in row && EMPTY_NAME.test(row.pet.name);
  return isEmpty ? { error: 'name is empty' } : row;
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

/** The real path of a file; undefined for a pipe, because the same pipe path may have another input later. */
async function realPathOf(from: string): Promise<string | undefined> {
  try {
    return (await stat(from)).isFile() ? await realpath(from) : undefined;
  } catch (error) {
    throw await unreadableFile(from, error);
  }
}
