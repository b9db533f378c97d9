import { formatDuration } from '../../contract/time-text.ts';
import type { Console } from '../output/console.ts';
import { type Column, print } from '../output/printer.ts';
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

const NO_KEY = 'no key';

/** Prints profiles. `now` is in milliseconds since the epoch. */
export async function showProfiles(
  console: Console,
  rows: readonly ProfileRow[],
  { withCheck, now }: { withCheck: boolean; now: number },
): Promise<void> {
  await print(console, { noun: 'a profile', columns: columnsOf(withCheck, now) }, rows);
  // A table has only a summary of the check.
  if (!console.isForPeople) return;
  for (const { profile, check } of rows)
    if (check?.ok === false) console.notice(`${profile}: ${check.message}`);
}

/** The checks are left of the columns that a narrow table leaves out. */
const columnsOf = (withCheck: boolean, now: number): Column<ProfileRow>[] => [
  {
    name: 'profile',
    value: (row) => `${row.profile}${row.default ? ' (default)' : ''}`,
    only: 'table',
    isFlexible: false,
  },
  ...(withCheck ? checkColumns(now) : []),
  { name: 'profile', value: ({ profile }) => profile, only: 'data' },
  {
    name: 'baseUrl',
    head: 'BASE URL',
    value: (row) => (row.damaged ? 'damaged' : (row.baseUrl ?? '-')),
  },
  { name: 'key', value: ({ key }) => key ?? '-', isFlexible: false },
  { name: 'default', value: (row) => (row.default ? 'default' : ''), only: 'data' },
  ...(withCheck
    ? [{ name: 'check', value: ({ check }: ProfileRow) => check?.message ?? NO_KEY, only: 'data' as const }]
    : []),
];

const checkColumns = (now: number): Column<ProfileRow>[] =>
  [
    { name: 'check', value: ({ check }: ProfileRow) => (check === undefined ? NO_KEY : summarize(check)) },
    {
      name: 'remaining',
      value: ({ check }: ProfileRow) =>
        [check?.remaining, check?.limit].filter((number) => number !== undefined).join('/') || undefined,
    },
    {
      name: 'resets',
      value: ({ check }: ProfileRow) =>
        check?.reset ? `in ${formatDuration(Date.parse(check.reset) - now)}` : undefined,
    },
  ].map((column) => ({ ...column, only: 'table', isFlexible: false }));

const SUMMARIES: Readonly<Record<string, string>> = {
  unauthorized: 'rejected',
  rate_limited: 'used up',
  key_banned: 'banned',
  network_error: 'down',
  timeout: 'no response',
};

/** The result of a check in one or two words. */
const summarize = ({ ok, code = '' }: Check): string => (ok ? 'valid' : (SUMMARIES[code] ?? 'failed'));
