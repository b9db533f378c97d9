import { join, resolve } from 'node:path';
import type { Clock } from '../../contract/clock.ts';
import { abortable, errnoOf, type FileSystem, isMissing, realFileSystem } from '../../system/file-system.ts';
import type { StoreLocation } from '../backend.ts';
import { fileSystemHint, StoreError, toStoreError } from '../errors.ts';
import { copyStore } from './copy-store.ts';
import { openJournalBackend } from './journal-backend.ts';
import { KeyFiles } from './key-files.ts';
import { JOURNAL } from './load-journal.ts';
import { readStore } from './read-store.ts';

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
    if (converted.cause === undefined) return converted;
    // The usual hint suggests --data, which `pets store` does not have.
    const hint = fileSystemHint(errnoOf(converted.cause), 'choose another directory');
    return new StoreError(converted.message, hint, { cause: converted.cause });
  };
  return {
    place,
    isShared: false,
    open: (options) => openJournalBackend(directory, options),
    manageKeys: (task) => task(new KeyFiles(directory, { clock, files })),
    check: () =>
      readStore(directory, { clock, files }).then(
        ({ report }) => report,
        (error) => {
          throw convertError(error, `check the store in ${directory}`);
        },
      ),
    copyTo: (target, signal) =>
      copyStore(directory, resolve(target), { clock, files: abortable(files, signal) }).catch((error) => {
        signal?.throwIfAborted();
        throw convertError(error, `copy the store in ${directory} to ${resolve(target)}`);
      }),
  };
}
