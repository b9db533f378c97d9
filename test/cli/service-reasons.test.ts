import { expect, test } from 'vitest';
import { runAgainst } from '../helpers/in-terminal.ts';
import { reply } from '../helpers/scripted-server.ts';

// Tests with services whose errors are not the Error of the specification, but those of frameworks such as Express.
// test/client/error-responses.test.ts has more of them.

const KEY = 'pets_secret_key';

test.each<[string, unknown, string]>([
  ['detail', { title: 'no', detail: 'why' }, 'why'],
  ['title', { type: 'about:blank', title: 'why', status: 400 }, 'why'],
  ['several messages', { message: ['why', 'not'], error: 'Bad Request' }, 'why; not'],
  ['error', { error: 'why' }, 'why'],
  ['a message in error', { error: { code: 7, message: 'why' } }, 'why'],
  ['a JSON string', '"why"', 'why'],
  ['the first line of a text', ' why\nnot ', 'why'],
  ['a text with the key', `why ${KEY}`, 'why …_key'],
  ['a page', '<title>no</title><p>why</p>', 'HTTP status 400'],
  ['a control sequence', { message: 'a\x1b[2Jb' }, 'a\x1b[2Jb'],
])('the reason in a body of status 400: %s', async (_name, body, reason) => {
  const { stderr, server } = await runAgainst(
    (_, response) => reply(response, 400, body),
    ['list', '--json'],
  );
  const { message } = JSON.parse(stderr).error;
  expect(message).toBe(`${new URL(server.origin).host}: ${reason}`);
});

test('--debug shows both bodies without the key', async () => {
  const body = `the key ${KEY}`;
  const { stderr } = await runAgainst(
    (_, response) => reply(response, 400, body),
    ['add', 'Rex', '--category', '3', '--debug', '--json'],
  );
  const { debug } = JSON.parse(stderr.split('\n')[0] ?? '');
  expect(debug).toMatchObject({ requestBody: '{"name":"Rex","categoryId":3}', body: 'the key …_key' });
});
