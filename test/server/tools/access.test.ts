import { describe, expect, test } from 'vitest';
import { hashKey } from '../../../src/store/keys.ts';
import { startReal, startWithTools } from '../../helpers/real-service.ts';

const bearer = (credential: string) => ({ Authorization: `Bearer ${credential}` });

describe('a tool', () => {
  test('accepts only the token, as a bearer credential', async () => {
    const { use, key, token } = await startWithTools();
    const statusWith = async (headers: Record<string, string>, path = '/keys') => {
      const response = await use(path, { headers: { Authorization: '', ...headers } });
      if (response.status === 401) expect(response.headers.get('www-authenticate')).toBe('Bearer');
      return response.status;
    };
    for (const site of ['same-origin', 'none'])
      expect(await statusWith({ ...bearer(token()), 'Sec-Fetch-Site': site })).toBe(200);
    const shorter = token().slice(0, -1);
    const wrong = ['', key, shorter, `${shorter}-`, hashKey(token())].map((each) => `Bearer ${each}`);
    for (const Authorization of ['', token(), `Basic ${token()}`, ...wrong])
      expect(await statusWith({ Authorization }), Authorization).toBe(401);
    expect(await statusWith({ Cookie: `token=${token()}` })).toBe(401);
    expect(await statusWith({}, `/keys?token=${token()}`)).toBe(401);
  });

  test('is logged only if it fails, because the page asks all the time', async () => {
    const log: object[] = [];
    const { use } = await startWithTools({ onAccess: (record) => log.push(record) });
    await use('/keys');
    await use('/keys?x', { headers: { Authorization: '' } });
    expect(log).toMatchObject([{ url: '/keys?x', status: 401 }]);
  });

  test('never has CORS headers, whatever the method and the result', async () => {
    const { use } = await startWithTools({ cors: ['*'] });
    const headers = { Origin: 'http://evil.test' };
    for (const init of [
      { headers },
      { method: 'OPTIONS', headers: { ...headers, 'Access-Control-Request-Method': 'POST' } },
      { headers: { ...headers, Authorization: '' } },
      { method: 'PATCH', headers },
    ]) {
      const names = [...(await use('/keys', init)).headers.keys()];
      expect(names.filter((name) => name.startsWith('access-control') || name === 'vary')).toEqual([]);
    }
    expect((await use('/healthz', { headers })).headers.has('access-control-allow-origin')).toBe(true);
  });

  test('does not use up quota, ignores injected faults, and does not change which later requests fail', async () => {
    const statuses = async (isUsed: boolean) => {
      const { call, use } = await startWithTools({ faults: { failRate: 0.5, seed: 7 } });
      const result: (number | string | null)[] = [];
      for (let i = 0; i < 20; i++) {
        if (isUsed) expect((await use('/keys', { headers: { Prefer: 'code=500' } })).status).toBe(200);
        const { status, headers } = await call('/pets');
        result.push(status, headers.get('x-ratelimit-remaining'));
      }
      return result;
    };
    expect(await statuses(true)).toEqual(await statuses(false));
  });
});

describe.each([
  ['/keys', ['GET']],
  ['/requests', ['GET', 'POST', 'DELETE']],
  ['/bans?key=till', ['DELETE']],
  ['/faults', ['GET', 'POST', 'PUT', 'DELETE']],
  ['/reset', ['GET', 'POST']],
])('%s', (path, methods) => {
  test('needs the token, refuses pages of other origins, and is neither recorded, counted nor cached', async () => {
    const { call, use, key, requests, service } = await startWithTools();
    const all = methods.includes('GET') ? ['HEAD', ...methods] : methods;
    for (const method of all) {
      const send = (headers: Record<string, string>) =>
        use(path, { method, headers, ...(/^P/.test(method) && { body: '{"rules":[]}' }) });
      for (const authorization of ['', `Bearer ${key}`])
        expect((await send({ Authorization: authorization })).status).toBe(401);
      for (const site of ['same-site', 'cross-site', 'same-origin, none', 'SAME-ORIGIN', ''])
        expect((await send({ 'Sec-Fetch-Site': site })).status, site).toBe(403);
      // Over plain HTTP beyond loopback, browsers send only Origin.
      for (const origin of ['http://evil.test', 'http://localhost:1', 'null'])
        expect((await send({ Origin: origin })).status, origin).toBe(403);
      const own = await send({ Origin: new URL(service().url).origin });
      expect(await own.text()).not.toContain('Pages of other origins');
      const response = await send({ 'Sec-Fetch-Site': 'same-origin' });
      expect([401, 404, 405]).not.toContain(response.status);
      expect(response.headers.get('cache-control')).toBe('no-store');
    }
    const options = await use(path, { method: 'OPTIONS', headers: { Authorization: '' } });
    const allow = [...methods, 'OPTIONS'].join(', ').replace('GET', 'GET, HEAD');
    expect([options.status, options.headers.get('allow')]).toEqual([204, allow]);
    expect((await use(path, { method: 'PATCH' })).status).toBe(405);
    expect((await use(path, { method: 'PATCH', headers: { Authorization: '' } })).status).toBe(401);
    expect((await requests()).requests).toEqual([]);
    expect((await call('/pets')).headers.get('x-ratelimit-remaining')).toBe('59');
  });

  test('is off with the tools', async () => {
    const { use } = await startWithTools({ page: false });
    for (const method of methods) expect((await use(path, { method })).status).toBe(404);
    expect((await use('/session', { method: 'POST' })).status).toBe(404);
    for (const page of ['/', '/page/icon.svg']) expect((await use(page)).status).toBe(404);
  });
});

