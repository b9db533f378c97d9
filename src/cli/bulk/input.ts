import { createHash } from 'node:crypto';
import { createReadStream } from 'node:fs';
import { realpath, stat } from 'node:fs/promises';
import * as z from 'zod/mini';
import { InterruptedError } from '../../client/errors.ts';
import { NewPet } from '../../contract/schemas.ts';
import type { Runtime } from '../command.ts';
import { fileError, usageError } from '../errors/cli-error.ts';
import { EmptyNames } from '../input/empty-names.ts';
import { FaultTeller } from '../input/fault-list.ts';
import { explainNotText, refuseWorkbook, unreadable } from '../input/file-errors.ts';
import { describeFaults } from '../input/row-faults.ts';
import type { RowFormat } from '../input/row-formats.ts';
import { formatOfPath, readRows } from '../input/rows.ts';
import type { BulkSource, InputRow } from './job-types.ts';

/** An input that was read to its end without a fault; `sha256` is that of its bytes. */
export type CheckedInput = { source: BulkSource; sha256: string; rows: number };

export type InputOptions = { from: string; format?: RowFormat | undefined };

/** More names of fields that are not sent are not worth a line. */
const FIELDS_TOLD = 10;

const ROWS_AT_ONCE = 500;

/**
 * Reads every row before any is sent, and hands the good ones over. Every fault is told on stderr by its line.
 *
 * @throws CliError where the input cannot be read or has a fault
 */
export async function checkInput(
  { from, format }: InputOptions,
  { context, console }: Runtime,
  take: (row: InputRow) => Promise<void>,
): Promise<CheckedInput> {
  const source = await sourceOf(from);
  refuseWorkbook(source.name);
  const form = formatFor(source, format);
  const bytes = from === '-' ? context.stdin : createReadStream(from);
  const interrupt = new AbortController();
  const stop = () => {
    interrupt.abort(new InterruptedError());
    bytes.destroy(interrupt.signal.reason);
  };
  // A pipe by name may wait for its writer where nothing can wake it: there the signal ends the process, as ever.
  const isWakeable = from === '-' || source.path !== undefined;
  const unsubscribe = isWakeable ? context.onSignal(['SIGINT'], stop) : () => {};
  const hash = createHash('sha256');
  const notSent = new Set<string>();
  let hasStatus = false;
  const emptyNames = new EmptyNames();
  const faults = new FaultTeller(console, source.name);
  let rows = 0;
  try {
    for await (const row of readRows(hashed(bytes, hash), form)) {
      // Rows come many at once; a signal is heard only in between.
      if (rows++ % ROWS_AT_ONCE === 0) {
        await new Promise((resolve) => setImmediate(resolve));
        interrupt.signal.throwIfAborted();
      }
      if ('fault' in row) {
        await faults.tell(row.line, row);
        continue;
      }
      const parsed = z.safeParse(NewPet, row.value);
      if (!parsed.success) {
        await faults.tell(row.line, describeFaults(parsed.error, row));
        continue;
      }
      for (const field of Object.keys(row.value as object)) {
        if (field !== '' && !(field in NewPet.shape) && notSent.size < FIELDS_TOLD) notSent.add(field);
      }
      hasStatus ||= parsed.data.status !== undefined;
      emptyNames.look(row.line, parsed.data.name);
      await take({ line: row.line, pet: parsed.data });
    }
  } catch (error) {
    if ((error as NodeJS.ErrnoException).syscall) throw fileError('read', source.name, error);
    throw explainNotText(error, source.name, form);
  } finally {
    unsubscribe();
  }
  faults.end();
  const ids = notSent.delete('id');
  if (ids)
    console.notice(
      'ids are not sent: every row becomes a new animal, and the service gives it an id of its own',
    );
  if (notSent.size > 0) {
    const lost = hasStatus ? '' : '; without a column status every animal becomes available';
    console.notice(`not sent, the service has no such field: ${[...notSent].join(', ')}${lost}`);
  }
  const empty = emptyNames.describe();
  if (empty !== undefined) console.notice(empty);
  return { source, sha256: hash.digest('hex'), rows };
}

/** Only a file of its own has a path by which a later run knows it: a pipe of the shell has none. */
async function sourceOf(from: string): Promise<BulkSource> {
  if (from === '-') return { name: 'standard input', path: undefined };
  try {
    const isFile = (await stat(from)).isFile();
    return { name: from, path: isFile ? await realpath(from) : undefined };
  } catch (error) {
    throw await unreadable(from, error);
  }
}

/** Where there is no name that tells it, the text does. */
function formatFor({ name, path }: BulkSource, format: RowFormat | undefined): RowFormat | undefined {
  if (format !== undefined || path === undefined) return format;
  const told = formatOfPath(name);
  if (told === undefined) {
    throw usageError(`cannot tell the format of ${name}`, 'say it: --format csv, ndjson or json');
  }
  return told;
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
