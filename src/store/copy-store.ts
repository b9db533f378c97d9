import { createHash } from 'node:crypto';
import { setImmediate } from 'node:timers/promises';
import type { StoreContents, StoredAnimal, StoreLocation } from './backend.ts';
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

  /** Calculates checksums of the contents while their animals are read. */
  function watch(contents: StoreContents, step: CopyProgress['step']) {
    const checksums = new Checksums(contents);
    const total = contents.report.animals;
    async function* animals(): AsyncGenerator<readonly StoredAnimal[]> {
      onProgress({ step, done: 0, total });
      for await (const part of contents.animals()) {
        // Let Node handle signals between two batches.
        await setImmediate();
        signal?.throwIfAborted();
        checksums.add(part);
        yield part;
        onProgress({ step, done: checksums.animals, total });
      }
      signal?.throwIfAborted();
    }
    return { animals, checksums };
  }

  return source.read(async (contents) => {
    const original = watch(contents, 'copied');
    let copy = contents.report;
    await target.write(
      { ...contents, animals: original.animals },
      async (written) => {
        const copied = watch(written, 'verified');
        for await (const _ of copied.animals());
        const [expected, found] = [original.checksums.result(), copied.checksums.result()];
        const different = Object.keys(expected).filter((part) => expected[part] !== found[part]);
        if (original.checksums.animals !== contents.report.animals) different.push('number of animals');
        if (different.length > 0) {
          throw new StoreError(
            `the copy in ${target.place} differs from ${source.place}: ${different.join(', ')}`,
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

/** One checksum for each part of the contents of a store. Equal parts have equal checksums. */
class Checksums {
  /** The number of animals that were added. */
  animals = 0;
  #parts = {
    animals: createHash('sha256'),
    'idempotency keys': createHash('sha256'),
    orders: createHash('sha256'),
    'API keys': createHash('sha256'),
  };

  constructor({ report, secret, created, nextId, orders, keys, bans }: StoreContents) {
    // A line ends with a newline, which no JSON text contains, so different contents have different lines.
    const line = (...values: unknown[]) => `${JSON.stringify(values)}\n`;
    this.#parts.animals.update(line(report.id, Date.parse(created), `${nextId}`));
    this.#parts['idempotency keys'].update(line(secret));
    for (const order of orders) this.#parts.orders.update(line(order));
    for (const { name, plan, perMinute, perDay, sha256, created } of [...keys].sort(byName)) {
      this.#parts['API keys'].update(line(name, plan, perMinute, perDay, sha256, Date.parse(created)));
    }
    for (const ban of [...bans].sort()) this.#parts['API keys'].update(line(...ban));
  }

  add(animals: readonly StoredAnimal[]): void {
    this.animals += animals.length;
    let [lines, keyLines] = ['', ''];
    for (const { id, status, text, idempotency } of animals) {
      lines += `${id} ${status} ${JSON.stringify(text)}\n`;
      if (idempotency) keyLines += `${id} ${idempotency.fingerprint} ${idempotency.at}\n`;
    }
    this.#parts.animals.update(lines);
    this.#parts['idempotency keys'].update(keyLines);
  }

  /** The checksum of each part. Call this once, after all animals were added. */
  result(): Record<string, string> {
    return Object.fromEntries(
      Object.entries(this.#parts).map(([part, checksum]) => [part, checksum.digest('hex')]),
    );
  }
}

const byName = (a: { name: string }, b: { name: string }): number => (a.name < b.name ? -1 : 1);
