import { readdir, readFile } from 'node:fs/promises';
import { join } from 'node:path';
import { describe, expect, test } from 'vitest';
import { CANARY } from '../helpers/failure.ts';
import { freshMachine, type Machine, serve } from '../helpers/pets.ts';
import { hasTerminal } from '../helpers/pseudo-terminal.ts';
import { onTerminal } from '../helpers/terminal.ts';

// `pets login` at a terminal.

const CTRL_C = '\x03';
const ENTER = '\r';

const savedOn = async ({ configDirectory }: Machine) =>
  (await readdir(configDirectory).catch(() => [])).filter((name) => name.endsWith('.json'));

describe.skipIf(!hasTerminal())('pets login at a terminal', () => {
  test('asks for the base URL and, without showing it, the key; the command that it suggests next works', async () => {
    const service = await serve(await freshMachine(), ['--ephemeral', '--seed', '--no-profile']);
    const machine = await freshMachine();
    const terminal = onTerminal(machine, ['login']);
    await terminal.waitFor('Base URL');
    terminal.type(`127.0.0.1:1/v1${ENTER}`);
    await terminal.waitFor('not a base URL');
    terminal.type(`${'\x7f'.repeat(14)}${service.url}${ENTER}`);
    await terminal.waitFor(`API key for profile prod (${new URL(service.url).host}), input hidden:`);
    // Pasted with the spaces around the key.
    terminal.type(` ${service.key} ${ENTER}`);
    await terminal.waitFor('Next:');
    expect(await terminal.exitCode()).toBe(0);
    expect(terminal.output()).not.toContain(service.key);
    const saved = JSON.parse(await readFile(join(machine.configDirectory, 'prod.json'), 'utf8'));
    expect(saved).toEqual({ baseUrl: service.url, key: service.key });
    expect(terminal.output().replace(/\s+/g, ' ')).toContain('to profile prod. Next: pets list');
    const { code, stdout } = await machine.pets(['list', '--limit', '3']);
    expect([code, stdout.split('\n').length]).toEqual([0, 4]);
  });

  test('after three rejected keys nothing is saved, and no key was shown', async () => {
    const service = await serve(await freshMachine(), ['--ephemeral', '--no-profile']);
    const machine = await freshMachine();
    const terminal = onTerminal(machine, ['login', '--base-url', service.url]);
    for (let tries = 1; tries <= 3; tries++) {
      await terminal.waitFor('API key for profile prod');
      terminal.type(`${CANARY}${ENTER}`);
      await terminal.waitFor('rejected key …K2mX');
    }
    await terminal.waitFor('nothing was saved');
    expect(await terminal.exitCode()).toBe(4);
    expect(terminal.output()).not.toContain(CANARY);
    expect(await savedOn(machine)).toEqual([]);
  });

  test('asks again after a rejected key', async () => {
    const service = await serve(await freshMachine(), ['--ephemeral', '--no-profile']);
    const machine = await freshMachine();
    const terminal = onTerminal(machine, ['login', '--base-url', service.url]);
    await terminal.waitFor('API key for profile prod');
    terminal.type(`${service.key.slice(0, -1)}${ENTER}`);
    await terminal.waitFor('rejected key');
    await terminal.waitFor('API key for profile prod');
    terminal.type(`Bearer ${service.key}${ENTER}`);
    expect(await terminal.exitCode()).toBe(0);
    expect(await savedOn(machine)).toEqual(['prod.json']);
  });

  test('asks again after an empty line', async () => {
    const machine = await freshMachine();
    const terminal = onTerminal(machine, ['login', '--base-url', 'https://api.example.com/v1']);
    await terminal.waitFor('API key for profile prod');
    terminal.type(ENTER);
    await terminal.waitFor('the key is empty');
    terminal.type(CTRL_C);
    expect(await terminal.exitCode()).toBe(130);
  });

  test.each([
    ['base URL', [], 'Base URL'],
    ['key', ['--base-url', 'https://api.example.com/v1'], 'API key for profile prod'],
  ])('Ctrl-C at the prompt for the %s exits with 130 and saves nothing', async (_name, args, question) => {
    const machine = await freshMachine();
    const terminal = onTerminal(machine, ['login', ...args]);
    await terminal.waitFor(question);
    terminal.type(CTRL_C);
    expect(await terminal.exitCode()).toBe(130);
    expect(terminal.output()).toContain('interrupted');
    expect(await savedOn(machine)).toEqual([]);
  });

  test.each([
    ['Ctrl-Z', '\x1a'],
    ['Ctrl-D', '\x04'],
  ])('%s at the prompt exits with 130 and saves nothing', async (_name, key) => {
    const machine = await freshMachine();
    const terminal = onTerminal(machine, ['login', '--base-url', 'https://api.example.com/v1']);
    await terminal.waitFor('API key for profile prod');
    terminal.type(key);
    expect(await terminal.exitCode()).toBe(130);
    expect(await savedOn(machine)).toEqual([]);
  });

  test.each(['SIGINT', 'SIGTERM', 'SIGHUP'] as const)(
    '%s at the prompt exits with 130 and saves nothing',
    async (signal) => {
      const machine = await freshMachine();
      const terminal = onTerminal(machine, ['login', '--base-url', 'https://api.example.com/v1']);
      await terminal.waitFor('API key for profile prod');
      terminal.signal(signal);
      expect(await terminal.exitCode()).toBe(130);
      expect(terminal.output()).toContain('interrupted');
      expect(await savedOn(machine)).toEqual([]);
    },
  );

  // A prompt that redraws the whole line for each character writes 800 KB here, and takes half a minute.
  test.each([
    ['key', ['--base-url', 'https://api.example.com/v1'], 'API key for profile prod'],
    ['base URL', [], 'Base URL'],
  ])('pasting 20,000 characters at the prompt for the %s is refused', async (_name, args, question) => {
    const machine = await freshMachine();
    const terminal = onTerminal(machine, ['login', ...args]);
    await terminal.waitFor(question);
    terminal.type('x'.repeat(20_000));
    await terminal.waitFor('the input is too long');
    expect(await terminal.exitCode()).toBe(2);
    // The terminal itself may echo the rest of the paste after the command has ended.
    expect(terminal.output().length).toBeLessThan(40_000);
    expect(await savedOn(machine)).toEqual([]);
  });

  test('with --no-input it does not prompt', async () => {
    const machine = await freshMachine();
    const terminal = onTerminal(machine, ['login', '--no-input']);
    expect(await terminal.exitCode()).toBe(2);
    expect(terminal.output()).toContain('pets login --base-url');
  });
});

test.each([
  ['in the form of a header', (key: string) => `Bearer ${key}`],
  ['in quotes', (key: string) => `"${key}"\n`],
  ['with a CRLF', (key: string) => `${key}\r\n`],
])('--with-key reads a key %s', async (_name, pasted) => {
  const service = await serve(await freshMachine(), ['--ephemeral', '--no-profile']);
  const machine = await freshMachine();
  const stdin = pasted(service.key);
  const ran = await machine.pets(['login', '--with-key', '--base-url', service.url], { stdin });
  expect(ran).toMatchObject({ code: 0, stdout: '' });
  const saved = JSON.parse(await readFile(join(machine.configDirectory, 'prod.json'), 'utf8'));
  expect(saved.key).toBe(service.key);
});

test('the hint names the profile that was asked for', async () => {
  const machine = await freshMachine();
  const { code, stderr } = await machine.pets(['login', '--profile', 'staging']);
  expect(code).toBe(2);
  expect(stderr).toContain('pets login --profile staging --base-url');
});
