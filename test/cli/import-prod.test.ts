import { describe, expect, test } from 'vitest';
import type { TerminalOptions } from '../helpers/context.ts';
import { CSV, importing } from '../helpers/import-commands.ts';
import { KEY } from '../helpers/service.ts';

const QUESTION = 'Add 3 rows at';
const ALL = ['Rex', 'Bella', 'Lola'];

/** Where the command runs, its arguments and its input. The profiles have `savedUrl`, or else the service's URL. */
type Situation = TerminalOptions & { args?: string[]; input?: string; savedUrl?: string };

/** Adds a file with three rows, at a terminal at which `typed` is typed. */
async function addAtTerminal({ args = ['--profile', 'prod'], input, savedUrl, ...options }: Situation = {}) {
  const bulk = await importing();
  const { url } = bulk.service;
  const profile = JSON.stringify({ baseUrl: savedUrl?.replace('PORT', new URL(url).port) ?? url, key: KEY });
  const files = { 'prod.json': profile, 'staging.json': profile, 'local.json': profile };
  const again = (more: Situation = {}) =>
    bulk.add(more.args ?? args, { columns: 200, files, ...options, ...more }, input);
  return { ...bulk, again, result: await again() };
}

describe('import to profile prod at a terminal', () => {
  test('asks before the first row, with the number of rows, the host and the profile', async () => {
    const { service, result } = await addAtTerminal({ typed: ['y'] });
    const place = `${new URL(service.url).host} (profile prod)`;
    expect(result.code).toBe(0);
    expect(result.stderr).toContain(`${QUESTION} ${place}? [y/N]`);
    expect(result.stderr).not.toContain('note: adding 3 rows at');
    expect(service.names()).toEqual(ALL);
  });

  test.each([
    ['n', 1],
    ['', 1],
    ['\x03', 130],
  ])('sends nothing after the answer %j, exits with %i, and can be repeated', async (answer, code) => {
    const { service, again, ledger, result } = await addAtTerminal({ typed: [answer] });
    expect([result.code, result.stdout, service.requestCount()]).toEqual([code, '', 0]);
    expect(result.stderr).toContain(code === 1 ? 'error: not confirmed; no row was sent' : 'interrupted');
    expect((await ledger()).trimEnd().split('\n')).toHaveLength(1);
    const { code: second, stderr } = await again({ typed: ['yes'] });
    expect([second, service.names()]).toEqual([0, ALL]);
    expect(stderr).not.toContain('continuing');
  });

  test('asks only about the rows that are left, and not if there are none', async () => {
    const { service, again } = await addAtTerminal({ typed: ['n'] });
    service.replies = { Lola: 422 };
    expect((await again({ args: ['--profile', 'prod', '--yes'] })).code).toBe(8);
    service.replies = {};
    const rerun = await again({ typed: ['y'] });
    expect([rerun.code, rerun.stderr]).toEqual([0, expect.stringContaining('Add 1 row at')]);
    expect((await again({ typed: [] })).stderr).toContain('nothing to do');
    const all = await again({ args: ['--profile', 'prod', '--add-again'], typed: ['n'] });
    expect(all.stderr).toContain('Add 3 rows, 3 of them again, at');
  });
});

const typed = ['n'];
const isAsked = async (situation: Situation) => {
  const { service, result } = await addAtTerminal(situation);
  return { asked: result.stderr.includes(QUESTION), code: result.code, names: service.names() };
};

test.each<[string, Situation]>([
  ['with --yes', { typed, args: ['--profile', 'prod', '--yes'] }],
  ['about the rows of a pipe', { args: ['--profile', 'prod'], input: '-', stdin: CSV }],
  ['for PETS_API_KEY with another service', { typed, args: [], savedUrl: 'https://api.example.com/v1' }],
  ['for a dry run', { typed, args: ['--profile', 'prod', '--dry-run'] }],
])('import does not ask %s', async (_name, situation) => {
  const names = situation.args?.includes('--dry-run') ? [] : ALL;
  expect(await isAsked(situation)).toEqual({ asked: false, code: 0, names });
});

test.each<[string, Situation]>([
  ['prod as the default profile', { typed, args: [], env: { PETS_API_KEY: '', PETS_BASE_URL: '' } }],
  ['PETS_API_KEY with the service of profile prod', { typed, args: [] }],
  ['another name of the service of prod', { typed, args: [], savedUrl: 'https://LOCALHOST.:PORT/v1/' }],
  ['the service of prod in another profile', { typed, args: [], env: { PETS_PROFILE: 'staging' } }],
])('import asks for %s', async (_name, situation) => {
  expect(await isAsked(situation)).toEqual({ asked: true, code: 1, names: [] });
});
