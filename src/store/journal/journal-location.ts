import { join, resolve } from 'node:path';
import type { Clock } from '../../contract/clock.ts';
import { abortable, errnoOf, type FileSystem, isMissing, realFileSystem } from '../../system/file-system.ts';
import type { StoreLocation } from '../backend.ts';
import type { StoreContents } from '../contents.ts';
import { fileSystemHint, StoreError, toStoreError } from '../errors.ts';
import { openJournalBackend } from './journal-backend.ts';
import { KeyFiles } from './key-files.ts';
import { JOURNAL } from './load-journal.ts';
import { readContents } from './read-contents.ts';
import { writeContents } from './write-contents.ts';

/** A directory that contains a store, or can contain one. Only `open` locks it. */
export function journalLocation(
  place: string,
  clock: Clock,
  files: FileSystem = realFileSystem,
): StoreLocation {
  const directory = resolve(place);
  const convertError = (error: unknown, action: string): StoreError => {
    if (isMissing(error) && 'path' in error && error.path === join(directory, JOURNAL)) {
      return new StoreError(
        `there is no store in ${directory}`,
        'name the directory of a store (--data of pets serve)',
      );
    }
    const converted = toStoreError(error, action);
    const { cause } = converted;
    if (!(cause instanceof Error && 'path' in cause)) return converted;
    // The usual hint suggests --data, which `pets store` does not have.
    const hint = fileSystemHint(errnoOf(cause), 'choose another directory');
    return new StoreError(converted.message, hint, { cause });
  };
  /** Converts an error that occurred before `signal` was aborted. */
  const failWith =
    (action: string, signal?: AbortSignal) =>
    (error: unknown): never => {
      signal?.throwIfAborted();
      throw convertError(error, action);
    };
  const read = (signal?: AbortSignal): Promise<StoreContents> =>
    readContents(directory, abortable(files, signal), clock.now()).catch(
      failWith(`read the store in ${directory}`, signal),
    );
  return {
    place,
    isShared: false,
    open: (options) => openJournalBackend(directory, options, files),
    manageKeys: (task) => task(new KeyFiles(directory, { clock, files })),
    check: async () => (await read()).report,
    read: async (task, signal) => task(await read(signal)),
    write: (contents, verify, signal) =>
      writeContents(directory, contents, verify, abortable(files, signal)).catch(
        failWith(`write a store to ${directory}`, signal),
      ),
    migrate: async () => undefined,
    pendingSql: async () => undefined,
  };
}
