import stringWidth from 'string-width';
import { describe, expect, test } from 'vitest';
import { runInTerminal, type TerminalOptions } from '../helpers/context.ts';
import { type Handler, reply, scriptedServer } from '../helpers/scripted-server.ts';

// What a person sees: the program in this process, on a terminal of a given width.

const PETS = [
  { id: 7, name: 'Rex', categoryId: 3, status: 'available' },
  {
    id: 1234,
    name: 'The Right Honourable Sir Barkington of Woofshire, third of his name 🐶',
    categoryId: 9007199254740,
    status: 'sold',
  },
  { id: 8, name: 'evil\u001b[31m\u202e\ttab', categoryId: 3, status: 'pending' },
];

async function against(handler: Handler, argv: readonly string[], options: TerminalOptions = {}) {
  const server = await scriptedServer(handler);
  const env = { PETS_BASE_URL: server.url, PETS_API_KEY: 'pets_secret_key', ...options.env };
  return { ...(await runInTerminal(argv, { ...options, env })), server };
}

const list: Handler = (_, response) => reply(response, 200, PETS);

describe('a table', () => {
  test.each([40, 60, 80, 200])('fits %i columns, and shows every row', async (columns) => {
    const { code, stdout } = await against(list, ['list', '--color', 'never'], { columns });
    const lines = stdout.trimEnd().split('\n');
    expect(code).toBe(0);
    expect(lines).toHaveLength(4);
    expect(lines[0]).toMatch(/^ +ID {2}NAME +CATEGORY {2}STATUS$/);
    for (const line of lines) expect(stringWidth(line)).toBeLessThanOrEqual(columns);
    expect(lines[1]).toMatch(/^ {3}7 {2}Rex +3 {2}available$/);
    expect(lines[2]).toMatch(/^1234 {2}The R.*9007199254740 {2}sold$/);
  });

  test('cuts a long name only where it must', async () => {
    const at = async (columns: number) =>
      (await against(list, ['list', '--color', 'never'], { columns })).stdout;
    expect(await at(200)).toContain('third of his name 🐶');
    expect(await at(80)).toContain('…');
  });

  test('shows what would steer the terminal, and does not do it', async () => {
    const { stdout } = await against(list, ['list', '--color', 'never'], { columns: 80 });
    expect(stdout).toContain('evil\\x1b[31m\\u202e\\ttab');
    expect(stdout).not.toMatch(/[\u001b\u202e\t]/);
  });

  test.each([
    [['--csv'], 'evil\\x1b[31m\\u202e\\ttab'],
    [['--ndjson'], 'evil\\u001b[31m\\u202e\\ttab'],
    [['--json'], 'evil\\u001b[31m\\u202e\\ttab'],
  ])('%j does not do it either', async (flags, shown) => {
    const { stdout } = await against(list, ['list', ...flags], { columns: 80 });
    expect(stdout).toContain(shown);
    expect(stdout).not.toMatch(/[\u001b\u202e\t]/);
    const piped = await against(list, ['list', ...flags]);
    expect(piped.stdout).toContain('\u202e');
  });

  test.each<[string[], Record<string, string>, boolean]>([
    [[], {}, true],
    [['--color', 'never'], { FORCE_COLOR: '1' }, false],
    [['--color', 'always'], { NO_COLOR: '1' }, true],
    [[], { NO_COLOR: '1' }, false],
    [[], { NO_COLOR: '1', FORCE_COLOR: '1' }, false],
    [[], { NO_COLOR: '', FORCE_COLOR: '0' }, false],
    [[], { TERM: 'dumb' }, false],
  ])('with %j and %j is coloured: %s', async (flags, env, isColoured) => {
    const { stdout } = await against(list, ['list', ...flags], { columns: 80, env });
    expect(stdout.includes('\u001b[32mavailable')).toBe(isColoured);
  });

  test('in a pipe has no colour, but with FORCE_COLOR', async () => {
    const plain = await against(
      (_, response) => reply(response, 400, { code: 'a', message: 'b', status: 400 }),
      ['list'],
    );
    expect(plain.stderr).toMatch(/^error: /);
    const forced = await against(() => {}, ['list', '--limit', '0'], { env: { FORCE_COLOR: '1' } });
    expect(forced.stderr).toContain('\u001b[31merror:');
  });

  test('is no table where the list is empty, but a word about it', async () => {
    const { code, stdout, stderr } = await against(
      (_, response) => reply(response, 200, []),
      ['list', '--status', 'sold'],
      {
        columns: 80,
      },
    );
    expect([code, stdout]).toEqual([0, '']);
    expect(stderr).toContain('no animal is sold');
  });
});

