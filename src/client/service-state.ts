import { createHash } from 'node:crypto';
import { existsSync, linkSync, readdirSync, readFileSync, rmSync, statSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import * as z from 'zod/mini';
import type { Clock } from '../contract/clock.ts';
import { makeDirectorySync } from '../system/directories.ts';
import { isTrusted, prepareStateDirectory, type StateDirectory } from '../system/state-directory.ts';
import type { Uptime } from '../system/uptime.ts';

const MINUTE = 60_000;
const DAY = 86_400_000;

/** Longer waits are shortened to this. It exceeds a day, the longest rate-limit window of our service. */
const MAX_WAIT = 25 * 3_600_000;

/** The state of services that no process has used for this long is deleted. */
const MAX_AGE = 30 * DAY;

/** The system counts the time since its start in steps of this many milliseconds. */
const UPTIME_STEP = 10;

/** The name of the wait of all requests with an API key. The others are names of methods, and `probe`. */
const ALL = 'all';

const Wait = z.object({
  duration: z.number().check(z.gte(0), z.lte(MAX_WAIT)),
  /** The start: the system time in milliseconds since the epoch, and the time since the machine was started. */
  at: z.number(),
  uptime: z.object({ boot: z.string(), milliseconds: z.number() }),
});
type Wait = z.infer<typeof Wait>;

const text = z.record(z.string(), z.string());
const State = z.object({
  waits: z.record(z.string(), Wait),
  /** The latest day (UTC) on which a response showed support for Idempotency-Key; empty if it showed the contrary. */
  idempotency: z.optional(z.string()),
  /** The day of the latest notice about each operation, and the dates on which operations will be removed. */
  notices: text,
  sunsets: text,
});
type State = z.infer<typeof State>;

const EMPTY: State = { waits: {}, notices: {}, sunsets: {} };

export type StateOptions = {
  clock: Clock;
  uptime(): Uptime;
  /** Where the state is stored: in the first directory that accepts it. It is read from all of them. */
  stateDirectories: readonly StateDirectory[];
  /** Called for each change that no directory accepts. This process then remembers it alone. */
  onUnwritable?: (() => void) | undefined;
};

/** The end of a wait, in milliseconds since the epoch, and its reason. */
export type Pause = { until: number; reason: 'rate limit' | 'server error' };

export type ServiceState = ReturnType<typeof createServiceState>;

/**
 * What this user's processes have learned from the responses of a service to an API key. The directory with the state is
 * named by a hash, so that no name reveals the origin or the key.
 */
export function createServiceState(
  { baseUrl, key }: { baseUrl: string; key: string },
  { clock, uptime, stateDirectories, onUnwritable = () => {} }: StateOptions,
) {
  const name = createHash('sha256')
    .update(`${new URL(baseUrl).origin}\n${key}`)
    .digest('hex');
  const stores = stateDirectories.map((directory) => createStore(directory, name, clock));
  /** What this process has learned itself. Its waits count even if the stored state is deleted. */
  let own = EMPTY;
  let isStored = true;
  /** The day on which this process last recorded support for Idempotency-Key, so that it does so once a day. */
  let recordedOn: string | undefined;

  /** Applies a change. Returns whether it was this process that made it. */
  function update(change: Change): boolean {
    const ownResult = change(own);
    own = ownResult ?? own;
    for (const store of stores) {
      const isChanged = failOpen(() => store.update(change), undefined);
      if (isChanged !== undefined) {
        isStored = true;
        return isChanged;
      }
    }
    isStored = false;
    onUnwritable();
    return ownResult !== undefined;
  }

  /** The states, those with the latest texts first. */
  function states(): State[] {
    const stored = stores.map((store) => failOpen(store.read, EMPTY));
    return isStored ? [...stored, own] : [own, ...stored];
  }

  /** The time until the end of a wait, in milliseconds. Processes whose system times differ get the same result. */
  function remaining({ duration, at, uptime: start }: Wait): number {
    const byClock = clock.now() - at;
    const { boot, milliseconds } = uptime();
    const byUptime = boot !== '' && boot === start.boot ? milliseconds - start.milliseconds : byClock;
    const elapsed = Math.abs(byClock - byUptime) <= UPTIME_STEP ? byClock : byUptime - UPTIME_STEP;
    return duration - Math.max(0, elapsed);
  }

  const longest = (waits: readonly (Wait | undefined)[]): number =>
    Math.max(0, ...waits.map((wait) => (wait === undefined ? 0 : remaining(wait))));

  const remainingOf = (scope: string, known = states()): number =>
    longest(known.map(({ waits }) => waits[scope]));

  /** Starts a wait. It never shortens one that has started before. */
  function startWait(scope: string, milliseconds: number): void {
    const duration = Math.ceil(Math.min(milliseconds, MAX_WAIT));
    const wait = { duration, at: clock.now(), uptime: uptime() };
    update((state) =>
      longest([state.waits[scope]]) >= longest([wait])
        ? undefined
        : { ...state, waits: { ...state.waits, [scope]: wait } },
    );
  }

  const today = (): string => formatDay(clock.now());

  return {
    /** The wait before the next request with this method; undefined if it may be sent now. */
    pause(method: string): Pause | undefined {
      const known = states();
      const [all, ofMethod] = [remainingOf(ALL, known), remainingOf(method, known)];
      if (Math.max(all, ofMethod) === 0) return undefined;
      const reason = all >= ofMethod ? 'rate limit' : 'server error';
      return { until: clock.now() + Math.max(all, ofMethod), reason };
    },
    /** Lets all requests with this API key wait, or only those with this method. */
    startPause: (milliseconds: number, method: string = ALL): void => startWait(method, milliseconds),
    endPauses: (): void =>
      void update((state) => (Object.keys(state.waits).length === 0 ? undefined : { ...state, waits: {} })),
    /**
     * Whether a request that ignores the pause may be sent now. During a pause, the result is true at most once a minute
     * across processes, so that checking whether the limit still applies cannot get the API key banned.
     */
    tryAcquireProbe(): boolean {
      if (remainingOf(ALL) <= 0) return true;
      if (remainingOf('probe') > 0) return false;
      startWait('probe', MINUTE);
      return true;
    },
    /** Whether a response of today or yesterday (UTC) has shown support for Idempotency-Key (docs/service.md, D10). */
    supportsIdempotency(): boolean {
      // The state expires, because another service may later run at the origin.
      const day = states().find(({ idempotency }) => idempotency !== undefined)?.idempotency;
      return day === today() || day === formatDay(clock.now() - DAY);
    },
    recordIdempotencySupport(isSupported: boolean): void {
      const idempotency = isSupported ? today() : '';
      if (recordedOn === idempotency) return;
      recordedOn = idempotency;
      own = { ...own, idempotency };
      update((state) => ((state.idempotency ?? '') === idempotency ? undefined : { ...state, idempotency }));
    },
    /** True only for the first call per operation and UTC day, in all processes, so that a notice is shown once a day. */
    claimDailyNotice: (operation: string): boolean => update(setText('notices', operation, today())),
    recordSunset: (operation: string, date: Date): void =>
      void update(setText('sunsets', operation, date.toISOString())),
    /** The date on which the service removes the operation, as far as any response has announced it. */
    sunset(operation: string): Date | undefined {
      const date = states()
        .map(({ sunsets }) => sunsets[operation])
        .find((each) => each !== undefined);
      return date === undefined ? undefined : new Date(date);
    },
  };
}

/** Returns the changed state; undefined if the state has been changed in this way already. */
type Change = (state: State) => State | undefined;

const setText =
  (field: 'notices' | 'sunsets', name: string, value: string): Change =>
  (state) =>
    state[field][name] === value ? undefined : { ...state, [field]: { ...state[field], [name]: value } };

/**
 * The state in a directory. Each version is a file whose name is a number, and a later version contains all changes of the
 * earlier ones: to create a version fails if another process has created it first. So no change is lost, without a lock.
 */
function createStore(directory: StateDirectory, name: string, clock: Clock) {
  const services = join(directory.path, 'services');
  const path = join(services, name);
  let known = { version: 0, state: EMPTY };

  function readLatest(): typeof known {
    // This is much faster than catching the error of a missing directory.
    if (!existsSync(path) || !isTrusted(directory)) return { version: 0, state: EMPTY };
    for (;;) {
      const version = Math.max(
        0,
        ...readdirSync(path).map((file) => (/^\d+$/.test(file) ? Number(file) : 0)),
      );
      if (version === 0) return { version, state: EMPTY };
      if (version === known.version) return known;
      const content = failOpen(() => readFileSync(join(path, `${version}`), 'utf8'), undefined);
      // Another process has replaced the version since.
      if (content === undefined && !existsSync(join(path, `${version}`))) continue;
      known = {
        version,
        state:
          z.safeParse(
            State,
            failOpen(() => JSON.parse(content ?? ''), null),
          ).data ?? EMPTY,
      };
      return known;
    }
  }

  /** Creates a version, unless another process has created it. Earlier versions are deleted. */
  function create(version: number, state: State): boolean {
    const draft = join(path, `draft-${process.pid}`);
    writeFileSync(draft, JSON.stringify(state), { mode: 0o600 });
    try {
      linkSync(draft, join(path, `${version}`));
    } catch (error) {
      if ((error as NodeJS.ErrnoException).code === 'EEXIST') return false;
      throw error;
    } finally {
      rmSync(draft, { force: true });
    }
    for (const file of readdirSync(path))
      if (Number(file) < version) rmSync(join(path, file), { force: true });
    return true;
  }

  return {
    read: (): State => readLatest().state,
    /** @throws Error if the directory cannot be used */
    update(change: Change): boolean {
      if (!prepareStateDirectory(directory)) throw new Error(`${directory.path} is not writable`);
      if (makeDirectorySync(path)) prune(services, clock.now());
      for (let isMine = false; ; ) {
        const { version, state } = readLatest();
        const changed = change(state);
        // After its own change, a process checks the latest version, which a slow process could have created too early.
        if (changed === undefined) return isMine;
        if (create(version + 1, changed)) isMine = true;
      }
    },
  };
}

/** Deletes the state of services and keys that are no longer used. */
function prune(services: string, now: number): void {
  for (const name of readdirSync(services)) {
    const path = join(services, name);
    failOpen(() => {
      if (now - statSync(path).mtimeMs > MAX_AGE) rmSync(path, { recursive: true, force: true });
    }, undefined);
  }
}

/** Ignores errors: a broken state directory must not stop a command. */
function failOpen<Result, Fallback>(use: () => Result, fallback: Fallback): Result | Fallback {
  try {
    return use();
  } catch {
    return fallback;
  }
}

const formatDay = (time: number): string => new Date(time).toISOString().slice(0, 10);
