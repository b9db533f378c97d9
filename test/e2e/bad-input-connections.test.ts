import { expect, test } from 'vitest';
import { freshMachine, type Machine } from '../helpers/pets.ts';
import { closedPort, rawServer } from '../helpers/raw-server.ts';
import { CANARY, expectRefusal } from '../helpers/refusal.ts';
import { reply, scriptedServer } from '../helpers/scripted-server.ts';

// Connections that fail below HTTP: each failure names the server and what to do, and shows no key.

async function loggedIn(url: string): Promise<Machine> {
  const machine = await freshMachine();
  await machine.saveProfile('prod', { baseUrl: url, key: CANARY });
  return machine;
}

test('nothing listens', async () => {
  const port = await closedPort();
  const machine = await loggedIn(`http://127.0.0.1:${port}/v1`);
  const says = [`127.0.0.1:${port}`, 'refused'];
  await expectRefusal(machine, ['list', '--no-retry'], { exit: 6, code: 'network_error', says });
  await expectRefusal(machine, ['add', 'Rex', '--category', '1', '--no-retry'], { exit: 6, says });
  await machine.saveProfile('local', { baseUrl: `http://127.0.0.1:${port}/v1`, key: CANARY });
  await expectRefusal(machine, ['list', '--profile', 'local', '--no-retry'], {
    exit: 6,
    says: [...says, 'pets serve'],
  });
});

test('no such host', async () => {
  const machine = await loggedIn('https://no-such-host.invalid/v1');
  await expectRefusal(machine, ['list', '--no-retry'], { exit: 6, says: ['no-such-host.invalid'] });
});

const cut = 'the connection was cut';
test.each([
  ['closed at once', '', cut],
  ['closed after half a head', 'HTTP/1.1 200 OK\r\nContent-', cut],
  ['closed after half a body', 'HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\n[{"id":1', cut],
  ['closed inside a chunk', 'HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n64\r\n[{"id":1', cut],
  ['no HTTP', 'SSH-2.0-OpenSSH_9.6\r\n', ''],
  ['a length that is none', 'HTTP/1.1 200 OK\r\nContent-Length: ten\r\n\r\n[]', ''],
  [`the key in a broken head`, `HTTP/1.1 200 OK\r\n${CANARY}\u0000: x\r\n\r\n[]`, ''],
])('%s', async (_name, bytes, says) => {
  const server = await rawServer((socket) => socket.once('data', () => socket.end(bytes)));
  const machine = await loggedIn(server.url);
  await expectRefusal(machine, ['list', '--no-retry'], {
    exit: 6,
    code: 'network_error',
    says: [`127.0.0.1:${server.port}`, says],
  });
});

test('https to a server that speaks http', async () => {
  const server = await rawServer((socket) =>
    socket.once('data', () => socket.end('HTTP/1.1 400 no\r\n\r\n')),
  );
  const machine = await loggedIn(server.url.replace('http:', 'https:'));
  await expectRefusal(machine, ['list', '--no-retry'], { exit: 6, says: [`127.0.0.1:${server.port}`] });
});

test.each([
  ['never answers', ''],
  ['never ends its answer', 'HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\n['],
])('%s: --timeout ends it', async (_name, bytes) => {
  const server = await rawServer((socket) => socket.once('data', () => socket.write(bytes)));
  const machine = await loggedIn(server.url);
  await expectRefusal(machine, ['list', '--timeout', '0.2', '--no-retry'], {
    exit: 6,
    code: 'timeout',
    says: [`127.0.0.1:${server.port}`, 'within 0.2 s', '--timeout'],
  });
});

test('the longest timeout there is does not end at once', async () => {
  const server = await scriptedServer((_request, response) => {
    setTimeout(() => reply(response, 200, []), 100);
  });
  const ran = await (await loggedIn(server.url)).pets(['list', '--timeout', '1000000', '--no-retry']);
  expect(ran).toMatchObject({ code: 0, stderr: '' });
});
