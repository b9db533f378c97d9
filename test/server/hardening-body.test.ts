import { connect } from 'node:net';
import { describe, expect, onTestFinished, test } from 'vitest';
import { expectError, parseAnswers, sendRaw } from '../helpers/raw-client.ts';
import { AUTH, atLoopback, chunked, get, HOST, JSON_TYPE, post, REX } from '../helpers/raw-requests.ts';
import { start } from '../helpers/service.ts';

// Attacks of a hostile client, sent as bytes: each gets a complete error response.

describe('the body', () => {
  test.each([
    [
      'by its length',
      post('', `${JSON_TYPE}X: `).toString().replace('Content-Length: 0', 'Content-Length: 10000000'),
    ],
    ['by chunks', chunked(`4000\r\n${'x'.repeat(0x4000)}\r\n`.repeat(5))],
  ])('that is too large %s is 413 before all of it has arrived', async (_name, bytes) => {
    const { listening, store, answered } = await start({ ...atLoopback });
    const socket = connect(listening.port, '127.0.0.1', () => socket.write(bytes));
    onTestFinished(() => void socket.destroy());
    const [first] = await new Promise<Buffer[]>((resolve) =>
      socket.once('data', (chunk) => resolve([chunk])),
    );
    expectError(parseAnswers(first ?? Buffer.alloc(0))[0], 413, 'payload_too_large');
    expect(await store.size()).toBe(0);
    expect(answered.map(({ status }) => status)).toEqual([413]);
  });

  test('of exactly 64 KiB is accepted, one byte more is not', async () => {
    const { listening, store } = await start(atLoopback);
    const name = (length: number) => JSON.stringify({ name: 'x'.repeat(length - 26), categoryId: 1 });
    expect(Buffer.byteLength(name(65_536))).toBe(65_536);
    expect((await sendRaw(listening.port, post(name(65_536))))[0]?.status).toBe(201);
    expectError((await sendRaw(listening.port, post(name(65_537))))[0], 413, 'payload_too_large');
    expect(await store.size()).toBe(1);
  });

  const deep = (depth: number) =>
    `{"name":"Rex","categoryId":1,"x":${'['.repeat(depth)}${']'.repeat(depth)}}`;
  test.each<[string, Buffer, number]>([
    ['nested 32 deep', post(deep(31)), 201],
    ['nested 33 deep', post(deep(32)), 400],
    ['nested 10,000 deep', post(deep(10_000)), 400],
    ['opened 60,000 times', post('['.repeat(60_000)), 400],
    [
      'an exact number and 10,000 levels',
      post(`{"categoryId":9007199254740993,"x":${'['.repeat(10_000)}`),
      400,
    ],
    ['invalid UTF-8', post(Buffer.from('{"name":"\xc3\x28","categoryId":1}', 'latin1')), 400],
    ['an overlong slash', post(Buffer.from('{"name":"\xc0\xaf","categoryId":1}', 'latin1')), 400],
    ['a surrogate in UTF-8', post(Buffer.from('{"name":"\xed\xa0\x80","categoryId":1}', 'latin1')), 400],
    ['UTF-16', post(Buffer.from(REX, 'utf16le')), 400],
    ['two documents', post(`${REX}${REX}`), 400],
    ['another charset', post(REX, 'Content-Type: application/json; charset=utf-16\r\n'), 415],
    ['with a charset', post(REX, 'Content-Type: Application/JSON; charset="UTF-8"\r\n'), 201],
    ['a similar type', post(REX, 'Content-Type: application/jsonp\r\n'), 415],
    ['a form, as another website can send it', post(REX, 'Content-Type: text/plain\r\n'), 415],
    ['no type', post(REX, ''), 415],
    ['two types', post(REX, `${JSON_TYPE}Content-Type: text/plain\r\n`), 400],
    ['compressed', post(REX, `${JSON_TYPE}Content-Encoding: gzip\r\n`), 415],
    ['Content-Encoding: identity', post(REX, `${JSON_TYPE}Content-Encoding: identity\r\n`), 201],
  ])('%s', async (_name, bytes, status) => {
    const { listening, store, errors } = await start(atLoopback);
    const [answer, ...more] = await sendRaw(listening.port, bytes);
    expect(answer?.status).toBe(status);
    expect(more).toEqual([]);
    if (status !== 201)
      expectError(answer, status, status === 415 ? 'unsupported_media_type' : 'invalid_request');
    expect(await store.size()).toBe(status === 201 ? 1 : 0);
    expect(errors).toEqual([]);
  });

  test.each([
    '{"__proto__":{"status":"sold"},"name":"Rex","categoryId":1}',
    '{"__proto__":{"status":"sold"},"name":"Rex","categoryId":9007199254740993}',
    '{"constructor":{"prototype":{"status":"sold"}},"name":"Rex","categoryId":1}',
    '{"name":"Rex","categoryId":9007199254740993,"x":{"__proto__":{"status":"sold"}}}',
  ])('%s has no effect on other objects', async (body) => {
    const { listening } = await start(atLoopback);
    const [answer] = await sendRaw(listening.port, post(body));
    expect(answer?.status).toBe(201);
    expect(JSON.parse(answer?.body ?? '')).toMatchObject({ name: 'Rex', status: 'available' });
    expect(({} as Record<string, unknown>)['status']).toBeUndefined();
  });

  test('is not read without a valid key', async () => {
    const { listening, answered } = await start(atLoopback);
    const bytes = `POST /v1/pets HTTP/1.1\r\n${HOST}${JSON_TYPE}Content-Length: 29\r\nExpect: 100-continue\r\n\r\n`;
    const answers = await sendRaw(listening.port, bytes);
    expect(answers.map(({ status }) => status)).toEqual([401]);
    expect(answered).toHaveLength(1);
  });
});

