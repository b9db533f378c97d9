import { expect, test } from 'vitest';
import { runAgainst } from '../helpers/in-terminal.ts';
import { reply } from '../helpers/scripted-server.ts';

// Tests with services whose errors are not the Error of the specification, but those of frameworks such as Express.

const KEY = 'pets_secret_key';

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
  ['an empty object', {}, 'HTTP status 400'],
  ['an empty body', '', 'HTTP status 400'],
  ['a page', '<title>no</title><p>why</p>', 'HTTP status 400: why'],
  ['a page with only a title', '<title>why</title>', 'HTTP status 400'],
  ['a key at the end of what is shown', `${'x'.repeat(190)} ${KEY}`, `${'x'.repeat(190)} …_key`],
  ['a control sequence', { message: 'a\x1b[2Jb' }, 'a\x1b[2Jb'],
])('the reason in a body of status 400: %s', async (_name, body, reason) => {
  const { stderr, server } = await runAgainst(
    (_, response) => reply(response, 400, body),
    ['list', '--json'],
  );
  const { message } = JSON.parse(stderr).error;
  expect(message).toBe(`${new URL(server.origin).host}: ${reason}`);
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
