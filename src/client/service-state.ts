import { createHash } from 'node:crypto';
import {
  accessSync,
  chmodSync,
  constants,
  lstatSync,
  mkdirSync,
  readdirSync,
  rmSync,
  writeFileSync,
} from 'node:fs';
import { dirname, join } from 'node:path';
import { LOOPBACK_NAME_PATTERN } from '../contract/headers.ts';
import type { Clock, Uptime } from '../system/clock.ts';

// What this user's processes have learned from the responses of a service to an API key, so that none of them sends a
// request too early. Each fact is the name of an empty file, such as `wait-all,60000,…`. So two processes that write at the
// same time lose nothing, none reads half a fact, and no process needs a lock: a file that is read, changed and replaced
// promises none of that. The files are in a directory named by a hash of the server and the key, which reveals neither. A
// state directory that cannot be used never stops a command: its facts then stay in this process.
//
// - `wait-all` for all requests, and `wait-probe` for requests that ignore it: the duration, and the system time, boot id
//   and uptime at its start. Two clocks, because the system time may be set to another time during a wait, and the uptime
//   begins again with each start of the machine.
// - `idempotency`: a recent day (UTC, in days since the epoch) on which a response showed support for Idempotency-Key

const DAY = 86_400_000;

/** Longer waits are shortened to this. It exceeds a day, the longest rate-limit window of our service. */
const MAX_WAIT = 25 * 3_600_000;

/** Linux reports the uptime in steps of this many milliseconds. On systems without a boot id, the uptime is not used. */
const UPTIME_STEP = 10;

/** Matches the name of a wait: its scope, its duration, and the system time, boot id and uptime at its start. */
const WAIT = /^wait-(\w+),(\d+),(\d+),([\w-]*),(\d+)$/;

export type ServiceStateOptions = {
  clock: Pick<Clock, 'now'>;
  uptime(): Uptime;
  /** Where the state is stored: in the first directory that accepts it. It is read from all of them. */
  stateDirectories: readonly StateDirectory[];
};

export type ServiceState = ReturnType<typeof createServiceState>;

/**
 * The host and port of a base URL: the same text for http and https, with and without the dot at the end of the host, and
 * for all loopback names. Never used to decide where an API key is sent, because http and https look the same.
 */
function serverOf(baseUrl: string): string {
  const { hostname, port } = new URL(baseUrl);
  const host = hostname.replace(/\.$/, '');
  return `${LOOPBACK_NAME_PATTERN.test(host) ? 'localhost' : host}:${port}`;
}

/** The server (`serverOf`) and the path of a base URL, without a slash at the end. */
export const serviceOf = (baseUrl: string): string =>
  serverOf(baseUrl) + new URL(baseUrl).pathname.replace(/\/$/, '');

/** The state of a key at a server. It does not depend on the path of the base URL, because neither do rate limits. */
export function createServiceState(
  { baseUrl, key }: { baseUrl: string; key: string },
  { clock, uptime, stateDirectories }: ServiceStateOptions,
) {
  const name = createHash('sha256')
    .update(`${serverOf(baseUrl)}\n${key}`)
    .digest('hex');
  const stores = stateDirectories.map((directory) => createFactFiles(directory, name));
  /** The waits that this process has started (their files may be deleted), and the facts that it cannot store. */
  const own = new Set<string>();
  /** Whether the last response to this process that shows it has shown support for Idempotency-Key. */
  let isSupported: boolean | undefined;

  const facts = (): string[] => [...stores.flatMap((store) => store.read() ?? []), ...own];

  function add(fact: string): void {
    if (!facts().includes(fact) && !stores.some((store) => store.add(fact))) own.add(fact);
  }

  function remove(isRemoved: (fact: string) => boolean): void {
    for (const fact of facts().filter(isRemoved)) {
      own.delete(fact);
      for (const store of stores) store.remove(fact);
    }
  }

  /** The milliseconds until a wait ends; at most 0 after its end. */
  function remaining(wait: string): number {
    const [, , duration, at, boot, started] = WAIT.exec(wait) ?? [];
    const byClock = clock.now() - Number(at);
    const now = uptime();
    // While the boot id is the same, trust the uptime: the system time may have been changed. If both agree, use the system
    // time, which is more precise.
    const byUptime = boot !== '' && boot === now.boot ? now.milliseconds - Number(started) : byClock;
    const elapsed = Math.abs(byClock - byUptime) <= UPTIME_STEP ? byClock : byUptime - UPTIME_STEP;
    return Math.min(Number(duration), MAX_WAIT) - Math.max(0, elapsed);
  }

  /** The milliseconds until the last wait of a scope ends; 0 if there is none. */
  const longestWait = (scope: string): number =>
    Math.max(0, ...facts().map((fact) => (WAIT.exec(fact)?.[1] === scope ? remaining(fact) : 0)));

  /** Pauses all requests with this API key, or those that ignore such a pause. Never shortens an earlier pause. */
  function startPause(milliseconds: number, scope: 'all' | 'probe' = 'all'): void {
    const duration = Math.ceil(Math.min(milliseconds, MAX_WAIT));
    if (longestWait(scope) >= duration) return;
    const { boot, milliseconds: started } = uptime();
    const wait = `wait-${scope},${duration},${clock.now()},${boot},${Math.ceil(started)}`;
    add(wait);
    own.add(wait);
    remove((other) => WAIT.test(other) && remaining(other) <= 0);
  }

  /** The fact that records support for Idempotency-Key on the day `days` after today. */
  const supportOn = (days: number): string => `idempotency,${Math.floor(clock.now() / DAY) + days}`;

  return {
    /** When the next request may be sent, in milliseconds since the epoch; undefined if it may be sent now. */
    pausedUntil(): number | undefined {
      const left = longestWait('all');
      return left === 0 ? undefined : clock.now() + left;
    },
    startPause,
    /** Ends the pauses of all requests, but not `wait-probe`, the pause of requests that ignore them. */
    endPauses: (): void => remove((fact) => WAIT.test(fact) && !fact.startsWith('wait-probe,')),
    /**
     * Whether a request that ignores the pause may be sent now. If so during a pause, the next such request of any process
     * must wait for a minute, so that checking whether a rate limit still applies cannot get the API key banned.
     */
    tryAcquireProbe(): boolean {
      if (longestWait('all') <= 0) return true;
      if (longestWait('probe') > 0) return false;
      startPause(60_000, 'probe');
      return true;
    },
    /** Whether the last response that shows it, or else one of today or yesterday (UTC), has shown support (D10). */
    supportsIdempotency(): boolean {
      // The support expires, because another service may later run at the address.
      return isSupported ?? facts().some((fact) => [supportOn(0), supportOn(-1)].includes(fact));
    },
    recordIdempotencySupport(value: boolean): void {
      if (value === isSupported) return;
      isSupported = value;
      if (value) add(supportOn(0));
      remove((fact) => fact.startsWith('idempotency,') && !(value && fact === supportOn(0)));
    },
  };
}

