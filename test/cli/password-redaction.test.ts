import { describe, expect, test } from 'vitest';
import { createPasswordRemover } from '../../src/cli/output/redact.ts';
import { runInTerminal, startInTerminal } from '../helpers/context.ts';
import { expectNoLeaks, PASSWORD_CANARY, snapshot } from '../helpers/failure.ts';

// A user may put the password of a database into the command line or into PETS_DATA. It is used, but never printed.

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
  ['an unencoded parameter', `postgres://pets@${CLOSED}/pets?password=a&b=${PASSWORD_CANARY}`],
  ['a URL in quotes', `"${withPassword(PASSWORD_CANARY)}"`],
  ['a URL without its colon', withPassword(PASSWORD_CANARY).replace(':', '')],
  ['another database', `mysql://pets:${PASSWORD_CANARY}@${CLOSED}/pets`],
];

/** Command lines, in which each of `urls` replaces `URL`. Those in `opening` use it as the place of a store. */
const opening = [
  'serve --port 0 --data URL',
  'serve --port 0 --data URL -- node --version',
  'keys add till --plan free --data URL',
  'keys list --data URL',
  'keys revoke till --data URL',
  'store check URL',
  'store copy URL copy',
  'store migrate URL',
  'store migrate URL --dry-run',
];
const wrong = [
  'URL',
  'list URL',
  'keys list --dat=URL',
  'serve --port URL',
  'serve --faults URL',
  'serve --ephemeral --port 0 -- URL',
  'import URL',
  'add x --category URL',
  'login --base-url URL',
];

async function expectNoPassword(argv: readonly string[], env: Record<string, string> = {}) {
  const { ended, stdout, stderr, home } = await startInTerminal(argv, {
    env: { PATH: process.env['PATH'] ?? '', ...env },
  });
  const code = await ended;
  const output = { stdout: stdout(), stderr: stderr() };
  if (!argv.includes('--debug')) expectNoLeaks(output);
  expect(JSON.stringify([output, await snapshot(home)]), argv.join(' ')).not.toContain(PASSWORD_CANARY);
  return { code, ...output };
}

const wordsOf = (line: string, url: string) => line.split(' ').map((word) => word.replace('URL', () => url));

describe.each(urls)('%s is never printed', (_form, url) => {
  test.each([[[]], [['--debug']], [['--json', '--debug']]])('in the command line, with %j', async (flags) => {
    for (const line of opening) {
      const { code, stderr } = await expectNoPassword([...flags, ...wordsOf(line, url)]);
      expect(code, stderr).toBe(1);
      expect(stderr).toMatch(/store_error|^error: /m);
    }
    for (const line of wrong)
      expect((await expectNoPassword([...flags, ...wordsOf(line, url)])).code).not.toBe(0);
  });

  test('from PETS_DATA', async () => {
    for (const line of ['serve --port 0', 'keys list', 'store check']) {
      const { code } = await expectNoPassword(['--debug', ...line.split(' ')], { PETS_DATA: url });
      expect(code).toBe(1);
    }
  });
});

test('an argument that is not UTF-8', async () => {
  await expectNoPassword(['store', 'check', withPassword(`\ufffd${PASSWORD_CANARY}`)]);
});

test('a text that is cut within the password', async () => {
  for (let length = 1_900; length < 2_020; length += 5)
    await expectNoPassword([withPassword(PASSWORD_CANARY.repeat(3), 'u'.repeat(length))]);
});

test('is removed from URLs only, because it can be an ordinary word', async () => {
  const { stderr } = await runInTerminal(['lst', 'postgres://pets:list@db/pets']);
  expect(stderr).toContain('did you mean pets list?');
  const remove = createPasswordRemover(['postgres://pets:pets@db/pets']);
  expect(remove('cannot reach postgres://pets:pets@db/pets')).toBe('cannot reach postgres://pets@db/pets');
});

test.each([
  ['postgres://pets@db/pets', false],
  ['postgres://[::1]:5432/pets', false],
  ['postgres://pets:@db/pets', false],
  ['postgres://pets:x@db/pets', true],
  ['--data=postgres://pets:x@db/pets', true],
  ['postgres://db/pets?sslpassword=x', true],
  ['postgres://db/pets?options=password', false],
  ['postgres//pets:x@db/pets', true],
  ['./postgres/a:b@c', false],
  ['C:\\store:x@y', false],
  ['https://pets:x@shop.example/v1', true],
])('%s contains a password: %s', (word, expected) => {
  expect(createPasswordRemover([word])(word) !== word).toBe(expected);
});
