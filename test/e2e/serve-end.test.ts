import { readdir, readFile, rename } from 'node:fs/promises';
import { join } from 'node:path';
import { expect, test } from 'vitest';
import { freshMachine, petsInShell, serve, serveCommand } from '../helpers/pets.ts';
import { openTerminal } from '../helpers/pseudo-terminal.ts';
import { testAtTerminal, testIf } from '../helpers/skip.ts';
import { creationBytes, openConnection } from '../helpers/stopping.ts';

// How the process of `pets serve` starts and ends: ports, temporary stores, closed and full streams, and a lost store.

const statusOf = async ({ url, key }: { url: string; key: string }, query = ''): Promise<number> =>
  (await fetch(`${url}/pets${query}`, { headers: { Authorization: `Bearer ${key}` } })).status;

test('the error about a port in use names the server of the same store', async () => {
  const machine = await freshMachine();
  const first = await serve(machine);
  const { port } = new URL(first.url);
  const again = await machine.pets(['serve', '--port', port]);
  const store = join(machine.home, '.local', 'share', 'pets', 'store');
  expect([again.code, again.stderr]).toEqual([
    1,
    `error: cannot listen on 127.0.0.1:${port}: address already in use; pets serve (process ${first.pid}) already runs at ${first.url} with the store in ${store}\n` +
      '  → use it, or stop it; for another server: --port 0 (any free port) with --ephemeral or --data <dir>\n',
  ]);
});

test('a start deletes the temporary store of a server that was killed', async () => {
  const machine = await freshMachine();
  const stores = async () =>
    (await readdir(machine.home)).filter((name) => name.startsWith('pets-ephemeral-'));
  await (await serveCommand(machine, ['--ephemeral'])).end('SIGKILL');
  const [left = 'none'] = await stores();
  const next = await serve(machine, ['--ephemeral']);
  await expect.poll(stores).toEqual([expect.not.stringContaining(left)]);
  await next.end('SIGTERM');
  expect(await stores()).toEqual([]);
});

test('--log that nothing reads does not stop the service, which counts what it left out, and ends with 0', async () => {
  const service = await serveCommand(await freshMachine(), ['--ephemeral', '--no-profile', '--log']);
  const overload = async () => {
    service.child.stderr?.pause();
    // This is several times as much as pipes and streams hold.
    for (let i = 0; i < 15; i++)
      await Promise.all(Array.from({ length: 20 }, () => statusOf(service, `?${'x'.repeat(6_000)}`)));
  };
  await overload();
  service.child.stderr?.resume();
  const log = async () => `${await statusOf(service)} ${service.stderr()}`;
  await expect.poll(log).toMatch(/\d+ requests not logged: stderr was not read fast enough/);
  await overload();
  expect(await service.end('SIGTERM')).toEqual({ code: 0, signal: null });
});

testAtTerminal.each([
  ['', '0'],
  ['-- sleep 100', '143'],
])('a paused terminal stops neither the service nor its end after SIGTERM: serve %s', async (end, code) => {
  const machine = await freshMachine();
  const serveLine = `${petsInShell} serve --ephemeral --port 0 --no-profile ${end}`;
  const terminal = openTerminal(
    machine,
    `${serveLine} & trap '' TERM; echo "pid $!."; wait $!; echo $? > code`,
  );
  const url = `http${(await terminal.waitFor('/v1')).split('http').pop()}/v1/pets`;
  const [, pid] = /pid (\d+)\./.exec(terminal.output()) ?? [];
  // Ctrl-S
  terminal.type('\x13');
  for (let i = 0; i < 5; i++) expect((await fetch(url)).status).toBe(401);
  process.kill(Number(pid), 'SIGTERM');
  await expect.poll(() => readFile(join(machine.home, 'code'), 'utf8').catch(() => '')).toBe(`${code}\n`);
  expect((await readdir(machine.home)).filter((name) => name.startsWith('pets-'))).toEqual([]);
});

test('a service runs on after the reader of its stdout has closed the pipe, and ends with 0', async () => {
  const service = await serveCommand(await freshMachine(), ['--ephemeral']);
  service.child.stdout?.destroy();
  expect(await statusOf(service)).toBe(200);
  expect(await service.end('SIGTERM')).toEqual({ code: 0, signal: null });
  expect(service.stderr()).toBe('');
});

testIf(process.platform === 'linux', 'only Linux has /dev/full')(
  'a full disk for stdout ends the service with 1',
  async () => {
    const machine = await freshMachine();
    const { code, stderr } = await machine.shell('pets serve --ephemeral --port 0 --no-profile > /dev/full');
    expect(code).toBe(1);
    expect(stderr).toMatch(/^error: cannot write the output: no space left on device/);
    expect(stderr).not.toContain('    at ');
    expect((await readdir(machine.home)).filter((name) => name.startsWith('pets-'))).toEqual([]);
  },
);

test.skipIf(process.platform === 'win32')(
  'a creation that is still being sent when SIGTERM stops the service gets 503 from a store that was moved, and the service ends with 1',
  async () => {
    const machine = await freshMachine();
    const store = join(machine.home, 'store');
    const service = await serveCommand(machine, ['--data', store]);
    const connection = await openConnection(service);
    const bytes = creationBytes(service, 'Rex');
    connection.socket.write(bytes.slice(0, -10));
    // The response to another request shows that the service has read what was sent before.
    expect(await statusOf(service)).toBe(200);
    await rename(store, `${store}-moved`);
    service.child.kill('SIGTERM');
    connection.socket.write(bytes.slice(-10));
    const body = expect.stringContaining('storage_');
    expect(await connection.receive()).toMatchObject({ status: 503, body });
    expect(await service.ended).toEqual({ code: 1, signal: null });
    expect(service.stderr()).toMatch(/"message":".*was moved, replaced or deleted .*","hint":"/);
  },
);

testAtTerminal('pets serve exits with 0 if its terminal is closed', async () => {
  const machine = await freshMachine();
  // The shell gets the signal when its terminal ends, passes it on, and writes the exit code.
  const line = `${petsInShell} serve --ephemeral --port 0 & trap 'kill -HUP $!' HUP; wait; wait $!; echo $? > code`;
  const terminal = openTerminal(machine, line);
  await terminal.waitFor('try:');
  terminal.close();
  const code = () => readFile(join(machine.home, 'code'), 'utf8').catch(() => undefined);
  await expect.poll(code).toBe('0\n');
});
