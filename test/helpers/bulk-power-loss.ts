import { type BulkRun, openRun } from '../../src/cli/bulk/open-run.ts';
import { sendRows } from '../../src/cli/bulk/send.ts';
import type { Client } from '../../src/client/client.ts';
import { ApiFailure, NetworkError, OutcomeUnknownError } from '../../src/client/errors.ts';
import type { NewPet } from '../../src/contract/schemas.ts';
import { hashKey } from '../../src/store/keys/keys.ts';
import { animals, inputOf, pendingOf, RUN_OPTIONS } from './bulk.ts';
import { SimulatedDisk } from './store-disk.ts';
import { randomOf } from './store-fixtures.ts';

const HOUR = 3_600_000;
const LIVES = 8;

/** How often each event happened. The test checks that the simulation covers all events. */
export type BulkFigures = {
  crashes: number;
  lost: number;
  repeated: number;
  changed: number;
  unknown: number;
  /** The number of requests that were sent while another one was in flight. */
  parallel: number;
};

/**
 * Adds a file in several runs. Processes are killed, the power fails, the disk reports errors, the network loses
 * responses, and rows are inserted, deleted and moved between the runs. Throws if an animal was added more often than any
 * version of the file has it, or if a row of the last version was neither added nor reported as unknown.
 */
export async function simulateBulkAdd(seed: number): Promise<BulkFigures> {
  const random = randomOf(seed);
  const chance = (probability: number) => random() < probability;
  const disk = new SimulatedDisk(random);
  const figures = { crashes: 0, lost: 0, repeated: 0, changed: 0, unknown: 0, parallel: 0 };
  const service = createService(random, figures);
  const kinds = animals(4);
  const pick = () => kinds[Math.floor(random() * kinds.length)] as NewPet;
  let file = Array.from({ length: 1 + Math.floor(random() * 12) }, pick);
  const most = new Map<string, number>();
  let now = Date.parse('2026-11-20T12:00:00Z');
  const usesManyKeys = chance(0.2);
  const isQuick = chance(0.5);
  /** How many rows with this name have an unknown outcome after the latest complete run. */
  let unknown = (_name: string) => 0;

  for (let life = 1; ; life++) {
    const isLast = life > LIVES;
    if (life > 1 && !isLast && chance(0.4)) {
      file = changed(file, pick, random);
      figures.changed++;
    }
    for (const { name } of kinds) most.set(name, Math.max(most.get(name) ?? 0, count(file, name)));
    service.isReliable = isLast;
    if (!isLast) planFailure(disk, random);
    const apiKey = usesManyKeys && chance(0.5) ? 'pets_other_key' : 'pets_first_key';
    const living = run(disk, file, { apiKey, now, client: service.client, random }).then(
      (done) => {
        unknown = (name) => done.filter((row) => row.kind === 'unknown' && row.name === name).length;
      },
      (error) => {
        const isExpected = !isLast && /simulated/.test(`${error?.message} ${error?.cause?.message}`);
        if (!isExpected)
          throw new Error(`bulk add, seed ${seed}, life ${life}: ${error?.message}`, { cause: error });
      },
    );
    await Promise.race([living, disk.halted.then(() => figures.crashes++)]);
    if (isLast) break;
    disk.end();
    if (chance(0.6)) disk.losePower();
    disk.restart();
    if (!isQuick) now += Math.floor(random() ** 4 * 40 * HOUR);
  }

  for (const { name } of kinds) {
    const added = service.added.filter((pet) => pet.name === name).length;
    const [wanted, atMost] = [count(file, name), most.get(name) ?? 0];
    if (added > atMost)
      throw new Error(`seed ${seed}: ${name} was added ${added} times, for at most ${atMost} rows`);
    const open = unknown(name);
    if (added + open < wanted)
      throw new Error(`seed ${seed}: ${wanted} rows ${name}, added ${added}, unknown ${open}`);
    if (open > 0 && service.isPatient && isQuick && !usesManyKeys) {
      throw new Error(`seed ${seed}: ${name} is unknown, although it could be repeated`);
    }
    figures.unknown += open;
  }
  return figures;
}

const count = (file: readonly NewPet[], name: string): number =>
  file.filter((pet) => pet.name === name).length;

