import { writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { describe, expect, test } from 'vitest';
import { displayWidth } from '../../src/cli/output/width.ts';
import { startInTerminal } from '../helpers/context.ts';
import { respondWith, runAgainst } from '../helpers/in-terminal.ts';
import { type Handler, reply, scriptedServer } from '../helpers/scripted-server.ts';
import { temporaryDirectory } from '../helpers/temp.ts';

// Text from a service, a file or an argument must not control the terminal or break a table.

const texts: Record<string, string> = {
  'escape sequences': '\u001b[2J\u001b]0;title\u0007\u001b[31mred',
  'C1 controls and DEL': '\u009b31m\u0090q\u009c\u0085\u007f',
  'line breaks': 'a\r\nb\rc\nd\u2028e',
  tabs: 'a\t\tb',
  'bidi overrides': '\u202eevil\u202c\u2066\u2067\u2069\u200f',
  'a very long name': 'x'.repeat(10_000),
  'a very long name of emoji': '👨‍👩‍👧‍👦'.repeat(1_000),
  'emoji families': '👨‍👩‍👧‍👦🏴󠁧󠁢󠁥󠁮󠁧󠁿🇩🇪1️⃣',
  Hebrew: 'רקס הגדול 7',
  'invisible characters': '\u200b\u2060\ufeff\u3164\u00ad',
  'a stack of combining marks': `Z${'\u0301'.repeat(500)}`,
  'a combining mark without a letter': '\u0301\u0301',
  'text in Unicode tag characters': 'Rex\u{e0048}\u{e0069}\u{e007f}',
  'lone surrogates': '\ud83d \udc36',
};

/** Output may contain no control characters except line breaks, colours, and left-to-right marks around Hebrew. */
function expectHarmless(shown: string): void {
  const text = shown
    .replace(/\u001b\[\d*m|\r\u001b\[K/g, '')
    .replace(/\u200e(?=[^\n]*\u200e)|(?<=[^ ])\u200e/g, '');
  expect(text).not.toMatch(/[^\P{Cc}\n]|[\p{Bidi_Control}\p{Cs}\u2028\u2029\u200b\u2060\ufeff\u3164\u00ad]/u);
  expect(text).not.toMatch(/\p{M}{12}|(?<!\u{1f3f4}[\u{e0061}-\u{e007a}]{0,5})[\u{e0020}-\u{e007f}]/u);
}

/** Lone surrogates become U+FFFD, as when the text is sent as UTF-8. */
const wellFormed = (text: string) => Buffer.from(text).toString();

const pet = (name: string) => ({ id: 7, name, categoryId: 3, status: 'sold' });
const failing =
  (code: string, message: string, status = 400): Handler =>
  (_, response) =>
    reply(response, status, { code, message, status });

describe.each(Object.entries(texts))('%s', (_, text) => {
  const widths = [40, 80, 200];

  test.each(widths)('does not break a table of %i columns', async (columns) => {
    for (const argv of [['list'], ['get', '7'], ['add', 'Rex', '--category', '3']]) {
      const body = argv[0] === 'list' ? [pet('Rex'), pet(text), pet('猫')] : pet(text);
      const { code, stdout, stderr } = await runAgainst(
        (_request, response) => reply(response, argv[0] === 'add' ? 201 : 200, body),
        argv,
        { columns },
      );
      expect(code).toBe(0);
      expectHarmless(stdout + stderr);
      const [head = '', ...lines] = stdout.split('\n').slice(0, -1);
      expect(lines).toHaveLength(argv[0] === 'list' ? 3 : 1);
      for (const line of lines) {
        expect(displayWidth(line)).toBeLessThanOrEqual(columns);
        expect(displayWidth(line) - 'sold'.length).toBe(displayWidth(head) - 'STATUS'.length);
      }
    }
  });

  test.each([['--json'], ['--ndjson'], ['--csv']])('is harmless with %s on a terminal', async (flag) => {
    const { stdout } = await runAgainst(respondWith([pet(text)]), ['list', flag], { columns: 80 });
    expectHarmless(flag === '--csv' ? stdout.replaceAll('\r\n', '\n') : stdout);
    if (flag === '--csv') return;
    const [read] = [JSON.parse(stdout)].flat();
    expect(read).toEqual(pet(text));
  });

  test.each([[], ['--json'], ['--ndjson'], ['--csv']])(
    'is harmless in every field of an animal, %j',
    async (...flags) => {
      const body = [{ id: text, name: 'Rex', categoryId: text, status: text, nested: [text] }, pet('Bella')];
      const { code, stdout, stderr } = await runAgainst(respondWith(body), ['list', ...flags], {
        columns: 80,
      });
      expect(code).toBe(0);
      expectHarmless(stdout.replaceAll('\r\n', '\n') + stderr);
      if (flags.length > 0) return;
      for (const line of stdout.split('\n')) expect(displayWidth(line)).toBeLessThanOrEqual(80);
    },
  );

  test('is harmless in orders, as a field name and as a value', async () => {
    const body = [{ [text]: text, nested: { [text]: [text] } }, { id: 1 }];
    for (const shape of [body, body[0], [body], text]) {
      const { code, stdout, stderr } = await runAgainst(respondWith(JSON.stringify(shape)), ['orders'], {
        columns: 80,
      });
      expect(code).toBe(0);
      expectHarmless(stdout + stderr);
      if (shape !== body) continue;
      for (const line of stdout.split('\n')) expect(displayWidth(line)).toBeLessThanOrEqual(80);
    }
  });

  test('is harmless in an error of the service, also with --debug and --json', async () => {
    for (const argv of [['list'], ['list', '--debug', '--no-retry'], ['list', '--json']]) {
      for (const status of [400, 401, 404, 429, 500]) {
        const { code, stdout, stderr } = await runAgainst(failing(text, text, status), argv, {
          columns: 60,
          env: { PETS_MAX_WAIT: '0' },
        });
        expect([code > 0, stdout]).toEqual([true, '']);
        expectHarmless(stderr);
      }
    }
  });

  test('is harmless in arguments and environment variables', async () => {
    for (const argv of [
      [text],
      ['get', text],
      ['list', `--${text}`],
      ['list', '--status', text],
      ['list', '--base-url', text],
      ['add', text, '--category', '3', '--dry-run'],
      ['add', 'Rex', '--category', text],
      ['add', '--from', text],
      ['help', text],
    ]) {
      const { stdout, stderr } = await runAgainst(respondWith([]), argv, {
        columns: 80,
        env: { PETS_PROFILE: text },
      });
      expectHarmless(stdout + stderr);
    }
  });

  test('is harmless in the name, the rows and the errors of an input file', async () => {
    const directory = await temporaryDirectory();
    // A file name has at most 255 bytes and no lone surrogates.
    const name = `${wellFormed(text.slice(0, 20)).replaceAll('/', '')}.ndjson`;
    const files = {
      wrong: [{ name: text, categoryId: text }, { [text]: 1 }, text].map((row) => JSON.stringify(row)),
      right: [JSON.stringify({ name: text, categoryId: 3 }), JSON.stringify({ name: 'Rex', categoryId: 3 })],
    };
    for (const [kind, lines] of Object.entries(files)) {
      await writeFile(join(directory, name), `${lines.join('\n')}\n`);
      const server = await scriptedServer((request, ...rest) =>
        (request.method === 'GET' ? respondWith([]) : failing(text, text))(request, ...rest),
      );
      const { ended, stdout, stderr } = await startInTerminal(['add', '--from', join(directory, name)], {
        columns: 80,
        env: { PETS_BASE_URL: server.url, PETS_API_KEY: 'pets_secret_key' },
      });
      expect(await ended).toBe(kind === 'wrong' ? 2 : 8);
      expectHarmless(stdout() + stderr());
      for (const line of stdout().split('\n')) expect(displayWidth(line)).toBeLessThanOrEqual(80);
    }
  });
});

test('C1 controls in headers are harmless with --debug and in the deprecation notice', async () => {
  const { stderr } = await runAgainst(
    (_request, response) => {
      response.writeHead(200, {
        'Content-Type': 'application/json',
        'X-Echo': '\u009b31m\u0085',
        Deprecation: '@1795132800',
        Link: '<https://example.com/\u009b2J>; rel="deprecation"',
      });
      response.end(JSON.stringify(pet('Rex')));
    },
    ['get', '7', '--debug', '--color', 'never'],
    { columns: 80 },
  );
  expect(stderr).toContain('x-echo: \\x9b31m\\x85');
  expectHarmless(stderr);
});

describe('output to a pipe keeps every character', () => {
  test('CSV reports lone surrogates, which it cannot contain', async () => {
    const { stderr } = await runAgainst(respondWith([pet('\ud83d')]), ['list', '--csv']);
    expect(stderr).toContain('replaced by U+FFFD');
    expect((await runAgainst(respondWith([pet('🐶')]), ['list', '--csv'])).stderr).toBe('');
  });

  test.each(Object.entries(texts))('%s: CSV, JSON and NDJSON are not escaped', async (_, text) => {
    const run = async (...flags: string[]) =>
      (await runAgainst(respondWith([pet(text)]), ['list', ...flags])).stdout;
    expect(JSON.parse(await run('--json'))).toEqual([pet(text)]);
    expect(JSON.parse(await run('--ndjson'))).toEqual(pet(text));
    const [, cell] = /^id,name,categoryId,status\r\n7,(.*),3,sold\r\n$/s.exec(await run('--csv')) ?? [];
    expect(cell?.replace(/^"(.*)"$/s, '$1')).toBe(wellFormed(text));
  });

  test.each(Object.entries(texts))('%s: escapes in tab-separated values can be reversed', async (_, text) => {
    const { stdout } = await runAgainst(respondWith([pet(text)]), ['list']);
    const [id, name = '', ...rest] = stdout.slice(0, -1).split('\t');
    expect([id, ...rest]).toEqual(['7', '3', 'sold']);
    const named: Record<string, string> = { n: '\n', r: '\r', t: '\t', '\\': '\\' };
    const read = name.replace(/\\(?:x(..)|u(....)|(.))/g, (_match, x, u, other) =>
      other ? (named[other] ?? '') : String.fromCharCode(Number.parseInt(x ?? u, 16)),
    );
    expect(read).toBe(text);
  });
});
