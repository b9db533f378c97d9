import { expect, test } from 'vitest';
import {
  createRequestRedactors,
  isSecretHeader,
  MAX_RECORDED_BODY,
} from '../../../src/server/tools/recorder.ts';
import { generateKey } from '../../../src/store/keys.ts';
import { startWithTools } from '../../helpers/real-service.ts';

const { redact, redactResponse } = createRequestRedactors([])();

const percent = (text: string) => Array.from(text, (c) => `%${c.charCodeAt(0).toString(16)}`).join('');
const unicode = (text: string) => Array.from(text, (c) => `\\u00${c.charCodeAt(0).toString(16)}`).join('');

/** The forms in which a client can send a secret by mistake. */
const forms: ((secret: string) => string)[] = [
  (secret) => secret,
  percent,
  (secret) => percent(secret).toUpperCase(),
  (secret) => percent(secret).replaceAll('%', '%25'),
  encodeURIComponent,
  // With one encoded character.
  (secret) => secret.slice(0, 2) + percent(secret[2] ?? '') + secret.slice(3),
  unicode,
  (secret) => unicode(secret).replaceAll('\\', '\\\\'),
  (secret) => JSON.stringify(secret).slice(1, -1),
  (secret) => JSON.stringify(JSON.stringify(secret)).slice(3, -3),
  (secret) => `key=${secret}&x`,
];

