import { expect, test } from 'vitest';
import { runInTerminal } from '../helpers/context.ts';
import { expectNoLeaks, PASSWORD_CANARY } from '../helpers/failure.ts';

// A password of a database is refused in the command line, which other users can see, and never printed.

/** Nothing listens on this port. */
const CLOSED = '127.0.0.1:9';

const withPassword = (password: string, user = 'pets') => `postgres://${user}:${password}@${CLOSED}/pets`;

/** URLs by the form of their password, which always contains the canary. */
const urls: [string, string][] = [
  ['a plain password', withPassword(PASSWORD_CANARY)],
  ['a percent-encoded password', withPassword(encodeURIComponent(`a/b@"c' ${PASSWORD_CANARY}:%\\`))],
  ['a password with unencoded characters', withPassword(`a/b@"c' ${PASSWORD_CANARY}:%\\\x1b\u202e`)],
  ['a password without a user', withPassword(PASSWORD_CANARY, '')],
  ['a password as a parameter', `postgresql://pets@${CLOSED}/pets?password=${PASSWORD_CANARY}`],
  ['a URL in quotes', `"${withPassword(PASSWORD_CANARY)}"`],
  ['a URL without its colon', withPassword(PASSWORD_CANARY).replace(':', '')],
  ['a password that is not UTF-8', withPassword(`\ufffd${PASSWORD_CANARY}`)],
];

test.each(urls)('%s in the command line is refused', async (_form, url) => {
  for (const words of [
    ['serve', '--port', '0', '--data', url],
    ['keys', 'list', `--data=${url}`],
    ['store', 'check', url, '--debug'],
    ['login', '--base-url', url, '--json'],
    [url],
  ]) {
    const { code, stdout, stderr } = await runInTerminal(words);
    expect([code, stdout, stderr]).toEqual([2, '', expect.stringContaining('contains a password')]);
    expect(stderr).toContain('PGPASSWORD; for a service, leave out user and password: pets login asks for');
    expect(stderr).not.toContain(PASSWORD_CANARY);
  }
});

test.each(urls)('%s in PETS_DATA is never printed', async (_form, url) => {
  for (const line of ['serve --port 0', 'keys list', 'store check --json', 'store check --debug']) {
    const { code, stdout, stderr } = await runInTerminal(line.split(' '), { env: { PETS_DATA: url } });
    expect([code, stdout + stderr]).toEqual([1, expect.not.stringContaining(PASSWORD_CANARY)]);
    if (!line.includes('--debug')) expectNoLeaks({ stdout, stderr });
  }
});

test.each([
  ['store', 'check', 'postgres://pets@127.0.0.1:9/pets'],
  ['store', 'check', 'postgres://pets:@[::1]:9/pets'],
  ['store', 'check', './postgres/a:b@c'],
  ['serve', '--ephemeral', '--port', '0', '--', 'node', '-e', '0', withPassword('x')],
])('%s is not refused', async (...words) => {
  const { stderr } = await runInTerminal(words, { env: { PATH: process.env['PATH'] ?? '' } });
  expect(stderr).not.toContain('contains a password');
});