describe('Expect', () => {
  const expecting = (headers: string, body = '') =>
    `POST /v1/pets HTTP/1.1\r\n${HOST}${AUTH}${headers}Content-Length: 29\r\nExpect: 100-continue\r\n\r\n${body}`;

  test('100-continue asks for the body when it is needed, and the animal is added', async () => {
    const { listening, store } = await start(atLoopback);
    const socket = connect(listening.port, '127.0.0.1', () => socket.write(expecting(JSON_TYPE)));
    onTestFinished(() => void socket.destroy());
    const next = () => new Promise<Buffer>((resolve) => socket.once('data', resolve));
    expect(String(await next())).toBe('HTTP/1.1 100 Continue\r\n\r\n');
    socket.write(REX);
    const [answer] = parseAnswers(await next());
    expect(answer?.status).toBe(201);
    expect(answer?.headers['connection']).not.toBe('close');
    expect(await store.size()).toBe(1);
  });

  test.each([
    ['the wrong type', 'Content-Type: text/plain\r\n', 415],
    ['a length over the limit', `${JSON_TYPE}X: `, 413],
  ])(
    'with %s is rejected without asking for the body, and the connection closes',
    async (_name, headers, status) => {
      const { listening } = await start(atLoopback);
      const bytes = expecting(headers).replace('X: Content-Length: 29', 'Content-Length: 70000');
      const answers = await sendRaw(listening.port, bytes);
      expect(answers.map((answer) => answer.status)).toEqual([status]);
      expect(answers[0]?.headers['connection']).toBe('close');
    },
  );

  test('asks for the body of the last request too, and announces the close', async () => {
    const { listening } = await start(atLoopback);
    const answers = await sendRaw(listening.port, expecting(`${JSON_TYPE}Connection: close\r\n`, REX));
    expect(answers.map(({ status }) => status)).toEqual([100, 201]);
    expect(answers[1]?.headers['connection']).toBe('close');
  });

  test('other expectations are 417', async () => {
    const { listening } = await start(atLoopback);
    const [answer] = await sendRaw(listening.port, get('/v1/pets', 'Expect: banana\r\n'));
    expectError(answer, 417, 'expectation_failed');
  });
});
