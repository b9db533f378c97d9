import { expect, test } from 'vitest';
import type { TerminalOptions } from '../../helpers/context.ts';
import { runAgainst } from '../../helpers/in-terminal.ts';
import { manyAnimals, type ShopOptions, shopOf } from '../../helpers/shop.ts';

// What a command says about the requests that reading all pages costs, and when it asks.

const MINUTE = { name: 'minute', limit: 60, seconds: 30 };
const DAY = { name: 'day', limit: 1_000, seconds: 36_000 };
const FREE: ShopOptions = { windows: [MINUTE, DAY] };
const TERMINAL: TerminalOptions = { columns: 500 };

const run = (
  line: string,
  options: TerminalOptions,
  { animals = 250, ...shop }: ShopOptions & { animals?: number } = FREE,
) =>
  runAgainst(shopOf(manyAnimals(animals), shop), [...line.split(' '), '--color', 'never'], options).then(
    ({ stderr, ...rest }) => ({ ...rest, stderr, notices: stderr.match(/^.*(?:note|error): .*/gm) ?? [] }),
  );

const ANNOUNCED =
  'note: each further 1000 animals cost 10 requests; requests left: 59 of 60 until 12:00:30 UTC, 999 of 1000 until 22:00:00 UTC';

/** Each case has the command and the notices on a terminal and in a script. */
test.each<[string, terminal: string[], script: string[]]>([
  [
    'find bella',
    [ANNOUNCED, 'note: 50 animals, name "bella", read 3 pages (3 requests)'],
    [ANNOUNCED, 'note: 50 animals shown, name "bella", read 3 pages (3 requests)'],
  ],
  [
    'list --sort name --limit 2 --category 3 --status sold',
    [ANNOUNCED, 'note: 2 of 41 animals, status sold, category 3, read 2 pages (2 requests)'],
    [ANNOUNCED, 'note: 2 of 41 animals shown, status sold, category 3, read 2 pages (2 requests)'],
  ],
  [
    'count',
    [ANNOUNCED, 'note: 250 animals, read 3 pages (3 requests)'],
    [ANNOUNCED, 'note: 250 animals counted, read 3 pages (3 requests)'],
  ],
  ['list --all', [ANNOUNCED, 'note: 250 animals, read 3 pages (3 requests)'], []],
  [
    'find bella --limit 3',
    ['note: 3 animals, name "bella". Stopped at --limit; there may be more'],
    ['note: 3 animals shown. Stopped at --limit; there may be more'],
  ],
  [
    'find nothing',
    [
      ANNOUNCED,
      'note: no animals at HOST with name "nothing", read 3 pages (3 requests). See all: pets list --all',
    ],
    [ANNOUNCED, 'note: 0 animals shown, name "nothing", read 3 pages (3 requests)'],
  ],
])(
  'pets %s announces what it costs, and says afterwards what it has cost',
  async (line, terminal, script) => {
    const shown = await run(line, TERMINAL);
    const host = `${new URL(shown.server.url).host} (key from PETS_API_KEY)`;
    expect([shown.code, ...shown.notices.map((each) => each.replace(/.*(?=note:)/, ''))]).toEqual([
      0,
      ...terminal.map((each) => each.replace('HOST', host)),
    ]);
    const piped = await run(line, {});
    expect([piped.code, ...piped.notices]).toEqual([0, ...script]);
  },
);

test('a single page costs nothing worth mentioning', async () => {
  const one = await run('find bella', {}, { ...FREE, animals: 99 });
  expect([one.code, one.stderr]).toEqual([0, '']);
});

test('the progress shows the animals that were read and found', async () => {
  const { stderr } = await run('find zoe', { columns: 80 });
  expect(stderr).toContain('\x1b[Kread 100 animals on 1 page, found 20');
  expect(stderr).toContain('\x1b[Kread 200 animals on 2 pages, found 40');
  expect(stderr).not.toContain('3 pages,');
  expect((await run('list --all', { columns: 80 })).stderr).toContain('\x1b[Kread 200 animals on 2 pages\r');
  expect((await run('find zoe', {})).stderr).not.toContain('\x1b');
});

test('a service without rate-limit headers costs as many requests, and is read without a question', async () => {
  const { code, notices } = await run('count', { ...TERMINAL, typed: [] }, { animals: 250 });
  expect([code, notices.length]).toEqual([0, 2]);
  expect(notices[0]).toMatch(/each further 1000 animals cost 10 requests$/);
});

test('a service without links may have more animals than were read', async () => {
  const shop = { animals: 250, hasLinks: false };
  const rest = 'There may be more animals; the service sends no link to a next page';
  expect((await run('find bella', {}, shop)).notices).toEqual([`note: 20 animals shown. ${rest}`]);
  expect((await run('find nothing', TERMINAL, shop)).notices).toEqual([
    `note: 0 animals, name "nothing". ${rest}`,
  ]);
});