/** Reads and changes the facts about a server and a key in a state directory. Without access to it, returns undefined. */
function createFactFiles(directory: StateDirectory, name: string) {
  const path = join(directory.path, 'services', name);
  return {
    read: () => ifUsable(() => (isTrusted(directory) ? readdirSync(path) : [])),
    /** Returns whether the fact was stored. */
    add: (fact: string) =>
      ifUsable(() => {
        if (!prepareStateDirectory(directory)) return false;
        makeDirectorySync(path);
        writeFileSync(join(path, fact), '', { mode: 0o600 });
        return true;
      }),
    remove: (fact: string) =>
      ifUsable(() => isTrusted(directory) && rmSync(join(path, fact), { force: true })),
  };
}

function ifUsable<Result>(use: () => Result): Result | undefined {
  try {
    return use();
  } catch {
    return undefined;
  }
}

/** A directory that all processes of a user share. */
export type StateDirectory = {
  path: string;
  /**
   * Whether the path is in the directory for temporary files, where another user may have created it first. Such a
   * directory is used only if this user owns it and other users have no access to it.
   */
  isTemporary: boolean;
};

/**
 * Whether the path is a directory of this user whose mode has none of the `forbidden` permissions. On Windows, any
 * directory is accepted, because its parent directories control access.
 */
export function isOwnDirectory(path: string, forbidden: number): boolean {
  try {
    const stats = lstatSync(path);
    const isPrivate = stats.uid === process.geteuid?.() && (stats.mode & forbidden) === 0;
    return stats.isDirectory() && (isPrivate || process.geteuid === undefined);
  } catch {
    return false;
  }
}

/** Whether no other user can have put files into the directory. Only a temporary directory is checked. */
export const isTrusted = ({ path, isTemporary }: StateDirectory): boolean =>
  !isTemporary || isOwnDirectory(path, 0o077);

/** Creates the directory if it is missing. Returns whether it is trusted and this process can create files in it. */
export function prepareStateDirectory(directory: StateDirectory): boolean {
  const { path, isTemporary } = directory;
  try {
    makeDirectorySync(path, !isTemporary);
    // The dot makes the check fail if the path is a file.
    accessSync(`${path}/.`, constants.W_OK | constants.X_OK);
    return isTrusted(directory);
  } catch {
    return false;
  }
}

/** Like `makeDirectory` in src/system, but synchronous. Returns false if the path existed. @throws the system's error */
export function makeDirectorySync(path: string, withParents = true): boolean {
  try {
    mkdirSync(path, { mode: 0o700 });
    chmodSync(path, 0o700);
    return true;
  } catch (error) {
    const { code } = error as NodeJS.ErrnoException;
    if (code === 'EEXIST') return false;
    if (!withParents || code !== 'ENOENT' || dirname(path) === path) throw error;
    makeDirectorySync(dirname(path));
    return makeDirectorySync(path, false);
  }
}
