import type { Console } from '../output/console.ts';
import type { Column } from '../output/table.ts';
import { formatDuration } from '../output/time.ts';
import type { ProfileName } from './profile.ts';

export type ProfileRow = {
  /** `environment` stands for the key in PETS_API_KEY. */
  profile: ProfileName | 'environment';
  baseUrl: string | null;
  /** The masked key (see `maskKey`); null if the profile has none. */
  key: string | null;
  default: boolean;
  /** Set if the file of the profile cannot be read. */
  damaged?: true;
  check?: Check;
};

/** The result of `--check`. `reset` is a time in ISO 8601. */
export type Check = {
  ok: boolean;
  message: string;
  /** The error code, if the check failed. */
  code?: string;
  limit?: number;
  remaining?: number;
  reset?: string;
};

/** In a table with fewer columns, `--check` omits the base URL and the key. */
const NARROW = 64;

const NO_KEY = 'no key';

/** Prints profiles as a table or tab-separated. `now` is in milliseconds since the epoch. */
export async function showProfiles(
  console: Console,
  rows: readonly ProfileRow[],
  { withCheck, now }: { withCheck: boolean; now: number },
): Promise<void> {
  const { renderRows } = await import('../output/table.ts');
  const fields = console.isTable ? tableFields(withCheck, console.columns, now) : tsvFields(withCheck);
  const cells = rows.map((row) => fields.map(({ cell }) => cell(row)));
  await console.write(renderRows(console, fields, cells));
  if (!console.isTable) return;
  for (const { profile, check } of rows)
    if (check?.ok === false) console.notice(`${profile}: ${check.message}`);
}

type Field = Column & { cell(row: ProfileRow): string };

const connectionFields: readonly Field[] = [
  { head: 'BASE URL', flexible: true, cell: (row) => (row.damaged ? 'damaged' : (row.baseUrl ?? '-')) },
  { head: 'KEY', cell: ({ key }) => key ?? '-' },
];

const tsvFields = (withCheck: boolean): Field[] => [
  { head: 'PROFILE', cell: ({ profile }) => profile },
  ...connectionFields,
  { head: 'DEFAULT', cell: (row) => (row.default ? 'default' : '') },
  ...(withCheck ? [{ head: 'CHECK', cell: ({ check }: ProfileRow) => check?.message ?? NO_KEY }] : []),
];

/** The columns of a table. The messages of failed checks are printed below the table, where nothing is cut. */
function tableFields(withCheck: boolean, columns: number, now: number): Field[] {
  const profile: Field = {
    head: 'PROFILE',
    cell: (row) => `${row.profile}${row.default ? ' (default)' : ''}`,
  };
  if (!withCheck) return [profile, ...connectionFields];
  return [
    profile,
    ...(columns < NARROW ? [] : connectionFields),
    { head: 'CHECK', cell: ({ check }) => (check === undefined ? NO_KEY : summarize(check)) },
    {
      head: 'REMAINING',
      cell: ({ check }) =>
        [check?.remaining, check?.limit].filter((number) => number !== undefined).join('/'),
    },
    {
      head: 'RESETS',
      cell: ({ check }) =>
        check?.reset ? `in ${formatDuration(Math.max(0, Date.parse(check.reset) - now))}` : '',
    },
  ];
}

const SUMMARIES: Readonly<Record<string, string>> = {
  unauthorized: 'rejected',
  rate_limited: 'used up',
  key_banned: 'banned',
  network_error: 'down',
  timeout: 'no response',
};

/** The result of a check in one or two words. */
const summarize = ({ ok, code = '' }: Check): string => (ok ? 'valid' : (SUMMARIES[code] ?? 'failed'));
