import { join, resolve } from 'node:path';
import type { Clock } from '../../contract/clock.ts';
import { abortable, errnoOf, type FileSystem, isMissing, realFileSystem } from '../../system/file-system.ts';
import { fileSystemHint, StoreError, toStoreError } from '../errors.ts';
import type { StoreMaintenance } from '../store.ts';
import { copyStore } from './copy-store.ts';
import { JOURNAL } from './load-journal.ts';
import { readStore } from './read-store.ts';

/** Checks and copies the store in a directory. Does not lock the directory and changes nothing in it. */
export function journalMaintenance(
  directory: string,
  clock: Clock,
  files: FileSystem = realFileSystem,
): StoreMaintenance {
  const source = resolve(directory);
  const convertError = (error: unknown, action: string): StoreError => {
    if (isMissing(error) && 'path' in error && error.path === join(source, JOURNAL)) {
      return new StoreError(
        `there is no store in ${source}`,
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
    check: () =>
      readStore(source, { clock, files }).then(
        ({ report }) => report,
        (error) => {
          throw convertError(error, `check the store in ${source}`);
        },
      ),
    copyTo: (target, signal) =>
      copyStore(source, resolve(target), { clock, files: abortable(files, signal) }).catch((error) => {
        signal?.throwIfAborted();
        throw convertError(error, `copy the store in ${source} to ${resolve(target)}`);
      }),
  };
}
