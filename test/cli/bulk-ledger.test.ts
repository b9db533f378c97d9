import { readFile, rename, rm, writeFile } from 'node:fs/promises';
import { dirname } from 'node:path';
import { setImmediate as nextTurn } from 'node:timers/promises';
import { describe, expect, it, vi } from 'vitest';
import type { LedgerEntry } from '../../src/cli/bulk/ledger.ts';
import { readLedger } from '../../src/cli/bulk/ledger-file.ts';
import { sendRows } from '../../src/cli/bulk/send.ts';
import type { Client } from '../../src/client/client.ts';
import { ApiFailure } from '../../src/client/errors.ts';
import type { SendLog } from '../../src/client/request-with-retry.ts';
import { realFileSystem } from '../../src/system/file-system.ts';
import { writeFully } from '../../src/system/files.ts';
import {
  added,
  animals,
  type Bulk,
  bulk,
  failed,
  intent,
  pendingOf,
  refusalOf,
  unknown,
} from '../helpers/bulk.ts';
import { SimulatedDisk } from '../helpers/store-disk.ts';
import { errno, interceptFiles } from '../helpers/store-faults.ts';
import { randomOf } from '../helpers/store-fixtures.ts';

/** Writes a ledger with every kind of record except `finished`, and two records in its last line. Returns its path. */
async function eventful({ open, find }: Bulk): Promise<string> {
  const first = await open(animals(4));
  const [a, b, c, d] = pendingOf(first);
  if (!a || !b || !c || !d) throw new Error('no rows');
  for (const record of [intent(a), added(a), intent(b), failed(b), intent(c)])
    await first.file.append(record);
  await Promise.all([unknown(c), intent(d)].map(first.file.append));
  await first.close();
  return (await find('ledger.ndjson'))[0] ?? '';
}

/** Reads a ledger with these bytes; returns the kind of each entry. */
async function kindsIn(bytes: Buffer): Promise<(string | undefined)[] | undefined> {
  const disk = new SimulatedDisk(randomOf(1));
  await disk.mkdir('/ledger');
  const file = await disk.open('/ledger/ledger.ndjson', 'create');
  if (bytes.length > 0) await writeFully(file, bytes, 0);
  await file.close();
  const ledger = await readLedger(disk, '/ledger');
  return ledger && [...ledger.entries.values()].map(({ kind }) => kind);
}

