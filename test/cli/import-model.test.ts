import { inspect } from 'node:util';
import { expect, test } from 'vitest';
import {
  animalHash,
  type LedgerEnvironment,
  type LedgerRow,
  openLedger,
} from '../../src/cli/import/ledger.ts';
import { type Choice, ledgerRowAt, pendingOf, planImport } from '../../src/cli/import/plan.ts';
import { carryOut, finishImport } from '../../src/cli/import/send.ts';
import type { PetRow } from '../../src/cli/rows/read-file.ts';
import type { Client } from '../../src/client/client.ts';
import { ApiFailure, ContractError, NetworkError, OutcomeUnknownError } from '../../src/client/errors.ts';
import type { ReceivedPet } from '../../src/contract/schemas.ts';
import { LockError } from '../../src/system/file-system.ts';
import { SimulatedDisk } from '../helpers/store-disk.ts';
import { randomOf } from '../helpers/store-fixtures.ts';

const HOUR = 3_600_000;
const LIVES = 9;
const NO_PET = { name: '', categoryId: 0n };
const SERVICE = 'https://api.example.com/v1';

/** How often each event happened. The test checks that the simulation covers all events. */
const NO_FIGURES = {
  killed: 0,
  powerLost: 0,
  lost: 0,
  answered: 0,
  repeated: 0,
  compared: 0,
  notAdded: 0,
  parallel: 0,
  refusedConcurrent: 0,
  refused: 0,
  incomplete: 0,
  stopped: 0,
  skipped: 0,
  addedAgain: 0,
  named: 0,
  resumed: 0,
  nothing: 0,
  forgotten: 0,
};
type ImportFigures = typeof NO_FIGURES;

type File = { name: string; rows: PetRow[] };

/**
 * Imports files in several runs into a service that counts its animals. Files are edited and renamed between the runs.
 * Processes are killed, the power fails, the disk reports errors, the network loses requests and responses, other
 * processes import at the same time, and clocks are set. Throws
 *
 * - if an animal was added more often than the files have it, unless the user chose that or a notice named it
 * - if a complete run has not reported one true result for each row
 */
async function simulateImports(seed: number): Promise<ImportFigures> {
  const world = new World(seed);
  try {
    for (let life = 1; life <= LIVES; life++) await world.live(life === LIVES);
  } catch (error) {
    throw new Error(`imports, seed ${seed}: ${error instanceof Error ? error.message : error}`, {
      cause: error,
    });
  }
  return world.figures;
}

class World {
  figures: ImportFigures = { ...NO_FIGURES };
  #random: () => number;
  #disk: SimulatedDisk;
  #now = Date.parse('2026-11-20T12:00:00Z');
  #files: File[];
  #service: ReturnType<typeof createService>;
  #usesManyKeys: boolean;
  #isQuick: boolean;
  /** How many animals the files may have added at most, by `animalHash`. */
  #allowed = new Map<string, number>();
  /** The same for earlier imports, which the ledger may have forgotten after 30 days. */
  #base = new Map<string, number>();
  #isLocked = false;

  constructor(seed: number) {
    this.#random = randomOf(seed);
    this.#disk = new SimulatedDisk(this.#random);
    this.#service = createService(this.#random, this.figures, () => this.#now);
    this.#usesManyKeys = this.#chance(0.2);
    this.#isQuick = this.#chance(0.5);
    this.#files = ['a.csv', 'b.csv'].map((name) => ({ name, rows: this.#rows() }));
  }

