import { createHash, randomBytes } from 'node:crypto';
import { once } from 'node:events';
import { constants } from 'node:fs';
import * as fs from 'node:fs/promises';
import { connect, createServer } from 'node:net';
import { basename, join } from 'node:path';
import { text } from 'node:stream/consumers';
import { setTimeout } from 'node:timers/promises';
import { errnoOf, isNoSpace, LockError, type LockOwner, systemMessageOf } from './file-system.ts';

/** A lock that reserves a directory for this process. */
export interface DirectoryLock {
  /** Publishes this process's URL to processes that find the directory locked. */
  announce(url: string): void;
  release(): Promise<void>;
}

/** Dependencies that tests replace. Times are in milliseconds. */
type LockOptions = { sleep?: (ms: number) => Promise<unknown>; now?: () => number; probeTimeout?: number };

const CLAIM = /^lock-(\d+)-[0-9a-f]{8}$/;

/** Whether a name in a directory belongs to its lock, and not to its contents. */
export const isLockName = (name: string): boolean => /^(lock|claim)-\d+-[0-9a-f]{8}$/.test(name);

const TIMEOUT_MS = 5_000;
const RETRY_MS = 10;

/**
 * Locks the directory until this process releases the lock or ends. For Windows, see `acquirePipe`.
 *
 * A lock file could outlive its process. Instead, each process that wants the directory listens on a socket with a
 * unique name in the directory. A socket that refuses connections belongs to a process that has ended, and any process
 * may delete that socket. A process first listens, then renames its socket to a final name (the claim), then looks for
 * other claims. Of two processes, at least one therefore sees the other. A process that sees no other living claim gets
 * the lock. If processes see each other, the claim with the smallest name stays and the others withdraw and wait.
 *
 * @throws LockError if another process holds or may hold the lock (`owner`), if no socket can be created in the directory
 * or its path is too long for one, or if others claim it for 5 s; a system error if it cannot be read or changed
 */
export async function acquireDirectoryLock(
  directory: string,
  { sleep = setTimeout, now = () => performance.now(), probeTimeout = PROBE_TIMEOUT_MS }: LockOptions = {},
): Promise<DirectoryLock> {
  if (process.platform === 'win32') return acquirePipe(directory);
  return withShortPath(directory, async (short) => {
    const deadline = now() + TIMEOUT_MS;
    let own: Claim | undefined;
    try {
      while (now() < deadline) {
        // Dead claims are deleted before this process creates its own, because a full disk may have no other inode.
        const others = await findLivingClaims(directory, short, own?.name, probeTimeout);
        if (others.length === 0) {
          if (own) return own.promote();
          own = await createClaim(directory, short);
          continue;
        }
        if (own && others.some((name) => name < (own as Claim).name)) {
          await own.release();
          own = undefined;
        }
        await sleep(RETRY_MS);
      }
      throw new LockError(
        `could not lock ${directory}: too many processes tried at the same time`,
        'start one process at a time',
      );
    } catch (error) {
      await own?.release();
      throw error;
    }
  });
}

/** The process that holds or may hold the lock of a directory, if one is found. Never rejects. Also deletes dead claims. */
export async function findLockOwner(directory: string): Promise<LockOwner | undefined> {
  try {
    if (process.platform === 'win32') {
      const { state, ...owner } = await probe(await pipeOf(directory));
      return state === 'dead' ? undefined : owner;
    }
    await withShortPath(directory, (short) => findLivingClaims(directory, short));
  } catch (error) {
    if (error instanceof LockError) return error.owner;
  }
  return undefined;
}

async function createClaim(directory: string, short: string): Promise<Claim> {
  const suffix = `${process.pid}-${randomBytes(4).toString('hex')}`;
  const pending = `claim-${suffix}`;
  const claim = await serveClaim(directory, `lock-${suffix}`, join(short, pending));
  try {
    // Let every user who can enter the directory connect to the socket, whatever the umask is. Otherwise, another user
    // could not see that a claim is dead if it remains after a kill.
    await fs.chmod(join(directory, pending), 0o666).catch(() => {});
    await fs.rename(join(directory, pending), join(directory, claim.name));
    return claim;
  } catch (error) {
    await claim.release();
    throw error;
  }
}

/** Finds the claims of other processes, and deletes dead ones. @throws LockError if one holds or may hold the lock */
async function findLivingClaims(directory: string, short: string, own?: string, probeTimeout?: number) {
  const names = (await fs.readdir(directory)).filter((name) => CLAIM.test(name) && name !== own);
  const living: string[] = [];
  await Promise.all(
    names.map(async (name) => {
      const { state, ...owner } = await probe(join(short, name), probeTimeout);
      if (state === 'dead') await fs.unlink(join(directory, name)).catch(() => {});
      else if (state === 'claiming') living.push(name);
      // A process that listens without sending a state is busy or stopped, and may hold the lock.
      else throw inUseError(directory, { pid: Number(CLAIM.exec(name)?.[1]), ...owner });
    }),
  );
  return living;
}

function inUseError(directory: string, owner: LockOwner): LockError {
  const details = [owner.pid && `pid ${owner.pid}`, owner.url && `at ${owner.url}`].filter(Boolean).join(' ');
  return new LockError(
    `${directory} is in use by another process${details && ` (${details})`}`,
    'use that process, stop it, or choose another directory',
    { owner },
  );
}

