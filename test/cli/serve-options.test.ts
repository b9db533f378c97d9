import { writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { expect, onTestFinished, test } from 'vitest';
import { parseOrigin } from '../../src/cli/serve/options.ts';
import { FLUSH_TIMEOUT_MS, GRACE_PERIOD_MS } from '../../src/cli/serve/run-server.ts';
import { startInTerminal, type TerminalOptions } from '../helpers/context.ts';
import { sendRaw } from '../helpers/raw-client.ts';
import { temporaryDirectory } from '../helpers/temp.ts';

// These tests show what the options of `pets serve` change for clients of the service.

async function serve(args: readonly string[], options?: TerminalOptions) {
  const program = await startInTerminal(
    ['serve', '--json', '--port', '0', '--ephemeral', '--no-profile', ...args],
    options,
  );
  const event = JSON.parse(await program.firstLine());
  const end = async () => {
    program.raise('SIGTERM');
    return program.ended;
  };
  onTestFinished(async () => void (await end()));
  const call = (path = '/pets', headers: Record<string, string> = {}) =>
    fetch(event.url + path, { headers: { Authorization: `Bearer ${event.key}`, ...headers } });
  return { ...program, event, call, end };
}

const spend = async (call: () => Promise<Response>, count: number) => {
  for (let i = 0; i < count; i++) await call();
};

test.each([
  ['by default', [], 9, '300'],
  ['with --ban-after and --ban-for', ['--ban-after', '2', '--ban-for', '7'], 1, '7'],
])('%s, a key is banned by a certain number of requests after a 429', async (_name, args, count, seconds) => {
  const { clock, call } = await serve(['--plan', 'free', ...args]);
  await spend(call, 61);
  clock.advance(1_000);
  await spend(call, count - 1);
  expect(await (await call()).json()).toMatchObject({ code: 'rate_limited' });
  const banned = await call();
  expect(await banned.json()).toMatchObject({ code: 'key_banned' });
  expect(banned.headers.get('retry-after')).toBe(seconds);
});

test('running requests and the log get less than 5 seconds when the server stops', () => {
  expect(GRACE_PERIOD_MS + FLUSH_TIMEOUT_MS).toBeLessThan(5_000);
});

test.each(['/', '/v1'])(
  '--public-url https://shop.example/inventory%s changes links and the OpenAPI document',
  async (end) => {
    const { call, event } = await serve(['--seed', '--public-url', `https://shop.example/inventory${end}`]);
    expect((await call()).headers.get('link')).toMatch(/^<\/inventory\/v1\/pets\?limit=20&/);
    const document = await (await fetch(new URL('/openapi.json', event.url))).json();
    expect(document).toHaveProperty('servers.0.url', 'https://shop.example/inventory/v1');
  },
);

test('--trust-proxy, --allow-host and --cors may be given twice; the origin of --cors may end with a slash', async () => {
  const { event, call } = await serve([
    ...['--trust-proxy', '127.0.0.1', '--trust-proxy', '10.0.0.0/8'],
    ...['--allow-host', 'Shop.test', '--allow-host', 'till.test'],
    ...['--cors', 'http://localhost:5173/', '--cors', 'https://shop.test'],
  ]);
  for (const list of ['198.51.100.7, 10.1.2.3', '198.51.100.8']) {
    const { headers } = await call('/pets', { Authorization: '', 'X-Forwarded-For': list });
    expect(headers.get('x-ratelimit-remaining')).toBe('59');
  }
  for (const host of ['shop.test', 'till.test:80', 'evil.example']) {
    const status = host.includes('evil') ? 421 : 200;
    const bytes = `GET /openapi.json HTTP/1.1\r\nHost: ${host}\r\nConnection: close\r\n\r\n`;
    expect((await sendRaw(event.port, bytes))[0]?.status).toBe(status);
  }
  for (const origin of ['http://localhost:5173', 'https://shop.test', 'http://evil.example']) {
    const { headers } = await call('/pets', { Origin: origin });
    expect(headers.get('access-control-allow-origin')).toBe(origin.includes('evil') ? null : origin);
  }
});

test.each([
  ['*', '*'],
  ['http://[::1]:5173/', 'http://[::1]:5173'],
  ['tauri://localhost', 'tauri://localhost'],
])('--cors %s allows the origin %s', (text, origin) => {
  expect(parseOrigin(text)).toBe(origin);
});

test('--latency and --fail-rate repeat the same faults with the same --fault-seed', async () => {
  const run = async (args: string[]) => {
    const held: number[] = [];
    const { event, call } = await serve(args, { onSleep: (milliseconds) => void held.push(milliseconds) });
    const statuses: number[] = [];
    for (let i = 0; i < 20; i++) statuses.push((await call()).status);
    return { held, statuses, faults: event.faults };
  };
  const args = ['--latency', '10-500', '--fail-rate', '0.5'];
  const first = await run(args);
  expect(first.faults).toEqual({ latency: { min: 10, max: 500 }, failRate: 0.5, seed: expect.any(Number) });
  expect(await run([...args, '--fault-seed', String(first.faults.seed)])).toEqual(first);
  expect((await run([...args, '--fault-seed', '4711'])).held).not.toEqual(first.held);
});

test('--faults sets rules, beside the random faults of other options', async () => {
  const directory = await temporaryDirectory();
  const file = join(directory, 'faults.json');
  const rules = [{ match: { path: '/v1/pets' }, answer: 503, times: 2, retryAfter: 1 }];
  await writeFile(file, `\uFEFF${JSON.stringify(rules)}`);
  const held: number[] = [];
  const { event, call } = await serve(['--faults', file, '--latency', '7'], {
    onSleep: (milliseconds) => void held.push(milliseconds),
  });
  expect(event.faults).toEqual({ latency: { min: 7, max: 7 }, seed: expect.any(Number), rules });
  const statuses: number[] = [];
  for (let i = 0; i < 3; i++) statuses.push((await call()).status);
  expect([statuses, held]).toEqual([
    [503, 503, 200],
    [7, 7, 7],
  ]);
});

test.each([
  [undefined, ': no such file or directory'],
  ['[{"answer":503', ', line 1, column 15: invalid JSON'],
  ['[{"answer":503,"tmes":2}]', ': rule 1 has the unknown field "tmes"'],
])('an invalid file for --faults is an error with its line or field: %s', async (text, message) => {
  const file = join(await temporaryDirectory(), 'faults.json');
  if (text !== undefined) await writeFile(file, text);
  const program = await startInTerminal(['serve', '--port', '0', '--ephemeral', '--faults', file]);
  expect(await program.ended).toBe(text === undefined ? 1 : 2);
  expect(program.stderr().replaceAll(/\s+/g, ' ')).toContain(`faults.json${message}`);
});
