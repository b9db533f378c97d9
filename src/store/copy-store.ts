import { setImmediate } from 'node:timers/promises';
import type { StoreLocation } from './backend.ts';
import type { StoreContents, StoredAnimal } from './contents.ts';
import { ContentsDigest } from './contents-digest.ts';
import { StoreError } from './errors.ts';
import type { StoreReport } from './store.ts';

/** How many animals of `total` were copied, or read again from the copy. */
export type CopyProgress = { step: 'copied' | 'verified'; done: number; total: number };

export type CopyOptions = {
  onProgress?: ((progress: CopyProgress) => void) | undefined;
  /** If aborted, the copy stops. */
  signal?: AbortSignal | undefined;
};

/**
 * Makes a consistent copy of a store, also while servers use it. Reads the copy again and compares everything before the
 * target becomes a store. After an error, the target is as before (see `StoreLocation.write` for the exception).
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

  /** Adds the animals to the digest while they are read. */
  async function* watch(
    contents: StoreContents,
    digest: ContentsDigest,
    step: CopyProgress['step'],
  ): AsyncGenerator<readonly StoredAnimal[]> {
    const total = contents.report.animals;
    onProgress({ step, done: 0, total });
    for await (const animals of contents.animals()) {
      // Let Node handle signals between two batches.
      await setImmediate();
      signal?.throwIfAborted();
      digest.add(animals);
      yield animals;
      onProgress({ step, done: digest.animals, total });
    }
  }

  return source.read(async (contents) => {
    const digest = new ContentsDigest();
    let copy = contents.report;
    await target.write(
      { ...contents, animals: () => watch(contents, digest, 'copied') },
      async (written) => {
        const copyDigest = new ContentsDigest();
        for await (const _ of watch(written, copyDigest, 'verified'));
        compare(digest.result(contents), copyDigest.result(written));
        if (digest.animals !== contents.report.animals) throw differenceError('animals');
        copy = written.report;
      },
      signal,
    );
    return { source: contents.report, copy };
  }, signal);

  function compare(expected: Record<string, string>, found: Record<string, string>): void {
    const different = Object.keys(expected).filter((name) => expected[name] !== found[name]);
    if (different.length > 0) throw differenceError(different.join(', '));
  }

  function differenceError(parts: string): StoreError {
    return new StoreError(
      `the copy in ${target.place} differs from ${source.place}: ${parts}`,
      'try again; if the error remains, check the disk or the database of the target',
    );
  }
}