describe('the page', () => {
  async function startPage(options: Parameters<typeof startReal>[0] = {}) {
    const printed: string[] = [];
    const real = await startReal({ ...options, onPageUrl: (url) => printed.push(url) });
    const send = (path: string, init: RequestInit) => fetch(new URL(path, real.service().url), init);
    const signIn = async (code: unknown, headers = {}) => {
      const body = JSON.stringify({ code });
      const type = { 'Content-Type': 'application/json' };
      const response = await send('/session', { method: 'POST', body, headers: { ...type, ...headers } });
      const { token, message } = (await response.json()) as { token?: string; message?: string };
      return { status: response.status, token, message };
    };
    const statusOf = async (credential: string) =>
      (await send('/requests', { headers: bearer(credential) })).status;
    const code = () => codeOf(real.service().pageUrl?.());
    return { ...real, printed, send, signIn, statusOf, code };
  }
  const codeOf = (url = '') => url.split('/#c=')[1] ?? '';
  const WRONG =
    'This address was already used, is wrong, or is from an earlier start of pets serve. Open the one that pets serve has printed last';

  test('gets a session with the code of its address, which works once, even in eight tabs at once; then there is a new one', async () => {
    const { signIn, statusOf, code, printed, service } = await startPage();
    const first = code();
    const results = await Promise.all(Array.from({ length: 8 }, () => signIn(first)));
    expect(results.map(({ status }) => status).sort()).toEqual([200, ...Array(7).fill(401)]);
    const { token = '' } = results.find(({ status }) => status === 200) ?? {};
    expect(await statusOf(token)).toBe(200);
    expect(token).not.toBe(service().token);
    expect(printed).toEqual([service().pageUrl?.()]);
    expect(await signIn(first)).toEqual({ status: 401, token: undefined, message: WRONG });
    expect((await signIn(codeOf(printed[0]))).status).toBe(200);
    expect(printed.length).toBe(2);
  });

  test('gets no session with anything else, and the code stays valid', async () => {
    const { signIn, send, statusOf, service, key, code } = await startPage();
    const wrong = ['', 'x', service().token, key, code().slice(0, -1), `${code()} `, hashKey(code())];
    for (const each of wrong) expect(await signIn(each)).toMatchObject({ status: 401, message: WRONG });
    for (const each of [1, null, [code()], { code: code() }]) expect((await signIn(each)).status).toBe(400);
    expect((await send('/session', { method: 'POST', body: 'code' })).status).toBe(415);
    expect((await send(`/session?code=${code()}`, { method: 'GET' })).status).toBe(405);
    for (const site of ['same-site', 'cross-site'])
      expect((await signIn(code(), { 'Sec-Fetch-Site': site })).status).toBe(403);
    expect(await statusOf(code())).toBe(401);
    expect((await signIn(code(), { 'Sec-Fetch-Site': 'same-origin' })).status).toBe(200);
  });

  test('and the tools get a limited number of guesses if other machines can reach the service', async () => {
    const { signIn, statusOf, code, service } = await startPage({
      page: true,
      publicUrl: 'http://shop.example',
    });
    for (let i = 0; i < 30; i++) {
      expect((await signIn('guess')).status).toBe(401);
      expect(await statusOf('guess')).toBe(401);
    }
    expect([(await signIn('guess')).status, await statusOf('guess')]).toEqual([429, 429]);
    expect([(await signIn(code())).status, await statusOf(service().token)]).toEqual([200, 200]);
  });

  test.each([undefined, 'chosen-by-the-user-0'])(
    'after a restart with the chosen token %s, the page keeps its session only if there is one, and no address',
    async (chosen) => {
      const { signIn, statusOf, restart, code, service } = await startPage({ token: chosen });
      const [first, { token = '' }] = [code(), await signIn(code())];
      const [unused, before] = [code(), service().token];
      expect(token).toMatch(/^pets_[\w-]{43}$/);
      if (chosen) expect(before).toBe(chosen);
      else expect(before).toMatch(/^pets_[\w-]{43}$/);
      await restart();
      expect(await statusOf(token)).toBe(chosen ? 200 : 401);
      for (const old of [first, unused])
        expect(await signIn(old)).toMatchObject({ status: 401, message: WRONG });
      const again = await signIn(code());
      const isSame = [service().token === before, again.token === token];
      expect([again.status, ...isSame]).toEqual([200, Boolean(chosen), Boolean(chosen)]);
      const other = await startPage({ token: 'chosen-by-the-user-1' });
      expect(await other.statusOf(token)).toBe(401);
    },
  );

  test('is told how to get a token or another address', async () => {
    const { send } = await startPage();
    expect(await (await send('/requests', { headers: bearer('old') })).json()).toMatchObject({
      message:
        'The developer token is unknown, or from an earlier start of pets serve. For the page, if there is one, open the address that pets serve has printed last; a program sends `Authorization: Bearer $PETS_SERVE_TOKEN`; to choose the token, set the variable PETS_SERVE_TOKEN of pets serve',
    });
  });

  test('signs in without a trace in the log', async () => {
    const { signIn, send, code, service } = await startPage();
    const used = code();
    const { token = '' } = await signIn(used);
    await signIn(used);
    await send(`/v1/pets?c=${used}`, {
      headers: { Referer: `http://localhost/#c=${code()}`, ...bearer(token) },
    });
    const shown = await (await send('/requests', { headers: bearer(token) })).text();
    expect(shown).toContain('/v1/pets?c=');
    for (const secret of [used, code(), token, service().token]) expect(shown).not.toContain(secret);
  });
});
