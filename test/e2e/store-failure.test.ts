import { join } from 'node:path';
import { expect, test } from 'vitest';
import { freshMachine } from '../helpers/pets.ts';

/** Adds an animal, moves the store, and adds another one. Prints the responses, and waits for the end of the service. */
const MOVE = `
  import { renameSync } from 'node:fs';
  const send = async (name) => {
    const headers = { Authorization: 'Bearer ' + process.env.PETS_API_KEY, 'Content-Type': 'application/json' };
    const body = JSON.stringify({ name, categoryId: 1 });
    const response = await fetch(process.env.PETS_BASE_URL + '/pets', { method: 'POST', headers, body });
    const { id, code } = await response.json();
    console.log(name, response.status, id ?? code);
  };
  await send('before');
  renameSync(process.env.DATA, process.env.DATA + '-moved');
  await send('after').catch(() => console.log('after: no connection'));
  setTimeout(() => {}, 60_000);`;

// test/store/journal-store.test.ts has the other ways to lose a journal, and failed-writes.test.ts the errors of a disk.
test.skipIf(process.platform === 'win32')(
  'a store that was moved ends the service with the reason, and acknowledges nothing',
  async () => {
    const machine = await freshMachine();
    const data = join(machine.home, 'store');
    const { code, stdout, stderr } = await machine.shell(
      `pets serve --json --data "${data}" -- "$NODE" --input-type=module -e "$MOVE"`,
      { env: { MOVE, DATA: data } },
    );
    expect(code).toBe(1);
    expect(stderr).toContain(
      `${join(data, 'journal.ndjson')} was moved, replaced or deleted while it was in use`,
    );
    expect(stderr).toContain('"store_error"');
    // The service ends the command, often before it prints the response.
    expect(stdout).toContain('before 201 1');
    expect(stdout).not.toContain('after 201');
  },
);