describe('a ledger', () => {
  it('consists of lines that a person can read', async () => {
    const path = await eventful(await bulk());
    const [header = '', ...records] = (await readFile(path, 'utf8')).trimEnd().split('\n');
    expect(JSON.parse(header)).toMatchObject({
      kind: 'ledger',
      version: 1,
      source: '/animals.csv',
      rows: 4,
      startedAt: '2026-11-20T12:00:00.000Z',
      nonce: expect.stringMatching(/^[0-9a-f]{32}$/),
      epoch: 0,
    });
    expect(records[0]).toMatch(
      /^\{"kind":"intent","hash":"[\w-]{22}","n":1,"line":2,"at":"2026-11-20T12:00:00.000Z","apiKeyHash":"[0-9a-f]{64}"\}$/,
    );
    expect(records[1]).toContain('"pet":{"id":1152921504606846977,');
  });

  it('that is cut anywhere after its header is read up to its last complete line', async () => {
    const whole = await readFile(await eventful(await bulk()));
    const ends = [...whole.keys()].filter((at) => whole[at] === 0x0a);
    const expected = [['intent'], ['added'], ['intent'], ['failed'], ['intent'], ['unknown', 'intent']];
    for (let length = (ends[0] ?? 0) + 1; length <= whole.length; length++) {
      const lines = ends.filter((end) => end < length).length;
      const kinds = expected.slice(0, lines - 1).flat();
      const last = kinds.filter((kind, i) => kind !== 'intent' || i === kinds.length - 1);
      expect(await kindsIn(whole.subarray(0, length)), `cut at ${length}`).toEqual(last);
    }
  });

  it('is read without its last line if a part of that line did not reach the disk', async () => {
    const whole = await readFile(await eventful(await bulk()));
    const last = whole.lastIndexOf(0x0a, whole.length - 2) + 1;
    whole.fill(0, last + 5, whole.length - 10);
    expect(await kindsIn(whole)).toEqual(['added', 'failed', 'intent']);
  });

  it('is replaced when a run begins: one record for each entry', async () => {
    const store = await bulk();
    const path = await eventful(store);
    await store.open(animals(4));
    const lines = (await readFile(path, 'utf8')).trimEnd().split('\n');
    expect(lines.map((line) => JSON.parse(line).kind)).toEqual([
      'ledger',
      'added',
      'failed',
      'unknown',
      'intent',
    ]);
  });

  const edit = (line: number, change: (text: string) => string) => (text: string) =>
    text
      .split('\n')
      .map((one, i) => (i + 1 === line ? change(one) : one))
      .join('\n');
  const newer = 'was written by a newer version of pets';
  it.each<[string, (text: string) => string, string]>([
    ['no JSON in the middle', edit(3, (line) => line.slice(0, 20)), 'is damaged in line 3'],
    ['no JSON at the end', edit(7, (line) => line.slice(0, 20)), 'is damaged in line 7'],
    ['zeros in the middle', edit(3, (line) => '\0'.repeat(line.length)), 'is damaged in line 3'],
    ['a record without a hash', edit(4, (line) => line.replace('"hash"', '"sum"')), 'is damaged in line 4'],
    ['row 0', edit(4, (line) => line.replace('"n":1', '"n":0')), 'is damaged in line 4'],
    ['an animal without an id', edit(3, (line) => line.replace('"id":', '"is":')), 'is damaged in line 3'],
    ['no header', edit(1, () => 'hello'), 'is damaged in line 1'],
    ['a header without a nonce', edit(1, (line) => line.replace('nonce', 'once')), 'is damaged in line 1'],
    ['an empty line', edit(5, () => ''), 'is damaged in line 5'],
    ['nothing in it', () => '', 'is damaged: its first line is incomplete'],
    ['only a part of the header', (text) => text.slice(0, 100), 'is damaged: its first line is incomplete'],
    ['a group without a hash', edit(7, (line) => line.replace('"hash"', '"sum"')), 'is damaged in line 7'],
    ['an unknown kind of record', edit(4, (line) => line.replace('intent', 'update')), newer],
    ['an unknown kind of record in a group', edit(7, (line) => line.replace('intent', 'update')), newer],
    ['a higher version', edit(1, (line) => line.replace('"version":1', '"version":2')), newer],
  ])('with %s is refused and left as it is; --add-again replaces it', async (_, damage, message) => {
    const store = await bulk();
    const path = await eventful(store);
    const damaged = damage(await readFile(path, 'utf8'));
    await writeFile(path, damaged);
    const refusal = await refusalOf(store.open(animals(4)));
    expect(refusal).toMatchObject({
      code: 'damaged_file',
      message: expect.stringContaining(`${path} ${message}`),
    });
    expect(refusal?.hint).toContain('--add-again');
    expect(await readFile(path, 'utf8')).toBe(damaged);
    expect((await store.open(animals(4), { addAgain: true })).plan.counts.new).toBe(4);
  });

  it('with unknown fields is read', async () => {
    const store = await bulk();
    const path = await eventful(store);
    const text = await readFile(path, 'utf8');
    await writeFile(path, text.replaceAll('"kind":', '"added in":2,"kind":'));
    expect((await store.open(animals(4))).plan.counts).toMatchObject({
      added: 1,
      failed: 1,
      unknown: 1,
      ambiguous: 1,
    });
  });
});

describe('a record', () => {
  it('is written and synced with those that are appended at the same time, before the next ones', async () => {
    const { open, find } = await bulk();
    const calls: string[] = [];
    const files = interceptFiles((name, path) => void (path.endsWith('ledger.ndjson') && calls.push(name)));
    const { file, plan } = await open(animals(3), { files });
    calls.length = 0;
    const [a, b, c] = plan.rows.map((row) => intent(row)) as [LedgerEntry, LedgerEntry, LedgerEntry];
    await Promise.all([file.append(a), file.append(b)]);
    // Append the others while the first record is being written.
    const first = file.append(a);
    await vi.waitFor(() => expect(calls.filter((name) => name === 'write')).toHaveLength(2));
    await Promise.all([first, file.append(b), file.append(c)]);
    expect(calls.filter((name) => name === 'write' || name === 'datasync')).toEqual(
      Array(3).fill(['write', 'datasync']).flat(),
    );
    const lines = (await readFile((await find('ledger.ndjson'))[0] ?? '', 'utf8')).trimEnd().split('\n');
    const sizes = lines.slice(1).map((line) => JSON.parse(line).records?.length ?? 1);
    expect(sizes).toEqual([2, 1, 2]);
  });

  it('is written before a row is repeated, so that a ledger that was removed is noticed', async () => {
    const { open, find } = await bulk();
    const first = await open(animals(1));
    await first.file.append(intent(first.plan.rows[0] as never));
    await first.close();
    const { file, plan } = await open(animals(1));
    await rm((await find('ledger.ndjson'))[0] ?? '');
    const call = async (_name: string, _input: object, { sendLog }: { sendLog?: SendLog } = {}) => {
      await sendLog?.intent();
      if (sendLog) throw new Error('the row was sent');
      return { value: [], headers: {} };
    };
    const client = { call, supportsIdempotency: () => true } as unknown as Client;
    const options = {
      client,
      apiKey: 'key',
      clock: { now: () => Date.parse('2026-11-20T13:00:00Z') },
      onResult() {},
    };
    expect(await refusalOf(sendRows(plan.rows, file, options))).toMatchObject({ code: 'file_error' });
  });

  it.each([
    ['write', 'ENOSPC', 'the disk is full'],
    ['datasync', 'EIO', 'EIO: injected'],
  ])('is refused if the %s fails with %s, and so are all that follow', async (call, code, reason) => {
    const { open, find } = await bulk();
    let isBroken = false;
    const files = interceptFiles((name, path) => {
      if (isBroken && name === call && path.endsWith('ledger.ndjson')) throw errno(code);
    });
    const run = await open(animals(2), { files });
    const [row] = run.plan.rows as [never];
    isBroken = true;
    const refusal = {
      code: 'file_error',
      message: `cannot write ${(await find('ledger.ndjson'))[0]}: ${reason}`,
    };
    expect(await refusalOf(run.file.append(intent(row)))).toMatchObject(refusal);
    isBroken = false;
    expect(await refusalOf(run.file.append(intent(row)))).toMatchObject(refusal);
  });

  it.each<[string, (path: string) => Promise<void>]>([
    ['removed', (path) => rm(path)],
    [
      'replaced',
      async (path) => {
        await writeFile(`${path}.new`, await readFile(path));
        await rename(`${path}.new`, path);
      },
    ],
    ['changed', (path) => writeFile(path, 'hello\n', { flag: 'a' })],
  ])('is refused if the ledger was %s by another program', async (_, change) => {
    const { open, find } = await bulk();
    const run = await open(animals(2));
    await change((await find('ledger.ndjson'))[0] ?? '');
    expect(await refusalOf(run.file.append(intent(run.plan.rows[0] as never)))).toMatchObject({
      code: 'file_error',
    });
  });
});

