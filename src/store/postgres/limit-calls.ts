import type { Quota } from '../../contract/plans.ts';
import type { BanState } from '../limits/bans.ts';
import type { WindowCounts } from '../limits/limiter.ts';
import type { Query, Statement } from './calls/session.ts';

/** What the database knows about a caller after it has counted requests. All times are in milliseconds since 1970. */
export type CallerState = WindowCounts &
  BanState & {
    /** How many of the requests were counted. */
    granted: number;
    /** Changes with `refusals` and `bannedUntil`, and at a reset of the store. */
    version: number;
    /** When the database decided. */
    now: number;
  };

export type LimitCalls = {
  /** Counts as many requests as the quotas allow. Returns the state of each caller. A caller must not occur twice. */
  take(groups: readonly { caller: string; quota: Quota; count: number }[]): Promise<Map<string, CallerState>>;
  /** Reads the windows and bans of callers, in the same order. Changes and locks nothing. */
  usage(
    callers: readonly string[],
  ): Promise<(WindowCounts & Pick<CallerState, 'bannedUntil' | 'version' | 'now'>)[]>;
  /** Stores refusals and a ban, if the caller still has this version. Resolves with whether they were stored. */
  storeRefusal(caller: string, version: number, next: BanState): Promise<boolean>;
  /** Returns how many callers are banned now. */
  countBans(): Promise<number>;
};

const MINUTE = 60_000;
const DAY = 86_400_000;

const TAKE: Statement = { name: 'take', text: 'select * from pets.take_v1($1, $2, $3, $4, $5)' };
const USAGE: Statement = { name: 'usage', text: 'select * from pets.usage_v1($1, $2) order by n' };
const REFUSE: Statement = {
  name: 'refuse',
  text: 'select pets.refuse_v1($1, $2, $3, $4, $5, $6) as stored',
};
const BANS: Statement = { name: 'bans', text: 'select pets.bans_v1($1) as count' };

/** The driver returns columns of type `bigint` as text. */
type UsageRow = {
  n: number;
  minute: string;
  minute_used: string;
  day: string;
  day_used: string;
  banned_until: string;
  version: string;
  now: string;
};

type TakeRow = UsageRow & {
  granted: number;
  refused_window: string;
  first_refused: string;
  counted: string[];
};

/**
 * Calls the SQL functions of the limits.
 *
 * @param takeQuery sends the statement that counts requests
 * @param query sends the other statements
 * @param testTime replaces the clock of the database in tests
 */
export function limitCalls(takeQuery: Query, query: Query, testTime: () => number | null): LimitCalls {
  return {
    async take(groups) {
      const rows = await takeQuery<TakeRow>(TAKE, [
        groups.map(({ caller }) => Buffer.from(caller, 'hex')),
        groups.map(({ count }) => count),
        groups.map(({ quota }) => quota.perMinute),
        groups.map(({ quota }) => quota.perDay),
        testTime(),
      ]);
      return new Map(rows.map((row) => [groups[row.n - 1]?.caller ?? '', toState(row)]));
    },
    async usage(callers) {
      const ids = callers.map((caller) => Buffer.from(caller, 'hex'));
      return (await query<UsageRow>(USAGE, [ids, testTime()])).map(toUsage);
    },
    async storeRefusal(caller, version, { refusals: { resetAt, firstAt, counted }, bannedUntil }) {
      const id = Buffer.from(caller, 'hex');
      const values = [id, version, resetAt, firstAt, counted, bannedUntil];
      const [row] = await query<{ stored: boolean }>(REFUSE, values);
      return row?.stored ?? false;
    },
    async countBans() {
      const [row] = await query<{ count: string }>(BANS, [testTime()]);
      return Number(row?.count);
    },
  };
}

const toUsage = (row: UsageRow) => ({
  minute: { endsAt: Number(row.minute) + MINUTE, used: Number(row.minute_used) },
  day: { endsAt: Number(row.day) + DAY, used: Number(row.day_used) },
  bannedUntil: Number(row.banned_until),
  version: Number(row.version),
  now: Number(row.now),
});

const toState = (row: TakeRow): CallerState => ({
  ...toUsage(row),
  granted: row.granted,
  refusals: {
    resetAt: Number(row.refused_window),
    firstAt: Number(row.first_refused),
    counted: row.counted.map(Number),
  },
});
