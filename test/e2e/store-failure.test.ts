import { join } from 'node:path';
import { describe, expect, test } from 'vitest';
import { freshMachine } from '../helpers/pets.ts';

// The files of this service cannot grow beyond 8 KiB, so that writes to the journal fail.

/** A script that adds 200 animals one after another and prints the ids of those that were acknowledged. */
const ADD_200 = `
  const headers = { Authorization: 'Bearer ' + process.env.PETS_API_KEY, 'Content-Type': 'application/json' };
  const body = JSON.stringify({ name: 'x'.repeat(200), categoryId: 1 });
  for (let i = 0; i < 200; i++) {
    const sent = fetch(process.env.PETS_BASE_URL + '/pets', { method: 'POST', headers, body });
    const response = await sent.catch(() => undefined);
    if (response?.status === 201) console.log((await response.json()).id);
  }
  setTimeout(() => {}, 60_000);`;

const serveLimited = (store: string) => `ulimit -f 8
  pets serve ${store} --plan enterprise -- "$NODE" --input-type=module -e "$SCRIPT"`;

describe.skipIf(process.platform === 'win32')('a store that cannot be written any more', () => {
  test('ends the service and its command with an error, and loses no acknowledged animal', async () => {
    const machine = await freshMachine();
    const data = join(machine.home, 'store');
    const { code, stdout, stderr } = await machine.shell(serveLimited(`--json --data "${data}"`), {
      env: { SCRIPT: ADD_200 },
    });
    expect(code).toBe(1);
    const { error } = JSON.parse(stderr.trim().split('\n').at(-1) ?? '');
    expect(error).toMatchObject({
      code: 'store_error',
      message: expect.stringContaining(join(data, 'journal.ndjson')),
      hint: expect.stringMatching(/disk/),
    });
    const acknowledged = stdout.trim().split('\n').map(Number);
    expect(acknowledged.length).toBeGreaterThan(5);
    expect(acknowledged.length).toBeLessThan(60);

    const list = '"$NODE" "$PETS" list --all --ndjson';
    const listed = await machine.shell(`pets serve --data "${data}" --quiet -- ${list}`);
    const ids = listed.stdout
      .trim()
      .split('\n')
      .map((line) => JSON.parse(line).id);
    expect(ids).toEqual(acknowledged);
  });

  test('is reported to a person with a hint', async () => {
    const machine = await freshMachine();
    const { code, stderr } = await machine.shell(serveLimited('--ephemeral'), { env: { SCRIPT: ADD_200 } });
    expect(code).toBe(1);
    expect(stderr).toMatch(/error: cannot write .*journal\.ndjson.*\n {2}→ .*\n$/);
  });
});