/** On Windows the lock is a named pipe: only one process can create it, and it disappears with the process. */
async function acquirePipe(directory: string): Promise<DirectoryLock> {
  const socket = await pipeOf(directory);
  try {
    return (await serveClaim(directory, basename(socket), socket)).promote();
  } catch (error) {
    if (!(error instanceof Error) || errnoOf(error.cause) !== 'EADDRINUSE') throw error;
    const { state: _, ...owner } = await probe(socket);
    throw inUseError(directory, owner);
  }
}

async function pipeOf(directory: string): Promise<string> {
  const realPath = (await fs.realpath(directory)).toLowerCase();
  const name = createHash('sha256').update(realPath).digest('hex').slice(0, 32);
  return `\\\\.\\pipe\\pets-${name}`;
}

/**
 * The state of a claim. Its socket sends every client one line of JSON, in which `state` is `claiming` or `holding`.
 * `dead` means that no process listens: the process has ended or has released its claim. `silent` means that a process
 * may listen, but sent no valid state.
 */
type ClaimState = LockOwner & { state: 'claiming' | 'holding' | 'dead' | 'silent' };

/** A listening socket that represents this process's attempt to lock a directory, or the lock that it got. */
type Claim = Awaited<ReturnType<typeof serveClaim>>;

/** How long a client waits for the state, and how long a server waits for a client that does not read the state. */
const PROBE_TIMEOUT_MS = 1_000;

/**
 * Listens on `socket` without keeping the process alive, and sends the claim's state to each client. A release deletes
 * the file `name`, which a pipe of Windows does not have.
 *
 * @throws LockError if the socket cannot be created
 */
async function serveClaim(directory: string, name: string, socket: string) {
  const state: ClaimState = { state: 'claiming', pid: process.pid };
  const server = createServer((client) => {
    client
      .on('error', () => {})
      .setTimeout(PROBE_TIMEOUT_MS, () => client.destroy())
      .unref()
      .resume()
      .end(`${JSON.stringify(state)}\n`);
  });
  try {
    await once(server.listen({ path: socket, exclusive: true }), 'listening');
  } catch (cause) {
    const hint = isNoSpace(cause)
      ? 'free some disk space, and some inodes if df -i shows that none is free'
      : /^(EACCES|EPERM|EROFS)$/.test(errnoOf(cause) ?? '')
        ? 'make the directory writable, or copy the directory to a writable one'
        : 'use a directory on a local disk, because other file systems may not support sockets';
    const message = `cannot lock ${directory}, because no socket can be created in it: ${systemMessageOf(cause)}`;
    throw new LockError(message, hint, { cause });
  }
  server.on('error', () => {}).unref();
  const claim = {
    name,
    /** Changes the published state from `claiming` to `holding`. */
    promote(): DirectoryLock {
      state.state = 'holding';
      return claim;
    },
    announce(url: string): void {
      state.url = url;
    },
    async release(): Promise<void> {
      if (!server.listening) return;
      await fs.unlink(join(directory, name)).catch(() => {});
      server.close();
    },
  };
  return claim;
}

/** Connects to the socket of a claim, and reads the state that it sends. */
async function probe(path: string, timeout = PROBE_TIMEOUT_MS): Promise<ClaimState> {
  const socket = connect(path);
  socket.setTimeout(timeout, () => socket.destroy());
  try {
    const received = await text(socket);
    // A claim that ends disconnects clients to which it has not sent its state. A later probe finds it dead.
    if (received === '') return { state: 'claiming' };
    const { state, pid, url } = JSON.parse(received);
    if (state !== 'claiming' && state !== 'holding') return { state: 'silent' };
    return { state, ...(Number.isSafeInteger(pid) && { pid }), ...(typeof url === 'string' && { url }) };
  } catch (error) {
    const errno = errnoOf(error) ?? '';
    if (['ECONNREFUSED', 'ENOENT'].includes(errno)) return { state: 'dead' };
    // Any other error (no permission, full backlog, timeout) does not show that the owner has ended.
    return { state: ['ECONNRESET', 'EPIPE'].includes(errno) ? 'claiming' : 'silent' };
  }
}

/** The longest socket path on macOS in bytes; Linux allows 4 more. Node 20 silently truncates longer paths. */
const MAX_SOCKET_PATH = 103;
/** The longest path of a directory in bytes, so that the socket fits. A process id has 5 digits on macOS, 7 on Linux. */
const MAX_DIRECTORY_PATH = MAX_SOCKET_PATH - '/claim-99999-ffffffff'.length;

/** Calls `use` with a path of the directory that is short enough for sockets. @throws LockError if none is; a system error */
async function withShortPath<T>(directory: string, use: (short: string) => Promise<T>): Promise<T> {
  if (Buffer.byteLength(directory) <= MAX_DIRECTORY_PATH) return use(directory);
  if (process.platform !== 'linux') {
    throw new LockError(
      `the path ${directory} is too long for a socket`,
      `use a path of at most ${MAX_DIRECTORY_PATH} bytes`,
    );
  }
  const open = await fs.open(directory, constants.O_RDONLY | constants.O_DIRECTORY);
  return use(`/proc/self/fd/${open.fd}`).finally(() => open.close());
}
