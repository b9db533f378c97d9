import express from 'express';
import fastify from 'fastify';
import { describe, expect, onTestFinished, test } from 'vitest';
import { runInTerminal } from '../helpers/context.ts';
import { startExpress } from '../helpers/express.ts';
import { runAgainst } from '../helpers/in-terminal.ts';
import { reply } from '../helpers/scripted-server.ts';

// Tests with services that use other frameworks. The bodies of their errors are not the Error of the specification.

const KEY = 'pets_secret_key';
const PET = { id: 3, name: 'Rex', categoryId: 3, status: 'available' };

/** A service that validates with JSON Schema and responds with fastify's own errors. */
async function fastifyService(): Promise<string> {
  const app = fastify();
  onTestFinished(() => app.close());
  const querystring = { type: 'object', properties: { limit: { type: 'integer', maximum: 100 } } };
  const body = { type: 'object', properties: { name: { type: 'string', minLength: 3 } } };
  app.get('/v1/pets', { schema: { querystring } }, async () => [PET]);
  app.post('/v1/pets', { schema: { body } }, (_, response) => response.code(201).send(PET));
  app.get('/v1/pets/:id', async (request, response) => {
    if ((request.params as { id: string }).id === '3') return PET;
    response.code(404);
    throw new Error('no such animal');
  });
  app.get('/v1/store/orders', (_, response) => {
    response.code(403);
    throw new Error('this key may not read orders');
  });
  return app.listen({ host: '127.0.0.1', port: 0 });
}

async function expressService(): Promise<string> {
  const host = await startExpress((app) => {
    app.get('/v1/pets', () => {
      throw new Error('the database is away');
    });
    app.post('/v1/pets', express.json({ limit: 10 }));
    app.get('/v1/pets/:id', (_, response) => {
      response.status(422).type('application/problem+json');
      response.send({ title: 'Unprocessable', detail: 'ids have eight digits' });
    });
    app.get('/v1/store/orders', (_, response) => {
      response.status(403).send({ error: 'orders are closed' });
    });
  });
  return `http://${host}`;
}

/** Runs a command and returns its exit code, output and error. */
async function runAt(origin: string, argv: readonly string[]) {
  const env = { PETS_BASE_URL: `${origin}/v1`, PETS_API_KEY: KEY };
  const { code, stdout, stderr } = await runInTerminal([...argv, '--no-retry', '--json'], { env });
  return { code, stdout, error: JSON.parse(stderr.trimEnd().split('\n').at(-1) ?? '').error };
}

const services = { fastify: fastifyService, express: expressService };

test.each<[keyof typeof services, string[], object, string]>([
  ['fastify', ['add', 'Al'], { exitCode: 7, code: 'http_400' }, ': body/name must NOT have fewer than 3'],
  ['fastify', ['orders'], { exitCode: 1, code: 'http_403' }, ': this key may not read orders'],
  ['express', ['get', '7'], { exitCode: 7, code: 'http_422' }, ': ids have eight digits'],
  ['express', ['orders'], { exitCode: 1, code: 'http_403' }, ': orders are closed'],
  ['express', ['list'], { exitCode: 7, code: 'http_500' }, ': HTTP status 500 (Content-Type: text/html): '],
  ['express', ['list'], {}, 'Error: the database is away'],
  ['express', ['add', 'Al'], { exitCode: 7, code: 'http_413' }, 'request entity too large'],
])('%s: the error of %j shows the reason of the service', async (name, argv, expected, message) => {
  const options = argv[0] === 'add' ? ['--category', '3'] : [];
  const { code, error } = await runAt(await services[name](), [...argv, ...options]);
  expect(error).toMatchObject({ ...expected, message: expect.stringContaining(message) });
  expect(error.message).not.toMatch(/[<>]|rejected key/);
  expect(error.hint).not.toContain('base URL');
  expect(code).toBe(error.exitCode);
});

test('an animal that exists is shown although the 404 of another one is not an Error object', async () => {
  const { code, stdout, error } = await runAt(await fastifyService(), ['get', '3', '99']);
  expect([code, JSON.parse(stdout), error.code]).toEqual([3, [PET], 'not_found']);
});

describe('the reason in a body of status 400', () => {
  const long = 'x'.repeat(201);
  test.each<[string, unknown, string]>([
    ['detail', { title: 'no', detail: 'why' }, 'why'],
    ['title', { type: 'about:blank', title: 'why', status: 400 }, 'why'],
    ['message', { error: 'Bad Request', message: 'why' }, 'why'],
    ['several messages', { message: ['why', 'not'], error: 'Bad Request' }, 'why; not'],
    ['error', { error: 'why' }, 'why'],
    ['a message in error', { error: { code: 7, message: 'why' } }, 'why'],
    ['a JSON string', '"why"', 'why'],
    ['other JSON', { why: 1 }, 'HTTP status 400: {"why":1}'],
    ['text', ' why\nnot ', 'why not'],
    ['a long text', long, `${'x'.repeat(200)}…`],
    ['an empty object', {}, 'HTTP status 400: {}'],
    ['an empty body', '', 'HTTP status 400'],
    ['a page', '<title>no</title><p>why</p>', 'HTTP status 400: why'],
    ['a page with only a title', '<title>why</title>', 'HTTP status 400'],
    ['a key at the end of what is shown', `${'x'.repeat(190)} ${KEY}`, `${'x'.repeat(190)} …_key`],
    ['a control sequence', { message: 'a\x1b[2Jb' }, 'a\x1b[2Jb'],
  ])('%s', async (_name, body, reason) => {
    const { stderr, server } = await runAgainst(
      (_, response) => reply(response, 400, body),
      ['list', '--json'],
    );
    const { message } = JSON.parse(stderr).error;
    expect(message).toBe(`${new URL(server.origin).host}: ${reason}`);
  });
});

test('an unexpected success shows the reason of the service', async () => {
  const { stderr } = await runAgainst(
    (_, response) => reply(response, 200, { error: 'closed for lunch' }),
    ['list'],
  );
  expect(stderr).toContain('unexpected response: must be a JSON array (closed for lunch)');
});

test('--debug shows 4 KB of each body without the key', async () => {
  const body = `${'x'.repeat(4_090)}${KEY} the end`;
  const { stderr } = await runAgainst(
    (_, response) => reply(response, 400, body),
    ['add', 'Rex', '--category', '3', '--debug', '--json'],
  );
  const { debug } = JSON.parse(stderr.split('\n')[0] ?? '');
  expect(debug).toMatchObject({ requestBody: '{"name":"Rex","categoryId":3}', body: expect.any(String) });
  expect(debug.body).toBe(`${'x'.repeat(4_090)}…_key `);
});

test('--debug shows each line of a body with a mark at its start, so that it cannot pass for output of the program', async () => {
  const { stderr } = await runAgainst(
    (_, response) => reply(response, 400, 'why\r\nerror: fake'),
    ['list', '--debug', '--color', 'never'],
  );
  expect(stderr).toContain('\n  < \n  < why\n  < error: fake\n');
});
