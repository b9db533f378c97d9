import { join, resolve } from 'node:path';
import type { Clock } from '../../contract/clock.ts';
import { INT64_MAX } from '../../contract/int64.ts';
import { petJson } from '../../contract/schemas.ts';
import { fsyncAncestors, makeDirectory } from '../../system/directories.ts';
import { type FileSystem, realFileSystem } from '../../system/file-system.ts';
import { isTemporaryName, replaceFile } from '../../system/files.ts';
import { acquireDirectoryLock, type DirectoryLock } from '../../system/lock/directory-lock.ts';
import { StoreError, StoreFailedError, StoreNotEmptyError, toStoreError } from '../errors.ts';
import { fingerprintOf } from '../index/idempotency-index.ts';
import type { CreatePet, CreateResult, OrderJson, Page, PageQuery, PetJson, Seed, Store } from '../store.ts';
import type { Contents } from './journal-reducer.ts';
import { JournalWriter } from './journal-writer.ts';
import { JOURNAL, type Journal, loadJournal } from './load-journal.ts';
import { encodeJournalHeader, newHeader, recordBytes } from './record-format.ts';
import { seedJournal } from './seed-journal.ts';

export type JournalOptions = {
  /** Created if it does not exist. */
  directory: string;
  clock?: Clock;
  files?: FileSystem;
  lock?: (directory: string) => Promise<DirectoryLock>;
  /** Receives messages for the user about problems that the store has handled itself. */
  onWarning?: (message: string) => void;
  /** Called once when a write or sync fails. The store then rejects every call except `close`. */
  onFailure?: (error: StoreFailedError) => void;
};

/**
 * Opens the store in a directory, or creates one (docs/serve.md).
 *
 * @throws StoreInUseError, StoreDamagedError, StoreVersionError, StoreError
 */
export async function openJournalStore(options: JournalOptions): Promise<JournalStore> {
  const { files = realFileSystem, lock: lockDirectory = acquireDirectoryLock } = options;
  const directory = resolve(options.directory);
  try {
    await makeDirectory(files, directory);
    const lock = await lockDirectory(directory);
    try {
      return await openLocked({ ...defaults, ...options, files, directory }, lock);
    } catch (error) {
      await lock.release();
      throw error;
    }
  } catch (error) {
    throw toStoreError(error, `open the store in ${directory}`);
  }
}

const defaults = { clock: Date, onWarning: () => {}, onFailure: () => {} };

type Settings = Required<Omit<JournalOptions, 'lock'>>;

async function openLocked(settings: Settings, lock: DirectoryLock): Promise<JournalStore> {
  const { files, directory, clock, onWarning } = settings;
  const names = await files.readdir(directory);
  for (const name of names) {
    // A process that was killed can leave temporary files.
    if (/^(journal|bans)[.]/.test(name) && isTemporaryName(name)) await files.unlink(join(directory, name));
  }
  if (!names.includes(JOURNAL)) {
    const header = encodeJournalHeader(newHeader(clock.now()));
    await replaceFile(files, join(directory, JOURNAL), [header]);
  }
  await fsyncAncestors(files, directory);
  const journal = await loadJournal(files, directory, clock.now(), onWarning);
  return new JournalStore(settings, lock, journal);
}

/** Keeps a store in memory, and in a journal on the disk. */
export class JournalStore implements Store {
  readonly id: string;
  #settings: Settings;
  #lock: DirectoryLock;
  #journal: Journal;
  #writer: JournalWriter;
  #seeding: Promise<unknown> | undefined;
  #failure: StoreFailedError | undefined;
  #closed: Promise<void> | undefined;

  constructor(settings: Settings, lock: DirectoryLock, journal: Journal) {
    this.id = journal.header.id;
    this.#settings = settings;
    this.#lock = lock;
    this.#journal = journal;
    this.#writer = this.#createWriter(journal);
  }

  /** Publishes the server's URL to other servers that try to open the same directory. */
  announce(url: string): void {
    this.#lock.announce(url);
  }

  async add({ pet, idempotency }: CreatePet): Promise<CreateResult> {
    while (this.#seeding) await this.#seeding;
    const { keys, pets } = this.#contents();
    const journal = this.#journal;
    const fingerprint = idempotency && fingerprintOf(idempotency, journal.header.secret);
    const known = fingerprint && keys.find(fingerprint.words, this.#settings.clock.now());
    if (typeof known === 'string') return { kind: known };
    if (known !== undefined) return { kind: 'replayed', pet: pets.texts.read(known) };
    if (journal.nextId > INT64_MAX) {
      throw new StoreError('the store has no ids left', 'create a new store with --data');
    }
    const { name, categoryId, status } = pet;
    const id = journal.nextId;
    const text = petJson({ id, name, categoryId, status });
    const bytes = recordBytes(text, fingerprint);
    journal.nextId++;
    await this.#writer.add({ id, status, text, bytes, fingerprint });
    return { kind: 'added', pet: text };
  }

  async list(query: PageQuery): Promise<Page> {
    return this.#contents().pets.page(query);
  }

  async get(id: bigint): Promise<PetJson | undefined> {
    return this.#contents().pets.get(id);
  }

  async orders(): Promise<readonly OrderJson[]> {
    return this.#contents().orders;
  }

  async size(): Promise<number> {
    return this.#contents().pets.size;
  }

  async isEmpty(): Promise<boolean> {
    return this.#contents().seq === 0 && this.#writer.isIdle;
  }

  async seed(seed: Seed): Promise<void> {
    while (this.#seeding) await this.#seeding;
    if (!(await this.isEmpty())) {
      throw new StoreNotEmptyError(
        `the store in ${this.#settings.directory} is not empty`,
        'seed another directory with --data, or omit --seed',
      );
    }
    const lines = seedJournal(this.#journal.header, seed, this.#settings.clock.now());
    const seeding = this.#replaceJournal(lines);
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
    // All acknowledged data is synced, so an error while closing loses nothing.
    await this.#journal.file.close().catch(() => {});
    await this.#lock.release();
  }

  async #replaceJournal(lines: Iterable<Buffer>): Promise<void> {
    const { files, directory, clock, onWarning } = this.#settings;
    const old = this.#journal;
    try {
      await replaceFile(files, join(directory, JOURNAL), lines);
      const journal = await loadJournal(files, directory, clock.now(), onWarning);
      this.#journal = journal;
      this.#writer = this.#createWriter(journal);
    } catch (error) {
      throw this.#fail(error);
    }
    await old.file.close().catch(() => {});
  }

  #createWriter(journal: Journal): JournalWriter {
    return new JournalWriter(journal, this.#settings.clock, (error) => this.#fail(error));
  }

  #fail(error: unknown): StoreFailedError {
    if (this.#failure) return this.#failure;
    const { message, hint } = toStoreError(error, `write ${join(this.#settings.directory, JOURNAL)}`);
    this.#failure = new StoreFailedError(message, hint, { cause: error });
    this.#settings.onFailure(this.#failure);
    return this.#failure;
  }

  /** @throws if a write has failed or the store is closed */
  #contents(): Contents {
    if (this.#failure) throw this.#failure;
    if (this.#closed) throw new StoreError('the store is closed', 'open it again');
    return this.#journal.contents;
  }
}
