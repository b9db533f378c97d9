import { randomBytes } from 'node:crypto';
import * as fs from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setTimeout } from 'node:timers/promises';
import { StoreError, StoreInUseError } from './errors.ts';
import { isMissing } from './files.ts';
import { ask, type Claim, type Lock, type Sleep, serveClaim } from './lock-claim.ts';
import { shortPath } from './lock-path.ts';
import { acquirePipe } from './lock-pipe.ts';

export type { Lock } from './lock-claim.ts';

/** What a test takes the place of. Times are milliseconds. */
export type LockOptions = {
  sleep?: Sleep;
  now?: () => number;
  /** Where short paths to long directories are made. */
  temporary?: string;
  platform?: NodeJS.Platform;
};

type Settings = Required<LockOptions>;

const CLAIM = /^lock-(\d+)-[0-9a-f]{8}$/;
const NASCENT = /^claim-\d+-[0-9a-f]{8}$/;
const NASCENT_MS = 60_000;
const PATIENCE_MS = 5_000;
const PAUSE_MS = 10;

/**
 * Takes the directory for this process, until it ends or releases it.
 *
 * There is no lock file that could be left behind. Each process that wants the directory listens on a socket of its
 * own name in it, so that a claim is alive exactly as long as its process; one that refuses connections is dead for
 * good, and anybody may remove it. A claim is given its name only once it listens, and its owner looks for others
 * only after that: of two, at least one sees the other. Who sees no other living claim has the directory; of several
 * the one with the smallest name stays and the others step back.
 *
 * @throws StoreInUseError where another process has the directory
 * @throws StoreError where the directory cannot hold a socket
 */
export async function acquireLock(directory: string, options: LockOptions = {}): Promise<Lock> {
  const settings: Settings = { ...defaults(), ...options };
  if (settings.platform === 'win32') return acquirePipe(directory, settings.sleep);
  const path = await shortPath(directory, settings.temporary);
  try {
    await removeNascent(directory);
    return await contend(directory, path.directory, settings);
  } finally {
    await path.remove();
  }
}

const defaults = (): Settings => ({
  sleep: (ms, signal) => setTimeout(ms, undefined, signal && { signal }).catch(() => {}),
  now: () => performance.now(),
  temporary: tmpdir(),
  platform: process.platform,
});

async function contend(directory: string, short: string, { sleep, now }: Settings): Promise<Lock> {
  const deadline = now() + PATIENCE_MS;
  let claim: Claim | undefined;
  try {
    for (; now() < deadline; await sleep(PAUSE_MS)) {
      claim ??= await makeClaim(directory, short);
      const others = await livingClaims(directory, short, claim.name, sleep);
      const holder = others.find(({ state }) => state === 'holding');
      if (holder) throw new StoreInUseError(directory, holder);
      if (others.length === 0) {
        claim.hold();
        return claim;
      }
      if (others.some(({ name }) => name < (claim?.name ?? ''))) {
        await claim.release();
        claim = undefined;
        await othersDecide(directory, short, sleep, () => now() < deadline);
      }
    }
    throw new StoreError(
      `other servers that start in ${directory} did not settle which of them has it`,
      'start one server at a time',
    );
  } catch (error) {
    await claim?.release();
    throw error;
  }
}

/** Waits, without a claim of its own, until another has the directory or all have gone. */
async function othersDecide(
  directory: string,
  short: string,
  sleep: Sleep,
  hasTime: () => boolean,
): Promise<void> {
  while (hasTime()) {
    await sleep(PAUSE_MS);
    const others = await livingClaims(directory, short, '', sleep);
    if (others.length === 0) return;
    const holder = others.find(({ state }) => state === 'holding');
    if (holder) throw new StoreInUseError(directory, holder);
  }
}

async function makeClaim(directory: string, short: string): Promise<Claim> {
  const suffix = `${process.pid}-${randomBytes(4).toString('hex')}`;
  const name = `lock-${suffix}`;
  const nascent = `claim-${suffix}`;
  const claim = await serveClaim({
    directory,
    name,
    socket: join(short, nascent),
    remove: () => fs.unlink(join(directory, name)),
  });
  try {
    // The socket is as private as the files beside it, whatever the umask.
    await fs.chmod(join(directory, nascent), 0o600);
    await fs.rename(join(directory, nascent), join(directory, name));
  } catch (error) {
    await claim.release();
    await fs.unlink(join(directory, nascent)).catch(() => {});
    throw error;
  }
  return claim;
}

/** The claims of others that are alive; what is left of dead ones is removed. */
async function livingClaims(directory: string, short: string, own: string, sleep: Sleep) {
  const names = (await fs.readdir(directory)).filter((name) => CLAIM.test(name) && name !== own);
  const claims = await Promise.all(
    names.map(async (name) => {
      const answer = await ask(join(short, name), sleep);
      if (answer === 'dead') await fs.unlink(join(directory, name)).catch(ignoreMissing);
      // One that listens and says nothing is busy or stopped: nobody else may have the directory.
      const { state, pid, url } = typeof answer === 'object' ? answer : { state: 'holding' as const };
      return { name, alive: answer !== 'dead', state, pid: pid ?? Number(CLAIM.exec(name)?.[1]), url };
    }),
  );
  return claims.filter(({ alive }) => alive);
}

/** Removes sockets of processes that were killed before their claim had its name. */
async function removeNascent(directory: string): Promise<void> {
  for (const name of await fs.readdir(directory)) {
    if (!NASCENT.test(name)) continue;
    const path = join(directory, name);
    const { mtimeMs } = await fs.lstat(path).catch(() => ({ mtimeMs: Number.POSITIVE_INFINITY }));
    if (Date.now() - mtimeMs > NASCENT_MS) await fs.unlink(path).catch(ignoreMissing);
  }
}

function ignoreMissing(error: unknown): void {
  if (!isMissing(error)) throw error;
}
