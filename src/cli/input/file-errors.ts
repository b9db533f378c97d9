import { readdir } from 'node:fs/promises';
import { basename, dirname, extname, join } from 'node:path';
import { type CliError, fileError, usageError } from '../errors/cli-error.ts';
import type { RowFormat } from './row-formats.ts';
import { formatOfPath } from './rows.ts';
import { NotTextError } from './text.ts';

const AS_CSV = 'in Excel: Save As → CSV UTF-8 (comma delimited)';

const WORKBOOKS = new Set(['.xlsx', '.xlsm', '.xlsb', '.xls', '.ods']);

/** @throws CliError for a file that is a workbook by its name */
export function refuseWorkbook(path: string): void {
  if (WORKBOOKS.has(extname(path).toLowerCase())) throw usageError(`${path} is a workbook, not text`, AS_CSV);
}

/** What is no text, with what to do; any other error as it is. `format` is that of the input, where it is known. */
export function explainNotText(error: unknown, name: string, format: RowFormat | undefined): unknown {
  if (!(error instanceof NotTextError)) return error;
  const isTable = error.isWorkbook || format === undefined || format === 'csv';
  return usageError(`${name} ${error.message}`, isTable ? AS_CSV : 'save it as UTF-8');
}

/** A file that cannot be read; where there is none, with the one that may have been meant. */
export async function unreadable(path: string, error: unknown): Promise<CliError> {
  const isMissing = (error as NodeJS.ErrnoException).code === 'ENOENT';
  const similar = isMissing ? await similarFile(path) : undefined;
  return fileError('read', path, error, similar && `did you mean ${similar}?`);
}

/** A file beside it whose name differs in capitals, or in an extension that a file manager does not show. */
async function similarFile(path: string): Promise<string | undefined> {
  const directory = dirname(path);
  const name = basename(path).toLowerCase();
  const names = await readdir(directory).catch(() => []);
  const isSimilar = (other: string) =>
    other === name || (other.startsWith(`${name}.`) && formatOfPath(other) !== undefined);
  const found = names.sort().find((other) => isSimilar(other.toLowerCase()));
  return found && join(directory, found);
}
