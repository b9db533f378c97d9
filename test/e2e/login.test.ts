import { readdir, readFile } from 'node:fs/promises';
import { join } from 'node:path';
import { describe, expect, test } from 'vitest';
import { CANARY } from '../helpers/failure.ts';
import { freshMachine, type Machine, serve } from '../helpers/pets.ts';
import { onTerminal } from '../helpers/pseudo-terminal.ts';
import { testAtTerminal } from '../helpers/skip.ts';

// These tests run `pets login`, mostly at a terminal.

const ENTER = '\r';
const KEY_PROMPT = 'API key for profile prod';
const URL_PROMPT = "Address of your shop's service (ask the person who gave you the key)";

/** Starts `pets login` at a terminal. Waits for the prompt for the key, or without `baseUrl` for the base URL. */
async function startLogin(baseUrl?: string, TERM = 'xterm') {
  const machine = await freshMachine();
  Object.assign(machine.env, { TERM });
  const terminal = onTerminal(machine, ['login', ...(baseUrl ? ['--base-url', baseUrl] : [])]);
  await terminal.waitFor(baseUrl ? KEY_PROMPT : URL_PROMPT);
  return { machine, terminal };
}

const startService = async () => serve(await freshMachine(), ['--ephemeral', '--seed', '--no-profile']);

const savedOn = async ({ configDirectory }: Machine) =>
  (await readdir(configDirectory).catch(() => [])).filter((name) => name.endsWith('.json'));

describe('pets login at a terminal', () => {
  testAtTerminal.each(['xterm-256color', 'dumb'])(
    'asks for the base URL and, without showing it, the key; the command that it suggests next works (TERM=%s)',
    async (term) => {
      const service = await startService();
      const { machine, terminal } = await startLogin(undefined, term);
      terminal.type(`till-key${ENTER}`);
      await terminal.waitFor('this is not an address');
      terminal.type(`api.example.com${ENTER}`);
      await terminal.waitFor('must begin with https://');
      terminal.type(`x\x7f${service.url}${ENTER}`);
      await terminal.waitFor(`${KEY_PROMPT} (${new URL(service.url).host}), input hidden:`);
      // The key is pasted with spaces around it, after a mistyped letter.
      terminal.type(`x\x7f ${service.key} ${ENTER}`);
      await terminal.waitFor('Next:');
      expect(await terminal.exitCode()).toBe(0);
      expect(terminal.output()).not.toContain(service.key);
      const saved = JSON.parse(await readFile(join(machine.configDirectory, 'prod.json'), 'utf8'));
      expect(saved).toEqual({ baseUrl: service.url, key: service.key });
      expect(terminal.output().replace(/\s+/g, ' ')).toContain('to profile prod. Next: pets list');
      const { code, stdout } = await machine.pets(['list', '--limit', '3']);
      expect([code, stdout.split('\n').length]).toEqual([0, 4]);
    },
  );

  testAtTerminal(
    'asks again after an empty line, a rejected key and a paste of two lines, which is not shown',
    async () => {
      const service = await startService();
      const { machine, terminal } = await startLogin(service.url);
      terminal.type(ENTER);
      await terminal.waitFor('the key is empty');
      await terminal.waitFor(KEY_PROMPT);
      terminal.type(`${service.key.slice(0, -1)}${ENTER}`);
      await terminal.waitFor('rejected key');
      await terminal.waitFor(KEY_PROMPT);
      terminal.type(`${CANARY}\n${CANARY}${ENTER}`);
      await terminal.waitFor('the input has several lines');
      await terminal.waitFor(KEY_PROMPT);
      expect(terminal.output()).not.toContain(CANARY);
      terminal.type(`Bearer ${service.key}${ENTER}`);
      expect(await terminal.exitCode()).toBe(0);
      expect(await savedOn(machine)).toEqual(['prod.json']);
    },
  );

  testAtTerminal.each<[string, hasUrl: boolean, keys?: string]>([
    ['Ctrl-C at the prompt for the base URL', false, '\x03'],
    ['Ctrl-Z at the prompt for the key', true, '\x1a'],
    ['SIGTERM at the prompt for the key', true],
  ])('%s exits with 130 and saves nothing', async (_name, hasUrl, keys) => {
    const { machine, terminal } = await startLogin(hasUrl ? (await startService()).url : undefined);
    if (keys) terminal.type(keys);
    else terminal.signal('SIGTERM');
    expect(await terminal.exitCode()).toBe(130);
    expect(await savedOn(machine)).toEqual([]);
    expect(terminal.output()).toContain('interrupted');
  });
});

test('a key on standard input may have the form of a header, be in quotes, and end with a CRLF', async () => {
  const service = await startService();
  const machine = await freshMachine();
  for (const stdin of [`Bearer ${service.key}`, `"${service.key}"\n`, `${service.key}\r\n`]) {
    const ran = await machine.pets(['login', '--base-url', service.url], { stdin });
    expect(ran).toMatchObject({ code: 0, stdout: '' });
    const saved = JSON.parse(await readFile(join(machine.configDirectory, 'prod.json'), 'utf8'));
    expect(saved.key).toBe(service.key);
    await machine.pets(['logout']);
  }
});