  #chance(probability: number): boolean {
    return this.#random() < probability;
  }

  #pick<Item>(items: readonly Item[]): Item {
    return items[Math.floor(this.#random() * items.length)] as Item;
  }

  #row(): PetRow {
    const name = this.#pick(['Rex', 'Bella', 'Lola', 'Tom', 'Mia', 'Kiki', 'Momo', 'Zoe']);
    return { line: 1, pet: { name, categoryId: this.#chance(0.2) ? 2n : 1n } };
  }

  #rows(): PetRow[] {
    return Array.from({ length: 1 + Math.floor(this.#random() * 10) }, () => this.#row());
  }

  /** Changes, renames, replaces or copies a file, as people do between two imports. */
  #edit(): void {
    const file = this.#pick(this.#files);
    const at = Math.floor(this.#random() * file.rows.length);
    const kind = this.#random();
    file.rows = [...file.rows];
    if (kind < 0.2) file.rows.splice(at, 0, this.#row());
    else if (kind < 0.4) file.rows.splice(at, 1, this.#row());
    else if (kind < 0.5 && file.rows.length > 1) file.rows.splice(at, 1);
    else if (kind < 0.6) file.rows.push(...file.rows.splice(at, 1));
    else if (kind < 0.8) file.name = this.#pick(['a.csv', 'b.csv', 'c.csv']);
    else if (kind < 0.87) file.rows = this.#rows();
    else this.#files.push({ name: 'copy.csv', rows: file.rows });
  }

  /** Edits files, runs one import that can fail or be killed, and checks its result. With `isLast`, nothing fails. */
  async live(isLast: boolean): Promise<void> {
    while (this.#chance(0.5)) this.#edit();
    this.#service.isReliable = isLast;
    const disk = this.#disk;
    if (!isLast && this.#chance(0.7)) {
      const when = Math.floor(this.#random() * 120);
      const fate = this.#chance(0.7) ? 'halt' : { errno: this.#pick(['ENOSPC', 'EIO'] as const) };
      disk.fate = (call) => (call === when ? fate : undefined);
    }
    const running = this.#run(this.#pick(this.#files), isLast).catch((error) => {
      const isExpected = !isLast && /simulated/.test(`${error?.message} ${error?.cause?.message}`);
      if (!isExpected) throw error;
    });
    await Promise.race([running, disk.halted.then(() => this.figures.killed++)]);
    this.#check();
    disk.end();
    if (this.#chance(0.5)) {
      disk.losePower();
      this.figures.powerLost++;
    }
    disk.restart();
    this.#isLocked = false;
    if (this.#isQuick) return;
    // A request in flight reaches the service within seconds, so before the clock moves on for hours.
    await new Promise(setImmediate);
    this.#now += Math.floor(this.#random() ** 4 * 40 * HOUR);
    if (this.#chance(0.05)) this.#now -= 30 * HOUR;
    if (this.#chance(0.05)) this.#forget();
  }

  /** More than 30 days pass. Everything that was completely imported may be added again. */
  #forget(): void {
    this.#now += 31 * 24 * HOUR;
    this.figures.forgotten++;
    for (const [hash, count] of this.#allowed) this.#base.set(hash, (this.#base.get(hash) ?? 0) + count);
    this.#allowed.clear();
  }

  #place(): LedgerEnvironment {
    return {
      directory: '/state/imports/1',
      service: SERVICE,
      files: this.#disk.ofProcess(),
      now: () => this.#now,
      lockDirectory: async () => {
        if (this.#isLocked) throw new LockError('simulated', '', { owner: {} });
        this.#isLocked = true;
        return {
          announce: () => {},
          release: async () => {
            this.#isLocked = false;
          },
        };
      },
    };
  }

  /** A second process must not get the ledger while this one has it. */
  async #tryConcurrently(): Promise<void> {
    const error = await openLedger(this.#place()).then(
      () => new Error('a second import has opened the ledger'),
      (error) => error,
    );
    if (error.code !== 'already_running') throw error;
    this.figures.refusedConcurrent++;
  }

  /** `pets import <file>`. If it stops, the user reads why, and mostly adds `--skip-added`. */
  async #run(file: File, isLast: boolean): Promise<void> {
    const opened = await openLedger(this.#place());
    const { ledger } = opened;
    const { figures } = this;
    try {
      if (this.#chance(0.2)) await this.#tryConcurrently();
      const rows = file.rows.map((row, i) => ({ ...row, line: i + 2 }));
      const decide = (choice: Choice) =>
        planImport(rows, ledger, { choice, file: `/${file.name}`, now: this.#now });
      let choice: Choice = this.#chance(0.05) ? this.#pick(['skip-added', 'add-again'] as const) : undefined;
      if (decide(choice).mustAsk) {
        figures.stopped++;
        if (!isLast && this.#chance(0.1)) return;
        choice = this.#chance(0.1) ? 'add-again' : 'skip-added';
      }
      const planned = decide(choice);
      if (planned.mustAsk) throw new Error(`must ask with ${choice}`);
      const { current, known, repeated } = planned;
      if (known.size > 0) figures.skipped++;
      if (repeated.size > 0 && choice === undefined) figures.named++;
      if (pendingOf(planned).length === 0) {
        figures.nothing++;
        await finishImport(planned, opened.append, this.#now);
      } else {
        if (ledger.imports.has(current.seq)) figures.resumed++;
        if (choice === 'add-again') figures.addedAgain++;
        const hashAt = (i: number) => animalHash(rows[i]?.pet ?? NO_PET);
        this.#allow(rows, [...repeated.keys()].map(hashAt), [...known.keys()].map(hashAt));
        const apiKey = this.#usesManyKeys && this.#chance(0.5) ? 'pets_other_key' : 'pets_first_key';
        await carryOut({
          plan: planned,
          file: opened,
          client: this.#service.client(apiKey),
          apiKey,
          clock: { now: () => this.#now, elapsed: () => this.#now },
          timeout: 30_000,
          showStatus() {},
          notice(text) {
            if (text.startsWith('searching')) figures.compared++;
            figures.notAdded += Number(/: (\d+) not added/.exec(text)?.[1] ?? 0);
          },
          wait: async (milliseconds) => {
            this.#now += milliseconds;
          },
          onResult: () => {},
        });
      }
      const results = rows.map((row, i) => ({ row, known: ledgerRowAt(planned, i) }));
      this.#checkReport(results.filter((_, i) => !planned.rejected.has(i)));
    } finally {
      await opened.close();
    }
  }

  /**
   * Allows as many animals of each hash as the file has rows. If some of them are added again, allows all rows that are not
   * skipped in addition to the animals that were allowed before.
   */
  #allow(rows: readonly PetRow[], again: readonly string[], skipped: readonly string[]): void {
    const countOf = (hashes: readonly string[], hash: string) =>
      hashes.filter((each) => each === hash).length;
    const hashes = rows.map(({ pet }) => animalHash(pet));
    for (const hash of new Set(hashes)) {
      const allowed = this.#allowed.get(hash) ?? 0;
      const count = countOf(hashes, hash);
      const sent = again.includes(hash) ? allowed + count - countOf(skipped, hash) : count;
      this.#allowed.set(hash, Math.max(allowed, sent));
    }
  }

  /** Throws if an animal was added more often than is allowed. */
  #check(): void {
    const counts = new Map<string, number>();
    for (const { hash } of this.#service.animals) counts.set(hash, (counts.get(hash) ?? 0) + 1);
    for (const [hash, count] of counts) {
      const most = (this.#allowed.get(hash) ?? 0) + (this.#base.get(hash) ?? 0);
      if (count <= most) continue;
      const name = this.#service.animals.find((each) => each.hash === hash)?.pet.name;
      throw new Error(`${name} was added ${count} times, for at most ${most} rows`);
    }
  }

  /** Throws unless each row that was not rejected has one true result. */
  #checkReport(results: { row: PetRow; known: LedgerRow | undefined }[]): void {
    const byId = new Map(this.#service.animals.map(({ pet, hash }) => [String(pet.id), hash]));
    const ids = new Set<string>();
    for (const { row, known } of results) {
      const what = `${row.pet.name}: ${inspect(known)}`;
      if (known === undefined) throw new Error(`no result: ${what}`);
      if (known.kind === 'added') {
        const id = String(known.pet.id);
        if (byId.get(id) !== animalHash(row.pet)) throw new Error(`no such animal: ${what}`);
        if (ids.has(id)) throw new Error(`two rows are the same animal: ${what}`);
        ids.add(id);
      } else {
        if (known.message === undefined) throw new Error(`reported as sent only: ${what}`);
        const mayBeUnknown = !this.#service.isExact || this.#usesManyKeys || !this.#isQuick;
        if (!mayBeUnknown) throw new Error(`unknown, although it could be repeated: ${what}`);
      }
    }
  }
}

/** `at` is when the animal was added. */
type Animal = { pet: ReceivedPet; hash: string; at: number };

/**
 * A service that loses requests and responses, refuses requests and rows, and sends empty lists and invalid responses,
 * until `isReliable` is set. It supports idempotency keys in 60 % of cases, and forgets them after 24 hours.
 */
function createService(random: () => number, figures: ImportFigures, now: () => number) {
  const supportsIdempotency = random() < 0.6;
  const rejectsRows = random() < 0.5;
  const answersBadly = random() < 0.2;
  const byKey = new Map<string, Animal>();
  // With these headers, several rows are in flight at once.
  const headers =
    random() < 0.7
      ? { 'x-ratelimit-limit': '100', 'x-ratelimit-remaining': '99', 'x-ratelimit-reset': '1795176060' }
      : {};
  const animals: Animal[] = [];
  let inFlight = 0;
  const service = {
    isReliable: false,
    animals,
    /** Whether the outcome of every row is known in the end. */
    isExact: supportsIdempotency && !rejectsRows && !answersBadly,
    client: (apiKey: string): Client =>
      ({
        call: call(apiKey),
        request,
        baseUrl: 'http://127.0.0.1/v1',
        supportsIdempotency: () => supportsIdempotency,
        attempts: () => 1,
      }) as unknown as Client,
  };
  const request = async () => {
    const isIncomplete = !service.isReliable && random() < 0.2;
    const listed = isIncomplete ? [] : animals.map(({ pet }) => pet);
    if (isIncomplete) figures.incomplete++;
    return { parse: () => listed, headers, url: new URL(`${SERVICE}/pets`) };
  };
  const call =
    (apiKey: string) =>
    async (name: string, input: { body: PetRow['pet'] }, options: Parameters<Client['call']>[2] = {}) => {
      if (name === 'listPets') return { value: animals.slice(0, 1).map(({ pet }) => pet), headers };
      const { idempotencyKey = '', sendLog } = options;
      await sendLog?.intent();
      // The service goes on with this request even if the process is killed during the wait.
      figures.parallel += Number(++inFlight > 1);
      await new Promise(setImmediate);
      inFlight--;
      const kind = service.isReliable ? 1 : random();
      if (kind > 0.97 && kind < 1) {
        const status = random() < 0.5 ? 401 : 429;
        figures.refused++;
        await sendLog?.notApplied(status);
        throw new ApiFailure(status, 'simulated: refused');
      }
      if (kind < 0.1) {
        await sendLog?.notApplied();
        throw new NetworkError('simulated: not sent', { sent: false });
      }
      const key = `${apiKey} ${idempotencyKey}`;
      const last = byKey.get(key);
      const known = supportsIdempotency && last && now() - last.at < 24 * HOUR ? last : undefined;
      if (rejectsRows && !known && kind < 0.2) {
        await sendLog?.notApplied(422);
        throw new ApiFailure(422, 'simulated: rejected', 'no');
      }
      const pet = { ...input.body, id: BigInt(animals.length + 1), status: 'available' as const };
      const animal = known ?? { pet, hash: animalHash(input.body), at: now() };
      if (known) figures.repeated++;
      // If `kind` is at most 0.25, the service does not receive the request.
      if (!known && kind > 0.25) {
        byKey.set(key, animal);
        animals.push(animal);
      }
      const unknown = (cause: Error) =>
        new OutcomeUnknownError(cause, { idempotencyKey, supportsIdempotency });
      if (kind < 0.35) {
        figures.lost++;
        throw unknown(new Error('simulated: no response'));
      }
      if (answersBadly && kind < 0.4) {
        figures.answered++;
        throw unknown(new ContractError(201, 'simulated: no animal'));
      }
      return { value: animal.pet, headers };
    };
  return service;
}

// `npm run soak` runs 20,000 seeds.
const SEEDS = Number(process.env['PETS_IMPORT_SEEDS'] ?? 500);
const FIRST_SEED = Number(process.env['PETS_IMPORT_FIRST'] ?? 0);

test(
  `${SEEDS} sequences of imports: no row twice, none missing, and every report is true`,
  async () => {
    const total: ImportFigures = { ...NO_FIGURES };
    for (let seed = FIRST_SEED; seed < FIRST_SEED + SEEDS; seed++) {
      const figures = await simulateImports(seed);
      for (const key of Object.keys(total) as (keyof ImportFigures)[]) total[key] += figures[key];
    }
    // The simulations must cover each kind of event often enough.
    for (const [event, count] of Object.entries(total)) expect(count, event).toBeGreaterThan(SEEDS / 20);
  },
  SEEDS * 100 + 60_000,
);
