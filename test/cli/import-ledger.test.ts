import { readFileSync } from 'node:fs';
import { chmod, readFile, stat, writeFile } from 'node:fs/promises';
import { dirname, join } from 'node:path';
import { describe, expect, it, onTestFinished, vi } from 'vitest';
import {
  type Ledger,
  type LedgerEnvironment,
  type LedgerEvent,
  openLedger,
  readLedger,
} from '../../src/cli/import/ledger.ts';
import { realFileSystem } from '../../src/system/file-system.ts';
import { errno, interceptFiles } from '../helpers/store-faults.ts';
import { temporaryDirectory } from '../helpers/temp.ts';

const AT = '2026-11-20T12:00:00.000Z';
const sent = {
  ...{ import: 1, line: 2, hash: 'of Rex', name: 'Rex', idempotencyKey: 'key' },
  ...{ at: AT, apiKeyHash: '0'.repeat(64) },
};
const pet = { id: 2n ** 63n - 1n, name: 'Zoë "Z"\u2028\n', categoryId: 1n, colour: { hex: '#fff' } };
const its = { seq: 1, at: AT, file: '/a.csv', rows: 2, digest: 'of both', finishedAt: null };
const EVENTS: LedgerEvent[] = [
  { kind: 'import', ...its },
  { kind: 'sent', seq: 2, ...sent },
  { kind: 'added', seq: 2, import: 1, line: 2, hash: 'of Rex', pet },
  { kind: 'sent', seq: 3, ...sent },
  { kind: 'sent', seq: 3, ...sent, message: 'lost' },
];

async function place(more: Partial<LedgerEnvironment> = {}) {
  const directory = join(await temporaryDirectory(), 'state', 'imports', 'id');
  const whole: LedgerEnvironment = {
    directory,
    service: 'http://127.0.0.1:7387/v1',
    files: realFileSystem,
    now: () => Date.parse(AT),
    ...more,
  };
  const open = async (again: Partial<LedgerEnvironment> = {}) => {
    const file = await openLedger({ ...whole, ...again });
    onTestFinished(() => file.close().catch(() => {}));
    return file;
  };
  const path = join(directory, 'ledger.ndjson');
  const lines = async () => (await readFile(path, 'utf8')).trimEnd().split('\n');
  const write = async () => {
    const file = await open();
    for (const event of EVENTS.slice(0, 3)) await file.append(event);
    await file.append(...EVENTS.slice(3));
    await file.close();
  };
  return { whole, directory, path, open, lines, write };
}

const kindsOf = ({ rows }: Ledger) => Array.from(rows.values(), ({ kind }) => kind);
const problemOf = (work: Promise<unknown>) =>
  work.then(
    () => undefined,
    ({ code, message, hint }) => ({ code, message, hint }),
  );

