import dns from 'node:dns';
import { getDefaultAutoSelectFamilyAttemptTimeout, setDefaultAutoSelectFamilyAttemptTimeout } from 'node:net';
import { beforeEach, expect, onTestFinished, test } from 'vitest';
import { NetworkError } from '../../src/client/errors.ts';
import { add, list, PET, rejection, type TestClientOptions, testClient } from '../helpers/client.ts';
import { closedPort } from '../helpers/listen.ts';
import { proxyServer } from '../helpers/proxy.ts';
import { reply, scriptedServer } from '../helpers/scripted-server.ts';
import { tlsServer } from '../helpers/tls-server.ts';

// A host with several addresses: Node gives up each of them but the last after a while, in order to try the next one.

/** Node accepts times from 10 ms. */
const FIRST = 40;

beforeEach(() => {
  const before = getDefaultAutoSelectFamilyAttemptTimeout();
  setDefaultAutoSelectFamilyAttemptTimeout(FIRST);
  onTestFinished(() => setDefaultAutoSelectFamilyAttemptTimeout(before));
});

/**
 * Resolves the name far.test to an address that responds slowly, and to one at which nothing listens. The process is blocked until
 * Node has given up the slow address, for as many connections as given. The first silent ones are never resolved.
 */
function farHost(slowConnections: number, silentConnections = 0) {
  const { lookup } = dns;
  onTestFinished(() => {
    dns.lookup = lookup;
  });
  let connections = 0;
  const resolve = (name: string, ...rest: [object, (...results: unknown[]) => void]) => {
    if (name !== 'far.test') return (lookup as (...all: unknown[]) => void)(name, ...rest);
    const [, callback] = rest;
    if (silentConnections-- > 0) return undefined;
    callback(null, [
      { address: '127.0.0.1', family: 4 },
      { address: '127.0.0.2', family: 4 },
    ]);
    if (connections++ >= slowConnections) return undefined;
    // The timer of the address is due when the process continues, before the connection is.
    const milliseconds = getDefaultAutoSelectFamilyAttemptTimeout() + 10;
    Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, milliseconds);
    return undefined;
  };
  dns.lookup = resolve as unknown as typeof dns.lookup;
  return { connections: () => connections };
}

const shop = () =>
  scriptedServer(({ method }, response) =>
    method === 'GET' ? reply(response, 200, [PET]) : reply(response, 201, PET),
  );

test('a host whose first address needs longer is reached in the first attempt, also by a creation without retries', async () => {
  const server = await shop();
  const host = farHost(2);
  const { client, attempts } = testClient(`http://far.test:${new URL(server.url).port}/v1`, {
    maxWaitMilliseconds: undefined,
  });
  expect(await add(client)).toMatchObject({ value: { id: 1n } });
  expect([attempts.length, server.requests.length, host.connections()]).toEqual([1, 1, 3]);
  expect(getDefaultAutoSelectFamilyAttemptTimeout()).toBe(16 * FIRST);
});

test.each(['http', 'https'])('a far proxy for %s is reached in the first attempt', async (protocol) => {
  const port =
    protocol === 'http' ? Number(new URL((await shop()).url).port) : (await tlsServer('self-signed')).port;
  const proxy = await proxyServer(port);
  const host = farHost(1);
  const { client, attempts } = testClient(`${protocol}://shop.invalid/v1`, {
    proxy: `http://far.test:${proxy.port}`,
  });
  // The certificate of the server behind the tunnel is not trusted, which shows that the tunnel was opened.
  const result = await list(client).catch((error: unknown) => error);
  if (protocol === 'http') expect(result).toMatchObject({ value: [{ id: 1n }] });
  else expect(result).toMatchObject({ errno: 'DEPTH_ZERO_SELF_SIGNED_CERT' });
  expect([attempts.length, proxy.requests.length, host.connections()]).toEqual([1, 1, 2]);
});

test('a host of which one address never responds is tried again with more time, in the same attempt', async () => {
  const server = await shop();
  farHost(0, 1);
  const { client, attempts } = testClient(`http://far.test:${new URL(server.url).port}/v1`);
  expect(await list(client)).toMatchObject({ value: [{ id: 1n }] });
  expect([attempts.length, getDefaultAutoSelectFamilyAttemptTimeout()]).toEqual([1, 4 * FIRST]);
});

test('only the timeout of the attempt ends the connecting to a host that stays slow', async () => {
  const host = farHost(Number.POSITIVE_INFINITY);
  let expire = () => {};
  const options: TestClientOptions = {
    maxWaitMilliseconds: undefined,
    startTimer(callback) {
      expire = callback;
      return undefined;
    },
  };
  const { client } = testClient(`http://far.test:${await closedPort()}/v1`, options);
  const result = rejection(list(client));
  await expect.poll(host.connections).toBeGreaterThan(2);
  expire();
  expect(await result).toMatchObject({ code: 'timeout' });
});

test('a host whose addresses all refuse connections is not tried with more time', async () => {
  const host = farHost(0);
  const { client } = testClient(`http://far.test:${await closedPort()}/v1`, {
    maxWaitMilliseconds: undefined,
  });
  const error = await rejection(list(client));
  expect(error).toBeInstanceOf(NetworkError);
  expect(error).toMatchObject({ errno: 'ECONNREFUSED' });
  expect([host.connections(), getDefaultAutoSelectFamilyAttemptTimeout()]).toEqual([1, FIRST]);
});