test('the cost is that of the pages that the service sends, even if they are smaller than requested', async () => {
  const small = shopOf(manyAnimals(500), { windows: [{ ...DAY, limit: 20 }] });
  const { stderr } = await runAgainst(
    (request, response, count) => {
      request.url = request.url?.replace('limit=100', 'limit=20');
      small(request, response, count);
    },
    ['find', 'bella'],
  );
  expect(stderr).toContain('each further 1000 animals cost 50 requests');
  expect(stderr).toContain('read 10 pages (200 animals), found 40. 10 of the 20 requests until');
  expect(stderr).toContain('the other 10 are enough for 200 animals\n');
});

const SPENT =
  'read 30 pages (3000 animals), found 600. 30 of the 60 requests until 12:00:30 UTC are spent; the limit allows 6000 animals per minute';
const LARGE = { ...FREE, animals: 5_000 };

test('without a terminal, a notice replaces the question, once per window', async () => {
  for (const line of ['find bella', 'list --all --name bella', 'find bella --yes']) {
    const { code, stdout, notices, server } = await run(line, {}, LARGE);
    expect([code, server.requests.length, stdout.split('\n').length]).toEqual([0, 50, 1_001]);
    expect(notices.filter((each) => each.includes('are spent'))).toEqual([`note: ${SPENT}`]);
  }
});

test.each<[string, TerminalOptions]>([
  ['--no-input', { ...TERMINAL, typed: [] }],
  ['--yes', { ...TERMINAL, typed: [] }],
  ['--json', { ...TERMINAL, typed: [] }],
])('with %s, no question is asked', async (flag, options) => {
  const { code, stderr, server } = await run(`find bella ${flag}`, options, LARGE);
  expect([code, server.requests.length]).toEqual([0, 50]);
  expect(stderr).toContain(SPENT);
  expect(stderr).not.toContain('[y/N]');
});

test('on a terminal, the answer no ends the command before it spends more than half, and nothing is printed', async () => {
  for (const answer of ['', 'n']) {
    const { code, stdout, stderr, server } = await run('find bella', { ...TERMINAL, typed: [answer] }, LARGE);
    expect([code, stdout, server.requests.length]).toEqual([1, '', 30]);
    expect(stderr).toContain(`${SPENT}. Continue? [y/N]`);
    expect(stderr).toContain('error: stopped after 30 pages; the list is not complete\n');
    expect(stderr).toContain('add --yes');
  }
});

test('after the answer yes, the list is complete, and the same window is not asked about again', async () => {
  const { code, stderr, stdout, server } = await run('find bella', { ...TERMINAL, typed: ['y'] }, LARGE);
  expect([code, server.requests.length]).toEqual([0, 50]);
  expect(stdout.split('\n')).toHaveLength(1_002);
  expect(stderr.match(/\[y\/N\]/g)).toHaveLength(1);
  expect(stderr).toContain('note: 1000 animals, name "bella", read 50 pages (50 requests)');
});

test('Ctrl-C at the question interrupts the command', async () => {
  const { code, stdout } = await run('find bella', { ...TERMINAL, typed: ['\x03'] }, LARGE);
  expect([code, stdout]).toEqual([130, '']);
});

test('the question does not need the end of the window', async () => {
  const shop = shopOf(manyAnimals(5_000));
  for (const reset of [undefined, '0']) {
    const { code, stderr, server } = await runAgainst(
      (request, response, count) => {
        response.setHeader('X-RateLimit-Limit', '60').setHeader('X-RateLimit-Remaining', String(60 - count));
        if (reset !== undefined) response.setHeader('X-RateLimit-Reset', reset);
        shop(request, response, count);
      },
      ['find', 'bella'],
      { ...TERMINAL, typed: ['n'] },
    );
    expect([code, server.requests.length]).toEqual([1, 30]);
    expect(stderr).toContain('requests left: 59 of 60\n');
    expect(stderr).toContain(
      '30 of the 60 requests that were left are spent; the other 30 are enough for 3000 animals. Continue?',
    );
  }
});

test('each window has its own question', async () => {
  const windows = [MINUTE, { ...DAY, limit: 80 }];
  const { code, stderr } = await run(
    'find bella',
    { ...TERMINAL, typed: ['y', 'y'] },
    { windows, animals: 5_000 },
  );
  expect(code).toBe(0);
  expect(stderr.match(/\[y\/N\]/g)).toHaveLength(2);
  expect(stderr).toContain(
    'read 40 pages (4000 animals), found 800. 40 of the 80 requests until 22:00:00 UTC are spent; the other 40 are enough for 4000 animals. Continue?',
  );
});

test('what others have spent counts: at most half of what is left is spent without a question', async () => {
  const shop = { windows: [DAY], spent: 980, animals: 5_000 };
  const { code, stderr, server } = await run('find bella', { ...TERMINAL, typed: ['n'] }, shop);
  expect([code, server.requests.length]).toEqual([1, 10]);
  expect(stderr).toContain('10 of the 20 requests until 22:00:00 UTC are spent');
});
