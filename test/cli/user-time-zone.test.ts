import { symlink } from 'node:fs/promises';
import { join } from 'node:path';
import { describe, expect, test } from 'vitest';
import { formatTime } from '../../src/cli/output/time.ts';
import { findTimeZone } from '../../src/cli/output/user-time-zone.ts';
import { respondWith, runAgainst } from '../helpers/in-terminal.ts';
import { temporaryDirectory } from '../helpers/temp.ts';

/** 14:13:20 UTC, in the summer of Europe. */
const SUMMER = Date.UTC(2026, 8, 21, 14, 13, 20);

test.each<[string | undefined, string | undefined, string]>([
  [undefined, 'Europe/Berlin', '16:13:20 CEST'],
  ['', 'Etc/Unknown', '14:13:20 UTC'],
  ['UTC', 'UTC', '14:13:20 UTC'],
  ['UTC0', undefined, '14:13:20 UTC'],
  ['Europe/Berlin', 'Europe/Berlin', '16:13:20 CEST'],
  [':Europe/Berlin', 'Europe/Berlin', '16:13:20 CEST'],
  ['posix/Europe/Berlin', 'Europe/Berlin', '16:13:20 CEST'],
  ['/usr/share/zoneinfo/Europe/Berlin', undefined, '16:13:20 CEST'],
  [':/usr/share/zoneinfo/Asia/Kolkata', undefined, '19:43:20 IST'],
  ['/var/db/timezone/zoneinfo/right/Europe/Berlin', undefined, '16:13:20 CEST'],
  ['UTC+3', undefined, '11:13:20 GMT-3'],
  ['<+05>-5', 'UTC', '19:13:20 GMT+5'],
  ['IST-5:30', 'UTC', '19:43:20 GMT+5:30'],
  ['XXX-10', 'UTC', '00:13:20 GMT+10'],
  // Node names this zone, but Intl does not accept the name, and the sign is wrong.
  ['GMT+5', 'GMT+05:00', '09:13:20 GMT-5'],
  ['EST5EDT,M3.2.0,M11.1.0', 'America/New_York', '10:13:20 EDT'],
])('with TZ=%s and the zone %s of Node, a time is %s', (variable, systemName, expected) => {
  const { name, problem } = findTimeZone(variable, systemName);
  expect([formatTime(SUMMER, SUMMER, name), problem]).toEqual([expected, undefined]);
});

test('a link to a file of the zone database names the zone', async () => {
  const link = join(await temporaryDirectory(), 'localtime');
  await symlink('/usr/share/zoneinfo/Europe/Berlin', link);
  expect(findTimeZone(link, undefined)).toEqual({ name: 'Europe/Berlin' });
});

test.each<[string | undefined, string | undefined]>([
  ['Bogus/Zone', undefined],
  ['CET-1CEST', 'UTC'],
  ['UTC+99', undefined],
  ['/nonexistent', undefined],
  [undefined, 'Etc/Unknown'],
])('with TZ=%s and the zone %s of Node, the zone is UTC with an explanation', (variable, systemName) => {
  const { name, problem } = findTimeZone(variable, systemName);
  expect(name).toBe('UTC');
  expect(problem).toContain(`${variable ?? 'unknown'}`);
  expect(problem).toContain('times are in UTC');
});

describe('pets orders', () => {
  const NOTE = 'note: TZ=Bogus/Zone is not the name of a time zone; times are in UTC';
  const orders = respondWith('[{"id":1,"at":"2026-11-19T20:00:00Z"},{"id":2,"at":"2026-11-19T17:00:00Z"}]');
  const run = async (argv: string[], TZ: string, columns?: number) =>
    runAgainst(orders, ['orders', ...argv], { env: { TZ, NO_COLOR: '1' }, ...(columns && { columns }) });

  test('resolves dates in the zone of a path or an offset', async () => {
    for (const zone of ['/usr/share/zoneinfo/Asia/Kolkata', 'IST-5:30']) {
      const { stdout, stderr } = await run(['--since', 'today', '--columns', 'id'], zone);
      expect([stdout, stderr]).toEqual(['1\n', '']);
    }
  });

  test('explains once that the zone is not known, if a local time matters', async () => {
    const needed = await run(['--since', '2026-11-19', '--until', 'today'], 'Bogus/Zone', 200);
    expect(needed.stderr.split(NOTE)).toHaveLength(2);
    const unneeded = await run(['--since', '2026-11-19T00:00Z'], 'Bogus/Zone');
    expect(unneeded.stderr).toBe('');
  });
});
