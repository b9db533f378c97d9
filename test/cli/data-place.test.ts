import { access } from 'node:fs/promises';
import { join } from 'node:path';
import { expect, test } from 'vitest';
import { freshMachine, serve } from '../helpers/pets.ts';

const directoryOf = ({ stdout }: { stdout(): string }): string =>
  JSON.parse(stdout().split('\n')[0] ?? '').directory;

test.each([
  ['store', ['--data', 'other'], 'other'],
  ['store', ['--ephemeral'], 'pets-'],
  ['', [], '.local/share/pets/store'],
  [' HOME/store\r\n', [], 'store'],
  ['~/store', [], 'store'],
])('PETS_DATA: %j with the options %j leads to %s', async (value, args, expected) => {
  const machine = await freshMachine();
  const env = { PETS_DATA: value.replace('HOME', machine.home) };
  const words = args.map((word) => word.replace('other', join(machine.home, 'other')));
  const service = await serve(machine, [...words, '--no-profile'], { env });
  const directory = directoryOf(service);
  expect(directory.slice(0, join(machine.home, expected).length)).toBe(join(machine.home, expected));
  if (expected !== 'store') await expect(access(join(machine.home, 'store'))).rejects.toThrow('ENOENT');
});

const notAPlace = 'use a directory, or a URL such as postgres://user@host/database';
const notAUrl = 'write postgres://user@host:5432/database';

test.each([
  ['mysql://db/pets', notAPlace],
  ['host=db dbname=pets password=canary', notAPlace],
  ['"postgres://pets:canary@db/pets"', notAPlace],
  ['postgres:/pets:canary@db/pets', notAUrl],
  ['postgres://pets:canary@db/pets\npostgres://canary@db/pets', notAUrl],
])('a mistyped URL: %j is not the name of a directory', async (place, hint) => {
  const machine = await freshMachine();
  for (const [args, env] of [
    [['serve', '--port', '0'], { PETS_DATA: place }],
    [['keys', 'add', 'till', '--plan', 'pro', '--data', place.replaceAll(':canary@', '@')], {}],
    [['store', 'copy', machine.home, place.replaceAll(':canary@', '@')], {}],
  ] as const) {
    const { code, stdout, stderr } = await machine.pets(['--debug', ...args], { env });
    expect([code, stdout, stderr]).toEqual([1, '', expect.stringContaining(hint)]);
    expect(stderr).not.toMatch(/canary/i);
  }
});
