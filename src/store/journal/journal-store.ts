import { resolve } from 'node:path';
import { INT64_MAX } from '../../contract/int64.ts';
import { petJson } from '../../contract/schemas.ts';
import { makeDirectory } from '../../system/directories.ts';
import { realFileSystem } from '../../system/file-system.ts';
import { acquireDirectoryLock } from '../../system/lock/directory-lock.ts';
import { noIdsLeftError, StoreError, StoreFailedError, toStoreError } from '../errors.ts';
import { type Fingerprint, fingerprintOf } from '../index/idempotency-index.ts';
import { notEmptyError } from '../seed.ts';
import type { CreatePet, CreateResult, OrderJson, Page, PageQuery, PetJson, Seed, Store } from '../store.ts';
import { JournalAccess } from './journal-access.ts';
import type { Contents } from './journal-reducer.ts';
import type { JournalWriter } from './journal-writer.ts';
import type { JournalSettings } from './load-journal.ts';
import { recordBytes } from './record-format.ts';
import { seedJournal } from './seed-journal.ts';

export type JournalOptions = Partial<JournalSettings> & { directory: string };

const defaults = {
  clock: Date,
  files: realFileSystem,
  lock: acquireDirectoryLock,
  onWarning: () => {},
  onFailure: () => {},
};

/**
 * Opens the store in a directory, or creates one (docs/serve.md). On a full or read-only disk, the store can only be read
 * until writing is possible.
 *
 * @throws StoreInUseError, StoreDamagedError, StoreVersionError, StoreError
 */
export async function openJournalStore(options: JournalOptions): Promise<JournalStore> {
  const directory = resolve(options.directory);
  const settings = { ...defaults, ...options, directory };
  try {
    await makeDirectory(settings.files, directory);
    return new JournalStore(settings, await JournalAccess.open(settings));
  } catch (error) {
    throw toStoreError(error, `open the store in ${directory}`);
  }
}

/** Keeps a store in memory, and in a journal on the disk. */
export class JournalStore implements Store {
  readonly id: string;
  #settings: JournalSettings;
  #access: JournalAccess;
  #seeding: Promise<unknown> | undefined;
  #closed: Promise<void> | undefined;

  constructor(settings: JournalSettings, access: JournalAccess) {
    this.id = access.journal.header.id;
    this.#settings = settings;
    this.#access = access;
  }

  /** Whether this process may write to files in the directory. */
  get isLocked(): boolean {
    return this.#access.isLocked;
  }

  /** Publishes the server's URL to other servers that try to open the same directory. */
  announce(url: string): void {
    this.#access.announce(url);
  }

  async add({ pet, idempotency }: CreatePet): Promise<CreateResult> {
    while (true) {
      while (this.#seeding) await this.#seeding;
      const { keys, pets } = this.#contents();
      const { journal, writer, status } = this.#access;
      const fingerprint = idempotency && fingerprintOf(idempotency, journal.header.secret);
      const known = fingerprint && keys.find(fingerprint.words, this.#settings.clock.now());
      if (typeof known === 'string') return { kind: known };
      const response = known && pets.texts.read(known);
      if (response !== undefined && this.#isDurable(response)) return { kind: 'replayed', pet: response };
      status.throwIfFailed();
      if (writer) return this.#write(writer, pet, fingerprint);
      await this.checkWritable().catch((error: StoreError) => {
        throw response === undefined
          ? error
          : new StoreFailedError(error.message, error.hint, { cause: error });
      });
      // Now the store can write. The journal may have been read again, with animals of another process.
    }
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
    return this.#isEmpty();
  }

  async seed(seed: Seed): Promise<void> {
    while (this.#seeding) await this.#seeding;
    if (!this.#isEmpty()) throw notEmptyError(this.#settings.directory);
    if (!this.#access.writer) {
      await this.checkWritable();
      // Check again, because the journal may have been read again.
      return this.seed(seed);
    }
    await this.#replace(seed);
  }

  /** Replaces everything by a seed. Call it only while no other method runs, except `checkWritable` and `close`. */
  async reset(seed: Seed): Promise<void> {
    await this.checkWritable();
    // The store may have been closed during the check. Then, the directory can belong to another server.
    this.#contents();
    await this.#replace(seed);
  }

  async #replace(seed: Seed): Promise<void> {
    const lines = seedJournal(this.#access.journal.header, seed, this.#settings.clock.now());
    const seeding = this.#access.replace(lines);
    this.#seeding = seeding.catch(() => {});
    try {
      await seeding;
    } finally {
      this.#seeding = undefined;
    }
  }

  async checkWritable(): Promise<void> {
    // While the journal is replaced, a check would find that the old one was deleted, and stop the server.
    while (this.#seeding) await this.#seeding;
    this.#contents();
    await this.#access.checkWritable();
  }

  close(): Promise<void> {
    this.#closed ??= Promise.resolve(this.#seeding).then(() => this.#access.close());
    return this.#closed;
  }

  #isEmpty(): boolean {
    // `seq` counts only complete writes. `nextId` shows whether the first animal is being written.
    return this.#contents().seq === 0 && this.#access.journal.nextId === 1n;
  }

  /** Whether a response is on the disk. The last record may not be synced until the journal is opened for writing. */
  #isDurable(response: PetJson): boolean {
    const id = /^\{"id":(-?\d+),/.exec(response)?.[1];
    const { writer, journal } = this.#access;
    return writer !== undefined || (id !== undefined && BigInt(id) < journal.contents.lastBatchId);
  }

  async #write(
    writer: JournalWriter,
    { name, categoryId, status }: CreatePet['pet'],
    fingerprint: Fingerprint | undefined,
  ): Promise<CreateResult> {
    const { journal } = this.#access;
    const id = journal.nextId;
    if (id > INT64_MAX) throw noIdsLeftError();
    const text = petJson({ id, name, categoryId, status });
    const bytes = recordBytes(text, fingerprint);
    journal.nextId++;
    await writer.add({ id, status, text, bytes, fingerprint });
    return { kind: 'added', pet: text };
  }

  /** @throws if the journal was deleted or changed, or the store is closed */
  #contents(): Contents {
    this.#access.status.throwIfStopped();
    if (this.#closed) throw new StoreError('the store is closed', 'open it again');
    return this.#access.journal.contents;
  }
}