describe('orders', () => {
  test.each([
    [
      'an array of objects',
      [
        { id: 1, b: 'x' },
        { id: 2, c: [1.5] },
      ],
      ['ID  B  C', ' 1  x', ' 2     [1.5]'],
    ],
    ['an empty array', [], []],
    ['an object', { total: 2 }, ['{', '  "total": 2', '}']],
    ['a mixed array', [1, { a: 2 }], ['[', '  1,', '  {', '    "a": 2', '  }', ']']],
    ['a string', 'none', ['"none"']],
  ])('%s', async (_name, body, lines) => {
    const handler: Handler = (_, response) => reply(response, 200, JSON.stringify(body));
    const { stdout } = await against(handler, ['orders', '--color', 'never'], { columns: 80 });
    expect(stdout.split('\n').slice(0, -1)).toEqual(lines);
  });
});

describe('a wait', () => {
  const refusedOnce: Handler = (_, response, count) =>
    count === 1
      ? reply(
          response,
          429,
          { code: 'rate_limited', message: 'slow down', status: 429 },
          { 'Retry-After': '30' },
        )
      : reply(response, 200, []);

  test('is told with its reason, its length and its end', async () => {
    const { code, stderr } = await against(refusedOnce, ['list', '--color', 'never'], { columns: 80 });
    expect(code).toBe(0);
    expect(stderr).toContain('waiting 30 s (rate limit), until 12:00:30 UTC');
    const json = await against(refusedOnce, ['list', '--json']);
    expect(JSON.parse(json.stderr.split('\n')[0] ?? '')).toEqual({
      wait: { reason: 'rate limit', seconds: 30, until: '2026-11-20T12:00:30.000Z' },
    });
  });

  test('longer than PETS_MAX_WAIT ends at once with 5, and says until when', async () => {
    const { code, stderr, server } = await against(refusedOnce, ['list'], { env: { PETS_MAX_WAIT: '29' } });
    expect(code).toBe(5);
    expect(stderr).toContain('until 12:00:30 UTC (in 30 s)');
    expect(server.requests).toHaveLength(1);
  });

  test('is ended by Ctrl-C with 130, and nothing listens to signals any more', async () => {
    const { code, stdout, handlersLeft, server } = await against(refusedOnce, ['list', '--json'], {
      onSleep: (_, raise) => raise('SIGINT'),
    });
    expect([code, stdout, handlersLeft]).toEqual([130, '', 0]);
    expect(server.requests).toHaveLength(1);
  });
});

describe('get, where the service has removed the operation', () => {
  const gone: Handler = (request, response) => {
    const { pathname, searchParams } = new URL(request.url ?? '', 'http://service');
    if (pathname !== '/v1/pets') {
      return reply(response, 410, { code: 'operation_removed', message: 'gone', status: 410 });
    }
    const page = Number(searchParams.get('page') ?? 1);
    reply(response, 200, [{ id: page, name: `Animal ${page}`, categoryId: 1, status: 'sold' }], {
      Link: `</v1/pets?page=${page + 1}>; rel="next"`,
    });
  };

  test('looks through the list, and says what to use', async () => {
    const { code, stdout, stderr } = await against(gone, ['get', '3', '2']);
    expect([code, stdout]).toEqual([0, '3\tAnimal 3\t1\tsold\n2\tAnimal 2\t1\tsold\n']);
    expect(stderr).toContain('the first 3 pages were looked through. Use: pets list');
  });

  test('but through ten pages at most', async () => {
    const { code, server, stderr } = await against(gone, ['get', '11']);
    expect(code).toBe(3);
    expect(server.requests).toHaveLength(11);
    expect(stderr).toContain('what lies behind was not looked through: 11 may be there');
  });

  test('and no further than it must, where an id is asked for twice', async () => {
    const { code, server } = await against(gone, ['get', '1', '1']);
    expect([code, server.requests.length]).toEqual([0, 2]);
  });
});

