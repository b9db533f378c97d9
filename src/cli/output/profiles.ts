import type { ProfileName } from '../profiles/profile.ts';
import type { Console } from './console.ts';
import type { Column } from './table.ts';
import { durationText } from './time.ts';

/** What `pets profiles` tells of a profile. */
export type ProfileRow = {
  /** `environment` for the key in PETS_API_KEY. */
  profile: ProfileName | 'environment';
  baseUrl: string | null;
  /** Masked. */
  key: string | null;
  default: boolean;
  /** Its file cannot be read. */
  damaged?: true;
  check?: Check;
};

/** What its service said. `reset` is ISO 8601. */
export type Check = {
  ok: boolean;
  message: string;
  /** Of the error, where it failed. */
  code?: string;
  limit?: number;
  remaining?: number;
  reset?: string;
};

/** Where the terminal has no room for what `--check` has found and for the pairs, those are in `pets profiles` alone. */
const NARROW = 64;

const NO_KEY = 'no key';
const NOTHING: Partial<Check> = {};

/** Shows the profiles: a table on a terminal, tab-separated elsewhere. `now` is in milliseconds since the epoch. */
export async function showProfiles(
  console: Console,
  rows: readonly ProfileRow[],
  { withCheck, now }: { withCheck: boolean; now: number },
): Promise<void> {
  const { renderRows } = await import('./table.ts');
  const fields = console.isTerminal
    ? fieldsForPerson(withCheck, console.columns, now)
    : fieldsForProgram(withCheck);
  const cells = rows.map((row) => fields.map(({ cell }) => cell(row)));
  await console.write(renderRows(console, fields, cells));
  if (!console.isTerminal) return;
  for (const { profile, check } of rows)
    if (check?.ok === false) console.notice(`${profile}: ${check.message}`);
}

type Field = Column & { cell(row: ProfileRow): string };

const pair: readonly Field[] = [
  { head: 'BASE URL', wide: true, cell: (row) => (row.damaged ? 'damaged' : (row.baseUrl ?? '-')) },
  { head: 'KEY', cell: ({ key }) => key ?? '-' },
];

const fieldsForProgram = (withCheck: boolean): Field[] => [
  { head: 'PROFILE', cell: ({ profile }) => profile },
  ...pair,
  { head: 'DEFAULT', cell: (row) => (row.default ? 'default' : '') },
  ...(withCheck ? [{ head: 'CHECK', cell: ({ check }: ProfileRow) => check?.message ?? NO_KEY }] : []),
];

/** What a failed check says stands below the table, where nothing is cut. */
function fieldsForPerson(withCheck: boolean, columns: number, now: number): Field[] {
  const profile: Field = {
    head: 'PROFILE',
    cell: (row) => `${row.profile}${row.default ? ' (default)' : ''}`,
  };
  if (!withCheck) return [profile, ...pair];
  return [
    profile,
    ...(columns < NARROW ? [] : pair),
    { head: 'CHECK', cell: ({ check }) => (check === undefined ? NO_KEY : wordFor(check)) },
    {
      head: 'LEFT',
      cell: ({ check: { remaining, limit } = NOTHING }) =>
        [remaining, limit].filter((number) => number !== undefined).join('/'),
    },
    {
      head: 'RENEWED',
      cell: ({ check }) =>
        check?.reset ? `in ${durationText(Math.max(0, Date.parse(check.reset) - now))}` : '',
    },
  ];
}

const WORDS: Readonly<Record<string, string>> = {
  unauthorized: 'rejected',
  rate_limited: 'used up',
  key_banned: 'banned',
  network_error: 'down',
  timeout: 'no answer',
};

/** A failed check in a word; the whole is told below the table. */
const wordFor = ({ ok, code = '' }: Check): string => (ok ? 'valid' : (WORDS[code] ?? 'failed'));
