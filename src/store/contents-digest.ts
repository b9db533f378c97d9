import { createHash } from 'node:crypto';
import type { StoreContents, StoredAnimal } from './contents.ts';

/** Calculates checksums of the contents of a store. Pass all animals to `add`, then call `result`. */
export class ContentsDigest {
  /** The number of animals that were added. */
  animals = 0;
  #idempotencyKeys = 0;
  #animalsHash = createHash('sha256');
  #keysHash = createHash('sha256');

  add(animals: readonly StoredAnimal[]): void {
    const withKeys = animals.filter(({ idempotency }) => idempotency);
    this.animals += animals.length;
    this.#idempotencyKeys += withKeys.length;
    // A line ends with a newline, which no JSON text contains, so different animals have different lines.
    this.#animalsHash.update(
      animals.map(({ id, status, text }) => `${id} ${status} ${JSON.stringify(text)}\n`).join(''),
    );
    this.#keysHash.update(
      withKeys
        .map(({ id, idempotency }) => `${id} ${idempotency?.fingerprint} ${idempotency?.at}\n`)
        .join(''),
    );
  }

  /** A text for each part of the contents. Equal parts have equal texts. Call this once. */
  result({ report, secret, created, nextId, orders, keys, bans }: StoreContents): Record<string, string> {
    const sortedKeys = [...keys].sort((a, b) => (a.name < b.name ? -1 : 1));
    return {
      'store id': report.id,
      secret,
      'creation time': `${Date.parse(created)}`,
      'next id': `${nextId}`,
      animals: `${this.animals} ${this.#animalsHash.digest('hex')}`,
      'idempotency keys': `${this.#idempotencyKeys} ${this.#keysHash.digest('hex')}`,
      orders: JSON.stringify(orders),
      'API keys': JSON.stringify(
        sortedKeys.map(({ name, plan, perMinute, perDay, sha256, created }) => [
          name,
          plan,
          perMinute,
          perDay,
          sha256,
          Date.parse(created),
        ]),
      ),
      bans: JSON.stringify([...bans].sort()),
    };
  }
}