describe('the highest id before a row was sent', () => {
  it.each<[string, unknown[], (number | string)[], (number | undefined)[]]>([
    ['starts at 0 in an empty inventory', [], [1, 2, 3, 4], [0, 1, 2, 3]],
    [
      'is unknown before the first response',
      [{ id: 7, name: 'Max' }],
      [8, 10, 9, 11],
      [undefined, 8, 10, 10],
    ],
    ['is unknown if ids are text', [], ['1', '2', '3', '4'], [0, undefined, undefined, undefined]],
    ['is unknown after an id beyond int64', [], [1, 2n ** 63n, 3, 4] as never, [0, 1, undefined, undefined]],
  ])('%s', async (_, inventory, ids, expected) => {
    const { open, find } = await bulk();
    const { plan, file, close } = await open(animals(4));
    const call = async (name: string, _input: object, { sendLog }: { sendLog?: SendLog } = {}) => {
      if (name === 'listPets') return { value: inventory, headers: {} };
      await sendLog?.intent();
      const id = ids.shift();
      return { value: { id: typeof id === 'number' ? BigInt(id) : id, name: 'a' }, headers: {} };
    };
    const client = { call, supportsIdempotency: () => false } as unknown as Client;
    const clock = { now: () => Date.parse('2026-11-20T13:00:00Z') };
    await sendRows(plan.rows, file, { client, apiKey: 'key', clock, onResult() {} });
    await close();
    const ledger = await readLedger(realFileSystem, dirname((await find('ledger.ndjson'))[0] ?? ''));
    const entries = [...(ledger?.entries.values() ?? [])];
    expect(entries.map(({ highestId }) => highestId)).toEqual(
      expected.map((id) => (id === undefined ? id : BigInt(id))),
    );
  });
});

it('sends several rows at once also after a row was rejected', async () => {
  const { open } = await bulk();
  const { plan, file, close } = await open(animals(40));
  const headers = { 'x-ratelimit-limit': '1000', 'x-ratelimit-remaining': '1000', 'x-ratelimit-reset': '60' };
  let inFlight = 0;
  const inFlightAt: number[] = [];
  const call = async (name: string, _input: object, { sendLog }: { sendLog?: SendLog } = {}) => {
    if (name === 'listPets') return { value: [], headers };
    await sendLog?.intent();
    const number = inFlightAt.push(++inFlight);
    await nextTurn();
    inFlight--;
    if (number === 3) {
      await sendLog?.notSent(422);
      throw new ApiFailure(422, { code: 'no', reason: 'no' });
    }
    return { value: { id: BigInt(number), name: 'a' }, headers };
  };
  const client = { call, supportsIdempotency: () => true } as unknown as Client;
  await sendRows(plan.rows, file, { client, apiKey: 'key', clock: Date, onResult() {} });
  await close();
  expect(plan.rows.filter(({ entry }) => entry?.kind === 'failed')).toHaveLength(1);
  // Many rows were started after the rejection.
  expect(Math.max(...inFlightAt.slice(20))).toBeGreaterThan(1);
});
