import { expect, test } from 'vitest';
import { KeyFiles } from '../../../src/store/journal/key-files.ts';
import { connectTo, REX, sendRaw } from '../../helpers/raw-client.ts';
import { startWithTools } from '../../helpers/real-service.ts';
import { scriptedServer } from '../../helpers/scripted-server.ts';
import { create } from '../../helpers/service.ts';

async function start(options: Parameters<typeof startWithTools>[0] = {}) {
  const service = await startWithTools({ time: '2026-11-20T12:00:10Z', ...options });
  /** Sends a recorded request again. Returns the status and the body of the response of the tool. */
  const sendAgain = async (number: unknown, body?: unknown) => {
    const response = await service.use('/requests', {
      method: 'POST',
      body: JSON.stringify({ number, body }),
    });
    return { http: response.status, shown: await response.json() };
  };
  return { ...service, sendAgain };
}

test('sends a request again as its key, counted, with its headers and body, and marks it in the log', async () => {
  const { call, sendAgain, requests } = await start();
  await call('/pets?a=%20b', create(REX, { 'X-Mark': 'one', 'X-Request-Id': 'mine' }));
  const { http, shown } = await sendAgain(1);
  expect(http).toBe(200);
  expect(shown).toMatchObject({
    ...{ number: 2, again: 1, keyName: 'till', status: 201, outcome: 'counted', url: '/v1/pets?a=%20b' },
    because: 'counted: 58 of 60 requests left in this minute',
    request: { body: REX, headers: { authorization: '[redacted]', 'x-mark': 'one' } },
    response: { body: '{"id":2,"name":"Rex","categoryId":1,"status":"available"}' },
  });
  const { requests: all } = await requests();
  expect(all[0]).toEqual(shown);
  expect(all).toMatchObject([
    { number: 2, id: expect.stringMatching(/^again-1-[0-9a-f-]{36}$/) },
    { number: 1, id: 'mine' },
  ]);
  expect(all[1]).not.toHaveProperty('again');
  // A request that was sent again can be sent again, too.
  expect((await sendAgain(2)).shown).toMatchObject({ number: 3, again: 2, status: 201 });
});

test('a creation that is sent again adds another animal, with a new Idempotency-Key, and with another body', async () => {
  const { call, sendAgain } = await start();
  await call('/pets', create(REX, { 'Idempotency-Key': '"k"' }));
  const { shown } = await sendAgain(1, '{"name":"Mia ü","categoryId":2}');
  expect(shown).toMatchObject({
    ...{ status: 201, outcome: 'counted' },
    request: { headers: { 'idempotency-key': expect.stringMatching(/^"[0-9a-f-]{36}"$/) } },
  });
  expect((await sendAgain(1)).shown).toMatchObject({ status: 201, outcome: 'counted' });
  expect(await (await call('/pets')).json()).toMatchObject([
    { name: 'Rex' },
    { name: 'Mia ü' },
    { name: 'Rex' },
  ]);
  const { http, shown: invalid } = await sendAgain(1, '{"name":');
  expect([http, invalid]).toMatchObject([200, { status: 400, code: 'invalid_request', again: 1 }]);
});

test.each([
  ['GET', '/v1/pets?limit=1', 200],
  ['HEAD', '/v1/pets', 200],
  ['OPTIONS', '/v1/pets', 204],
  ['DELETE', '/v1/pets', 405],
  ['GET', '/v1/nothing', 404],
])('%s %s is sent again with the same result', async (method, path, status) => {
  const { call, sendAgain } = await start();
  await call(path.slice(3), { method });
  expect((await sendAgain(1)).shown).toMatchObject({ number: 2, method, url: path, status });
});

test('the key is checked again: a revoked one gets 401, one over its limit 429, and a ban does not change', async () => {
  const { call, sendAgain, clock, directory } = await start({
    bans: { after: 1, milliseconds: 300_000 },
    faults: { seed: 1, rules: [{ answer: 503, times: 1 }] },
  });
  await call('/pets');
  expect((await sendAgain(1)).shown).toMatchObject({ status: 200, outcome: 'counted' });
  for (let i = 0; i < 60; i++) await call('/pets');
  expect((await sendAgain(62)).shown).toMatchObject({ status: 429, outcome: 'rate_limited' });
  clock.advance(1_000);
  await call('/pets');
  const until = '2026-11-20T12:05:11.000Z';
  for (let i = 0; i < 3; i++) {
    expect((await sendAgain(1)).shown).toMatchObject({ status: 429, outcome: 'banned', until });
    clock.advance(1_000);
  }
  await new KeyFiles(directory).remove('till');
  expect((await sendAgain(1)).shown).toMatchObject({ status: 401 });
});

