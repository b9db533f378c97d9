import { readFile } from 'node:fs/promises';
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
    expect(listed.stderr).not.toContain('saved in');
    const ids = listed.stdout
      .trim()
      .split('\n')
      .map((line) => JSON.parse(line).id);
    expect(ids).toEqual(added);
  });
});

const DELETE_JOURNAL = `
  import { rmSync } from 'node:fs';
  rmSync(process.env.JOURNAL);
  const headers = { Authorization: 'Bearer ' + process.env.PETS_API_KEY, 'Content-Type': 'application/json' };
  const body = '{"name":"Rex","categoryId":1}';
  await fetch(process.env.PETS_BASE_URL + '/pets', { method: 'POST', headers, body });
  setTimeout(() => {}, 60_000);`;

describe.skipIf(process.platform === 'win32')('a store whose journal was deleted', () => {
  test.each([
    ['', /error: cannot write .*journal\.ndjson.*\n {2}→ .*\n$/],
    ['--json', /"store_error"/],
  ])('ends the service and its command with an error %s', async (option, error) => {
    const machine = await freshMachine();
    const data = join(machine.home, 'store');
    const serve = `pets serve ${option} --data "${data}" -- "$NODE" --input-type=module -e "$SCRIPT"`;
    const env = { SCRIPT: DELETE_JOURNAL, JOURNAL: join(data, 'journal.ndjson') };
    const { code, stderr } = await machine.shell(serve, { env });
    expect(code).toBe(1);
    expect(stderr).toMatch(error);
    expect(stderr).toMatch(/disk/);
  });
});