test('no form of a secret is shown, wherever it occurs', async () => {
  const chosen = 'my+secret/"key"\\with-odd=characters';
  const token = 'my=own/token+of~20?characters';
  const { raw, requests, service, key } = await startWithTools({ secrets: [chosen], token });
  const code = service().pageUrl?.().split('=').at(-1) ?? '';
  const secrets = [token, code, key, chosen, generateKey()];
  let count = 0;
  for (const secret of secrets) {
    for (const form of forms) {
      const sent = form(secret);
      const isTarget = !/[\\"]/.test(sent);
      const body = `{"name":"${sent}","categoryId":1}`;
      const frame = `Content-Length: ${Buffer.byteLength(body)}\r\n`;
      const targets = isTarget ? [`/v1/pets?key=${sent}`, `/v1/${sent}`, `/${sent}?x`] : ['/v1/pets'];
      for (const target of targets) {
        const named = `X-Api-Key: ${sent}\r\nX-Request-Id: ${sent}\r\nReferer: http://localhost/?${sent}\r\n`;
        await raw('POST', target, named + frame, body);
        count++;
      }
    }
  }
  await raw('GET', '/v1/pets');
  const shown = await requests();
  expect(shown.requests.length).toBe(count + 1);
  const text = JSON.stringify(shown);
  for (const sent of secrets.flatMap((secret) => forms.map((form) => form(secret)))) {
    expect(text).not.toContain(sent);
    expect(text).not.toContain(JSON.stringify(sent).slice(1, -1));
  }
});

test.each([
  ...['Authorization: Basic YWRhOmh1bnRlcjI=', 'authorization: Bearer hunter2-hunter2'],
  ...['AUTHORIZATION: hunter2hunter2', 'Proxy-Authorization: Bearer hunter2hunter2'],
  ...['Cookie: session=hunter2hunter2', 'Set-Cookie: session=hunter2hunter2'],
  ...['X-Session-Id: hunter2hunter2', 'X-Password: hunter2hunter2'],
  ...['X-Api-Key: hunter2hunter2', 'apikey: hunter2hunter2', 'Ocp-Apim-Subscription-Key: hunter2hunter2'],
  ...['X-Auth: hunter2hunter2', 'X-Forwarded-Authorization: hunter2hunter2'],
  ...['X-Vault-Token: hunter2hunter2', 'X-Client-Secret: hunter2hunter2'],
  ...['X-Forwarded: Bearer hunter2hunter2', 'X-Other: basic aHVudGVyMjpodW50ZXIy'],
])('the credential in the header %s is not shown, also elsewhere', (header) => {
  const [name = '', value = ''] = header.split(': ');
  expect(isSecretHeader(name, value)).toBe(true);
  if (name.includes('ookie')) return;
  const secret = value.split(' ').at(-1) ?? '';
  const { redact } = createRequestRedactors([])([name, value]);
  expect(redact(`/v1/pets?k=${encodeURIComponent(secret)}`)).toMatch(/^\/v1\/pets\?(?:k=)?\[redacted\]$/);
});

test.each([
  'http://ada:hunter2@shop.test',
  'http://ada:sec@hunter2@shop.test',
  'https://hunter2@shop.test',
  'http:\\/\\/ada:hunter2@shop.test',
  'http%3A%2F%2Fada%3Ahunter2%40shop.test',
  'http:\\u002f\\u002fada\\u003ahunter2\\u0040shop.test',
])('the user and the password in the URL %s are not shown', (url) => {
  const isEncoded = !url.includes('://');
  expect(redact(`a ${url} b`)).toBe(
    isEncoded ? 'a [redacted] b' : `a ${url.replace(/:\/\/.*@/, '://[redacted]@')} b`,
  );
});

test.each([
  ...['password', 'token', 'api_key', 'apikey', 'X-Auth-Token', 'auth', 'authorization', 'user[password]']
    .concat('user%5Bpassword%5D', '%74oken', 'q=a+token', 'access_token', 'client_secret')
    .map((name) => `/v1/pets?a=1&${name}=hunter2%20hunter2&a=1`),
  'https://shop.test/?Passwd=hunter2#a',
  'password=hunter2&a=1',
  'next=https%3A%2F%2Fshop.test%2F%3Ftoken%3Dhunter2%26a%3D1&b',
  '"https://shop.test/?a=1\\u0026token=hunter2\\u0026a=1"',
  '{"password":"hunter2"}',
  '{ "user": {"api_key" : "a\\"hunter2", "a=1": 1} }',
])('the secret that is named in %s is not shown', (url) => {
  const shown = redact(`a ${url} b`);
  expect(shown).toContain('[redacted]');
  expect(shown).not.toContain('hunter2');
  expect(shown).toMatch(/^a .* b$/s);
  if (url.endsWith('&a=1')) expect(shown).toContain('&a=1 b');
});

test.each([
  ['{"name":"Rex","pwd":"hunter2', '{"name":"Rex","pwd":"[redacted]"'],
  ['{"pass\\u0077ord":"hunter2"}', '[redacted]'],
  ['{"a":1,"pwd":[["hunter2"],{"b":"hunter2"}],"c":"hunter2"}', '{"a":1,"pwd":"[redacted]"'],
  ['{"token":{"a":"hunter2', '{"token":"[redacted]"'],
  ['"{\\"token\\":\\"hunter2\\"}"', '[redacted]'],
])('if it cannot be seen where a secret begins or ends, more is replaced: %s', (text, shown) => {
  expect(redact(text)).toBe(shown);
});

test.each([
  '/v1/pets?status=sold&limit=5&keys=till&cursor=abc&tok=1&category=%C3%A4&encode=a&postcode=1&spin=2&opinion=3&passage=4',
  '{"name":"token","codes":"unauthorized","categoryId":1,"tags":{"is":["an object"]}}',
  'a code=1, a key=2',
])('%s stays as it is', (text) => {
  expect(redact(text)).toBe(text);
});

const NAMES = ['code', 'otp', 'pin', 'pass', 'key', 'X-Otp', 'x-pin', 'X-Key'];

test.each(NAMES)('the value of %s is not shown in a request, and is shown in a response', (name) => {
  for (const text of [
    `/v1/pets?${name}=123&a=1`,
    `/v1/pets?a=1&${name}=123`,
    `/v1/pets?${name.replace(/^./, percent)}=123`,
    `${name}=123&a=1`,
    `{"a":1,"${name}":"123"}`,
    `{"${name}":123}`,
  ]) {
    expect(redact(text)).toContain('[redacted]');
    expect(redact(text)).not.toContain('123');
    expect(redactResponse(text)).toBe(text);
  }
  expect([isSecretHeader(name, '123'), isSecretHeader(name, '123', false)]).toEqual([true, false]);
});

test('secrets in headers are not shown; Idempotency-Key, Prefer, error codes and odd names of headers are', async () => {
  const { raw, requests } = await startWithTools();
  const headers = ['code: 123', 'Idempotency-Key: a-key', 'Prefer: code=500', '__proto__: a', 'X: 1', 'x: 2'];
  await raw('GET', '/v1/pets', `${headers.join('\r\n')}\r\n`);
  const [shown] = (await requests()).requests;
  expect(Object.entries(shown?.request.headers ?? {})).toEqual(
    expect.arrayContaining([
      ...[
        ['code', '[redacted]'],
        ['idempotency-key', 'a-key'],
        ['prefer', 'code=500'],
      ],
      ...[
        ['__proto__', 'a'],
        ['x', '1, 2'],
      ],
    ]),
  );
  expect(shown?.response?.body).toContain('"code":"internal_error"');
});

test('the sentences of the service stay whole, even if a word of them is a credential', async () => {
  const { call, requests } = await startWithTools();
  const headers = { 'X-Api-Key': 'integer' };
  await call('/pets?limit=0', { headers });
  await call('/pets', { method: 'POST', body: '{"name":"Rex","categoryId":"integer"}', headers });
  const [post, get] = (await requests()).requests;
  expect(get?.because).toBe('limit must be an integer from 1 to 100');
  expect(get?.response?.body).toContain('limit must be an integer from 1 to 100');
  expect(post?.because).toMatch(/^categoryId must be an integer/);
});

test('a credential is not shown in a sentence that quotes what the client has sent', async () => {
  const { raw, requests, key } = await startWithTools();
  await raw('DELETE', `/v1/pets/${key}`);
  await raw('GET', '/v1/pets', '', '', `${key}.test`);
  await raw('GET', `/v1/pets?${key}=1&${key}=2`);
  await raw('GET', 'http://ada:hunter2@localhost/v1/pets', 'Referer: ftp://ada:hunter2@shop.test/\r\n');
  const { requests: shown } = await requests();
  expect(shown.map(({ status }) => status)).toEqual([400, 400, 421, 405]);
  expect(JSON.stringify(shown)).not.toMatch(new RegExp(`${key}|hunter2`));
});

test('credentials and texts that are awkward to search for take no long time', () => {
  for (const credential of [
    `Bearer ${'\\'.repeat(40)}`,
    `Bearer ${'k'.repeat(7_500)}`,
    'Digest'.padEnd(7_500, ' 1000000'),
  ]) {
    const redactor = createRequestRedactors([])(['Authorization', credential]);
    for (let i = 0; i < 50; i++) expect(redactor.redact(`X: ${'\\'.repeat(200)}`)).toContain('X: ');
  }
  for (const start of [
    ...['\\', '://', '%3a%2f%2f', ':\\/\\/', '://a%3a'],
    ...['?token', '?a-token-token', 'token', 'name=token', '"token', '"a":[{'],
  ]) {
    const text = start.repeat(50_000);
    expect(redact(text)).toBe(text);
  }
});

test('a secret is not shown in part, wherever the recorded body ends', async () => {
  const { call, requests, token } = await startWithTools();
  const sentToken = token();
  for (const form of [(secret: string) => secret, unicode]) {
    const secret = form(sentToken);
    for (let before = secret.length - 1; before > 0; before -= 13) {
      const start = '{"name":"';
      const name = 'x'.repeat(MAX_RECORDED_BODY - before - start.length) + secret;
      await call('/pets', { method: 'POST', body: `${start}${name}","categoryId":1}` });
    }
  }
  const { requests: shown } = await requests();
  const long = shown.filter(({ request }) => (request.body?.length ?? 0) > 15_000);
  expect(long.length).toBeGreaterThan(20);
  for (const { request } of shown) {
    expect(request.body).toMatch(/^({"name":"x*)?$/);
  }
});
