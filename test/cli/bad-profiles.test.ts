import { readFile } from 'node:fs/promises';
import { join } from 'node:path';
import { describe, expect, test } from 'vitest';
import { CANARY, expectFailure } from '../helpers/failure.ts';
import { freshMachine, type Machine } from '../helpers/pets.ts';
import { reply, replyError, scriptedServer } from '../helpers/scripted-server.ts';

// Damaged profiles and invalid keys. resolve.test.ts has the rules about which key may be sent to which server.

const writeConfig = (machine: Machine, name: string, text: string): Promise<string> =>
  machine.file(join('.config', 'pets', name), text);

const anyServer = () => scriptedServer((_request, response) => reply(response, 200, []));

describe('a damaged profile is reported and not changed', () => {
  const url = 'https://api.example.com/v1';
  const withKey = (key: unknown) => ({ baseUrl: url, key });
  test.each<[string, unknown, string]>([
    ['cut off', '{"baseUrl":"https://api.exa', 'not valid JSON'],
    ['without base URL', { key: CANARY }, 'baseUrl is required'],
    ['base URL with user', { baseUrl: `https://u:${CANARY}@api.example`, key: 'k' }, 'baseUrl must be'],
    ['key with a line end', withKey(`${CANARY}\r\nX: y`), 'key must be visible'],
  ])('%s', async (_name, content, contains) => {
    const machine = await freshMachine();
    const text = typeof content === 'string' ? content : JSON.stringify(content);
    const path = await writeConfig(machine, 'prod.json', text);
    const expected = {
      exit: 1,
      code: 'damaged_file',
      contains: [path, contains, 'then save it again: pets login --profile prod'],
    };
    const login = ['login', '--no-verify', '--base-url', url];
    for (const args of [['list'], ['logout'], login]) {
      await expectFailure(machine, args, { ...expected, stdin: CANARY });
    }
    expect(await readFile(path, 'utf8')).toBe(text);
  });

  test('so are damaged settings, which do not matter with --profile', async () => {
    const machine = await freshMachine();
    const path = await writeConfig(machine, 'settings.json', '{"defaultProfile":"production"}');
    const contains = [path, 'defaultProfile must be one of prod, staging, local', 'pets use'];
    const expected = { exit: 1, code: 'damaged_file', contains };
    await expectFailure(machine, ['list'], expected);
    await expectFailure(machine, ['use', 'staging'], expected);
    const other = { exit: 4, code: 'no_key', contains: ['no API key saved for profile prod'] };
    await expectFailure(machine, ['list', '--profile', 'prod'], other);
  });
});

describe('an invalid key is refused before it is sent, and not shown', () => {
  test.each([
    ['with CR and LF inside', `${CANARY}\r\nX-Evil: 1`],
    ['not ASCII', `${CANARY}é`],
  ])('%s, from standard input or PETS_API_KEY', async (_name, key) => {
    const machine = await freshMachine();
    const server = await anyServer();
    const refused = { exit: 4, code: 'bad_key' };
    const contains = ['the key', 'copy the key again'];
    await expectFailure(machine, ['login', '--base-url', server.url], { ...refused, stdin: key, contains });
    const env = { PETS_API_KEY: key, PETS_BASE_URL: server.url };
    await expectFailure(machine, ['list'], { ...refused, env, contains: ['PETS_API_KEY'] });
    expect(server.requests).toEqual([]);
  });

  test.each([
    ['only white space', ' \n', 'no key on standard input', 'or pipe the key in: cat key.txt | pets login'],
    ['UTF-16', Buffer.from(CANARY, 'utf16le').toString('latin1'), 'UTF-16', 'use UTF-8 instead'],
  ])('standard input with %s is wrong usage', async (_name, stdin, ...contains) => {
    const args = ['login', '--base-url', 'https://api.example.com/v1'];
    await expectFailure(await freshMachine(), args, { stdin, exit: 2, code: 'usage', contains });
  });

  test('a key that the service rejects is not saved, and the saved one is kept', async () => {
    const machine = await freshMachine();
    const server = await scriptedServer((_request, response) => replyError(response, 401, 'unauthorized'));
    const login = ['login', '--base-url', server.url];
    const refused = {
      stdin: CANARY,
      exit: 4,
      contains: [`127.0.0.1:`, 'rejected key …K2mX from this login: ', 'nothing was saved'],
    };
    await expectFailure(machine, login, refused);
    await machine.saveProfile('prod', { baseUrl: server.url, key: 'old-key-0001' });
    await expectFailure(machine, login, refused);
  });

  test.each<[string, number, ...string[]]>([
    ['login', 2, 'no base URL', 'pets login --base-url'],
    ['login --profile staging', 2, 'pets login --profile staging --base-url'],
    ['list', 4, 'profile prod', 'log in: pets login. Or start', 'pets serve --seed'],
  ])('no key, and no terminal to prompt for it: pets %s', async (line, exit, ...contains) => {
    const code = exit === 4 ? { code: 'no_key' } : {};
    await expectFailure(await freshMachine(), line.split(' '), { exit, ...code, stdin: '', contains });
  });
});