test('--debug tells each attempt with its headers, and the key nowhere, though the service sends it back', async () => {
  const { stderr, stdout } = await against(
    (request, response, count) =>
      count === 1
        ? request.socket.destroy()
        : reply(
            response,
            500,
            { code: 'pets_secret_key', message: `no pets_secret_key`, status: 500 },
            { 'X-Echo': 'pets_secret_key' },
          ),
    ['list', '--debug', '--color', 'never'],
  );
  expect(stderr.match(/^GET http:\/\/127\.0\.0\.1:\d+\/v1\/pets$/gm)).toHaveLength(3);
  expect(stderr.match(/^ {2}> Authorization: Bearer …_key$/gm)).toHaveLength(3);
  expect(stderr).toMatch(/^failed: NetworkError: .* \(connected \d+ ms, whole \d+ ms\)$/m);
  expect(stderr.match(/^500 \(connected \d+ ms, first byte \d+ ms, whole \d+ ms\)$/gm)).toHaveLength(2);
  expect(stderr).toContain('  < x-echo: …_key');
  expect(stdout + stderr).not.toContain('pets_secret_key');
});

describe('a creation whose answer is lost: the outcome is unknown, and what to do about it', () => {
  const cut: Handler = (request) => request.socket.destroy();
  const down =
    (headers: Record<string, string>): Handler =>
    (_, response) =>
      reply(response, 503, { code: 'down', message: 'no', status: 503 }, headers);
  const add = async (handler: Handler) => {
    const { code, stderr, stdout, server } = await against(handler, [
      'add',
      'Rex',
      '--category',
      '1',
      '--json',
    ]);
    const { error } = JSON.parse(stderr.trim().split('\n').at(-1) ?? '');
    expect([code, stdout, error.code]).toEqual([6, '', 'outcome_unknown']);
    return {
      hint: error.hint as string,
      keys: server.requests.map(({ headers }) => headers['idempotency-key']),
    };
  };

  test.each([cut, down({})])(
    'where the service has not shown that it knows a repetition (%#)',
    async (handler) => {
      const { hint, keys } = await add(handler);
      expect(keys).toHaveLength(1);
      expect(hint).toMatch(/^look first: pets list --all\. Then add it again only where it is missing/);
    },
  );

  test('where it has, the same key adds no second one', async () => {
    const { hint, keys } = await add(down({ 'Idempotency-Supported': 'true' }));
    const [key] = /(?<=--idempotency-key )[^ :]+/.exec(hint) ?? [];
    expect(hint).toMatch(/^look first: pets list --all\. Then repeat the same command/);
    expect(keys).toEqual([`"${key}"`, `"${key}"`, `"${key}"`]);
  });
});

test('a rejected key from the environment is not mended by a login', async () => {
  const handler: Handler = (_, response) =>
    reply(response, 401, { code: 'unauthorized', message: 'no', status: 401 });
  const { code, stderr } = await against(handler, ['list']);
  expect(code).toBe(4);
  expect(stderr).toContain('set PETS_API_KEY to a valid key, or unset it');
});

test('a damaged settings file hinders nobody who names the profile', async () => {
  const { code, stderr } = await against(list, ['list', '--profile', 'prod'], {
    files: { 'settings.json': '{' },
  });
  expect(code).toBe(4);
  expect(stderr).toContain('no key is saved for profile prod');
});
