import { randomBytes } from 'node:crypto';
import { join, resolve } from 'node:path';
import type { Clock } from '../contract/clock.ts';
import { INT64_MAX } from '../contract/int64.ts';
import { petJson } from '../contract/schemas.ts';
import { fileError, StoreError, StoreFailedError, StoreNotEmptyError } from './errors.ts';
import { ensureDirectory, type Files, realFiles, syncUpward } from './files.ts';
import { fingerprintOf } from './idempotency.ts';
import { hex, JOURNAL, newHeader, removeLeftovers, writeJournal } from './journal-file.ts';
import { encodeHeader, recordBytes } from './journal-format.ts';
import { type Journal, loadJournal } from './journal-load.ts';
import { journalOf, type PreparedSeed, prepareSeed } from './journal-seed.ts';
import { JournalWriter } from './journal-writer.ts';
import { acquireLock, type Lock } from './lock.ts';
import type { Addition, AddOutcome, OrderJson, Page, PageQuery, PetJson, Seed, Store } from './store.ts';

export type JournalOptions = {
  /** Made where it is missing. */
  directory: string;
  /** Milliseconds since 1970. */
  clock?: Clock;
  files?: Files;
  random?: (bytes: number) => Uint8Array;
  /** Makes sure that no other process has the directory open. */
  lock?: (directory: string) => Promise<Lock>;
  /** Told of what a person should know, and what the store got over by itself. */
  onWarning?: (message: string) => void;
  /** Told once, when a write or a sync failed: the store accepts nothing more. */
  onFailure?: (error: StoreFailedError) => void;
};

export type JournalStore = Store & {
  /** Tells other servers that want the directory where this one is. */
  announce(url: string): void;
};

/**
 * Opens the store in a directory, or makes one.
 *
 * @throws StoreInUseError, StoreDamagedError, StoreError
 */
export async function openJournalStore(options: JournalOptions): Promise<JournalStore> {
  const { files = realFiles, lock: lockDirectory = acquireLock } = options;
  const directory = resolve(options.directory);
  try {
    await ensureDirectory(files, directory);
    const lock = await lockDirectory(directory);
    try {
      return await open({ ...defaults, ...options, files, directory }, lock);
    } catch (error) {
      await lock.release();
      throw error;
    }
  } catch (error) {
    throw fileError(error, `open the store in ${directory}`);
  }
}

const defaults = { clock: Date, random: randomBytes, onWarning: () => {}, onFailure: () => {} };

type Settings = Required<Omit<JournalOptions, 'lock'>>;

async function open(settings: Settings, lock: Lock): Promise<JournalStore> {
  const { files, directory, clock, random, onWarning } = settings;
  const names = await files.readdir(directory);
  await removeLeftovers(files, directory, names);
  if (!names.includes(JOURNAL)) {
    await writeJournal(files, directory, hex(random(8)), [encodeHeader(newHeader(random, clock.now()))]);
  }
  // Whoever made it may have been killed before the names were synced.
  await syncUpward(files, directory);
  const journal = await loadJournal(files, directory, clock.now(), onWarning);
  return new OpenStore(settings, lock, journal);
}

class OpenStore implements JournalStore {
  readonly id: string;
  readonly secret: string;
  #settings: Settings;
  #lock: Lock;
  #journal: Journal;
  #writer: JournalWriter;
  #nextId: bigint;
  #seeding: Promise<unknown> | undefined;
  #failure: StoreFailedError | undefined;
  #closed: Promise<void> | undefined;

  constructor(settings: Settings, lock: Lock, journal: Journal) {
    this.id = journal.header.id;
    this.secret = journal.header.secret;
    this.#settings = settings;
    this.#lock = lock;
    this.#journal = journal;
    this.#writer = this.#write(journal);
    this.#nextId = idAfter(journal);
  }

  announce(url: string): void {
    this.#lock.announce(url);
  }

