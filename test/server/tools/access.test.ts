import { describe, expect, test } from 'vitest';
import { createToolCredentials } from '../../../src/server/tools/credentials.ts';
import { hashKey } from '../../../src/store/keys/keys.ts';
import { connectTo, nextData } from '../../helpers/raw-client.ts';
import { startReal } from '../../helpers/real-service.ts';
import { KEY, OTHER_KEY, start } from '../../helpers/service.ts';

const bearer = (credential: string) => ({ Authorization: `Bearer ${credential}` });

/** A service with a tool at /reset that only counts how often it was used. Key KEY may use it. */
async function startWithTool(options: Parameters<typeof start>[0] = {}) {
  const credentials = createToolCredentials();
  credentials.allowKey(KEY);
  let uses = 0;
  const use = async () => ({ status: 200, body: String(++uses) });
  const service = await start({
    ...options,
    tools: { routes: new Map([['/reset', { GET: use, POST: use }]]) },
    isDeveloper: (sha256) => credentials.identify(sha256) !== undefined,
  });
  const request = (headers: Record<string, string>, method = 'POST', path = '/reset') =>
    fetch(service.listening.origin + path, { method, headers });
  return { ...service, credentials, request, uses: () => uses };
}

describe('a tool', () => {
  test.each([
    ['the token', 200, (token: string) => bearer(token)],
    ['the API key that may use the tools', 200, () => bearer(KEY)],
    ['another valid API key', 401, () => bearer(OTHER_KEY)],
    ['no credential', 401, () => ({})],
    ['a token that differs in its last character', 401, (token: string) => bearer(`${token.slice(0, -1)}-`)],
    ['a part of the token', 401, (token: string) => bearer(token.slice(0, -1))],
    ['the token in another scheme', 401, (token: string) => ({ Authorization: `Basic ${token}` })],
    ['the token without a scheme', 401, (token: string) => ({ Authorization: token })],
    ['the token in a cookie', 401, (token: string) => ({ Cookie: `token=${token}` })],
    ['the hash of the API key', 401, () => bearer(hashKey(KEY))],
  ])('with %s responds with %i', async (_name, status, headersOf) => {
    const { credentials, request, uses } = await startWithTool();
    const response = await request(headersOf(credentials.token));
    expect([response.status, uses()]).toEqual([status, status === 200 ? 1 : 0]);
    if (status === 401) expect(response.headers.get('www-authenticate')).toBe('Bearer');
  });

  test('does not accept the token in the URL', async () => {
    const { credentials, request } = await startWithTool();
    expect((await request({}, 'POST', `/reset?t=${credentials.token}`)).status).toBe(401);
  });

  test.each([
    ['same-origin', 200],
    ['none', 200],
    ['same-site', 403],
    ['cross-site', 403],
    ['same-origin, none', 403],
    ['SAME-ORIGIN', 403],
    ['', 403],
  ])('with the token and Sec-Fetch-Site: %s responds with %i', async (site, status) => {
    const { credentials, request, uses } = await startWithTool();
    const response = await request({ ...bearer(credentials.token), 'Sec-Fetch-Site': site });
    expect([response.status, uses()]).toEqual([status, status === 200 ? 1 : 0]);
    if (status === 403) expect(await response.json()).toMatchObject({ code: 'forbidden' });
  });

  test('never has CORS headers, whatever the method and the result', async () => {
    const { credentials, request } = await startWithTool({ cors: ['*'] });
    const foreign = { Origin: 'http://evil.test', ...bearer(credentials.token) };
    for (const [headers, method, path] of [
      [foreign, 'POST', '/reset'],
      [{ ...foreign, 'Access-Control-Request-Method': 'POST' }, 'OPTIONS', '/reset'],
      [{ Origin: 'http://evil.test' }, 'POST', '/reset?a'],
      [foreign, 'DELETE', '/reset'],
    ] as const) {
      const names = [...(await request(headers, method, path)).headers.keys()];
      expect(names.filter((name) => name.startsWith('access-control') || name === 'vary')).toEqual([]);
    }
    expect((await request(foreign, 'GET', '/healthz')).headers.has('access-control-allow-origin')).toBe(true);
  });

  test('refuses a foreign Host with 421, also with the token', async () => {
    const { credentials, listening, uses } = await startWithTool({ hosts: new Set<string>() });
    const socket = connectTo(Number(new URL(listening.origin).port));
    socket.write(
      `POST /reset HTTP/1.1\r\nHost: evil.test\r\nAuthorization: Bearer ${credentials.token}\r\n\r\n`,
    );
    expect(String(await nextData(socket))).toContain('HTTP/1.1 421');
    expect(uses()).toBe(0);
  });

  test('supports HEAD and OPTIONS, and refuses other methods only with a credential', async () => {
    const { credentials, request } = await startWithTool();
    const token = bearer(credentials.token);
    const options = await request({}, 'OPTIONS');
    expect([options.status, options.headers.get('allow')]).toEqual([204, 'GET, HEAD, POST, OPTIONS']);
    expect((await request(token, 'HEAD')).status).toBe(200);
    expect((await request(token, 'PUT')).status).toBe(405);
    expect((await request({}, 'PUT')).status).toBe(401);
  });

  test('does not use up quota, ignores injected faults, and does not change which later requests fail', async () => {
    const faults = { failRate: 0.5, seed: 7 };
    const statuses = async (isUsed: boolean) => {
      const { call, request } = await startWithTool({ faults });
      const result: (number | string | null)[] = [];
      for (let i = 0; i < 20; i++) {
        if (isUsed) expect((await request({ ...bearer(KEY), Prefer: 'code=500' })).status).toBe(200);
        const { status, headers } = await call('/v1/pets');
        result.push(status, headers.get('x-ratelimit-remaining'));
      }
      return result;
    };
    expect(await statuses(true)).toEqual(await statuses(false));
  });

  test('limits guesses like those under /v1', async () => {
    const { credentials, request } = await startWithTool({ limitFailedKeys: true });
    for (let i = 0; i < 60; i++) expect((await request(bearer(`guess-${i}`))).status).toBe(401);
    expect((await request(bearer('guess'))).status).toBe(429);
    expect((await request(bearer(credentials.token))).status).toBe(200);
  });
});

describe('with a real store', () => {
  test('the token is new at each start', async () => {
    const { service, restart } = await startReal();
    const first = service().tools?.token;
    await restart();
    const second = service().tools?.token;
    expect(first).toMatch(/^pets_[\w-]{43}$/);
    expect(second).toMatch(/^pets_[\w-]{43}$/);
    expect(second).not.toBe(first);
  });

  test('the API key that opens the tools no longer does so after it was revoked, but the token does', async () => {
    const { clock, key, location, service } = await startReal();
    service().tools?.allowKey(key);
    const token = service().tools?.token ?? '';
    const status = async (credential: string) =>
      (await fetch(new URL('/requests', service().url), { headers: bearer(credential) })).status;
    expect([await status(key), await status(token)]).toEqual([200, 200]);
    await location.manageKeys((keys) => keys.revoke('till'));
    clock.advance(1_000);
    expect([await status(key), await status(token)]).toEqual([401, 200]);
  });
});
