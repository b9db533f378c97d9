import { expect, it } from 'vitest';
import { StoreError, StoreFailedError, StoreUnwritableError } from '../../src/store/errors.ts';
import type { JournalStore } from '../../src/store/journal/journal-store.ts';
import type { CreateRequest } from '../../src/store/store.ts';
import type { FileSystem } from '../../src/system/file-system.ts';
import { cases } from '../helpers/cases.ts';
import { manualClock } from '../helpers/clock.ts';
import { SimulatedDisk } from '../helpers/store-disk.ts';
import {
  allTexts,
  animal,
  callsOf,
  idempotency,
  noLock,
  openJournalStore,
  randomOf,
} from '../helpers/store-fixtures.ts';

const SEEDS = cases(2_000, 'PETS_POWER_LOSS_SEEDS');
const FIRST_SEED = Number(process.env['PETS_POWER_LOSS_FIRST'] ?? 0);

/** Events that the simulations must cover often enough. `full`: the store was opened on a full disk. */
const EVENTS = ['runs', 'added', 'replayed', 'listed', 'torn', 'failed', 'refused', 'full'] as const;
/** How often each event has happened. */
type Counts = Record<(typeof EVENTS)[number], number>;

/** The calls that fail on a full disk: those that need space, any call, or only the sync of data written earlier. */
const FULL_DISKS = [
  /^(open create|write|truncate|datasync|syncDirectory|mkdir|rename|link)$/,
  /./,
  /^datasync$/,
];

