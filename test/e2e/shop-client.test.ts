import { chmod, cp, readFile, symlink } from 'node:fs/promises';
import { join } from 'node:path';
import { describe, expect, test } from 'vitest';
import { readBlocks } from '../helpers/document-blocks.ts';
import { readDocument, repository } from '../helpers/documents.ts';
import { freshMachine, type Machine, petsInShell, serveCommand } from '../helpers/pets.ts';

// test/e2e/shop-client is a project of a user, whose tests use the developer tools of `pets serve`.

const PROJECT = join(repository, 'test', 'e2e', 'shop-client');

/** Copies the project to a machine on which `pets` and the libraries of the project are installed. */
async function installProject(machine: Machine): Promise<void> {
  await cp(PROJECT, machine.home, { recursive: true });
  await symlink(join(repository, 'node_modules'), join(machine.home, 'node_modules'));
  await chmod(await machine.file('bin/pets', `#!/bin/sh\nexec ${petsInShell} "$@"\n`), 0o700);
}

describe('the tests of a project that uses the developer tools succeed', () => {
  test('with npm test, which starts the service', async () => {
    const machine = await freshMachine();
    await installProject(machine);
    const PATH = `${join(machine.home, 'bin')}:${machine.env['PATH']}`;
    const { code, stdout, stderr } = await machine.shell('npm test', { env: { PATH, NO_COLOR: '1' } });
    expect(stdout, stderr).toMatch(/Tests +5 passed/);
    expect(code).toBe(0);
  });

  test('with a service that runs already', async () => {
    const machine = await freshMachine();
    await installProject(machine);
    const { url, key, token } = await serveCommand(machine, ['--seed', '--resettable', '--no-profile']);
    const { code, stdout, stderr } = await machine.shell('node_modules/.bin/vitest run', {
      env: { PETS_BASE_URL: url, PETS_API_KEY: key, PETS_SERVE_TOKEN: token, NO_COLOR: '1' },
    });
    expect(stdout, stderr).toMatch(/Tests +5 passed/);
    expect(code).toBe(0);
  });
});

test('docs/serve.md shows the files of the project', async () => {
  const blocks = readBlocks(readDocument('docs/serve.md')).map(({ text }) => text);
  for (const name of ['package.json', 'vitest.config.ts', 'src/shop-client.ts', 'test/shop-client.spec.ts']) {
    const text = await readFile(join(PROJECT, name), 'utf8');
    expect(blocks, name).toContain(text);
  }
});
