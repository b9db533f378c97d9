import { writeFile } from 'node:fs/promises';
import { stripVTControlCharacters } from 'node:util';
import { describe, expect, test } from 'vitest';
import { HONOURED, service, shop } from '../helpers/bulk-shop.ts';
import { reply } from '../helpers/scripted-server.ts';
import { start } from '../helpers/service.ts';

const lastLine = (text: string) => text.trimEnd().split('\n').at(-1);
const error = (stderr: string) => JSON.parse(lastLine(stderr) ?? '').error;
const PLAIN = ['--color', 'never'];
const rowsOf = (count: number) => Array.from({ length: count }, (_, i) => `animal ${i},1\n`).join('');

/** A service that refuses animals of these names, with a reason that is long. */
const refusing = (isRefused: (name: string) => boolean) =>
  service((name, response) => {
    if (!isRefused(name)) return false;
    const message = `${name} is not wanted, ${'because of a reason that is told at length, '.repeat(3)}END`;
    reply(response, 422, { code: 'unwanted', message, status: 422 }, HONOURED);
    return true;
  });

describe('a file that is added', () => {
  test('is told so at the end of the next run, and a terminal shows no table of it', async () => {
    const { url, names } = await service();
    const { add } = await shop(url);
    const first = await add(PLAIN, { columns: 80 });
    expect(first.stdout).toMatch(/LINE.*RESULT.*ID.*NAME *\n/);
    const again = await add(PLAIN, { columns: 80 });
    expect(again).toMatchObject({ code: 0, stdout: '' });
    expect(again.stderr).toBe('note: nothing was sent now: all 3 rows were added on 2026-11-20 12:00 UTC\n');
    expect(names()).toHaveLength(3);
    // What programs read is the same as before.
    expect((await add()).stdout.split('\n')).toHaveLength(4);
    expect(JSON.parse((await add(['--json'])).stdout)).toHaveLength(3);
  });

  test('but for a row that may be shows that one', async () => {
    const { url } = await service((name, response) => {
      if (name === 'Bella') response.destroy();
      return name === 'Bella';
    }, {});
    const { add } = await shop(url);
    await add();
    await add();
    const again = await add(PLAIN, { columns: 200 });
    expect(again.code).toBe(8);
    expect(again.stdout.split('\n').map((line) => line.trim().split(/ +/).slice(0, 2))).toEqual([
      ['LINE', 'RESULT'],
      ['3', 'unknown'],
      [''],
    ]);
    const plain = stripVTControlCharacters(again.stderr);
    expect(plain).toMatch(
      /error: nothing was sent now: 2 of 3 rows were added on 2026-11-20 12:00 UTC; 1 may have been added\n/,
    );
    expect(lastLine(plain)).toBe('  → look for those that may have been added: pets list --all');
  });
});

describe('a file that was changed', () => {
  const changed = 'name,category\nRex,1\nBellissima,2\nLola,3\n';

  test('is refused with the command that adds the rest, and what --restart would do', async () => {
    const { url } = await refusing((name) => name === 'Bella');
    const { add, file } = await shop(url);
    expect((await add()).code).toBe(8);
    await writeFile(file, changed);
    const { code, stderr } = await add(['--json']);
    expect(code).toBe(1);
    expect(error(stderr)).toMatchObject({
      code: 'file_changed',
      hint: `add only the rows that are not added yet: pets add --from ${file} --json --skip-added (--restart would add the 2 animals that were sent before a second time)`,
    });
  });

  test('is added with --skip-added but for what is, and tells the pets of before', async () => {
    const { url, names } = await refusing((name) => name === 'Bella');
    const { add, file } = await shop(url);
    const before = await add();
    await writeFile(file, changed);
    const { code, stdout, stderr } = await add(['--skip-added']);
    expect(code).toBe(0);
    expect(names()).toEqual(['Rex', 'Bella', 'Lola', 'Bellissima']);
    const [rex, , lola] = before.stdout.split('\n');
    expect(stdout.split('\n')).toEqual([rex, '3\tadded\t4\tBellissima\t', lola, '']);
    expect(stderr).toBe(
      'note: 2 of 3 rows were sent by earlier runs of the file: none is added again\nnote: 3 of 3 rows are added\n',
    );
    for (const args of [['--skip-added'], []]) {
      const again = await add(args);
      expect(again).toMatchObject({ code: 0, stdout });
      expect(again.stderr).toContain('nothing was sent now: all 3 rows were added on');
    }
    await writeFile(file, 'name,category\nLola,3\nRex,1\n');
    expect((await add(['--skip-added'])).stderr).toBe(
      'note: nothing was sent now: all 2 rows were added by earlier runs\n',
    );
  });

  test('is added as far as a row in doubt lets it: that is repeated with its key', async () => {
    let isLost = true;
    const { url, added, names } = await service((name, response) => {
      if (name === 'Bella' && isLost) response.destroy();
      return name === 'Bella' && isLost;
    });
    const { add, file } = await shop(url);
    expect((await add()).code).toBe(6);
    isLost = false;
    await writeFile(file, 'name,category,status\nRex,1,\nBella,2,\nLolita,3,sold\n');
    expect((await add(['--skip-added'])).code).toBe(0);
    expect([...added.values()].map(({ name }) => name)).toEqual(['Rex', 'Bella', 'Lolita']);
    expect(names().filter((name) => name === 'Rex')).toHaveLength(1);
  });

  test.each([
    [['--skip-added', '--restart'], 2, 'exclude each other'],
    [['--skip-added'], 2, 'no earlier run of .* is known for http'],
  ])('%j of one that was never added is refused, and nothing is sent', async (args, expected, message) => {
    const { url, requests } = await service();
    const { add, spools } = await shop(url);
    const { code, stderr } = await add(args);
    expect([code, stderr]).toEqual([expected, expect.stringMatching(message)]);
    expect([requests, await spools()]).toEqual([[], []]);
  });

  test('by its pipe is not known: --skip-added refuses it', async () => {
    const { url, requests } = await service();
    const { addOther } = await shop(url);
    const { code, stderr } = await addOther('../../../../../../../dev/null', [
      '--format',
      'csv',
      '--skip-added',
    ]);
    expect([code, stderr]).toEqual([2, expect.stringContaining('--skip-added needs a file')]);
    expect(requests).toEqual([]);
  });
});

