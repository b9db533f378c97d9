import { StoreDamagedError, StoreError, StoreFailedError } from '../../src/store/errors.ts';
import type { Files } from '../../src/store/files.ts';
import { type JournalStore, openJournalStore } from '../../src/store/journal-store.ts';
import type { Addition } from '../../src/store/store.ts';
import { manualClock } from './clock.ts';
import { SimulatedDisk } from './store-disk.ts';
import { animal, idempotency, randomOf, textsOf } from './store-fixtures.ts';

/** What happened under a seed, to see that something did. */
export type Figures = {
  lives: number;
  added: number;
  replayed: number;
  seen: number;
  torn: number;
  failed: number;
};

const idOf = (text: string) => /^\{"id":(-?\d+),/.exec(text)?.[1] ?? '';

/**
 * Lets a store live several lives on a disk that fails, and whose process is killed or loses its power, at moments
 * that `seed` decides; throws where it broke a promise. The same seed is the same story. `wrap` plants a fault.
 */
export async function simulatePowerLoss(
  seed: number,
  wrap = (files: Files): Files => files,
): Promise<Figures> {
  const story = new Story(seed, wrap);
  try {
    await story.tell();
  } catch (error) {
    throw new Error(`power loss, seed ${seed}: ${error instanceof Error ? error.message : error}`, {
      cause: error,
    });
  }
  return story.figures;
}

class Story {
  readonly figures: Figures = { lives: 0, added: 0, replayed: 0, seen: 0, torn: 0, failed: 0 };
  #random: () => number;
  #disk: SimulatedDisk;
  #files: Files;
  #clock = manualClock();
  /** What somebody was told of, by id. None of it may be lost, or change. */
  #promised = new Map<string, string>();
  /** The animal of each idempotency key that was answered. */
  #answered = new Map<string, string>();
  #names = new Set<string>();
  #seeds: string[][] = [];
  #count = 0;

  constructor(seed: number, wrap: (files: Files) => Files) {
    this.#random = randomOf(seed);
    this.#disk = new SimulatedDisk(this.#random);
    this.#files = wrap(this.#disk);
  }

  async tell(): Promise<void> {
    const lives = 2 + this.#upTo(4);
    for (let life = 0; life < lives; life++) await this.#live(false);
    await this.#live(true);
  }

  async #live(isLast: boolean): Promise<void> {
    const disk = this.#disk;
    this.figures.lives++;
    disk.restart();
    this.#clock.advance(1 + this.#upTo(5_000));
    let isFaulty = false;
    const end = this.#upTo(this.#random() < 0.3 ? 20 : 60);
    const fault = this.#random() < 0.3 ? this.#upTo(60) : -1;
    // The moment between a write and its sync is worth more than the others.
    let syncs = this.#random() < 0.4 ? 1 + this.#upTo(6) : -1;
    if (!isLast) {
      disk.fate = (call, name) => {
        if (call === end || (name === 'datasync' && --syncs === 0)) return 'halt';
        if (call !== fault) return undefined;
        isFaulty = true;
        return { errno: this.#random() < 0.5 ? 'EIO' : 'ENOSPC' };
      };
    }
    const living = this.#run(isLast, () => isFaulty);
    living.catch(() => {});
    await Promise.race([living, disk.halted]);
    disk.end();
    if (this.#random() < 0.5) disk.losePower();
  }

  async #run(isLast: boolean, isFaulty: () => boolean): Promise<void> {
    const store = await this.#open(isFaulty);
    if (!store) return;
    try {
      await this.#readAll(store);
      if (isLast) return await this.#repeatAll(store);
      if (this.#random() < 0.5) await this.#seed(store);
      for (let burst = this.#upTo(5); burst > 0; burst--) {
        await Promise.all(Array.from({ length: 1 + this.#upTo(6) }, () => this.#add(store)));
        if (this.#random() < 0.5) await this.#readAll(store);
      }
      if (this.#random() < 0.5) await store.close();
    } catch (error) {
      if (!isFaulty() || !(error instanceof StoreFailedError)) throw error;
      this.figures.failed++;
      await this.#checkStopped(store);
      if (this.#random() < 0.5) await store.close();
    }
  }

  async #open(isFaulty: () => boolean): Promise<JournalStore | undefined> {
    try {
      return await openJournalStore({
        directory: '/home/data/pets',
        files: this.#files,
        clock: this.#clock,
        random: (length) => Uint8Array.from({ length }, () => this.#upTo(256)),
        lock: async () => ({ announce() {}, async release() {} }),
        onWarning: () => this.figures.torn++,
      });
    } catch (error) {
      if (isFaulty() && error instanceof StoreError && !(error instanceof StoreDamagedError))
        return undefined;
      throw error;
    }
  }

  async #add(store: JournalStore): Promise<void> {
    const name = `n${this.#count++}${'x'.repeat(this.#upTo(3) * this.#upTo(100))}`;
    const old = [...this.#answered.keys()];
    const key = this.#random() < 0.2 ? old[this.#upTo(old.length)] : this.#random() < 0.5 ? name : undefined;
    const addition: Addition = { pet: animal(name), ...(key && { idempotency: idempotency(key) }) };
    this.#names.add(name);
    const outcome = await store.add(addition);
    if (outcome.kind === 'in_flight') return;
    if (outcome.kind === 'mismatch') throw new Error(`the key ${key} was used with one body only`);
    const before = key && this.#answered.get(key);
    if (before && (outcome.kind === 'added' || outcome.pet !== before)) {
      throw new Error(`the key ${key} gave ${before}, and now ${outcome.pet}`);
    }
    this.figures[outcome.kind]++;
    this.#promise(outcome.pet);
    if (key) this.#answered.set(key, outcome.pet);
  }

  async #seed(store: JournalStore): Promise<void> {
    if ((await store.size()) > 0) return;
    const first = BigInt(1 + this.#upTo(50));
    const names = Array.from({ length: 1 + this.#upTo(30) }, () => `s${this.#count++}`);
    for (const name of names) this.#names.add(name);
    this.#seeds.push(names);
    await store.seed({
      pets: names.map((name, i) => ({ id: first + BigInt(i), ...animal(name) })),
      orders: [{}],
    });
    await this.#readAll(store);
    if ((await store.size()) < names.length) throw new Error('a seed is not there');
  }

  /** Reads the inventory: whatever is read is promised, and whatever was promised must be there. */
  async #readAll(store: JournalStore): Promise<void> {
    const seen = new Map<string, string>();
    for (let after: bigint | undefined; ; ) {
      const page = await store.list({ limit: 50, after });
      for (const text of textsOf(page)) {
        if (seen.has(idOf(text))) throw new Error(`${text} is there twice`);
        seen.set(idOf(text), text);
      }
      if (page.next === undefined) break;
      after = page.next;
    }
    for (const [id, text] of this.#promised) {
      if (seen.get(id) !== text) throw new Error(`${text} was promised, and there is ${seen.get(id)}`);
    }
    const names = new Set([...seen.values()].map((text) => JSON.parse(text).name));
    for (const name of names) if (!this.#names.has(name)) throw new Error(`nobody added ${name}`);
    for (const all of this.#seeds) {
      const there = all.filter((name) => names.has(name)).length;
      if (there > 0 && there < all.length)
        throw new Error(`${there} animals of a seed of ${all.length} are there`);
    }
    for (const text of seen.values()) this.#promise(text);
    this.figures.seen += seen.size;
  }

  /** Every key that was answered gives the same answer again. */
  async #repeatAll(store: JournalStore): Promise<void> {
    for (const [key, text] of this.#answered) {
      const outcome = await store.add({ pet: animal(), idempotency: idempotency(key) });
      if (outcome.kind !== 'replayed' || outcome.pet !== text) throw new Error(`the key ${key} lost ${text}`);
    }
    await store.close();
  }

  async #checkStopped(store: JournalStore): Promise<void> {
    for (const call of [
      () => store.add({ pet: animal() }),
      () => store.list({ limit: 1 }),
      () => store.get(1n),
    ]) {
      const error = await call().then(
        () => undefined,
        (reason) => reason,
      );
      if (!(error instanceof StoreFailedError)) throw new Error(`a store that failed went on: ${error}`);
    }
  }

  #promise(text: string): void {
    const id = idOf(text);
    const before = this.#promised.get(id);
    if (before !== undefined && before !== text) throw new Error(`${before} became ${text}`);
    this.#promised.set(id, text);
  }

  #upTo(limit: number): number {
    return Math.floor(this.#random() * limit);
  }
}

/** Stores that leave out a sync: each must be found out. */
export const mutants: Record<string, (files: Files) => Files> = {
  'no fdatasync': withSyncs(() => false),
  'no fdatasync at open': withSyncs((how, count) => how === 'create' || count > 1),
  'no fdatasync at creation': withSyncs((how) => how !== 'create'),
  'no directory fsync': (files) => bind(files, { syncDirectory: async () => {} }),
};

/** `isDone` decides for the kind of opening and the number of the sync since then. */
function withSyncs(isDone: (how: string, count: number) => boolean) {
  return (files: Files): Files =>
    bind(files, {
      async open(path, how) {
        const file = await files.open(path, how);
        let count = 0;
        return { ...file, datasync: async () => (isDone(how, ++count) ? file.datasync() : undefined) };
      },
    });
}

/** The methods live on a prototype, where a spread does not find them. */
function bind(files: Files, other: Partial<Files>): Files {
  return {
    open: (path, how) => files.open(path, how),
    rename: (from, to) => files.rename(from, to),
    link: (path, name) => files.link(path, name),
    unlink: (path) => files.unlink(path),
    mkdir: (path) => files.mkdir(path),
    readdir: (path) => files.readdir(path),
    version: (path) => files.version(path),
    syncDirectory: (path) => files.syncDirectory(path),
    ...other,
  };
}