  async add({ pet, idempotency }: Addition): Promise<AddOutcome> {
    while (this.#seeding) await this.#seeding;
    this.#check();
    const { keys, inventory } = this.#journal.contents;
    const fingerprint = idempotency && fingerprintOf(idempotency, this.secret);
    const known = fingerprint && keys.find(fingerprint, this.#settings.clock.now());
    if (typeof known === 'string') return { kind: known };
    if (known !== undefined) return { kind: 'replayed', pet: inventory.textAt(known) };
    if (this.#nextId > INT64_MAX) {
      throw new StoreError('the store has given its last id', 'begin a new store with --data');
    }
    const { name, categoryId, status } = pet;
    const id = this.#nextId;
    const text = petJson({ id, name, categoryId, status });
    const bytes = recordBytes(text, fingerprint);
    this.#nextId++;
    await this.#writer.add({ id, status, text, bytes, fingerprint });
    return { kind: 'added', pet: text };
  }

  async list(query: PageQuery): Promise<Page> {
    this.#check();
    return this.#journal.contents.inventory.page(query);
  }

  async get(id: bigint): Promise<PetJson | undefined> {
    this.#check();
    return this.#journal.contents.inventory.get(id);
  }

  async orders(): Promise<readonly OrderJson[]> {
    this.#check();
    return this.#journal.contents.orders;
  }

  async size(): Promise<number> {
    this.#check();
    return this.#journal.contents.inventory.size;
  }

  async isEmpty(): Promise<boolean> {
    this.#check();
    return this.#journal.contents.seq === 0 && this.#writer.isIdle;
  }

  async seed(seed: Seed): Promise<void> {
    while (this.#seeding) await this.#seeding;
    this.#check();
    if (!(await this.isEmpty())) {
      throw new StoreNotEmptyError(
        `the store in ${this.#settings.directory} is not empty`,
        'seed another directory with --data, or leave --seed out',
      );
    }
    const prepared = prepareSeed(seed);
    const seeding = this.#replace(prepared);
    this.#seeding = seeding.catch(() => {});
    try {
      await seeding;
    } finally {
      this.#seeding = undefined;
    }
  }

  close(): Promise<void> {
    this.#closed ??= this.#finish();
    return this.#closed;
  }

  async #finish(): Promise<void> {
    await this.#seeding;
    await this.#writer.finish();
    // All that was acknowledged is synced: a close that fails takes nothing away.
    await this.#journal.file.close().catch(() => {});
    await this.#lock.release();
  }

  async #replace(seed: PreparedSeed): Promise<void> {
    const { files, directory, clock, random, onWarning } = this.#settings;
    const old = this.#journal;
    try {
      await writeJournal(files, directory, hex(random(8)), journalOf(old.header, seed, clock.now()));
      const journal = await loadJournal(files, directory, clock.now(), onWarning);
      this.#journal = journal;
      this.#writer = this.#write(journal);
      this.#nextId = idAfter(journal);
    } catch (error) {
      throw this.#fail(error);
    }
    await old.file.close().catch(() => {});
  }

  #write(journal: Journal): JournalWriter {
    return new JournalWriter(journal, this.#settings.clock, (error) => this.#fail(error));
  }

  #fail(error: unknown): StoreFailedError {
    if (this.#failure) return this.#failure;
    const path = join(this.#settings.directory, JOURNAL);
    const { message, hint } = fileError(error, `write ${path}`);
    this.#failure = new StoreFailedError(message, hint, { cause: error });
    this.#settings.onFailure(this.#failure);
    return this.#failure;
  }

  #check(): void {
    if (this.#failure) throw this.#failure;
    if (this.#closed) throw new StoreError('the store is closed', 'open it again');
  }
}

function idAfter({ contents }: Journal): bigint {
  const last = contents.inventory.lastId ?? 0n;
  return last < 0n ? 1n : last + 1n;
}
