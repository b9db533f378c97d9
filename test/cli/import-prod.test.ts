import { expect, test } from 'vitest';
import type { TerminalOptions } from '../helpers/context.ts';
import { importing, type Options } from '../helpers/import-commands.ts';
import { KEY } from '../helpers/service.ts';

/** Adds a file with three rows to profile prod, at a terminal at which `typed` is typed. */
async function shop(options: Options = {}) {
  const bulk = await importing(options);
  const profile = JSON.stringify({ baseUrl: bulk.service.url, key: KEY });
  const files = { 'prod.json': profile, 'staging.json': profile };
  const add = (args: string, more: TerminalOptions = {}) =>
    bulk.add(args.split(' '), { columns: 200, files, ...more });
  return { ...bulk, add };
}

const PROD = '--profile prod';

test('import to profile prod at a terminal asks, with the number of rows and the host, before the first row', async () => {
  const { service, add } = await shop();
  const { code, stderr } = await add(PROD, { typed: ['y'] });
  expect([code, service.names()]).toEqual([0, ['Rex', 'Bella', 'Lola']]);
  expect(stderr).toContain(`Add 3 rows at ${new URL(service.url).host} (profile prod)? [no/yes]`);
  expect(stderr).not.toContain('note: adding 3 rows at');
  expect((await add(PROD, { typed: [] })).stderr).toContain('nothing to do');
  const all = await add(`${PROD} --add-again`, { typed: ['n'] });
  expect(all.stderr).toContain('Add 3 rows, 3 of them again, at');
});

test.each([
  ['n', 1, 'error: not confirmed; no row was sent'],
  ['', 1, 'error: not confirmed; no row was sent'],
  ['\x03', 130, 'interrupted'],
])('the answer %j sends nothing, exits with %i, and can be repeated', async (answer, code, error) => {
  const { service, add, ledger } = await shop();
  const result = await add(PROD, { typed: [answer] });
  expect([result.code, result.stdout, service.requestCount()]).toEqual([code, '', 0]);
  expect(result.stderr).toContain(error);
  expect((await ledger()).trimEnd().split('\n')).toHaveLength(1);
  const second = await add(PROD, { typed: ['yes'] });
  expect([second.code, service.names().length]).toEqual([0, 3]);
  expect(second.stderr).not.toContain('continuing');
});

test.each([
  ['--profile prod --yes', 3],
  ['--profile prod --json', 3],
  ['--profile staging', 3],
  ['--profile prod --dry-run', 0],
])('import %s does not ask', async (args, sent) => {
  const { service, add } = await shop();
  const { code, stderr } = await add(args, { typed: ['n'] });
  expect([code, service.names().length]).toEqual([0, sent]);
  expect(stderr).not.toContain('[no/yes]');
});