describe('rows that failed', () => {
  test('are told with their whole message below the table, which has a column for it only then', async () => {
    const { url } = await refusing((name) => name === 'animal 3');
    const { add } = await shop(url, `name,category\n${rowsOf(5)}`);
    const { stdout, stderr, code } = await add(PLAIN, { columns: 80 });
    expect(code).toBe(8);
    expect(stdout).toMatch(/MESSAGE\n/);
    expect(stdout).not.toContain('END');
    expect(stripVTControlCharacters(stderr).replace(/\n {2}/g, ' ')).toMatch(
      /note: line 5: animal 3 is not wanted, .* END\nerror: 4 of 5/,
    );
    expect(Math.max(...stderr.split('\n').map((line) => line.split('\r').at(-1)?.length ?? 0))).toBeLessThan(
      90,
    );
    const ok = await shop(url, 'name,category\nRex,1\n');
    expect((await ok.add(PLAIN, { columns: 80 })).stdout).not.toContain('MESSAGE');
  });

  test('of many twenty are told, and how many more', async () => {
    const { url } = await refusing(() => true);
    const { add } = await shop(url, `name,category\n${rowsOf(25)}`);
    const { stderr } = await add(PLAIN, { columns: 80 });
    expect(stderr.match(/note: line \d+:/g)).toHaveLength(20);
    expect(stderr).toContain('note: … and 5 more: --json has every message\n');
  });

  test('are in a pipe in their lines alone', async () => {
    const { url } = await refusing(() => true);
    const { add } = await shop(url);
    const { stderr, stdout } = await add();
    expect(stderr).toBe(
      'error: 0 of 3 rows are added; 3 failed\n  → the same command tries the failed ones again\n',
    );
    expect(stdout.match(/END\n/g)).toHaveLength(3);
  });
});

describe('a run that ends early', () => {
  test.each([
    ['settles it', HONOURED, 'the same command settles it, and adds it once', 0],
    ['tells it as unknown', {}, 'tells that row as unknown', 8],
  ])(
    'by Ctrl-C before an answer says that a row is open, and the same command %s',
    async (_, headers, hint, code) => {
      const interrupt = { raise: (_signal: 'SIGINT') => {} };
      const { url } = await service(
        (name, _response, count) => {
          if (name !== 'Bella' || count > 1) return false;
          interrupt.raise('SIGINT');
          interrupt.raise = () => {};
          return true;
        },
        headers as Record<string, string>,
      );
      const { startAdd, add } = await shop(url);
      const running = await startAdd();
      interrupt.raise = running.raise;
      expect(await running.ended).toBe(130);
      const text = running.stderr();
      expect(text).toContain('error: interrupted; one row was on its way, and whether it is added is open\n');
      expect(text).toContain(hint);
      expect(text).not.toContain('outcome is unknown');
      expect((await add()).code).toBe(code);
    },
  );

  test('by the day says that it is the day, and that the same command goes on then', async () => {
    const real = await start({ quota: { perMinute: 10, perDay: 3 } });
    const { add } = await shop(`${real.listening.origin}/v1`);
    const { code, stderr } = await add(['--json']);
    expect(code).toBe(5);
    expect(error(stderr)).toMatchObject({
      code: 'rate_limited',
      message: expect.stringMatching(/until 2026-11-21 00:00:00 UTC .*: the day's limit is used up$/),
      hint: 'the same command goes on then',
    });
  });

  test('by a ban is none of the day', async () => {
    const { url } = await service((_name, response) => {
      reply(response, 429, { code: 'key_banned', message: 'banned', status: 429 }, { 'Retry-After': '300' });
      return true;
    });
    const { add } = await shop(url);
    for (const run of [await add(['--json']), await add(['--json'])]) {
      expect(run.code).toBe(5);
      expect(error(run.stderr).message).not.toContain('day');
    }
  });
});
