import { expect, test } from 'vitest';
import { runInTerminal, type TerminalOptions } from '../helpers/context.ts';
import { respondWith, runAgainst } from '../helpers/in-terminal.ts';
import { type Handler, scriptedServer } from '../helpers/scripted-server.ts';

// The notice below a list shows the count, the filter, and whether there are more animals.

const KEY = 'pets_secret_k2mX';
const animals = (count: number) =>
  Array.from({ length: count }, (_, i) => ({ id: i + 1, name: 'Rex', categoryId: 3, status: 'sold' }));
const NEXT = { Link: '</v1/pets?cursor=a>; rel="next"' };
/** Serves two pages of 20 animals. The first page has a link to the second. */
const pages: Handler = (request, response) =>
  respondWith(animals(20), request.url?.includes('cursor') ? {} : NEXT)(request, response, 1);

const list = (handler: Handler, flags: readonly string[], options: TerminalOptions = { columns: 200 }) =>
  runAgainst(handler, ['list', '--color', 'never', ...flags], options);

const NO_LINK = 'There may be more animals; the service sends no link to a next page';
/** What a terminal shows while the two pages are read. */
const READING = 'each further 1000 animals cost 50 requests\n\r\x1b[Kread 20 animals on 1 page\r\x1b[Knote: ';
const PAGE_IN_PIPE = '20 animals shown. For all animals, add --all';

/** Each case has the notice on a terminal and the notice in a pipe. */
test.each<[string, Handler, string[], onTerminal: string, inPipe: string]>([
  ['a complete list', respondWith(animals(3)), [], '3 animals', ''],
  ['one animal', respondWith(animals(1)), [], '1 animal', ''],
  ['a filtered list', respondWith(animals(3)), ['--status', 'sold'], '3 animals, status sold', ''],
  [
    'an empty page with a next page',
    respondWith([], NEXT),
    [],
    '0 animals. More available: pets list --all',
    '0 animals shown. For all animals, add --all',
  ],
  ['a page', pages, [], '20 animals. More available: pets list --all', PAGE_IN_PIPE],
  [
    'a page of a filtered list',
    pages,
    ['--limit', '20', '--status', 'sold'],
    '20 animals, status sold. More available: pets list --status sold --all',
    PAGE_IN_PIPE,
  ],
  ['all pages', pages, ['--all'], `${READING}40 animals, read 2 pages (2 requests)`, ''],
  [
    'a page of a service without links',
    respondWith(animals(20)),
    ['--status', 'sold'],
    `20 animals, status sold. ${NO_LINK}. For a larger page: pets list --status sold --limit 100`,
    `20 animals shown. ${NO_LINK}`,
  ],
  [
    'the largest page of such a service',
    respondWith(animals(100)),
    ['--limit', '100'],
    `100 animals. ${NO_LINK}`,
    `100 animals shown. ${NO_LINK}`,
  ],
  [
    'all pages of such a service',
    respondWith(animals(100)),
    ['--all'],
    `100 animals. ${NO_LINK}`,
    `100 animals shown. ${NO_LINK}`,
  ],
])('the notice below %s', async (_, handler, flags, onTerminal, inPipe) => {
  const shown = await list(handler, flags);
  expect([shown.code, shown.stderr]).toEqual([0, `note: ${onTerminal}\n`]);
  const piped = await list(handler, flags, {});
  expect([piped.code, piped.stderr]).toEqual([0, inPipe && `note: ${inPipe}\n`]);
});

test('the suggested command uses the same service and lists the rest', async () => {
  const server = await scriptedServer(pages);
  const files = { 'staging.json': JSON.stringify({ baseUrl: server.url, key: KEY }) };
  const flags = ['--profile', 'staging', '--base-url', `${server.url}/`, '--color', 'never'];
  const options = { columns: 200, files };
  const { stderr } = await runInTerminal(['list', '--status', 'sold', '--limit', '20', ...flags], options);
  const [, command = ''] = /More available: pets (.*)\n/.exec(stderr) ?? [];
  expect(command).toBe(`list --profile staging --base-url ${server.url}/ --status sold --all`);
  const rest = await runInTerminal([...command.split(' '), '--color', 'never'], options);
  expect([rest.code, rest.stderr]).toEqual([
    0,
    `note: ${READING}40 animals at ${new URL(server.url).host} (profile staging), status sold, read 2 pages (2 requests)\n`,
  ]);
  expect(server.requests.at(-2)?.url).toContain('status=sold');
});

test('the notice names the profile if more than one has a key', async () => {
  const server = await scriptedServer(respondWith(animals(3)));
  const profile = (key?: string) => JSON.stringify({ baseUrl: server.url, key });
  const footer = async (files: Record<string, string>) =>
    (await runInTerminal(['list', '--color', 'never'], { columns: 200, files })).stderr;
  const named = `note: 3 animals at ${new URL(server.url).host} (profile prod)\n`;
  const [prod, staging] = [profile(KEY), profile(KEY)];
  expect(await footer({ 'prod.json': prod })).toBe('note: 3 animals\n');
  expect(await footer({ 'prod.json': prod, 'staging.json': staging })).toBe(named);
  expect(await footer({ 'prod.json': prod, 'local.json': staging, 'staging.json': 'torn' })).toBe(named);
  // A profile without a key, or with a damaged file, cannot be confused with the one that was used.
  const others = { 'staging.json': profile(), 'local.json': 'torn' };
  expect(await footer({ 'prod.json': prod, ...others })).toBe('note: 3 animals\n');
});

test('the notice below a CSV list names the profile on a terminal, but not in a script', async () => {
  const server = await scriptedServer(pages);
  const profile = JSON.stringify({ baseUrl: server.url, key: KEY });
  const files = { 'prod.json': profile, 'staging.json': profile };
  const footer = async (terminal: TerminalOptions) =>
    (await runInTerminal(['list', '--csv', '--color', 'never'], { ...terminal, files })).stderr;
  const { host } = new URL(server.url);
  expect(await footer({ columns: 200 })).toBe(
    `note: 20 animals shown at ${host} (profile prod). For all animals, add --all\n`,
  );
  expect(await footer({})).toBe(`note: ${PAGE_IN_PIPE}\n`);
});

test.each<[string[], string]>([
  [[], 'no animals at HOST (key from PETS_API_KEY). Add one: pets add <name> --category <id>'],
  [['--all'], 'no animals at HOST (key from PETS_API_KEY). Add one: pets add <name> --category <id>'],
  [['--status', 'sold'], 'no sold animals at HOST (key from PETS_API_KEY). See all: pets list --all'],
])('the notice for an empty list %j names the service and a command to try', async (flags, notice) => {
  const { code, stdout, stderr, server } = await list(respondWith([]), flags);
  expect([code, stdout, stderr]).toEqual([
    0,
    '',
    `note: ${notice.replace('HOST', new URL(server.url).host)}\n`,
  ]);
  expect((await list(respondWith([]), flags, {})).stderr).toBe('');
});

test.each(['--csv', '--ndjson'])(
  '%s on a terminal only reports whether there are more animals',
  async (format) => {
    const { stderr } = await list(respondWith(animals(3)), [format]);
    expect(stderr).toBe('');
    const more = await list(pages, [format]);
    expect(more.stderr).toBe(`note: ${PAGE_IN_PIPE}\n`);
  },
);