function changed(file: readonly NewPet[], pick: () => NewPet, random: () => number): NewPet[] {
  const rows = [...file];
  const at = Math.floor(random() * rows.length);
  const kind = random();
  if (kind < 0.4) rows.splice(at, 0, pick());
  else if (kind < 0.7 && rows.length > 1) rows.splice(at, 1);
  else rows.push(...rows.splice(at, 1));
  return rows;
}

function planFailure(disk: SimulatedDisk, random: () => number): void {
  const when = Math.floor(random() * 120);
  const errno = random() < 0.5 ? ('ENOSPC' as const) : ('EIO' as const);
  const fate = random() < 0.7 ? 'halt' : { errno };
  disk.fate = (call) => (call === when ? fate : undefined);
}

type Life = { apiKey: string; now: number; client: Client; random: () => number };

/** Adds the current file, and returns the result of each row. */
async function run(disk: SimulatedDisk, file: NewPet[], { apiKey, now, client, random }: Life) {
  const options = {
    ...RUN_OPTIONS,
    directory: '/state/bulk',
    files: disk,
    now,
    random: (bytes: number) => Buffer.from(Array.from({ length: bytes }, () => Math.floor(random() * 256))),
    lockDirectory: async () => ({ announce: () => {}, release: async () => {} }),
    apiKeyHash: hashKey(apiKey),
    skipAdded: true,
  };
  const opened: BulkRun = await openRun(inputOf(file), options).catch((error) => {
    if (error?.code !== 'usage') throw error;
    return openRun(inputOf(file), { ...options, skipAdded: false });
  });
  const settings = {
    client,
    apiKey,
    clock: { now: () => now },
    onResult: () => {},
  };
  await sendRows(pendingOf(opened), opened.file, settings);
  await opened.file.append({ kind: 'finished', at: new Date(now).toISOString() });
  await opened.close();
  return opened.plan.rows.map((row) => ({
    name: row.pet.name,
    kind: row.entry?.kind,
  }));
}

/** A service that loses requests and responses until `isReliable` is set. It supports idempotency keys in 70 % of cases. */
function createService(random: () => number, figures: BulkFigures) {
  const supportsIdempotency = random() < 0.7;
  const rejectsRows = random() < 0.5;
  const byKey = new Map<string, { id: bigint } & NewPet>();
  const seenKeys = new Set<string>();
  const service = {
    isReliable: false,
    added: [] as NewPet[],
    /** Whether reruns can add every row in the end, because no row is rejected or stays unknown. */
    isPatient: supportsIdempotency && !rejectsRows,
    client: undefined as unknown as Client,
  };
  // With these headers, several rows are in flight at once.
  const headers =
    random() < 0.7
      ? { 'x-ratelimit-limit': '100', 'x-ratelimit-remaining': '99', 'x-ratelimit-reset': '1795176060' }
      : {};
  let inFlight = 0;
  const call = async (name: string, input: { body: NewPet }, options: Parameters<Client['call']>[2] = {}) => {
    if (name === 'listPets') return { value: [], headers };
    const { idempotencyKey = '', sendLog } = options;
    await sendLog?.intent();
    // If the process is killed now, the service receives the request nevertheless.
    inFlight++;
    figures.parallel += Number(inFlight > 1);
    await new Promise(setImmediate);
    inFlight--;
    const kind = service.isReliable ? 1 : random();
    if (kind < 0.12) {
      await sendLog?.notSent();
      throw new NetworkError('simulated: not sent', { sent: false });
    }
    const known = supportsIdempotency ? byKey.get(idempotencyKey) : undefined;
    if (rejectsRows && !seenKeys.has(idempotencyKey) && kind < 0.2)
      throw new ApiFailure(422, { code: 'no', reason: 'simulated: rejected' });
    if (seenKeys.has(idempotencyKey)) figures.repeated++;
    seenKeys.add(idempotencyKey);
    const pet = known ?? { ...input.body, id: BigInt(byKey.size + 1) };
    // If `kind` is at most 0.25, the service does not receive the request.
    if (!known && kind > 0.25) {
      byKey.set(idempotencyKey, pet);
      service.added.push(input.body);
    }
    if (kind < 0.35) {
      figures.lost++;
      throw new OutcomeUnknownError(new Error('simulated: no response'), {
        idempotencyKey,
        supportsIdempotency,
      });
    }
    return { value: pet, headers };
  };
  service.client = { call, supportsIdempotency: () => supportsIdempotency } as unknown as Client;
  return service;
}