describe('a ledger', () => {
  it('has every digit and the highest number after a restart, and one record for each row', async () => {
    const { open, lines, write } = await place();
    await write();
    const { ledger } = await open();
    expect(ledger.seq).toBe(3);
    expect([...ledger.imports.values()]).toEqual([{ kind: 'import', ...its }]);
    expect([...ledger.rows.values()]).toMatchObject([{ kind: 'added', pet }, { kind: 'sent' }]);
    const [, ...events] = (await lines()).flatMap((line) => JSON.parse(line));
    expect(events.map(({ kind }) => kind)).toEqual(['import', 'added', 'sent']);
  });

  it('keeps open rows and the highest number when it forgets the others', async () => {
    const { open, write } = await place();
    await write();
    const first = await open();
    await first.append({ kind: 'import', ...its, finishedAt: AT });
    await first.close();
    const later = { now: () => Date.parse(AT) + 31 * 86_400_000 };
    const { ledger } = await open(later);
    expect([ledger.seq, kindsOf(ledger)]).toEqual([3, ['sent']]);
  });

  it('that is cut or torn anywhere is read up to its last complete line', async () => {
    const { whole, path, write } = await place();
    await write();
    const bytes = await readFile(path);
    const ends = [...bytes.keys()].filter((at) => bytes[at] === 0x0a);
    const expected = [[], [], ['sent'], ['added'], ['added', 'sent']];
    const isNearAnEnd = (length: number) => ends.some((end) => Math.abs(end - length) <= 2);
    for (let length = (ends[0] ?? 0) + 1; length <= bytes.length; length++) {
      if (length % 8 !== 0 && !isNearAnEnd(length)) continue;
      const kinds = expected[ends.filter((end) => end < length).length - 1];
      await writeFile(path, bytes.subarray(0, length));
      expect(kindsOf(await readLedger(whole)), `cut at ${length}`).toEqual(kinds);
    }
    // A part of the last line did not reach the disk.
    bytes.fill(0, (ends.at(-2) ?? 0) + 5, bytes.length - 10);
    await writeFile(path, bytes);
    expect(kindsOf(await readLedger(whole))).toEqual(['added']);
  });

  it('names PETS_STATE_DIR if the path is too long for a lock, as it can be on macOS', async () => {
    const { open } = await place({ directory: join(await temporaryDirectory(), 'x'.repeat(83)) });
    vi.spyOn(process, 'platform', 'get').mockReturnValue('darwin');
    expect(await problemOf(open())).toMatchObject({
      message: expect.stringContaining('is too long for a socket'),
      hint: expect.stringMatching(/^use a path of at most 82 bytes; .* set PETS_STATE_DIR to a writable/),
    });
  });

  const edit = (line: number, change: (text: string) => string) => (text: string) =>
    text
      .split('\n')
      .map((one, i) => (i + 1 === line ? change(one) : one))
      .join('\n');
  it.each<[string, (text: string) => string, line: number, reason: string]>([
    ['no JSON', edit(3, (line) => line.slice(0, 20)), 3, 'it is not valid JSON'],
    ['an event without its row', edit(4, (line) => line.replace('"hash"', '"hush"')), 4, ''],
    ['no header', edit(1, () => 'hello'), 1, ''],
    ['nothing in it', () => '', 1, 'it is incomplete'],
    [
      'the form of version 0.1',
      () => readFileSync('test/fixtures/ledger-v1.ndjson', 'utf8'),
      1,
      'version must be 2',
    ],
  ])('with %s is refused and left as it is', async (_, damage, line, reason) => {
    const { open, path, write } = await place();
    await write();
    const damaged = damage(await readFile(path, 'utf8'));
    await writeFile(path, damaged);
    expect(await problemOf(open())).toMatchObject({
      code: 'damaged_file',
      message: expect.stringContaining(
        `line ${line} of ${path} is damaged, or another version of pets has written it: ${reason}`,
      ),
      hint: expect.stringContaining('adds them again'),
    });
    expect(await readFile(path, 'utf8')).toBe(damaged);
  });

  it('can be open in one process only, and is free after it was closed', async () => {
    const { open } = await place();
    const all = await Promise.allSettled(Array.from({ length: 6 }, () => open()));
    const opened = all.filter((each) => each.status === 'fulfilled');
    expect(opened).toHaveLength(1);
    for (const each of all)
      if (each.status === 'rejected')
        expect(each.reason).toMatchObject({
          code: 'already_running',
          message: `another import into 127.0.0.1:7387 is running (process ${process.pid}); it may be waiting for confirmation`,
        });
    await opened[0]?.value.close();
    await open();
  });

  it('is private, whatever the umask, and made so again', async () => {
    const umask = process.umask(0);
    onTestFinished(() => void process.umask(umask));
    const { open, directory, path } = await place();
    const modes = async () =>
      Promise.all([directory, path].map(async (each) => ((await stat(each)).mode & 0o777).toString(8)));
    await (await open()).close();
    expect(await modes()).toEqual(['700', '600']);
    await chmod(directory, 0o755);
    await chmod(path, 0o644);
    await open();
    expect(await modes()).toEqual(['700', '600']);
  });

  it('is synced with every name above it before a row can be sent', async () => {
    const calls: string[] = [];
    const { open, directory } = await place({
      files: interceptFiles((name, path) => void calls.push(`${name} ${path}`)),
    });
    await open();
    const renamed = calls.findLastIndex((call) => call.startsWith(`rename ${directory}`));
    for (let path = directory; path !== dirname(path) && path.includes('pets-test'); path = dirname(path))
      expect(calls.lastIndexOf(`syncDirectory ${path}`)).toBeGreaterThan(renamed);
    expect(calls.findIndex((call) => call.startsWith('datasync'))).toBeLessThan(renamed);
  });
});

describe('an event', () => {
  const [start, event] = EVENTS as [LedgerEvent, LedgerEvent];

  it('is written and synced with those that are appended at the same time, before the next ones', async () => {
    const calls: string[] = [];
    const { open, lines } = await place({
      files: interceptFiles((name, path) => void (path.endsWith('ledger.ndjson') && calls.push(name))),
    });
    const { append } = await open();
    calls.length = 0;
    await Promise.all([append(start), append(event)]);
    // Append two more records while the first one is being written.
    const first = append(event);
    await vi.waitFor(() => expect(calls.filter((name) => name === 'write')).toHaveLength(2));
    await Promise.all([first, append(event), append(event)]);
    expect(calls.filter((name) => name === 'write' || name === 'datasync')).toEqual(
      Array(3).fill(['write', 'datasync']).flat(),
    );
    const sizes = (await lines()).slice(1).map((line) => JSON.parse(line).length);
    expect(sizes).toEqual([2, 1, 2]);
  });

  it.each([
    ['write', 'ENOSPC', 'no space left on device'],
    ['datasync', 'EIO', 'i/o error'],
  ])('is refused if the %s fails with %s, and so are all that follow', async (call, code, reason) => {
    let isBroken = false;
    const { open, path } = await place({
      files: interceptFiles((name, each) => {
        if (isBroken && name === call && each.endsWith('ledger.ndjson')) throw errno(code);
      }),
    });
    const { append } = await open();
    isBroken = true;
    const refusal = { code: 'file_error', message: `cannot write ${path}: ${reason}` };
    expect(await problemOf(append(start))).toMatchObject(refusal);
    isBroken = false;
    expect(await problemOf(append(event))).toMatchObject(refusal);
  });
});
