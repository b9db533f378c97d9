import type { SteadyClock } from '../../contract/clock.ts';
import { type PlanName, plans } from '../../contract/plans.ts';
import type { KeyDirectory, KnownKey } from '../backend.ts';
import { generateKey, hashKey } from './keys.ts';

/** Reads the API keys of a store. */
export type KeyReader = {
  /** Reads all valid keys. */
  read(): Promise<readonly KnownKey[]>;
  /**
   * Whether the keys may have changed since the last `read`. It must be cheap or wait, because unknown keys can cause many
   * calls.
   */
  mayHaveChanged(): Promise<boolean>;
};

/** For this long, a known key is accepted without reading the keys. So a revocation takes effect within a second. */
const FRESH_MS = 900;
/** After this time, the keys are read again while known keys are still accepted, so that requests need not wait for it. */
const REFRESH_MS = 500;
/** Unknown keys cause at most one read of the keys in this time, unless the keys may have changed. */
export const UNKNOWN_KEY_MS = 100;

/** The API keys of a store, in memory. Changes in the source take effect without a restart. */
export class KeyCache implements KeyDirectory {
  #source: KeyReader;
  #clock: SteadyClock;
  #temporary = new Map<string, KnownKey>();
  #byHash = new Map<string, KnownKey>();
  #readAt = Number.NEGATIVE_INFINITY;
  #readForUnknownAt = Number.NEGATIVE_INFINITY;
  #reading: Promise<void> | undefined;
  /** How many readings have started, and the number of the latest complete one, counted from 1. */
  #started = 0;
  #completed = 0;

  constructor(source: KeyReader, clock: SteadyClock) {
    this.#source = source;
    this.#clock = clock;
  }

  addTemporary(name: string, plan: PlanName, key: string = generateKey()): string {
    const sha256 = hashKey(key);
    this.#temporary.set(sha256, { name, plan, sha256, quota: plans[plan] });
    return key;
  }

  /** Reads the keys, to report damaged ones before the first request. */
  load(): Promise<void> {
    return this.#read();
  }

  /** Returns a promise only if the keys must be read. */
  find(sha256: string): KnownKey | undefined | Promise<KnownKey | undefined> {
    const temporary = this.#temporary.get(sha256);
    if (temporary) return temporary;
    const age = this.#clock.elapsed() - this.#readAt;
    const known = age < FRESH_MS ? this.#byHash.get(sha256) : undefined;
    // After an error, keys are accepted for the rest of the time. Then, the next read shows the error.
    if (known && age >= REFRESH_MS) this.#read().catch(() => {});
    return known ?? this.#lookUp(sha256);
  }

  async list(): Promise<KnownKey[]> {
    if (this.#isOlder(this.#readAt, FRESH_MS)) await this.#read();
    const all = new Map([...this.#byHash, ...this.#temporary]);
    return [...all.values()].sort((a, b) => (a.name < b.name ? -1 : 1));
  }

  async #lookUp(sha256: string): Promise<KnownKey | undefined> {
    const started = this.#started;
    if (this.#isOlder(this.#readAt, FRESH_MS)) await this.#read();
    const known = this.#byHash.get(sha256);
    // If the keys were read after this call began and the key was not among them, the key does not exist.
    if (known || this.#completed > started) return known;
    const isRecent = !this.#isOlder(this.#readForUnknownAt, UNKNOWN_KEY_MS);
    if (isRecent && !(await this.#source.mayHaveChanged())) {
      // A concurrent call may have read the keys in the meantime.
      return this.#byHash.get(sha256);
    }
    this.#readForUnknownAt = this.#clock.elapsed();
    await this.#reading;
    // While this call waited, another call may have read the keys.
    if (this.#completed <= started) await this.#read();
    return this.#byHash.get(sha256);
  }

  #read(): Promise<void> {
    this.#reading ??= this.#readSource().finally(() => {
      this.#reading = undefined;
    });
    return this.#reading;
  }

  async #readSource(): Promise<void> {
    const number = ++this.#started;
    const startedAt = this.#clock.elapsed();
    const keys = await this.#source.read();
    this.#byHash = new Map(keys.map((key) => [key.sha256, key]));
    this.#readAt = startedAt;
    this.#completed = number;
  }

  /** Whether `time` is at least `milliseconds` ago. */
  #isOlder(time: number, milliseconds: number): boolean {
    return this.#clock.elapsed() - time >= milliseconds;
  }
}
