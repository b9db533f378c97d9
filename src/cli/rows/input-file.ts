import { readdir } from 'node:fs/promises';
import { basename, dirname, extname, join } from 'node:path';
import { type CliError, fileError, usageError } from '../errors/errors.ts';
import type { RowFormat } from './formats.ts';
import { formatOfPath } from './read-rows.ts';
import { NotTextError } from './utf8-text.ts';

const SAVE_AS_CSV = 'in Excel: Save As → CSV UTF-8 (comma delimited)';

const WORKBOOKS = new Set(['.xlsx', '.xlsm', '.xlsb', '.xls', '.ods']);

/** @throws CliError if the extension is that of a spreadsheet */
export function refuseWorkbook(path: string): void {
  if (WORKBOOKS.has(extname(path).toLowerCase()))
    throw usageError(`${path} is a workbook, not text`, SAVE_AS_CSV);
}

/**
 * The format of a file by its extension.
 *
 * @throws CliError with the hint if the extension is unknown, or that of a spreadsheet
 */
export function requireFormat(path: string, hint: string): RowFormat {
  refuseWorkbook(path);
  const format = formatOfPath(path);
  if (format === undefined) throw usageError(`cannot detect the format of ${path}`, hint);
  return format;
}

/** Turns a NotTextError into a CliError with a hint; returns any other error unchanged. */
export function describeNotText(error: unknown, name: string, format: RowFormat | undefined): unknown {
  if (!(error instanceof NotTextError)) return error;
  const isTable = error.isWorkbook || format === undefined || format === 'csv';
  return usageError(`${name} ${error.message}`, isTable ? SAVE_AS_CSV : 'save it as UTF-8');
}

/** The error for a file that cannot be read. If it does not exist, suggests a file with a similar name. */
export async function unreadableFile(path: string, error: unknown): Promise<CliError> {
  const isMissing = (error as NodeJS.ErrnoException).code === 'ENOENT';
  const similar = isMissing ? await findSimilarFile(path) : undefined;
  return fileError('read', path, error, similar && `did you mean ${similar}?`);
}

/** A file in the same directory whose name differs only in case or in a missing extension. */
async function findSimilarFile(path: string): Promise<string | undefined> {
  const directory = dirname(path);
  const name = basename(path).toLowerCase();
  const names = await readdir(directory).catch(() => []);
  const isSimilar = (other: string) =>
    other === name || (other.startsWith(`${name}.`) && formatOfPath(other) !== undefined);
  const found = names.sort().find((other) => isSimilar(other.toLowerCase()));
  return found && join(directory, found);
}
