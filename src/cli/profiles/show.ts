import type { Runtime } from '../command.ts';
import { durationText } from '../output/time.ts';
import type { ProfileName } from './profile.ts';

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
export type Check = { ok: boolean; message: string; limit?: number; remaining?: number; reset?: string };

/** The profiles as rows: a table on a terminal, tab-separated elsewhere. */
export async function renderProfiles(
  { console, context }: Runtime,
  rows: readonly ProfileRow[],
  withCheck: boolean,
): Promise<string> {
  const { renderRows } = await import('../output/table.ts');
  const now = context.clock.now();
  const head = { head: 'PROFILE' };
  const common = [{ head: 'BASE URL', wide: true }, { head: 'KEY' }];
  const check = { head: 'CHECK', wide: true };
  if (!console.isTerminal) {
    const columns = [head, ...common, { head: 'DEFAULT' }, ...(withCheck ? [check] : [])];
    return renderRows(
      console,
      columns,
      rows.map((row) => programCells(row, withCheck)),
    );
  }
  const quota = [{ head: 'LEFT' }, { head: 'RENEWED' }];
  const columns = [head, ...common, ...(withCheck ? [check, ...quota] : [])];
  return renderRows(
    console,
    columns,
    rows.map((row) => personCells(row, withCheck, now)),
  );
}

const NO_KEY = 'no key';

const pairCells = ({ baseUrl, key, damaged }: ProfileRow): string[] => [
  damaged ? 'damaged' : (baseUrl ?? '-'),
  key ?? '-',
];

const programCells = (row: ProfileRow, withCheck: boolean): string[] => [
  row.profile,
  ...pairCells(row),
  row.default ? 'default' : '',
  ...(withCheck ? [row.check?.message ?? NO_KEY] : []),
];

/** The quota has columns of its own, which are not cut: `valid`, `297/300`, `in 42 s`. */
function personCells(row: ProfileRow, withCheck: boolean, now: number): string[] {
  const cells = [`${row.profile}${row.default ? ' (default)' : ''}`, ...pairCells(row)];
  if (!withCheck) return cells;
  const { message = NO_KEY, limit, remaining, reset } = row.check ?? {};
  if (limit === undefined) return [...cells, message, '', ''];
  const renewed = reset ? `in ${durationText(Math.max(0, Date.parse(reset) - now))}` : '';
  return [...cells, 'valid', `${remaining}/${limit}`, renewed];
}
