import { StoreDamagedError, StoreError, StoreFailedError } from '../../src/store/errors.ts';
import { type JournalStore, openJournalStore } from '../../src/store/journal/journal-store.ts';
import type { CreatePet } from '../../src/store/store.ts';
import type { FileSystem } from '../../src/system/file-system.ts';
import { manualClock } from './clock.ts';
import { SimulatedDisk } from './store-disk.ts';
import { allTexts, animal, callsOf, idempotency, noLock, randomOf } from './store-fixtures.ts';

/** How often each event happened in a simulation. */
export type Counts = Record<'runs' | 'added' | 'replayed' | 'listed' | 'torn' | 'failed', number>;

const idOf = (text: string) => /^\{"id":(-?\d+),/.exec(text)?.[1] ?? '';

/**
 * Runs a store several times on a simulated disk, with failed calls, kills and power losses at random moments. The same
 * seed gives the same events. `wrap` can add a defect to the file system.
 *
 * @throws if the store breaks a guarantee, for example if it loses an acknowledged animal
 */
export async function simulatePowerLoss(
  seed: number,
  wrap = (files: FileSystem): FileSystem => files,
): Promise<Counts> {
  const simulation = new Simulation(seed, wrap);
  try {
    await simulation.run();
  } catch (error) {
    throw new Error(`power loss, seed ${seed}: ${error instanceof Error ? error.message : error}`, {
      cause: error,
    });
  }
  return simulation.counts;
}

class Simulation {
  readonly counts: Counts = { runs: 0, added: 0, replayed: 0, listed: 0, torn: 0, failed: 0 };
  #random: () => number;
  #disk: SimulatedDisk;
  #files: FileSystem;
  #clock = manualClock();
  /** The acknowledged and listed animals by id, which must never be lost or changed. */
  #promised = new Map<string, string>();
  /** The first response for each idempotency key. */
  #responses = new Map<string, string>();
  #names = new Set<string>();
  #seeds: string[][] = [];
  #nextName = 0;

  constructor(seed: number, wrap: (files: FileSystem) => FileSystem) {
    this.#random = randomOf(seed);
    this.#disk = new SimulatedDisk(this.#random);
    this.#files = wrap(this.#disk);
  }

  async run(): Promise<void> {
    const runs = 2 + this.#upTo(4);
    for (let i = 0; i < runs; i++) await this.#runProcess(false);
    await this.#runProcess(true);
  }

  async #runProcess(isLast: boolean): Promise<void> {
    const disk = this.#disk;
    this.counts.runs++;
    disk.restart();
    this.#clock.advance(1 + this.#upTo(5_000));
    let hasFailed = false;
    const killAt = this.#upTo(this.#random() < 0.3 ? 20 : 60);
    const failAt = this.#random() < 0.3 ? this.#upTo(60) : -1;
    // Kill some processes at a sync, because many defects show only between a write and its sync.
    let syncsLeft = this.#random() < 0.4 ? 1 + this.#upTo(6) : -1;
    if (!isLast) {
      disk.fate = (call, name) => {
        if (call === killAt || (name === 'datasync' && --syncsLeft === 0)) return 'halt';
        if (call !== failAt) return undefined;
        hasFailed = true;
        return { errno: this.#random() < 0.5 ? 'EIO' : 'ENOSPC' };
      };
    }
    const work = this.#useStore(isLast, () => hasFailed);
    work.catch(() => {});
    await Promise.race([work, disk.halted]);
    disk.end();
    if (this.#random() < 0.5) disk.losePower();
  }

  async #useStore(isLast: boolean, hasFailed: () => boolean): Promise<void> {
    const store = await this.#open(hasFailed);
    if (!store) return;
    try {
      await this.#listAll(store);
      if (isLast) return await this.#replayAll(store);
      if (this.#random() < 0.5) await this.#seed(store);
      for (let burst = this.#upTo(5); burst > 0; burst--) {
        await Promise.all(Array.from({ length: 1 + this.#upTo(6) }, () => this.#add(store)));
        if (this.#random() < 0.5) await this.#listAll(store);
      }
      if (this.#random() < 0.5) await store.close();
    } catch (error) {
      if (!hasFailed() || !(error instanceof StoreFailedError)) throw error;
      this.counts.failed++;
      await this.#checkStopped(store);
      if (this.#random() < 0.5) await store.close();
    }
  }

  async #open(hasFailed: () => boolean): Promise<JournalStore | undefined> {
    try {
      return await openJournalStore({
        directory: '/home/data/pets',
        files: this.#files,
        clock: this.#clock,
        lock: noLock,
        onWarning: () => this.counts.torn++,
      });
    } catch (error) {
      const isAllowed = error instanceof StoreError && !(error instanceof StoreDamagedError);
      if (hasFailed() && isAllowed) return undefined;
      throw error;
    }
  }

  async #add(store: JournalStore): Promise<void> {
    const name = `n${this.#nextName++}${'x'.repeat(this.#upTo(3) * this.#upTo(100))}`;
    const usedKeys = [...this.#responses.keys()];
    const key =
      this.#random() < 0.2 ? usedKeys[this.#upTo(usedKeys.length)] : this.#random() < 0.5 ? name : undefined;
    const request: CreatePet = { pet: animal(name), ...(key && { idempotency: idempotency(key) }) };
    this.#names.add(name);
    const result = await store.add(request);
    if (result.kind === 'in_flight') return;
    if (result.kind === 'mismatch') throw new Error(`mismatch, but key ${key} always had the same body`);
    const first = key && this.#responses.get(key);
    if (first && (result.kind === 'added' || result.pet !== first)) {
      throw new Error(`the response to key ${key} was ${first}, and is now ${result.pet}`);
    }
    this.counts[result.kind]++;
    this.#promise(result.pet);
    if (key) this.#responses.set(key, result.pet);
  }

  async #seed(store: JournalStore): Promise<void> {
    if ((await store.size()) > 0) return;
    const firstId = BigInt(1 + this.#upTo(50));
    const names = Array.from({ length: 1 + this.#upTo(30) }, () => `s${this.#nextName++}`);
    for (const name of names) this.#names.add(name);
    this.#seeds.push(names);
    const pets = names.map((name, i) => ({ id: firstId + BigInt(i), ...animal(name) }));
    await store.seed({ pets, orders: [{}] });
    await this.#listAll(store);
    if ((await store.size()) < names.length) throw new Error('the seed is incomplete');
  }

  /** Lists the animals. All promised animals must be listed, and from now on all listed animals are promised. */
  async #listAll(store: JournalStore): Promise<void> {
    const listed = new Map<string, string>();
    for (const text of await allTexts(store, { limit: 50 })) {
      if (listed.has(idOf(text))) throw new Error(`${text} is listed twice`);
      listed.set(idOf(text), text);
    }
    for (const [id, text] of this.#promised) {
      if (listed.get(id) !== text) throw new Error(`${text} was promised, but found ${listed.get(id)}`);
    }
    const names = new Set([...listed.values()].map((text) => JSON.parse(text).name));
    for (const name of names) if (!this.#names.has(name)) throw new Error(`${name} was never added`);
    for (const seed of this.#seeds) {
      const found = seed.filter((name) => names.has(name)).length;
      if (found > 0 && found < seed.length)
        throw new Error(`found ${found} of ${seed.length} seeded animals`);
    }
    for (const text of listed.values()) this.#promise(text);
    this.counts.listed += listed.size;
  }

  /** Repeats every acknowledged request that had an idempotency key. Each must get its first response again. */
  async #replayAll(store: JournalStore): Promise<void> {
    for (const [key, text] of this.#responses) {
      const result = await store.add({ pet: animal(), idempotency: idempotency(key) });
      if (result.kind !== 'replayed' || result.pet !== text) throw new Error(`key ${key} lost ${text}`);
    }
    await store.close();
  }

  async #checkStopped(store: JournalStore): Promise<void> {
    for (const call of callsOf(store)) {
      const result = await call().catch((reason: unknown) => reason);
      if (!(result instanceof StoreFailedError)) throw new Error(`after a failure: ${result}`);
    }
  }

  #promise(text: string): void {
    const id = idOf(text);
    const before = this.#promised.get(id);
    if (before !== undefined && before !== text) throw new Error(`${before} changed to ${text}`);
    this.#promised.set(id, text);
  }

  #upTo(limit: number): number {
    return Math.floor(this.#random() * limit);
  }
}

/** File systems that omit a sync. The simulation must detect each of them. */
export const mutants: Record<string, (files: FileSystem) => FileSystem> = {
  'no fdatasync': withSyncs(() => false),
  'no fdatasync at open': withSyncs((mode, count) => mode === 'create' || count > 1),
  'no fdatasync at creation': withSyncs((mode) => mode !== 'create'),
  'no directory fsync': (files) => override(files, { syncDirectory: async () => {} }),
};

/** Omits syncs for which `isSynced` returns false. `count` is 1 for the first sync of an open file. */
function withSyncs(isSynced: (mode: string, count: number) => boolean) {
  return (files: FileSystem): FileSystem =>
    override(files, {
      async open(path, mode) {
        const file = await files.open(path, mode);
        let count = 0;
        return { ...file, datasync: async () => (isSynced(mode, ++count) ? file.datasync() : undefined) };
      },
    });
}

/** Spreading `files` would not copy its methods, which are on a prototype. */
function override(files: FileSystem, methods: Partial<FileSystem>): FileSystem {
  return new Proxy(files, {
    get: (_, name) => Reflect.get(methods, name) ?? Reflect.get(files, name)?.bind(files),
  });
}
