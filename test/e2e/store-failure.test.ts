import { readdir, readFile } from 'node:fs/promises';
import { join } from 'node:path';
import { describe, expect, test } from 'vitest';
import { freshMachine, petsInShell } from '../helpers/pets.ts';

// `ulimit -f` limits the files of the service to a few KiB, so that writes to the journal fail, as on a full disk.

/**
 * A script that adds 200 animals one after another. Then it prints the ids of those that were acknowledged, the
 * responses to the others, the number of animals that are listed, and the responses to the health checks.
 */
const ADD_200 = `
  const base = process.env.PETS_BASE_URL;
  const headers = { Authorization: 'Bearer ' + process.env.PETS_API_KEY, 'Content-Type': 'application/json' };
  const send = (init) => fetch(base + '/pets', { ...init, headers: { ...headers, ...init?.headers } });
  const added = [];
  const refused = new Set();
  for (let i = 0; i < 200; i++) {
    const body = JSON.stringify({ name: 'x'.repeat(200), categoryId: 1 });
    const response = await send({ method: 'POST', body, headers: { 'Idempotency-Key': '"' + i + '"' } });
    const { id, code } = await response.json();
    if (response.status === 201) added.push(id);
    else refused.add(response.status + ' ' + code + ' ' + response.headers.get('Retry-After'));
  }
  const body = JSON.stringify({ name: 'x'.repeat(200), categoryId: 1 });
  const replayed = await send({ method: 'POST', body, headers: { 'Idempotency-Key': '"0"' } });
  const listed = [];
  let next = '/pets?limit=100';
  while (next) {
    const response = await fetch(new URL(base).origin + '/v1' + next.replace(/^\\/v1/, ''), { headers });
    listed.push(...(await response.json()));
    next = /<(.*)>/.exec(response.headers.get('Link') ?? '')?.[1];
  }
  const health = [];
  for (const path of ['/healthz', '/readyz']) health.push((await fetch(new URL(path, base))).status);
  console.log(JSON.stringify({
    added, refused: [...refused], replayed: replayed.status, listed: listed.length, health,
  }));`;

describe.skipIf(process.platform === 'win32')('a store whose files cannot grow', () => {
  test('refuses creations, serves reads, and has exactly the acknowledged animals afterwards', async () => {
    const machine = await freshMachine();
    const data = join(machine.home, 'store');
    const { code, stdout, stderr } = await machine.shell(
      `ulimit -f 8
       pets serve --data "${data}" --plan enterprise -- "$NODE" --input-type=module -e "$SCRIPT"`,
      { env: { SCRIPT: ADD_200 } },
    );
    expect([code, stderr]).toEqual([
      0,
      expect.stringMatching(/EFBIG.*; the store can only be read until writing is possible again/),
    ]);
    const result = JSON.parse(stdout);
    const { added } = result;
    expect(added.length).toBeGreaterThan(5);
    expect(added.length).toBeLessThan(60);
    expect(result).toEqual({
      added: added.map((_: number, i: number) => i + 1),
      refused: ['503 storage_full 5'],
      replayed: 201,
      listed: added.length,
      health: [200, 503],
    });
    expect((await readFile(join(data, 'journal.ndjson'), 'utf8')).endsWith('\n')).toBe(true);

    const list = `${petsInShell} list --all --ndjson`;
    const listed = await machine.shell(`pets serve --data "${data}" --quiet -- ${list}`);
    expect(listed.stderr).not.toContain('moved to');
    const ids = listed.stdout
      .trim()
      .split('\n')
      .map((line) => JSON.parse(line).id);
    expect(ids).toEqual(added);
  });
});

describe.skipIf(process.platform === 'win32')('a store whose journal was moved', () => {
  /** Changes the path of the journal, and adds an animal. Prints the response, and waits for the end of the service. */
  const CHANGE = `
    import { copyFileSync, renameSync, rmSync } from 'node:fs';
    const { DATA, JOURNAL } = process.env;
    const send = async (name) => {
      const headers = { Authorization: 'Bearer ' + process.env.PETS_API_KEY, 'Content-Type': 'application/json' };
      const body = JSON.stringify({ name, categoryId: 1 });
      const response = await fetch(process.env.PETS_BASE_URL + '/pets', { method: 'POST', headers, body });
      const { id, code } = await response.json();
      console.log(name, response.status, id ?? code);
    };
    await send('before');
    CHANGES
    await send('after').catch(() => console.log('after: no connection'));
    setTimeout(() => {}, 60_000);`;

  test.each<[string, string, string[]]>([
    ['deleted', 'rmSync(JOURNAL);', []],
    [
      'moved, and a copy put in its place',
      "renameSync(JOURNAL, DATA + '/x'); copyFileSync(DATA + '/x', JOURNAL);",
      [],
    ],
    ['moved with its directory', "renameSync(DATA, DATA + '-moved');", ['--json']],
  ])('ends the service with the reason, and acknowledges nothing: %s', async (_, changes, options) => {
    const machine = await freshMachine();
    const data = join(machine.home, 'store');
    const serve = `pets serve ${options.join(' ')} --data "${data}" -- "$NODE" --input-type=module -e "$SCRIPT"`;
    const env = {
      SCRIPT: CHANGE.replace('CHANGES', changes),
      DATA: data,
      JOURNAL: join(data, 'journal.ndjson'),
    };
    const { code, stdout, stderr } = await machine.shell(serve, { env });
    expect(code).toBe(1);
    expect(stderr).toContain(
      `${join(data, 'journal.ndjson')} was moved, replaced or deleted while it was in use`,
    );
    if (options.includes('--json')) expect(stderr).toContain('"store_error"');
    // The service ends the command, often before it prints the response.
    expect(stdout).toContain('before 201 1');
    expect(stdout).not.toContain('after 201');
  });
});

describe('a directory whose journal is missing', () => {
  test.each(['keys', 'bans.json', 'journal.torn-100-01234567'])(
    'is refused, with what shows that there was one: %s',
    async (trace) => {
      const machine = await freshMachine();
      await machine.file(join('store', trace === 'keys' ? 'keys/till.json' : trace), '{}');
      const data = join(machine.home, 'store');
      for (const args of [
        ['serve', '--port', '0', '--seed', '--data', data],
        ['keys', 'add', 'till', '--plan', 'free', '--data', data],
        ['keys', 'list', '--data', data],
      ]) {
        const { code, stderr } = await machine.pets(args);
        expect(code).toBe(1);
        expect(stderr).toContain(
          `${join(data, 'journal.ndjson')} is missing, but ${trace} in the same directory shows that there was a store`,
        );
        expect(stderr).toContain('restore journal.ndjson from a backup');
      }
      expect(await readdir(data)).toEqual([trace]);
    },
  );

  test('is an empty store only if nothing shows that there was one', async () => {
    const machine = await freshMachine();
    await machine.file('store/notes.txt', 'mine');
    const { code } = await machine.pets(['serve', '--data', join(machine.home, 'store'), '--', 'true']);
    expect(code).toBe(0);
  });
});
