import { join, resolve } from 'node:path';
import type { Clock } from '../../contract/clock.ts';
import { INT64_MAX } from '../../contract/int64.ts';
import { petJson } from '../../contract/schemas.ts';
import { FileChangedError } from '../../system/append-file.ts';
import { makeDirectory } from '../../system/directories.ts';
import { errnoOf, type FileSystem, realFileSystem } from '../../system/file-system.ts';
import { acquireDirectoryLock, type DirectoryLock } from '../../system/lock/directory-lock.ts';
import { StoreError, StoreFailedError, StoreNotEmptyError, toStoreError } from '../errors.ts';
import { type Fingerprint, fingerprintOf } from '../index/idempotency-index.ts';
import type { CreatePet, CreateResult, OrderJson, Page, PageQuery, PetJson, Seed, Store } from '../store.ts';
import { type AccessSettings, JournalAccess } from './journal-access.ts';
import type { Contents } from './journal-reducer.ts';
import { JournalWriter } from './journal-writer.ts';
import { JOURNAL } from './load-journal.ts';
import { recordBytes } from './record-format.ts';
import { seedJournal } from './seed-journal.ts';
import { WriteStatus } from './write-status.ts';

export type JournalOptions = {
  /** Created if it does not exist. */
  directory: string;
  clock?: Clock;
  files?: FileSystem;
  lock?: (directory: string) => Promise<DirectoryLock>;
  /** Receives messages for the user about problems that the store has handled itself. */
  onWarning?: (message: string) => void;
  /** Called once, if the journal was deleted or changed, or seeding failed. Reading and writing then fail. */
  onFailure?: (error: StoreFailedError) => void;
};

/** After a check whether the store can write, later checks within this time get the same result. */
const CHECK_MS = 1_000;

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
    const { access, refusal } = await JournalAccess.open(settings);
    return new JournalStore(settings, access, refusal);
  } catch (error) {
    throw toStoreError(error, `open the store in ${directory}`);
  }
}

const defaults = {
  clock: Date,
  files: realFileSystem,
  lock: acquireDirectoryLock,
  onWarning: () => {},
  onFailure: () => {},
};

type Settings = AccessSettings & Required<JournalOptions>;

/** Keeps a store in memory, and in a journal on the disk. */
export class JournalStore implements Store {
  readonly id: string;
  #settings: Settings;
  #access: JournalAccess;
  #status: WriteStatus;
  /** Undefined while the journal can only be read. */
  #writer: JournalWriter | undefined;
  #check: { at: number; result: Promise<void> } | undefined;
  #seeding: Promise<unknown> | undefined;
  #closed: Promise<void> | undefined;

  /** `refusal` is why the journal can only be read for now. */
  constructor(settings: Settings, access: JournalAccess, refusal: unknown) {
    this.id = access.journal.header.id;
    this.#settings = settings;
    this.#access = access;
    this.#status = new WriteStatus({ ...settings, path: join(settings.directory, JOURNAL) });
    if (access.file) this.#startWriter();
    else this.#status.refused(refusal);
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
      const fingerprint = idempotency && fingerprintOf(idempotency, this.#access.journal.header.secret);
      const known = fingerprint && keys.find(fingerprint.words, this.#settings.clock.now());
      if (typeof known === 'string') return { kind: known };
      const response = known && pets.texts.read(known);
      if (response !== undefined && this.#isDurable(response)) return { kind: 'replayed', pet: response };
      this.#status.checkWritable();
      if (this.#writer) return this.#write(this.#writer, pet, fingerprint);
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
    return this.#contents().seq === 0 && (this.#writer?.isIdle ?? true);
  }

  async seed(seed: Seed): Promise<void> {
    while (this.#seeding) await this.#seeding;
    if (!(await this.isEmpty())) {
      throw new StoreNotEmptyError(
        `the store in ${this.#settings.directory} is not empty`,
        'seed another directory with --data, or omit --seed',
      );
    }
    if (!this.#writer) await this.checkWritable();
    const lines = seedJournal(this.#access.journal.header, seed, this.#settings.clock.now());
    const seeding = this.#replaceJournal(lines);
    this.#seeding = seeding.catch(() => {});
    try {
      await seeding;
    } finally {
      this.#seeding = undefined;
    }
  }

  /** Runs at most once in `CHECK_MS`. A server without the store's lock tries to get it. */
  async checkWritable(): Promise<void> {
    this.#contents();
    this.#status.checkWritable();
    const now = this.#settings.clock.now();
    if (!this.#check || Math.abs(now - this.#check.at) >= CHECK_MS) {
      this.#check = { at: now, result: this.#tryToWrite() };
    }
    await this.#check.result;
  }

  close(): Promise<void> {
    this.#closed ??= this.#finish();
    return this.#closed;
  }

  async #finish(): Promise<void> {
    await this.#seeding;
    await this.#check?.result.catch(() => {});
    await this.#writer?.finish();
    await this.#access.close();
  }

  /** Whether a response is on the disk. Until a journal that was read is writable, its last record may not be. */
  #isDurable(response: PetJson): boolean {
    const id = /^\{"id":(-?\d+),/.exec(response)?.[1];
    return this.#writer !== undefined || (id !== undefined && BigInt(id) < this.#contents().lastBatchId);
  }

  async #write(
    writer: JournalWriter,
    { name, categoryId, status }: CreatePet['pet'],
    fingerprint: Fingerprint | undefined,
  ): Promise<CreateResult> {
    const { journal } = this.#access;
    const id = journal.nextId;
    if (id > INT64_MAX) {
      throw new StoreError('the store has no ids left', 'create a new store with --data');
    }
    const text = petJson({ id, name, categoryId, status });
    const bytes = recordBytes(text, fingerprint);
    journal.nextId++;
    await writer.add({ id, status, text, bytes, fingerprint });
    this.#status.succeeded();
    return { kind: 'added', pet: text };
  }

  async #tryToWrite(): Promise<void> {
    try {
      if (this.#writer) await this.#access.probe();
      else {
        await this.#access.makeWritable();
        this.#startWriter();
      }
    } catch (error) {
      const isDefect = error instanceof FileChangedError || errnoOf(error) === 'EIO';
      throw isDefect ? this.#status.failed(error) : this.#status.refused(error);
    }
    this.#status.succeeded();
  }

  async #replaceJournal(lines: Iterable<Buffer>): Promise<void> {
    try {
      await this.#access.replace(lines);
      this.#startWriter();
    } catch (error) {
      throw this.#status.stop(error);
    }
  }

  #startWriter(): void {
    const { journal, file } = this.#access;
    if (!file) return;
    this.#writer = new JournalWriter(journal, file, this.#settings.clock, (error) =>
      this.#status.failed(error),
    );
  }

  /** @throws if the journal was deleted or changed, or the store is closed */
  #contents(): Contents {
    this.#status.checkReadable();
    if (this.#closed) throw new StoreError('the store is closed', 'open it again');
    return this.#access.journal.contents;
  }
}
