import { isAbsolute } from 'node:path';
import { setImmediate } from 'node:timers/promises';
import type { LocationContext, StoredAnimal, StoreLocation } from './backend.ts';
import { StoreError } from './errors.ts';
import { journalLocation } from './journal/journal-location.ts';
import type { DatabaseLocation } from './postgres/postgres-location.ts';
import type { StoreReport } from './store.ts';

/** Whether the text is the URL of a database, and not a directory. */
const isDatabaseUrl = (text: string): boolean => /^postgres(?:ql)?:/i.test(text);

/** Like `parseLocation`, but only for the URL of a database. @throws StoreError */
export async function parseDatabaseUrl(url: string, context: LocationContext): Promise<DatabaseLocation> {
  const { postgresLocation } = await import('./postgres/postgres-location.ts');
  return postgresLocation(url, context);
}

/**
 * Returns the location that a user has named: a directory, or the URL of a database. Loads the driver of the database
 * only if it is needed.
 *
 * @throws StoreError
 */
export async function parseLocation(text: string, context: LocationContext): Promise<StoreLocation> {
  if (isDatabaseUrl(text)) return parseDatabaseUrl(text, context);
  // A mistyped URL would name a new directory. The error does not contain the text, which may contain a password.
  if (!isAbsolute(text) && !/^\.\.?[/\\]/.test(text) && /[:@=$"'`]|\/\//.test(text)) {
    throw new StoreError(
      'the store must be a directory, or the URL of a PostgreSQL database',
      'use a directory, or a URL such as postgres://user@host/database; ' +
        'start the name of a directory with ./ if it contains : @ = $ // or quotes',
    );
  }
  return journalLocation(text, context.clock);
}

type CopyOptions = {
  /** Called with the number of animals that were copied, and of all animals. */
  onProgress?: ((done: number, total: number) => void) | undefined;
  signal?: AbortSignal | undefined;
};

/**
 * Copies a store as `StoreLocation.read` reads it, with its API keys, bans and unexpired idempotency keys. Compares the
 * id, the counts and the last id before the target becomes a store. Returns the reports of both; a torn end of the
 * source is not copied. `StoreLocation.write` says what the target contains after an error.
 *
 * @throws StoreError, or the reason of `signal`
 */
export async function copyStore(
  source: StoreLocation,
  target: StoreLocation,
  { onProgress = () => {}, signal }: CopyOptions = {},
): Promise<{ source: StoreReport; copy: StoreReport }> {
  if (source.place === target.place) {
    throw new StoreError(`${source.place} is both the source and the target`, 'name another target');
  }
  return source.read(async (contents) => {
    const { report } = contents;
    async function* animals(): AsyncGenerator<readonly StoredAnimal[]> {
      let done = 0;
      onProgress(done, report.animals);
      for await (const part of contents.animals()) {
        // Let Node handle signals between two batches.
        await setImmediate();
        signal?.throwIfAborted();
        yield part;
        done += part.length;
        onProgress(done, report.animals);
      }
    }
    let copy = report;
    const requireEqual = (written: StoreReport) => {
      copy = written;
      for (const name of ['id', 'animals', 'orders', 'keys', 'lastId'] as const) {
        if (written[name] === report[name]) continue;
        throw new StoreError(
          `the copy in ${target.place} differs from ${source.place}: ${name} is ${written[name]} instead of ${report[name]}`,
          'try again; if the error remains, check the disk or the database of the target',
        );
      }
    };
    await target.write({ ...contents, animals }, requireEqual, signal);
    return { source: report, copy };
  }, signal);
}
