import { gzipSync } from 'node:zlib';
import { expect, test } from 'vitest';
import { ContractError, NetworkError, RateLimitError } from '../../src/client/errors.ts';
import { list, PET, rejection, testClient } from '../helpers/client.ts';
import { scriptedServer } from '../helpers/scripted-server.ts';

const NAME = 'Fürst €';
const JSON_TEXT = JSON.stringify([{ ...PET, name: NAME }]);
const utf8 = Buffer.from(JSON_TEXT);
const bom = Buffer.from([0xef, 0xbb, 0xbf]);
const windows1252 = Buffer.from(JSON_TEXT.replace('€', '\x80'), 'latin1');
const gzip = gzipSync(utf8);

type Response = { status?: number; headers: Record<string, string>; bytes: Buffer };

/** Creates a client of a server that sends this response to every request. */
async function connect({ status = 200, headers, bytes }: Response) {
  const server = await scriptedServer((_, response) => {
    response.writeHead(status, { 'Content-Type': 'application/json', ...headers }).end(bytes);
  });
  return { server, ...testClient(server.url) };
}

const coding = (name: string) => ({ 'Content-Encoding': name });

test.each<[string, Record<string, string>, Buffer]>([
  ['as UTF-8', {}, utf8],
  ['without its byte order mark', {}, Buffer.concat([bom, utf8])],
  ['with gzip, in any case', coding('GZIP'), gzip],
])('a body is decoded: %s', async (_name, headers, bytes) => {
  const { client } = await connect({ headers, bytes });
  expect((await list(client)).value).toMatchObject([{ name: NAME }]);
});

test('a body is decoded with gzip if it is an error', async () => {
  const bytes = gzipSync('{"code":"a_code","message":"Zu groß","status":400}');
  const { client } = await connect({ status: 400, headers: coding('gzip'), bytes });
  expect(await rejection(list(client))).toMatchObject({ code: 'a_code', message: 'Zu groß' });
});

const bomb = Buffer.alloc(65 * 1024 * 1024);
test.each<[string, Record<string, string>, Buffer, string]>([
  ['an unknown coding', coding('zstd'), utf8, 'Content-Encoding zstd is not supported'],
  ['two codings', coding('gzip, gzip'), gzipSync(gzip), 'Content-Encoding gzip, gzip is not supported'],
  ['text instead of gzip', coding('gzip'), utf8, 'invalid gzip data (incorrect header check)'],
  ['a small gzip body with more than 64 MiB', coding('gzip'), gzipSync(bomb), 'larger than 64 MiB'],
  ['text that is not UTF-8', {}, windows1252, 'not valid UTF-8 text'],
])('a success that cannot be decoded is a ContractError: %s', async (_name, headers, bytes, reason) => {
  const { client, server } = await connect({ headers, bytes });
  const error = await rejection(list(client));
  expect(error).toBeInstanceOf(ContractError);
  expect((error as Error).message).toBe(`unexpected response: ${reason}`);
  expect(server.requests).toHaveLength(1);
});

test.each<[string, Record<string, string>, Buffer]>([
  ['in gzip', coding('gzip'), gzip.subarray(0, -20)],
  ['in gzip before its checksum', coding('gzip'), gzip.subarray(0, -8)],
  ['in a character', {}, utf8.subarray(0, JSON_TEXT.indexOf('€') + 2)],
  ['in JSON', {}, utf8.subarray(0, -1)],
])('a success that ends %s is incomplete, and requested again', async (_name, headers, bytes) => {
  const { client, server } = await connect({ headers, bytes });
  const error = await rejection(list(client));
  expect(error).toBeInstanceOf(NetworkError);
  expect((error as Error).message).toBe('the response is incomplete');
  expect(server.requests).toHaveLength(6);
});

test('a 429 whose body cannot be decoded starts a cool-down', async () => {
  const headers = { ...coding('zstd'), 'Retry-After': '3600' };
  const { client, service, clock } = await connect({ status: 429, headers, bytes: utf8 });
  expect(await rejection(list(client))).toBeInstanceOf(RateLimitError);
  expect(service.pausedUntil()).toBeGreaterThanOrEqual(clock.now() + 3_600_000);
});
