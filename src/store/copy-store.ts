import { createHash } from 'node:crypto';
import { setImmediate } from 'node:timers/promises';
import type { StoreContents, StoredAnimal, StoreLocation } from './backend.ts';
import { StoreError } from './errors.ts';
import type { StoreReport } from './store.ts';

/** How many animals of `total` were copied, or read again from the copy. */
export type CopyProgress = { step: 'copied' | 'verified'; done: number; total: number };

type CopyOptions = {
  onProgress?: ((progress: CopyProgress) => void) | undefined;
  signal?: AbortSignal | undefined;
};

/**
 * Makes a consistent copy of a store, also while servers use it. Reads the copy again and compares everything before
 * the target becomes a store. After an error, the target is as before (see `StoreLocation.write` for the exception).
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

  /** Returns the animals of the contents. While they are read, reports progress and calculates the checksum. */
  function watch(contents: StoreContents, step: CopyProgress['step']) {
    const checksum = new Checksum(contents);
    const total = contents.report.animals;
    async function* animals(): AsyncGenerator<readonly StoredAnimal[]> {
      onProgress({ step, done: 0, total });
      for await (const part of contents.animals()) {
        // Let Node handle signals between two batches.
        await setImmediate();
        signal?.throwIfAborted();
        checksum.add(part);
        yield part;
        onProgress({ step, done: checksum.animals, total });
      }
      signal?.throwIfAborted();
    }
    return { animals, checksum };
  }

  return source.read(async (contents) => {
    const original = watch(contents, 'copied');
    let copy = contents.report;
    await target.write(
      { ...contents, animals: original.animals },
      async (written) => {
        const copied = watch(written, 'verified');
        for await (const _ of copied.animals());
        const isComplete = original.checksum.animals === contents.report.animals;
        if (!isComplete || original.checksum.digest() !== copied.checksum.digest()) {
          throw new StoreError(
            `the copy in ${target.place} differs from ${source.place}`,
            'try again; if the error remains, check the disk or the database of the target',
          );
        }
        copy = written.report;
      },
      signal,
    );
    return { source: contents.report, copy };
  }, signal);
}

/** The checksum of everything in a store. */
class Checksum {
  animals = 0;
  #hash = createHash('sha256');

  constructor({ report, secret, created, nextId, orders, keys, bans }: StoreContents) {
    const keysByName = [...keys]
      .sort((a, b) => (a.name < b.name ? -1 : 1))
      .map(({ created, ...key }) => [
        key.name,
        key.plan,
        key.perMinute,
        key.perDay,
        key.sha256,
        Date.parse(created),
      ]);
    const rest = [report.id, secret, Date.parse(created), `${nextId}`, orders, keysByName, [...bans].sort()];
    this.#hash.update(`${JSON.stringify(rest)}\n`);
  }

  add(animals: readonly StoredAnimal[]): void {
    this.animals += animals.length;
    for (const { id, status, text, idempotency } of animals) {
      const { fingerprint, at } = idempotency ?? {};
      this.#hash.update(`${id} ${status} ${JSON.stringify(text)} ${fingerprint} ${at}\n`);
    }
  }

  /** The checksum of what was added. Can be called only once. */
  digest(): string {
    return this.#hash.digest('hex');
  }
}