test('requests that cannot be sent again say why, and are refused', async () => {
  const { call, key, raw, sendAgain, requests, use, port } = await start();
  const outside = 'only requests under /v1 can be sent again';
  const noKey = 'no API key was accepted for it';
  const notWhole = 'its body was not recorded completely';
  const notText = 'its body is not text';
  const redacted = 'a secret in its URL or body was redacted';
  const halfSent = connectTo(port());
  const all: [reason: string, send: () => Promise<unknown>][] = [
    [outside, () => use('/openapi.json')],
    [outside, () => raw('GET', 'http://localhost/v10/pets')],
    [noKey, () => call('/pets', { headers: { Authorization: 'Bearer wrong' } })],
    [noKey, () => raw('GET', '/v1/pets', `Authorization: Bearer ${key}\r\n`)],
    [notWhole, () => call('/pets', create(`{"name":"${'x'.repeat(20_000)}","categoryId":1}`))],
    [
      notWhole,
      () =>
        halfSent.ask(
          `POST /v1/pets HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer ${key}\r\nContent-Length: 99\r\n\r\n{`,
        ),
    ],
    [notText, () => call('/pets', { method: 'POST', body: new Uint8Array([0xff, 0xff]) })],
    // These three bytes are not text. The character that replaces them has three bytes, too.
    [notText, () => call('/pets', { method: 'POST', body: new Uint8Array([0xf0, 0x9f, 0x98]) })],
    [redacted, () => call('/pets', create(`{"name":"${key}","categoryId":1}`))],
    [redacted, () => call('/pets?token=hunter2')],
    ['its method and URL were not recorded', () => sendRaw(port(), 'nonsense\r\n\r\n')],
  ];
  for (const [, send] of all) await send();
  const { requests: shown } = await requests();
  expect(shown.map(({ notAgain }) => notAgain).reverse()).toEqual(all.map(([reason]) => reason));
  for (const [i, [reason]] of all.entries()) {
    const message = `Request ${i + 1} cannot be sent again: ${reason}`;
    expect(await sendAgain(i + 1)).toMatchObject({ http: 403, shown: { code: 'forbidden', message } });
  }
  expect((await requests()).requests.length).toBe(all.length);
});

test('no other host gets the request, and a Host that is not allowed is refused again', async () => {
  const other = await scriptedServer((_, response) => void response.end('[]'));
  const { raw, sendAgain } = await start();
  const { host } = new URL(other.url);
  await raw('GET', '/v1/pets', '', '', host);
  // The port in Host does not matter, but the request goes to this server.
  expect((await sendAgain(1)).shown).toMatchObject({ status: 200, request: { headers: { host } } });
  await raw('GET', '/v1/pets', '', '', 'evil.test');
  expect((await sendAgain(3)).http).toBe(403);
  await raw('GET', `//${host}/v1/pets`);
  expect((await sendAgain(4)).http).toBe(403);
  await raw('GET', `http://${host}/v1/pets`);
  expect((await sendAgain(5)).shown).toMatchObject({ number: 6, status: 200, url: `http://${host}/v1/pets` });
  expect(other.requests).toEqual([]);
});

test('headers of the connection are not repeated', async () => {
  const { raw, sendAgain } = await start();
  const body = `${REX.length.toString(16)}\r\n${REX}\r\n0\r\n\r\n`;
  await raw('POST', '/v1/pets', 'Transfer-Encoding: chunked\r\nTE: trailers\r\n', body);
  const { shown } = await sendAgain(1);
  expect(shown).toMatchObject({ status: 201, request: { bodyBytes: REX.length } });
  const { headers } = (shown as { request: { headers: Record<string, string> } }).request;
  expect(headers).toMatchObject({ connection: 'close', 'content-length': String(REX.length) });
  for (const name of ['transfer-encoding', 'te']) expect(headers).not.toHaveProperty(name);
});

test.each([
  [2, undefined, 404, 'Request 2 is not in the log'],
  ['1', undefined, 400, 'number must be the number of a request from 1 to 999999999'],
  [0, undefined, 400, 'number must be the number of a request from 1 to 999999999'],
  [undefined, undefined, 400, expect.stringContaining('number')],
  [1, 5, 400, 'body must be a string'],
  [1, '{"name":"\ud800"}', 400, 'body must be valid Unicode, without lone surrogates'],
])('the number %j and the body %j get %i', async (number, body, http, message) => {
  const { call, sendAgain } = await start();
  await call('/pets');
  expect(await sendAgain(number, body)).toMatchObject({ http, shown: { message } });
});
