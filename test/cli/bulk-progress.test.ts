import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { readdir, readFile, stat, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { describe, expect, it, onTestFinished } from 'vitest';
import { loadProgress } from '../../src/cli/bulk/progress-file.ts';
import { rowStates } from '../../src/cli/bulk/row-states.ts';
import { type Bulk, bulk, collect } from '../helpers/bulk.ts';
import { progressOf, simulateBulkPowerLoss } from '../helpers/bulk-power-loss.ts';
import { added, animals, failed, HASH } from '../helpers/bulk-rows.ts';
import { interceptFiles } from '../helpers/store-faults.ts';

const NEWLINE = 0x0a;
const stateOf: Record<string, number> = { ...rowStates, sending: rowStates.doubt };

const statesAfter = (told: ReadonlyMap<number, string>) =>
  [1, 2, 3, 4, 5].map((row) => stateOf[told.get(row) ?? 'fresh']);

/** A job in which much has happened, and the path of its progress. */
async function eventful({ open, jobs }: Bulk): Promise<string> {
  const first = await open(animals(5));
  await first.sending(1, { apiKeyHash: HASH });
  await first.settle(1, added(1));
  await first.sending(2, { apiKeyHash: HASH });
  await first.settle(2, failed('Fürst "Pückler"\n'));
  await first.sending(3, { apiKeyHash: HASH });
  await first.settle(3, { status: 'unknown', idempotencyKey: 'k', message: 'lost' });
  await first.close();
  const second = await open(animals(5));
  await second.sending(2, { apiKeyHash: HASH });
  await second.settle(2, added(2));
  await second.sending(4, { apiKeyHash: HASH });
  await second.close();
  return join((await jobs())[0] ?? '', 'progress.ndjson');
}

/** The status of each row after the lines of a text that are whole. */
function statusesIn(text: string): Map<number, string> {
  const lines = text.split('\n').slice(1, -1);
  const entries = lines.map((line) => JSON.parse(line)).filter(({ row }) => row !== undefined);
  return new Map(entries.map(({ row, status }) => [row, status]));
}

describe('progress', () => {
  it('is lines that a person can read', async () => {
    const store = await bulk();
    const text = await readFile(await eventful(store), 'utf8');
    const lines = text.trimEnd().split('\n');
    expect(JSON.parse(lines[0] ?? '')).toMatchObject({
      version: 1,
      source: 'animals.csv',
      baseUrl: store.options.baseUrl,
      rows: 5,
      startedAt: '2026-11-20T12:00:00.000Z',
      nonce: expect.stringMatching(/^[0-9a-f]{32}$/),
    });
    expect(lines[1]).toMatch(
      /^\{"row":1,"status":"sending","idempotencyKey":"[^"]+","apiKeyHash":"[0-9a-f]{64}","sentAt":"2026-11-20T12:00:00.000Z"\}$/,
    );
    expect(lines[2]).toContain('"pet":{"id":1152921504606846977,');
  });

  it('that was cut anywhere is read up to its last full line, and written on', async () => {
    const whole = await readFile(await eventful(await bulk()));
    const first = whole.indexOf(NEWLINE) + 1;
    for (let length = 0; length <= whole.length; length++) {
      const { disk, path } = await progressOf(whole.subarray(0, length));
      const told = statusesIn(whole.subarray(0, length).toString());
      const progress = await loadProgress(disk, path);
      expect(progress !== undefined, `cut at ${length}`).toBe(length >= first);
      if (!progress) continue;
      const before = [1, 2, 3, 4, 5].map((row) => progress.states.state(row));
      expect(before, `cut at ${length}`).toEqual(statesAfter(told));
      await progress.file.append({ row: 5, status: 'failed', error: { code: 'c', message: 'm' } });
      const after = await loadProgress(disk, path);
      expect(after && [1, 2, 3, 4, 5].map((row) => after.states.state(row))).toEqual(
        statesAfter(told.set(5, 'failed')),
      );
    }
  });

  it('that was cut around the end of a line makes a job that tries what is left', async () => {
    const store = await bulk();
    const path = await eventful(store);
    const whole = await readFile(path);
    const ends = [...whole.keys()].filter((at) => whole[at] === NEWLINE);
    for (const length of [0, ...ends.flatMap((end) => [end - 1, end, end + 1, end + 2])]) {
      await writeFile(path, whole.subarray(0, length));
      const told = statusesIn(whole.subarray(0, length).toString());
      const job = await store.open(animals(5));
      const pending = await collect(job.pending());
      const expected = [1, 2, 3, 4, 5].flatMap((row) => {
        const status = told.get(row);
        return status === 'added' || status === 'unknown' ? [] : [[row, status === 'sending']];
      });
      expect(pending.map(({ row, doubt }) => [row, doubt !== undefined])).toEqual(expected);
      await job.close();
    }
  });

  it('whose last line lost a page in its middle is cut there too', async () => {
    const store = await bulk();
    const path = await eventful(store);
    const whole = await readFile(path);
    const told = statusesIn(whole.toString());
    const last = whole.lastIndexOf(0x0a, whole.length - 2) + 1;
    await writeFile(path, Buffer.from(whole).fill(0, last, whole.length - 10));
    const job = await store.open(animals(5));
    expect((await collect(job.pending())).map(({ row, doubt }) => [row, doubt])).toEqual([
      [4, undefined],
      [5, undefined],
    ]);
    await job.close();
    told.delete(4);
    expect(statusesIn(await readFile(path, 'utf8'))).toEqual(told);
  });

  it('that stands on the disk is synced before a row in doubt is sent again', async () => {
    const store = await bulk();
    await eventful(store);
    const calls: string[] = [];
    const files = interceptFiles((name, path) => void (path.endsWith('progress.ndjson') && calls.push(name)));
    await store.open(animals(5), { files });
    expect(calls).toContain('datasync');
  });

  const edit = (line: number, change: (text: string) => string) => (text: string) =>
    text
      .split('\n')
      .map((one, i) => (i + 1 === line ? change(one) : one))
      .join('\n');
  type Damage = [what: string, damage: (text: string) => string, message: string];
  it.each<Damage>([
    ['no JSON in the middle', edit(3, (line) => line.slice(0, 20)), 'is damaged in line 3'],
    ['no JSON at the end', edit(10, (line) => line.slice(0, 20)), 'is damaged in line 10'],
    ['zeros in the middle', edit(3, (line) => '\0'.repeat(line.length)), 'is damaged in line 3'],
    ['another form', edit(4, (line) => line.replace('sending', 'resting')), 'is damaged in line 4'],
    ['no key', edit(4, (line) => line.replace('idempotencyKey', 'key')), 'is damaged in line 4'],
    [
      'a row that there is not',
      edit(4, (line) => line.replace('"row":2', '"row":6')),
      'is damaged in line 4',
    ],
    ['row 0', edit(4, (line) => line.replace('"row":2', '"row":0')), 'is damaged in line 4'],
    ['no header', edit(1, () => 'hello'), 'is damaged in line 1'],
    ['a header without a nonce', edit(1, (line) => line.replace('nonce', 'once')), 'is damaged in line 1'],
    ['a header of zeros', edit(1, (line) => '\0'.repeat(line.length)), 'is damaged in line 1'],
    ['an empty line', edit(5, () => ''), 'is damaged in line 5'],
    [
      'a version to come',
      edit(1, (line) => line.replace('"version":1', '"version":2')),
      'has format 2, which a newer version of pets wrote',
    ],
  ])('with %s is refused as it is, and begun anew with --restart', async (_, damage, message) => {
    const store = await bulk();
    const path = await eventful(store);
    const damaged = damage(await readFile(path, 'utf8'));
    await writeFile(path, damaged);
    const error = await store.open(animals(5)).catch((reason) => reason);
    expect(error).toMatchObject({ code: 'damaged_file' });
    expect(error.message).toContain(`${path} ${message}`);
    expect(error.hint).toMatch(/[mM]ove .* away, or use --restart, which adds every row, .* a second time/);
    expect(await readFile(path, 'utf8')).toBe(damaged);
    expect((await readdir(store.options.directory)).filter((name) => name.startsWith('spool'))).toEqual([]);
    expect((await store.open(animals(5), { restart: true })).counts().left).toBe(5);
  });

  it('with an animal that is damaged says so when it is asked for', async () => {
    const store = await bulk();
    const path = await eventful(store);
    await writeFile(path, (await readFile(path, 'utf8')).replace('"id":1152921504606846977', '"id":"x"'));
    const job = await store.open(animals(5));
    await expect(collect(job.results())).rejects.toThrow(`${path} is damaged in line 3: pet.id must be`);
  });
});

describe('a power failure', () => {
  const SEEDS = Number(process.env['PETS_POWER_LOSS_SEEDS'] ?? 2_000);

  it(
    `takes nothing that was said to be on the disk, under ${SEEDS} seeds`,
    async () => {
      const sum = { lives: 0, doubts: 0, settled: 0, torn: 0 };
      for (let seed = 0; seed < SEEDS; seed++) {
        const figures = await simulateBulkPowerLoss(seed);
        for (const key of Object.keys(sum) as (keyof typeof sum)[]) sum[key] += figures[key];
      }
      // The stories must have had something in them.
      for (const count of Object.values(sum)) expect(count).toBeGreaterThan(SEEDS / 100);
    },
    SEEDS * 20 + 20_000,
  );
});

const runner = fileURLToPath(new URL('../helpers/bulk-runner.ts', import.meta.url));

/** Another process that runs a job; what it said first, and itself. */
async function other(directory: string, count: number, sent = '', mode = '') {
  const args = ['--import', 'tsx', runner, directory, String(count), sent, mode];
  const child = spawn(process.execPath, args, { stdio: ['ignore', 'pipe', 'inherit'] });
  onTestFinished(() => void child.kill('SIGKILL'));
  const gone = once(child, 'exit');
  const answers: Record<string, unknown>[] = [];
  const said = new Promise<void>((done) => {
    let text = '';
    child.stdout.setEncoding('utf8').on('data', (part) => {
      text += part;
      for (let end = text.indexOf('\n'); end >= 0; end = text.indexOf('\n')) {
        answers.push(JSON.parse(text.slice(0, end)));
        text = text.slice(end + 1);
        done();
      }
    });
  });
  await Promise.race([said, gone]);
  return { child, gone, answers };
}

describe('of several processes', () => {
  it('one has a job, the others are refused with its pid, and a kill -9 frees it', async () => {
    const { options } = await bulk();
    const all = await Promise.all(Array.from({ length: 4 }, () => other(options.directory, 5, '', 'hold')));
    const [holder, ...more] = all.filter(({ answers }) => answers[0]?.['has']);
    expect(more).toEqual([]);
    const pid = holder?.child.pid;
    for (const { answers } of all) {
      if (answers[0]?.['has']) continue;
      const message = `animals.csv is being added by process ${pid} already`;
      expect(answers[0]).toEqual({ has: false, code: 'already_running', message });
    }
    const files = (await readdir(options.directory)).filter((name) => name.startsWith('spool'));
    expect(files).toEqual([]);
    holder?.child.kill('SIGKILL');
    await holder?.gone;
    expect((await other(options.directory, 5, '', 'hold')).answers).toMatchObject([
      { has: true, resumed: true },
    ]);
  }, 60_000);

  it('each goes on where a kill -9 has stopped the one before it', async () => {
    const { options } = await bulk();
    const sent = join(options.directory, '..', '..', 'sent');
    const count = 400;
    await writeFile(sent, '');
    for (let finished = false, kills = 0; !finished; kills++) {
      const size = (await stat(sent)).size;
      const { child, gone, answers } = await other(options.directory, count, sent);
      expect(answers[0]).toMatchObject({ has: true, resumed: kills > 0 });
      // Somewhere in the middle, wherever that is.
      while (child.exitCode === null && kills < 4 && (await stat(sent)).size < size + 2_500) {
        await new Promise((done) => setTimeout(done, 1));
      }
      if (kills < 4) child.kill('SIGKILL');
      await gone;
      finished = answers.some((answer) => answer['finished']);
      if (finished) expect(kills).toBe(4);
    }
    const keys = new Map<string, string>();
    const settled = new Set<string>();
    for (const line of (await readFile(sent, 'utf8')).trimEnd().split('\n')) {
      const [row = '', what = ''] = line.split(' ');
      if (what === 'settled') settled.add(row);
      else {
        expect(settled, `row ${row} was sent again`).not.toContain(row);
        expect(keys.get(row) ?? what).toBe(what);
        keys.set(row, what);
      }
    }
    expect(keys.size).toBe(count);
    expect(new Set(keys.values()).size).toBe(count);
  }, 60_000);
});
