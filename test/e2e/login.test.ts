import { readdir, readFile } from 'node:fs/promises';
import { join } from 'node:path';
import { describe, expect, test } from 'vitest';
import { freshMachine, type Machine, serve } from '../helpers/pets.ts';
import { hasTerminal } from '../helpers/readme-terminal.ts';
import { CANARY } from '../helpers/refusal.ts';
import { onTerminal } from '../helpers/terminal.ts';

// `pets login`, as somebody does it at a terminal for the first time.

const CTRL_C = '\x03';
const ENTER = '\r';

const savedOn = async ({ configDirectory }: Machine) =>
  (await readdir(configDirectory).catch(() => [])).filter((name) => name.endsWith('.json'));

describe.skipIf(!hasTerminal())('pets login at a terminal', () => {
  test('asks for the address and, hidden, for the key; and says what to type next, which works', async () => {
    const service = await serve(await freshMachine(), ['--ephemeral', '--seed', '--no-profile']);
    const machine = await freshMachine();
    const terminal = onTerminal(machine, ['login']);
    await terminal.sees('base URL');
    terminal.type(`127.0.0.1:1/v1${ENTER}`);
    await terminal.sees('that is no address');
    terminal.type(`${'\x7f'.repeat(14)}${service.url}${ENTER}`);
    await terminal.sees(`the API key for prod (${new URL(service.url).host}):`);
    // As a clipboard has it: with what stood around the key.
    terminal.type(` ${service.key} ${ENTER}`);
    await terminal.sees('Next:');
    expect(await terminal.ended()).toBe(0);
    expect(terminal.written()).not.toContain(service.key);
    const saved = JSON.parse(await readFile(join(machine.configDirectory, 'prod.json'), 'utf8'));
    expect(saved).toEqual({ baseUrl: service.url, key: service.key });
    expect(terminal.written().replace(/\s+/g, ' ')).toContain('saved to profile prod. Next: pets list');
    const { code, stdout } = await machine.pets(['list', '--limit', '3']);
    expect([code, stdout.split('\n').length]).toEqual([0, 4]);
  });

  test('a key that the service rejects is not saved, nor shown', async () => {
    const service = await serve(await freshMachine(), ['--ephemeral', '--no-profile']);
    const machine = await freshMachine();
    const terminal = onTerminal(machine, ['login', '--base-url', service.url]);
    for (let tries = 1; tries <= 3; tries++) {
      await terminal.sees('the API key for prod');
      terminal.type(`${CANARY}${ENTER}`);
      await terminal.sees('rejected key …K2mX');
    }
    await terminal.sees('nothing was saved');
    expect(await terminal.ended()).toBe(4);
    expect(terminal.written()).not.toContain(CANARY);
    expect(await savedOn(machine)).toEqual([]);
  });

  test('a key that the service rejects is asked for again', async () => {
    const service = await serve(await freshMachine(), ['--ephemeral', '--no-profile']);
    const machine = await freshMachine();
    const terminal = onTerminal(machine, ['login', '--base-url', service.url]);
    await terminal.sees('the API key for prod');
    terminal.type(`${service.key.slice(0, -1)}${ENTER}`);
    await terminal.sees('rejected key');
    await terminal.sees('the API key for prod');
    terminal.type(`Bearer ${service.key}${ENTER}`);
    expect(await terminal.ended()).toBe(0);
    expect(await savedOn(machine)).toEqual(['prod.json']);
  });

  test('an empty answer is asked for again', async () => {
    const machine = await freshMachine();
    const terminal = onTerminal(machine, ['login', '--base-url', 'https://api.example.com/v1']);
    await terminal.sees('the API key for prod');
    terminal.type(ENTER);
    await terminal.sees('the key is empty');
    terminal.type(CTRL_C);
    expect(await terminal.ended()).toBe(130);
  });

  test.each([
    ['the address', [], 'base URL'],
    ['the key', ['--base-url', 'https://api.example.com/v1'], 'the API key for prod'],
  ])('Ctrl-C at the question for %s ends it with 130, and leaves nothing', async (_name, args, question) => {
    const machine = await freshMachine();
    const terminal = onTerminal(machine, ['login', ...args]);
    await terminal.sees(question);
    terminal.type(CTRL_C);
    expect(await terminal.ended()).toBe(130);
    expect(terminal.written()).toContain('interrupted');
    // The cursor, which the question hid, is back.
    expect(terminal.written().lastIndexOf('\x1b[?25h')).toBeGreaterThan(
      terminal.written().lastIndexOf('\x1b[?25l'),
    );
    expect(await savedOn(machine)).toEqual([]);
  });

  test.each([
    ['Ctrl-Z', '\x1a', 130],
    ['Ctrl-D', '\x04', 130],
  ])('%s at the question ends it, and leaves nothing', async (_name, key, expected) => {
    const machine = await freshMachine();
    const terminal = onTerminal(machine, ['login', '--base-url', 'https://api.example.com/v1']);
    await terminal.sees('the API key for prod');
    terminal.type(key);
    expect(await terminal.ended()).toBe(expected);
    expect(await savedOn(machine)).toEqual([]);
  });

  test.each(['SIGINT', 'SIGTERM', 'SIGHUP'] as const)(
    '%s at the question ends it as Ctrl-C does, and the cursor is back',
    async (signal) => {
      const machine = await freshMachine();
      const terminal = onTerminal(machine, ['login', '--base-url', 'https://api.example.com/v1']);
      await terminal.sees('the API key for prod');
      terminal.signal(signal);
      expect(await terminal.ended()).toBe(130);
      expect(terminal.written()).toContain('interrupted');
      expect(terminal.written()).toMatch(/\x1b\[\?25h(?!.*\x1b\[\?25l)/s);
      expect(await savedOn(machine)).toEqual([]);
    },
  );

  test('a paste that can be no key ends it at once', async () => {
    const machine = await freshMachine();
    const terminal = onTerminal(machine, ['login', '--base-url', 'https://api.example.com/v1']);
    await terminal.sees('the API key for prod');
    terminal.type('x'.repeat(20_000));
    await terminal.sees('too long');
    expect(await terminal.ended()).toBe(2);
  });

  test('with --no-input nothing is asked', async () => {
    const machine = await freshMachine();
    const terminal = onTerminal(machine, ['login', '--no-input']);
    expect(await terminal.ended()).toBe(2);
    expect(terminal.written()).toContain('pets login --base-url');
  });
});

test.each([
  ['as a header has it', (key: string) => `Bearer ${key}`],
  ['in quotes', (key: string) => `"${key}"\n`],
  ['with a line end of Windows', (key: string) => `${key}\r\n`],
])('a key that is piped in %s is understood', async (_name, pasted) => {
  const service = await serve(await freshMachine(), ['--ephemeral', '--no-profile']);
  const machine = await freshMachine();
  const stdin = pasted(service.key);
  const ran = await machine.pets(['login', '--with-key', '--base-url', service.url], { stdin });
  expect(ran).toMatchObject({ code: 0, stdout: '' });
  const saved = JSON.parse(await readFile(join(machine.configDirectory, 'prod.json'), 'utf8'));
  expect(saved.key).toBe(service.key);
});

test('what helps names the profile that was asked for', async () => {
  const machine = await freshMachine();
  const { code, stderr } = await machine.pets(['login', '--profile', 'staging']);
  expect(code).toBe(2);
  expect(stderr).toContain('pets login --profile staging --base-url');
});
