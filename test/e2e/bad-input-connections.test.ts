import { expect, test } from 'vitest';
import { CANARY, expectFailure } from '../helpers/failure.ts';
import { closedPort } from '../helpers/listen.ts';
import { freshMachine, type Machine } from '../helpers/pets.ts';
import { rawServer } from '../helpers/raw-server.ts';
import { reply, scriptedServer } from '../helpers/scripted-server.ts';

// Tests with connections that fail before a valid HTTP response. Each error names the server and shows no API key.

async function loggedIn(url: string): Promise<Machine> {
  const machine = await freshMachine();
  await machine.saveProfile('prod', { baseUrl: url, key: CANARY });
  return machine;
}

test('a port that nothing listens on', async () => {
  const port = await closedPort();
  const machine = await loggedIn(`http://127.0.0.1:${port}/v1`);
  const contains = [`127.0.0.1:${port}`, 'refused'];
  await expectFailure(machine, ['list', '--no-retry'], { exit: 6, code: 'network_error', contains });
  await expectFailure(machine, ['add', 'Rex', '--category', '1', '--no-retry'], { exit: 6, contains });
  await machine.saveProfile('local', { baseUrl: `http://127.0.0.1:${port}/v1`, key: CANARY });
  await expectFailure(machine, ['list', '--profile', 'local', '--no-retry'], {
    exit: 6,
    contains: [...contains, 'pets serve'],
  });
});

test('an unknown host', async () => {
  const machine = await loggedIn('https://no-such-host.invalid/v1');
  await expectFailure(machine, ['list', '--no-retry'], { exit: 6, contains: ['no-such-host.invalid'] });
});

const cut = 'connection closed';
test.each([
  ['closed at once', '', cut],
  ['closed after half a head', 'HTTP/1.1 200 OK\r\nContent-', cut],
  ['closed after half a body', 'HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\n[{"id":1', cut],
  ['closed inside a chunk', 'HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n64\r\n[{"id":1', cut],
  ['bytes that are not HTTP', 'SSH-2.0-OpenSSH_9.6\r\n', ''],
  ['an invalid Content-Length', 'HTTP/1.1 200 OK\r\nContent-Length: ten\r\n\r\n[]', ''],
  ['the key in an invalid head', `HTTP/1.1 200 OK\r\n${CANARY}\u0000: x\r\n\r\n[]`, ''],
  ['https to a server that speaks http', 'HTTP/1.1 400 no\r\n\r\n', '', 'https:'],
])('%s', async (_name, bytes, contains, protocol = 'http:') => {
  const server = await rawServer((socket) => socket.once('data', () => socket.end(bytes)));
  const machine = await loggedIn(server.url.replace('http:', protocol));
  await expectFailure(machine, ['list', '--no-retry'], {
    exit: 6,
    code: 'network_error',
    contains: [`127.0.0.1:${server.port}`, contains],
  });
});

test.each([
  ['a response that never begins', ''],
  ['a response that never ends', 'HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\n['],
])('--timeout ends the attempt: %s', async (_name, bytes) => {
  const server = await rawServer((socket) => socket.once('data', () => socket.write(bytes)));
  const machine = await loggedIn(server.url);
  await expectFailure(machine, ['list', '--timeout', '0.2', '--no-retry'], {
    exit: 6,
    code: 'timeout',
    contains: [`127.0.0.1:${server.port}`, 'within 0.2 s', '--timeout'],
  });
});

test('the longest timeout does not overflow into an immediate one', async () => {
  const server = await scriptedServer((_request, response) => {
    setTimeout(() => reply(response, 200, []), 100);
  });
  const ran = await (await loggedIn(server.url)).pets(['list', '--timeout', '1000000', '--no-retry']);
  expect(ran).toMatchObject({ code: 0, stderr: '' });
});
