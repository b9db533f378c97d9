import { createHash, randomBytes } from 'node:crypto';
import * as fs from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setTimeout } from 'node:timers/promises';
import { errnoOf, realFileSystem } from '../file-system.ts';
import { removeFile } from '../files.ts';
import {
  type Claim,
  DirectoryInUseError,
  type DirectoryLock,
  LockError,
  probe,
  type Sleep,
  serveClaim,
} from './claim.ts';
import { shortPath } from './socket-path.ts';

export { DirectoryInUseError, type DirectoryLock, LockError } from './claim.ts';

/** Dependencies that tests replace. Times are in milliseconds. */
export type LockOptions = {
  sleep?: Sleep;
  now?: () => number;
  /** Where symbolic links to directories with long paths are created. */
  temporary?: string;
  platform?: NodeJS.Platform;
};

const CLAIM = /^lock-(\d+)-[0-9a-f]{8}$/;
/** The name of a socket that has not been renamed to its final name yet. */
const PENDING = /^claim-\d+-[0-9a-f]{8}$/;
const PENDING_MS = 60_000;
const TIMEOUT_MS = 5_000;
const RETRY_MS = 10;

/**
 * Locks the directory until this process releases the lock or ends.
 *
 * A lock file could outlive its process. Instead, each process that wants the directory listens on a socket with a
 * unique name in the directory. A socket that refuses connections belongs to a process that has ended, and any process
 * may delete that socket. A process first listens, then renames its socket to a final name (the claim), then looks for
 * other claims. Of two processes, at least one therefore sees the other. A process that sees no other living claim gets
 * the lock. If processes see each other, the claim with the smallest name stays and the others withdraw and wait.
 *
 * @throws DirectoryInUseError if another process holds the lock
 * @throws LockError if the directory cannot contain a socket, or other processes claim the directory for too long
 */
export async function acquireDirectoryLock(
  directory: string,
  {
    sleep = (ms, signal) => setTimeout(ms, undefined, signal && { signal }).catch(() => {}),
    now = () => performance.now(),
    temporary = tmpdir(),
    platform = process.platform,
  }: LockOptions = {},
): Promise<DirectoryLock> {
  if (platform === 'win32') return acquirePipe(directory, sleep);
  const short = await shortPath(directory, temporary);
  try {
    await removePending(directory);
    return await acquireLoop(directory, short.directory, sleep, now);
  } finally {
    await short.remove();
  }
}

async function acquireLoop(
  directory: string,
  short: string,
  sleep: Sleep,
  now: () => number,
): Promise<DirectoryLock> {
  const deadline = now() + TIMEOUT_MS;
  let claim: Claim | undefined;
  let isWaiting = false;
  try {
    for (; now() < deadline; await sleep(RETRY_MS)) {
      if (!isWaiting) {
        claim ??= await createClaim(directory, short).catch(async (error) => {
          // On a read-only disk, report that another process holds the lock rather than that no socket can be created.
          await livingClaims(directory, short, undefined, sleep);
          throw error;
        });
      }
      const others = await livingClaims(directory, short, claim?.name, sleep);
      if (claim && others.length === 0) {
        claim.promote();
        return claim;
      }
      const { name } = claim ?? {};
      // After withdrawing, wait until no other process claims the directory.
      isWaiting = others.some((other) => name === undefined || other < name);
      if (!isWaiting) continue;
      await claim?.release();
      claim = undefined;
    }
    throw new LockError(
      `could not lock ${directory}: too many processes tried at the same time`,
      'start one process at a time',
    );
  } catch (error) {
    await claim?.release();
    throw error;
  }
}

async function createClaim(directory: string, short: string): Promise<Claim> {
  const suffix = `${process.pid}-${randomBytes(4).toString('hex')}`;
  const name = `lock-${suffix}`;
  const pending = `claim-${suffix}`;
  const claim = await serveClaim({
    directory,
    name,
    socket: join(short, pending),
    remove: () => fs.unlink(join(directory, name)),
  });
  try {
    // The umask decides the mode of a new socket. Every user who can enter the directory may ask whether this process lives;
    // otherwise, a claim that remains after a kill would look alive to another user.
    await fs.chmod(join(directory, pending), 0o666);
    await fs.rename(join(directory, pending), join(directory, name));
  } catch (error) {
    await claim.release();
    await fs.unlink(join(directory, pending)).catch(() => {});
    throw error;
  }
  return claim;
}

/**
 * The names of other living processes' claims. Deletes claims of dead processes.
 *
 * @throws DirectoryInUseError if another process holds the lock
 */
async function livingClaims(directory: string, short: string, own: string | undefined, sleep: Sleep) {
  const names = (await fs.readdir(directory)).filter((name) => CLAIM.test(name) && name !== own);
  const claims = await Promise.all(
    names.map(async (name) => ({ name, ...(await probe(join(short, name), sleep)) })),
  );
  const living: string[] = [];
  for (const { name, state, ...owner } of claims) {
    if (state === 'dead') await fs.unlink(join(directory, name)).catch(() => {});
    else if (state === 'claiming') living.push(name);
    // A process that listens without sending a state is busy or stopped, and may hold the lock.
    else throw new DirectoryInUseError(directory, { pid: Number(CLAIM.exec(name)?.[1]), ...owner });
  }
  return living;
}

/** Deletes sockets that were not renamed within a minute, because their processes were killed. */
async function removePending(directory: string): Promise<void> {
  for (const name of await fs.readdir(directory)) {
    if (!PENDING.test(name)) continue;
    const path = join(directory, name);
    const { mtimeMs } = await fs.lstat(path).catch(() => ({ mtimeMs: Number.POSITIVE_INFINITY }));
    if (Date.now() - mtimeMs > PENDING_MS) await removeFile(realFileSystem, path);
  }
}

/** On Windows the lock is a named pipe: only one process can create it, and it disappears with the process. */
async function acquirePipe(directory: string, sleep: Sleep): Promise<DirectoryLock> {
  const realPath = (await fs.realpath(directory)).toLowerCase();
  const name = createHash('sha256').update(realPath).digest('hex').slice(0, 32);
  const socket = `\\\\.\\pipe\\pets-${name}`;
  try {
    const claim = await serveClaim({ directory, name, socket, remove: async () => {} });
    claim.promote();
    return claim;
  } catch (error) {
    if (!(error instanceof Error) || errnoOf(error.cause) !== 'EADDRINUSE') throw error;
    throw new DirectoryInUseError(directory, await probe(socket, sleep));
  }
}
