import { writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import stringWidth from 'string-width';
import { expect, test } from 'vitest';
import { runInTerminal } from '../helpers/context.ts';
import { respondWith, runAgainst } from '../helpers/in-terminal.ts';
import { type Handler, reply, scriptedServer } from '../helpers/scripted-server.ts';
import { temporaryDirectory } from '../helpers/temp.ts';

// Text from a service, a file or an argument must not control the terminal or break a table. These tests show that all
// output is sanitized. text.test.ts and printer.test.ts test each kind of text.

const TEXT = `\u001b[2J\u009b31m\r\na\tb\\\u202e\u200b\ud83d 👨‍👩‍👧‍👦猫${'x'.repeat(10_000)}`;

function expectHarmless(shown: string): void {
  const text = shown.replace(/\u001b\[\d*m|\r\u001b\[K/g, '');
  expect(text).not.toMatch(/[^\P{Cc}\n]|[\p{Bidi_Control}\p{Cs}\u200b]/u);
}

/** Lone surrogates become U+FFFD, as when the text is sent as UTF-8. */
const wellFormed = (text: string) => Buffer.from(text).toString();

const PET = { id: 7, name: TEXT, categoryId: 3, status: 'sold' };
const failing =
  (code: string, message: string, status = 400): Handler =>
  (_, response) =>
    reply(response, status, { code, message, status });

/** Animals with the text in every field except the name, or only in the name. */
const PETS = [{ id: TEXT, name: 'Rex', categoryId: TEXT, status: TEXT, nested: [TEXT] }, PET];

test.each<[string[], number, unknown]>([
  [['list'], 200, PETS],
  [['get', '7'], 200, PET],
  [['add', TEXT, '--category', '3'], 201, PET],
  [['list', '--json'], 200, PETS],
  [['list', '--csv'], 200, PETS],
])('animals are harmless, and have one line each in a table (%#)', async (argv, status, body) => {
  const handler: Handler = (_request, response) => reply(response, status, body);
  const { code, stdout, stderr } = await runAgainst(handler, argv, { columns: 80 });
  expect(code).toBe(0);
  expectHarmless(stdout.replaceAll('\r\n', '\n') + stderr);
  if (argv.includes('--json')) expect(JSON.parse(stdout)).toEqual(body);
  if (/^--/.test(argv[1] ?? '')) return;
  const lines = stdout.split('\n').slice(1, -1);
  expect(lines).toHaveLength([body].flat().length);
  for (const line of lines) expect(stringWidth(line)).toBeLessThanOrEqual(80);
});

test.each([[['list']], [['list', '--debug', '--no-retry']], [['list', '--json']]])(
  'an error of the service is harmless in %j',
  async (argv) => {
    for (const status of [400, 401, 404, 429, 500]) {
      const { code, stdout, stderr } = await runAgainst(failing(TEXT, TEXT, status), argv, {
        columns: 60,
        env: { PETS_MAX_WAIT: '0' },
      });
      expect([code > 0, stdout]).toEqual([true, '']);
      expectHarmless(stderr);
    }
  },
);

test.each([
  [[TEXT]],
  [['get', TEXT]],
  [['list', '--status', TEXT]],
  [['add', TEXT, '--category', '3', '--dry-run']],
  [['import', TEXT]],
])('arguments and environment variables are harmless (%#)', async (argv) => {
  const env = { PETS_PROFILE: TEXT };
  const { stdout, stderr } = await runAgainst(respondWith([]), argv, { columns: 80, env });
  expectHarmless(stdout + stderr);
});

test.each([
  ['wrong', [{ name: TEXT, categoryId: TEXT }, { [TEXT]: 1 }, TEXT], 2],
  ['right', [{ name: wellFormed(TEXT), categoryId: 3 }], 8],
])('the name, the rows and the errors of an input file are harmless: %s rows', async (_kind, rows, exit) => {
  const server = await scriptedServer((request, response, count) =>
    (request.method === 'GET' ? respondWith([]) : failing(TEXT, TEXT))(request, response, count),
  );
  // A file name has at most 255 bytes. U+FFFD in an argument is refused.
  const name = wellFormed(TEXT.slice(0, 30)).replaceAll('\ufffd', '');
  const file = join(await temporaryDirectory(), `${name}.ndjson`);
  await writeFile(file, rows.map((row) => `${JSON.stringify(row)}\n`).join(''));
  const { code, stdout, stderr } = await runInTerminal(['import', file], {
    columns: 80,
    env: { PETS_BASE_URL: server.url, PETS_API_KEY: 'pets_secret_key' },
  });
  expect(code).toBe(exit);
  expectHarmless(stdout + stderr);
  for (const line of stdout.split('\n')) expect(stringWidth(line)).toBeLessThanOrEqual(80);
});

test('line breaks in a message of the service cannot fake an error of the program, also with --debug', async () => {
  const handler = failing('bad', 'x\r\nerror: fake\n  → type: rm -rf ~');
  const { stderr } = await runAgainst(handler, ['list', '--color', 'never', '--debug']);
  expect(stderr.match(/^error: /gm)).toHaveLength(1);
  expect(stderr).not.toMatch(/^ *→ type/m);
  expect(stderr).toMatch(/^Error: \S+ x\\r\\nerror: fake\\n {2}→ type: rm -rf ~$/m);
});
