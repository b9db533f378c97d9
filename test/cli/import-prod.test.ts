import { describe, expect, test } from 'vitest';
import type { TerminalOptions } from '../helpers/context.ts';
import { CSV, importing } from '../helpers/import-commands.ts';
import { KEY } from '../helpers/service.ts';

const QUESTION = 'Add 3 rows at';
const NOTE = 'note: adding 3 rows at';

/** Where the command runs, its arguments, and whether the profiles have the service's base URL. */
type Situation = TerminalOptions & { args?: string[]; savedUrl?: string };

/** Adds a file with three rows, at a terminal at which `typed` is typed. */
async function addAtTerminal({ args = ['--profile', 'prod'], savedUrl, ...options }: Situation = {}) {
  const bulk = await importing();
  const { url } = bulk.service;
  const profile = JSON.stringify({ baseUrl: savedUrl?.replace('PORT', new URL(url).port) ?? url, key: KEY });
  const add = (more: Situation = {}) =>
    bulk.add(more.args ?? args, {
      columns: 200,
      files: { 'prod.json': profile, 'staging.json': profile, 'local.json': profile },
      ...options,
      ...more,
    });
  return { ...bulk, again: add, result: await add() };
}

describe('import to profile prod at a terminal', () => {
  test('asks before the first row, with the number of rows, the host and the profile', async () => {
    const { service, result } = await addAtTerminal({ typed: ['y'] });
    expect(result.code).toBe(0);
    expect(result.stderr).toContain(
      `${QUESTION} ${new URL(service.url).host} (profile prod), which cannot be undone? [y/N]`,
    );
    expect(result.stderr).not.toContain(NOTE);
    expect(service.names()).toEqual(['Rex', 'Bella', 'Lola']);
  });

  test.each(['n', ''])(
    'sends nothing and exits with 1 after the answer %j, and can be repeated',
    async (answer) => {
      const { service, again, ledger, result } = await addAtTerminal({ typed: [answer] });
      expect([result.code, result.stdout, service.requestCount()]).toEqual([1, '', 0]);
      expect(result.stderr).toContain('error: not confirmed; no row was sent');
      expect((await ledger()).trimEnd().split('\n')).toHaveLength(1);
      const { code, stderr } = await again({ typed: ['yes'] });
      expect([code, service.names().length]).toEqual([0, 3]);
      expect(stderr).not.toContain('resuming');
    },
  );

  test('exits with 130 after Ctrl-C, and sends nothing', async () => {
    const { service, result } = await addAtTerminal({ typed: ['\x03'] });
    expect([result.code, service.requestCount()]).toEqual([130, 0]);
  });

  test('asks only about the rows that are left, and not if there are none', async () => {
    const { service, again } = await addAtTerminal({ typed: ['n'] });
    service.replies = { Lola: 422 };
    expect((await again({ args: ['--profile', 'prod', '--yes'] })).code).toBe(8);
    service.replies = {};
    const rerun = await again({ typed: ['y'] });
    expect([rerun.code, rerun.stderr]).toEqual([0, expect.stringContaining('Add 1 row at')]);
    expect((await again({ typed: [] })).stderr).toContain('nothing to do');
  });
});

describe('import - with a pipe and profile prod', () => {
  const addPiped = async (options: TerminalOptions) => {
    const bulk = await importing();
    const profile = JSON.stringify({ baseUrl: bulk.service.url, key: KEY });
    const args = ['--profile', 'prod', '--format', 'csv'];
    const files = { 'prod.json': profile };
    const result = await bulk.add(args, { columns: 200, files, stdin: CSV, ...options }, '-');
    return { ...result, names: bulk.service.names() };
  };

  test('asks at the terminal of the process', async () => {
    const yes = await addPiped({ typedAtTerminal: ['y'] });
    expect([yes.code, yes.names.length]).toEqual([0, 3]);
    expect(yes.stderr).toContain(QUESTION);
    const no = await addPiped({ typedAtTerminal: ['n'] });
    expect([no.code, no.names]).toEqual([1, []]);
  });

  test('does not ask without a terminal', async () => {
    const { code, stderr, names } = await addPiped({});
    expect([code, names.length]).toEqual([0, 3]);
    expect(stderr).not.toContain(QUESTION);
  });
});

const typed = ['n'];
test.each<[string, Situation]>([
  ['with --yes', { typed, args: ['--profile', 'prod', '--yes'] }],
  ['with --no-input', { typed, args: ['--profile', 'prod', '--no-input'] }],
  ['with --json', { typed, args: ['--profile', 'prod', '--json'] }],
  ['if standard input is not a terminal', {}],
  [
    'for PETS_API_KEY and another service than that of profile prod',
    { typed, args: [], savedUrl: 'https://api.example.com/v1' },
  ],
  ['for a dry run', { typed, args: ['--profile', 'prod', '--dry-run'] }],
])('import does not ask %s', async (_name, situation) => {
  const { service, result } = await addAtTerminal(situation);
  expect(result.code).toBe(0);
  expect(result.stderr).not.toContain(QUESTION);
  const isDryRun = situation.args?.includes('--dry-run');
  expect(service.names()).toEqual(isDryRun ? [] : ['Rex', 'Bella', 'Lola']);
});

test.each<[string, Situation]>([
  ['prod as the default profile', { args: [], env: { PETS_API_KEY: '', PETS_BASE_URL: '' } }],
  ['PETS_API_KEY with the service of profile prod', { args: [] }],
  [
    'PETS_API_KEY with another name of the service of profile prod',
    { args: [], savedUrl: 'https://LOCALHOST.:PORT/v1/' },
  ],
  [
    'the service of profile prod although another profile is chosen',
    { args: [], env: { PETS_PROFILE: 'staging' } },
  ],
])('import asks for %s', async (_name, situation) => {
  const { result } = await addAtTerminal({ ...situation, typed: ['n'] });
  expect(result.stderr).toContain(QUESTION);
});
