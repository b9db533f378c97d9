import { expect, test } from 'vitest';
import { runInTerminal, type TerminalOptions } from '../helpers/context.ts';
import { answering, runAgainst } from '../helpers/in-terminal.ts';
import { type Handler, scriptedServer } from '../helpers/scripted-server.ts';

// What stands below a table: how many, of what, and whether there are more.

const KEY = 'pets_secret_k2mX';
const animals = (count: number) =>
  Array.from({ length: count }, (_, i) => ({ id: i + 1, name: 'Rex', categoryId: 3, status: 'sold' }));
const NEXT = { Link: '</v1/pets?cursor=a>; rel="next"' };
/** A first page that leads on, and the last one. */
const pages: Handler = (request, response) =>
  answering(animals(20), request.url?.includes('cursor') ? {} : NEXT)(request, response, 1);

const list = (handler: Handler, flags: readonly string[], options: TerminalOptions = { columns: 200 }) =>
  runAgainst(handler, ['list', '--color', 'never', ...flags], options);

test.each<[string, Handler, string[], string]>([
  ['the whole list', answering(animals(3)), [], '3 animals'],
  ['one animal', answering(animals(1)), [], '1 animal'],
  ['what was filtered', answering(animals(3)), ['--status', 'sold'], '3 animals, status sold'],
  ['a page', pages, [], '20 animals; there are more: pets list --all'],
  [
    'a page of what was filtered',
    pages,
    ['--limit', '20', '--status', 'sold'],
    '20 animals, status sold; there are more: pets list --status sold --all',
  ],
  ['every page', pages, ['--all'], '40 animals'],
  [
    'a page of a service without links',
    answering(animals(20)),
    ['--status', 'sold'],
    '20 animals, status sold; there may be more, the service sends no link to a next page: pets list --status sold --limit 100',
  ],
  [
    'the largest page of such a service',
    answering(animals(100)),
    ['--limit', '100'],
    '100 animals; there may be more, the service sends no link to a next page',
  ],
  [
    'all that such a service sends',
    answering(animals(100)),
    ['--all'],
    '100 animals; the service does not say whether there are more',
  ],
  ['an empty page that leads on', answering([], NEXT), [], '0 animals; there are more: pets list --all'],
])('%s is counted on a terminal', async (_, handler, flags, footer) => {
  const { code, stderr } = await list(handler, flags);
  expect([code, stderr]).toEqual([0, `note: ${footer}\n`]);
});

test('the command that it names goes to the same service, and gets the rest', async () => {
  const server = await scriptedServer(pages);
  const files = { 'staging.json': JSON.stringify({ baseUrl: server.url, key: KEY }) };
  const flags = ['--profile', 'staging', '--base-url', `${server.url}/`, '--color', 'never'];
  const options = { columns: 200, files };
  const { stderr } = await runInTerminal(['list', '--status', 'sold', '--limit', '20', ...flags], options);
  const [, command = ''] = /there are more: pets (.*)\n/.exec(stderr) ?? [];
  expect(command).toBe(`list --profile staging --base-url ${server.url}/ --status sold --all`);
  const rest = await runInTerminal([...command.split(' '), '--color', 'never'], options);
  expect([rest.code, rest.stderr]).toEqual([
    0,
    `note: 40 animals at ${new URL(server.url).host} (profile staging), status sold\n`,
  ]);
  expect(server.requests.at(-2)?.url).toContain('status=sold');
});

test.each<[string[], string]>([
  [[], 'there are no animals at HOST (key from PETS_API_KEY). Add one: pets add <name> --category <id>'],
  [
    ['--all'],
    'there are no animals at HOST (key from PETS_API_KEY). Add one: pets add <name> --category <id>',
  ],
  [['--status', 'sold'], 'no animal is sold at HOST (key from PETS_API_KEY). Look for any: pets list'],
])('an empty list %j says so, where, and what to try', async (flags, notice) => {
  const { code, stdout, stderr, server } = await list(answering([]), flags);
  expect([code, stdout, stderr]).toEqual([
    0,
    '',
    `note: ${notice.replace('HOST', new URL(server.url).host)}\n`,
  ]);
});

test.each<[string, Handler, string[], string]>([
  ['the whole list', answering(animals(3)), ['--status', 'sold'], ''],
  ['an empty list', answering([]), [], ''],
  ['a page', pages, [], 'note: 20 shown, there are more: --all\n'],
  [
    'a page of a service without links',
    answering(animals(20)),
    [],
    'note: 20 shown, there may be more: the service sends no link to a next page\n',
  ],
  [
    'all that such a service sends',
    answering(animals(100)),
    ['--all'],
    'note: 100 shown; the service does not say whether there are more\n',
  ],
])('off a terminal %s is told as scripts know it', async (_, handler, flags, told) => {
  const { code, stderr } = await list(handler, flags, {});
  expect([code, stderr]).toEqual([0, told]);
});

test.each(['--csv', '--ndjson'])('what is no table has no footer: %s on a terminal', async (format) => {
  const { stderr } = await list(answering(animals(3)), [format]);
  expect(stderr).toBe('');
  const more = await list(pages, [format]);
  expect(more.stderr).toBe('note: 20 shown, there are more: --all\n');
});