const idOf = (text: string) => /^\{"id":(\d+),/.exec(text)?.[1] ?? '';

/**
 * Runs a store several times on a simulated disk, with failed calls, kills and power losses at random moments. The same
 * seed gives the same events. An error shows that the store breaks a guarantee, for example loses an acknowledged animal.
 */
class Simulation {
  readonly counts: Counts;
  #random: () => number;
  #disk: SimulatedDisk;
  #files: FileSystem;
  #clock = manualClock();
  /** The acknowledged and listed animals by id, which must never be lost or changed. */
  #promised = new Map<string, string>();
  /** The first response for each idempotency key. */
  #responses = new Map<string, string>();
  #names = new Set<string>();
  /** The names of animals that were certainly not added. */
  #refused = new Set<string>();
  /** The errors of calls that failed in the current process. */
  #faults = new Set<'EIO' | 'ENOSPC'>();
  /** False while the current process could not sync the last record that it read. That record may be lost. */
  #isSynced = true;
  /** Whether the store of the current process has stopped. */
  #hasStopped = false;
  #seeds: string[][] = [];
  #nextName = 0;

  constructor(seed: number, counts: Counts) {
    this.counts = counts;
    this.#random = randomOf(seed);
    this.#disk = new SimulatedDisk(this.#random);
    this.#files = this.#disk;
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
    this.#files = disk.ofProcess();
    this.#faults.clear();
    this.#isSynced = true;
    this.#hasStopped = false;
    this.#clock.advance(1 + this.#upTo(5_000));
    if (!isLast) disk.fate = this.#planFaults();
    const work = this.#useStore(isLast);
    work.catch(() => {});
    await Promise.race([work, disk.halted]);
    disk.end();
    if (this.#random() < 0.5) disk.losePower();
  }

  /** Plans a kill at a random call. In 60 % of the processes, calls can also fail with EIO or ENOSPC. */
  #planFaults(): SimulatedDisk['fate'] {
    const killAt = this.#upTo(this.#random() < 0.3 ? 20 : 90);
    // Kill some processes at a sync, because many defects show only between a write and its sync.
    let syncsLeft = this.#random() < 0.4 ? 1 + this.#upTo(6) : -1;
    const kind = this.#random();
    const code = kind < 0.2 ? 'EIO' : kind < 0.6 ? 'ENOSPC' : undefined;
    const first = this.#upTo(40);
    let failuresLeft = code === 'ENOSPC' && this.#random() < 0.5 ? 1 + this.#upTo(30) : 1;
    const pattern = code === 'ENOSPC' ? FULL_DISKS[this.#upTo(FULL_DISKS.length)] : /./;
    return (call, name) => {
      if (call === killAt || (name === 'datasync' && --syncsLeft === 0)) return 'halt';
      if (!code || call < first || !pattern?.test(name) || failuresLeft-- <= 0) return undefined;
      this.#faults.add(code);
      return { errno: code };
    };
  }

  async #useStore(isLast: boolean): Promise<void> {
    const store = await this.#open();
    if (!store) return;
    await this.#listAll(store);
    if (isLast) return await this.#replayAll(store);
    if (this.#random() < 0.5) await this.#seed(store);
    for (let burst = this.#upTo(5); burst > 0; burst--) {
      await Promise.all(Array.from({ length: 1 + this.#upTo(6) }, () => this.#add(store)));
      if (this.#random() < 0.5) await this.#listAll(store);
      if (this.#random() < 0.3) await this.#checkTwice(store);
      this.#clock.advance(this.#upTo(3_000));
    }
    if (this.#random() < 0.5) await store.close();
  }

  async #open(): Promise<JournalStore | undefined> {
    let isOpen = false;
    try {
      return await openJournalStore({
        directory: '/home/data/pets',
        files: this.#files,
        clock: this.#clock,
        lock: noLock,
        onWarning: (message) => {
          if (message.includes(' were moved to ')) this.counts.torn++;
          if (message.endsWith('can be written again')) this.#isSynced = true;
          // Before the store is open, this warning means that it opens although its last record may not be on the disk.
          if (message.endsWith('until the disk accepts writes') && !isOpen) {
            this.#isSynced = false;
            this.counts.full++;
          }
        },
        onFailure: () => {
          this.#hasStopped = true;
        },
      }).finally(() => {
        isOpen = true;
      });
    } catch (error) {
      const isAllowed = error instanceof StoreError && !error.message.includes(' is damaged');
      if (this.#faults.size > 0 && isAllowed) return undefined;
      throw error;
    }
  }

  async #add(store: JournalStore): Promise<void> {
    const name = `n${this.#nextName++}${'x'.repeat(this.#upTo(3) * this.#upTo(100))}`;
    const usedKeys = [...this.#responses.keys()];
    const key =
      this.#random() < 0.2 ? usedKeys[this.#upTo(usedKeys.length)] : this.#random() < 0.5 ? name : undefined;
    const request: CreateRequest = { pet: animal(name), ...(key && { idempotency: idempotency(key) }) };
    this.#names.add(name);
    const result = await store.add(request).catch((error: unknown) => {
      this.#checkAllowed(error);
      if (!(error instanceof StoreUnwritableError)) return undefined;
      const first = key && this.#responses.get(key);
      if (first) throw new Error(`${first} was added with key ${key}, but the repetition was refused`);
      this.counts.refused++;
      this.#refused.add(name);
    });
    if (result === undefined || result.kind === 'in_flight') return;
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
    const firstId = BigInt(1 + this.#upTo(50));
    const names = Array.from({ length: 1 + this.#upTo(30) }, () => `s${this.#nextName++}`);
    for (const name of names) this.#names.add(name);
    this.#seeds.push(names);
    const pets = names.map((name, i) => ({ id: firstId + BigInt(i), ...animal(name) }));
    try {
      if (!(await store.seed({ pets, orders: [{}] }))) {
        for (const name of names) this.#names.delete(name);
        this.#seeds.pop();
        return;
      }
    } catch (error) {
      this.#checkAllowed(error);
      if (error instanceof StoreUnwritableError) for (const name of names) this.#refused.add(name);
      return;
    }
    await this.#listAll(store);
    if ((await store.size()) < names.length) throw new Error('the seed is incomplete');
  }

  /** Two checks, of which the second can begin while the first one runs, and a creation. */
  async #checkTwice(store: JournalStore): Promise<void> {
    const check = () => store.checkWritable().catch((error) => this.#checkAllowed(error));
    const first = check();
    this.#clock.advance(this.#upTo(2_000));
    await Promise.all([first, check(), this.#add(store)]);
  }

  /** Throws the error again, unless the calls that have failed explain it. */
  #checkAllowed(error: unknown): void {
    const isAllowed = error instanceof StoreFailedError || error instanceof StoreUnwritableError;
    if (!isAllowed || this.#faults.size === 0) throw error;
    if (error instanceof StoreFailedError) this.counts.failed++;
  }

  /** Lists the animals. All promised animals must be listed, and from now on all listed animals are promised. */
  async #listAll(store: JournalStore): Promise<void> {
    const listed = new Map<string, string>();
    if (this.#hasStopped) return await this.#checkStopped(store);
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
    for (const name of names)
      if (this.#refused.has(name)) throw new Error(`${name} was refused, but is listed`);
    if (this.#isSynced) for (const text of listed.values()) this.#promise(text);
    this.counts.listed += listed.size;
  }

  /** Repeats all acknowledged requests with an idempotency key. Each must get its first response. Closes the store. */
  async #replayAll(store: JournalStore): Promise<void> {
    for (const [key, text] of this.#responses) {
      const result = await store.add({ pet: animal(), idempotency: idempotency(key) });
      if (result.kind !== 'replayed' || result.pet !== text) throw new Error(`key ${key} lost ${text}`);
    }
    await store.close();
  }

  /** Only a call that failed can stop the store. Then, not even reads succeed. */
  async #checkStopped(store: JournalStore): Promise<void> {
    if (this.#faults.size === 0) throw new Error('the store has stopped without a reason');
    for (const [name, call] of Object.entries(callsOf(store))) {
      const result = await call().catch((reason: unknown) => reason);
      if (!(result instanceof StoreFailedError)) throw new Error(`${name} after a failure: ${result}`);
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

it(`a power loss loses nothing that was acknowledged: ${SEEDS} seeds`, {
  timeout: SEEDS * 100 + 60_000,
}, async () => {
  const counts = Object.fromEntries(EVENTS.map((event) => [event, 0])) as Counts;
  for (let seed = FIRST_SEED; seed < FIRST_SEED + SEEDS; seed++) {
    await new Simulation(seed, counts).run().catch((error: Error) => {
      throw new Error(`power loss, seed ${seed}: ${error.message}`, { cause: error });
    });
  }
  for (const [event, count] of Object.entries(counts)) expect(count, event).toBeGreaterThan(SEEDS / 100);
});
