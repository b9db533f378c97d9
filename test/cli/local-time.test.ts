import { expect, test } from 'vitest';
import { importing } from '../helpers/import-commands.ts';
import { runAgainst } from '../helpers/in-terminal.ts';

import { type Handler, reply } from '../helpers/scripted-server.ts';

// The clock of these commands starts at 12:00 UTC on 20 November 2026, which is 13:00 in Berlin.

const refuse: Handler = (_, response) => reply(response, 429, {}, { 'Retry-After': '300' });
const timeZone = 'Europe/Berlin';
const [LOCAL, UTC] = ['13:05:00 CET', '12:05:00 UTC'];

test.each<[string, string[], { columns?: number }, string]>([
  ['local at a terminal', ['list'], { columns: 100 }, LOCAL],
  ['UTC in a pipe', ['list'], {}, UTC],
  ['UTC with --json', ['list', '--json'], { columns: 100 }, UTC],
])('the end of a rate limit is %s', async (_name, argv, options, time) => {
  const { code, stderr } = await runAgainst(refuse, argv, { timeZone, ...options });
  expect(code).toBe(5);
  expect(stderr.replace(/\s+/g, ' ')).toContain(`until ${time} (in 5 min)`);
  expect(stderr).not.toContain(time === UTC ? 'CET' : 'UTC');
  if (argv.includes('--json')) expect(stderr).toContain('"until":"2026-11-20T12:05:00.000Z"');
});

test.each([
  ['local at a terminal', 100, LOCAL],
  ['UTC elsewhere', undefined, UTC],
])('the end of a wait is %s', async (_name, columns, time) => {
  const { stderr } = await runAgainst(refuse, ['list', '--max-wait', '310'], {
    timeZone,
    ...(columns && { columns }),
  });
  expect(stderr).toContain(`until ${time}`);
});

test.each<[string, string[], { columns?: number }, string]>([
  ['local at a terminal', [], { columns: 200 }, LOCAL],
  ['UTC in a pipe', [], {}, UTC],
  ['UTC in JSON', ['--json'], { columns: 200 }, UTC],
])('the result of profiles --check is %s', async (_name, more, options, time) => {
  const { stdout, stderr } = await runAgainst(refuse, ['profiles', '--check', ...more], {
    timeZone,
    ...options,
  });
  expect(stdout + stderr).toContain(`until ${time}`);
});

test.each<[string, { columns?: number }, string]>([
  ['local at a terminal', { columns: 200 }, '13:00 CET'],
  ['UTC elsewhere', {}, '12:00 UTC'],
])('the times of earlier runs of import are %s, and UTC in the ledger', async (_name, options, time) => {
  const { add, ledger, service } = await importing();
  service.replies = { Lola: 422 };
  await add([], { timeZone, ...options });
  const { stderr } = await add(['--dry-run'], { timeZone, ...options });
  expect(stderr).toContain(`2 already added on 2026-11-20 ${time}`);
  service.replies = {};
  await add([], { timeZone, ...options });
  expect((await add([], { timeZone, ...options })).stderr).toContain(`were added on 2026-11-20 ${time}`);
  expect(await ledger()).toContain('"at":"2026-11-20T12:00:');
});
