import { readdir, readFile, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { describe, expect, test } from 'vitest';
import { HONOURED, service, shop } from '../helpers/bulk-shop.ts';
import { reply } from '../helpers/scripted-server.ts';
import { start } from '../helpers/service.ts';

const SEVEN = 'name,category,status\nFürst Pückler,2,\nRex,1,sold\nBella,2,\nLola,3,\nA,4,\nB,5,\nC,6,\n';

/** A shop where of three rows the third fails, as long as it is to. */
async function failing() {
  const state = { isOn: true };
  const made = await service((name, response) => {
    if (name === 'Lola' && state.isOn) reply(response, 422, { code: 'no', message: 'no', status: 422 });
    return name === 'Lola' && state.isOn;
  });
  return { ...made, ...(await shop(made.url)), state };
}

describe('a dry run tells what the same command would do', () => {
  test('with rows that nothing is known of, it adds them', async () => {
    const { url, requests } = await service();
    const { add, file, directory } = await shop(url);
    const { code, stdout, stderr } = await add(['--dry-run']);
    expect({ code, stdout }).toEqual({ code: 0, stdout: '' });
    expect(stderr).toMatch(
      new RegExp(`^note: nothing is sent: the 3 rows of ${file} would be added at .*\n$`),
    );
    expect(requests).toEqual([]);
    expect(await readdir(directory)).toEqual(['animals.csv']);
  });

  test('where some are added, it goes on', async () => {
    const { add, names, file } = await failing();
    expect((await add()).code).toBe(8);
    const { code, stderr } = await add(['--dry-run']);
    expect(code).toBe(0);
    expect(stderr).toContain(`nothing is sent: 1 of the 3 rows of ${file} would be added at `);
    expect(stderr).toContain('; 2 are added already (run of 2026-11-20 12:00 UTC)\n');
    expect(names()).toHaveLength(3);
  });

  test('where all are added, it sends nothing', async () => {
    const { add } = await failing();
    await add();
    const { url } = await service();
    const other = await shop(url);
    await other.add();
    expect((await other.add(['--dry-run'])).stderr).toBe(
      'note: nothing would be sent: all 3 rows were added on 2026-11-20 12:00 UTC\n',
    );
  });

  test('where all were added more than 30 days ago, it adds them again', async () => {
    const { url } = await service();
    const { add, directory } = await shop(url);
    await add();
    const names = await readdir(directory, { recursive: true });
    const path = join(directory, names.find((name) => name.endsWith('progress.ndjson')) ?? '');
    const text = await readFile(path, 'utf8');
    await writeFile(path, text.replace(/"finished","at":"2026-11-20/, '"finished","at":"2026-10-20'));
    expect((await add(['--dry-run'])).stderr).toContain('the 3 rows of');
    expect((await add()).stderr).toBe('note: 3 of 3 rows are added\n');
  });

  test('where a row may have been added, it does not send that', async () => {
    const { url } = await service((name, response) => {
      if (name === 'Lola') response.destroy();
      return name === 'Lola';
    }, {});
    const { add } = await shop(url);
    await add();
    expect((await add(['--dry-run'])).stderr).toContain(
      'nothing would be sent: 2 of 3 rows were added on 2026-11-20 12:00 UTC; 1 may have been added, and would not',
    );
  });

  test('where the file was changed, it refuses, or with --skip-added adds what is missing', async () => {
    const { add, file, state, names } = await failing();
    await add();
    await writeFile(file, 'name,category\nRex,1\nBella,2\nLolita,3\nNew,4\n');
    state.isOn = false;
    const { code, stderr } = await add(['--dry-run']);
    expect(code).toBe(0);
    expect(stderr).toContain(`this would be refused: ${file} holds 2 rows of the run of`);
    expect(stderr).toContain(`: pets add --from ${file} --skip-added (--restart`);
    expect((await add(['--dry-run', '--skip-added'])).stderr).toMatch(
      /2 of the 4 rows of .* would be added at .*; 2 are added already \(by earlier runs\)\n$/,
    );
    expect((await add(['--dry-run', '--restart'])).stderr).toMatch(
      /the 4 rows of .* would be added at .*; 2 of them a second time: so many are added already\n$/,
    );
    // It has changed nothing of all that.
    expect((await add()).code).toBe(1);
    expect((await add(['--skip-added'])).code).toBe(0);
    expect(names()).toEqual(['Rex', 'Bella', 'Lola', 'Lolita', 'New']);
  });

  test('where its progress is damaged, it refuses, and that is left as it is', async () => {
    const { add, directory } = await failing();
    await add();
    const names = await readdir(directory, { recursive: true });
    const path = join(directory, names.find((name) => name.endsWith('progress.ndjson')) ?? '');
    await writeFile(path, 'hello\n');
    const { code, stderr } = await add(['--dry-run']);
    expect([code, stderr.split('\n')[0]]).toEqual([
      0,
      expect.stringContaining(`refused: ${path} is damaged`),
    ]);
    expect((await add()).code).toBe(1);
  });

  test('and hinders nobody who adds the file at the same time', async () => {
    const state = { dryRun: async () => '' };
    const seen: string[] = [];
    const { url } = await service((name, response) => {
      if (name !== 'Bella') return false;
      state.dryRun().then((text) => {
        seen.push(text);
        reply(response, 201, { id: 7, name, categoryId: 2 }, HONOURED);
      });
      return true;
    });
    const { add } = await shop(url);
    state.dryRun = async () => (await add(['--dry-run'])).stderr;
    expect((await add()).code).toBe(0);
    expect(seen).toEqual([expect.stringContaining('2 of the 3 rows')]);
  });
});

describe('what a dry run shows', () => {
  test('on a terminal is a table of the first rows, and how many more there are', async () => {
    const real = await start({});
    const { add } = await shop(`${real.listening.origin}/v1`, SEVEN);
    const { stdout } = await add(['--dry-run', '--color', 'never'], { columns: 80 });
    expect(stdout.split('\n').map((line) => line.trim().replace(/ +/g, ' '))).toEqual([
      'LINE NAME CATEGORY STATUS',
      '2 Fürst Pückler 2',
      '3 Rex 1 sold',
      '4 Bella 2',
      '5 Lola 3',
      '6 A 4',
      '… and 2 rows more',
      '',
    ]);
  });

  test('of few rows is all of them', async () => {
    const { add } = await shop('http://127.0.0.1:9/v1');
    const { stdout } = await add(['--dry-run', '--color', 'never'], { columns: 80 });
    expect(stdout.trimEnd().split('\n')).toHaveLength(4);
  });

  test('to a program is what would be in the requests, whatever is known', async () => {
    const { add } = await failing();
    const before = await add(['--dry-run', '--json']);
    await add();
    const after = await add(['--dry-run', '--json'], { columns: 80 });
    expect(JSON.parse(after.stdout)).toEqual(JSON.parse(before.stdout));
    expect(JSON.parse(before.stdout)).toHaveLength(3);
    expect(JSON.parse(after.stderr)).toEqual({ notice: expect.stringContaining('2 are added already') });
  });
});
