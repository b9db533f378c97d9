import { createHash, randomBytes } from 'node:crypto';
import { once } from 'node:events';
import { constants } from 'node:fs';
import * as fs from 'node:fs/promises';
import { connect, createServer, type Socket } from 'node:net';
import { basename, join } from 'node:path';
import { text } from 'node:stream/consumers';
import { setTimeout } from 'node:timers/promises';
import { DirectoryInUseError, errnoOf, isNoSpace, LockError, systemMessageOf } from './file-system.ts';

/** A lock that reserves a directory for this process. */
export interface DirectoryLock {
  /** Publishes this process's URL to processes that fail to lock the directory. */
  announce(url: string): void;
  release(): Promise<void>;
}

/** Resolves after `ms` milliseconds, or earlier if the signal is aborted. */
type Sleep = (ms: number, signal?: AbortSignal) => Promise<unknown>;

/** Dependencies that tests replace. Times are in milliseconds. */
type LockOptions = { sleep?: Sleep; now?: () => number };

const realSleep: Sleep = (ms, signal) => setTimeout(ms, undefined, signal && { signal }).catch(() => {});

const CLAIM = /^lock-(\d+)-[0-9a-f]{8}$/;

/** Whether a name in a directory belongs to its lock, and not to its contents. */
export const isLockName = (name: string): boolean => /^(lock|claim)-\d+-[0-9a-f]{8}$/.test(name);

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
 * @throws LockError if no socket can be created in the directory, or other processes claim the directory for too long
 */
export async function acquireDirectoryLock(
  directory: string,
  { sleep = realSleep, now = () => performance.now() }: LockOptions = {},
): Promise<DirectoryLock> {
  if (process.platform === 'win32') return acquirePipe(directory, sleep);
  return withShortPath(directory, (short) => acquireLoop(directory, short, sleep, now));
}

/**
 * The process that has locked a directory, as far as it is known. Undefined if there is none; never rejects. Also deletes
 * the claims of dead processes.
 */
export async function findLockOwner(
  directory: string,
): Promise<Pick<DirectoryInUseError, 'pid' | 'url'> | undefined> {
  try {
    if (process.platform === 'win32') {
      const { state, pid, url } = await probe(await pipeOf(directory), realSleep);
      return state === 'dead' ? undefined : { pid, url };
    }
    await withShortPath(directory, (short) => livingClaims(directory, short, undefined, realSleep));
  } catch (error) {
    if (error instanceof DirectoryInUseError) return error;
  }
  return undefined;
}

async function acquireLoop(
  directory: string,
  short: string,
  sleep: Sleep,
  now: () => number,
): Promise<DirectoryLock> {
  const deadline = now() + TIMEOUT_MS;
  let claim: Claim | undefined;
  try {
    for (; now() < deadline; await sleep(RETRY_MS)) {
      if (!claim) {
        // This also deletes dead claims, because a full disk may have no other inode for a new one.
        if ((await livingClaims(directory, short, undefined, sleep)).length > 0) continue;
        claim = await createClaim(directory, short);
      }
      const { name } = claim;
      const others = await livingClaims(directory, short, name, sleep);
      if (others.length === 0) {
        claim.promote();
        return claim;
      }
      if (others.every((other) => other > name)) continue;
      await claim.release();
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
  const pending = `claim-${suffix}`;
  const claim = await serveClaim(directory, `lock-${suffix}`, join(short, pending));
  try {
    // Let every user who can enter the directory ask whether this process lives, whatever the umask is. Otherwise, a
    // claim that remains after a kill would look alive to another user.
    await fs.chmod(join(directory, pending), 0o666);
    await fs.rename(join(directory, pending), join(directory, claim.name));
  } catch (error) {
    await claim.release();
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

/** On Windows the lock is a named pipe: only one process can create it, and it disappears with the process. */
async function acquirePipe(directory: string, sleep: Sleep): Promise<DirectoryLock> {
  const socket = await pipeOf(directory);
  try {
    const claim = await serveClaim(directory, basename(socket), socket);
    claim.promote();
    return claim;
  } catch (error) {
    if (!(error instanceof Error) || errnoOf(error.cause) !== 'EADDRINUSE') throw error;
    throw new DirectoryInUseError(directory, await probe(socket, sleep));
  }
}

async function pipeOf(directory: string): Promise<string> {
  const realPath = (await fs.realpath(directory)).toLowerCase();
  const name = createHash('sha256').update(realPath).digest('hex').slice(0, 32);
  return `\\\\.\\pipe\\pets-${name}`;
}

/**
 * The state of a claim. The socket of a claim sends `claiming` or `holding` to every client, as one line of JSON.
 * `dead` means that no process listens: the process has ended or has released its claim. `silent` means that a process
 * may listen, but sent no valid state.
 */
type ClaimState = { state: 'claiming' | 'holding' | 'dead' | 'silent'; pid?: number; url?: string };

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
  const clients = new Set<Socket>();
  const server = createServer((client) => {
    clients.add(client);
    client
      .on('error', () => {})
      .on('close', () => clients.delete(client))
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
  return {
    name,
    /** Changes the published state from `claiming` to `holding`. */
    promote(): void {
      state.state = 'holding';
    },
    announce(url: string): void {
      state.url = url;
    },
    async release(): Promise<void> {
      if (!server.listening) return;
      await fs.unlink(join(directory, name)).catch(() => {});
      for (const client of clients) client.destroy();
      await new Promise((done) => server.close(done));
    },
  };
}

/** Asks for the state of the claim at a socket. */
async function probe(path: string, sleep: Sleep): Promise<ClaimState> {
  const socket = connect(path);
  const done = new AbortController();
  try {
    const timeout = sleep(PROBE_TIMEOUT_MS, done.signal).then((): ClaimState => ({ state: 'silent' }));
    return await Promise.race([readState(socket), timeout]);
  } finally {
    done.abort();
    socket.destroy();
  }
}

async function readState(socket: Socket): Promise<ClaimState> {
  try {
    const received = await text(socket);
    // A claim that is being released disconnects its clients. A later probe finds it dead.
    if (received === '') return { state: 'claiming' };
    const { state, pid, url } = JSON.parse(received);
    if (state !== 'claiming' && state !== 'holding') return { state: 'silent' };
    return { state, ...(Number.isSafeInteger(pid) && { pid }), ...(typeof url === 'string' && { url }) };
  } catch (error) {
    const errno = errnoOf(error);
    if (errno === 'ECONNREFUSED' || errno === 'ENOENT') return { state: 'dead' };
    // Any other error (no permission, full backlog) does not show that the owner has ended.
    return { state: errno === 'ECONNRESET' || errno === 'EPIPE' ? 'claiming' : 'silent' };
  }
}

/** The longest socket path on macOS in bytes; Linux allows 4 more. Node 20 silently truncates longer paths. */
const MAX_SOCKET_PATH = 103;
/** The length of the longest file name of a claim: the name that it has before it is renamed to `lock-…`. */
const MAX_NAME_LENGTH = 'claim-4294967295-ffffffff'.length;

/**
 * Calls `use` with a path of the directory that is short enough for sockets in the directory.
 *
 * @throws LockError if there is none
 */
async function withShortPath<T>(directory: string, use: (short: string) => Promise<T>): Promise<T> {
  if (fits(directory)) return use(directory);
  if (process.platform !== 'linux') {
    const longest = MAX_SOCKET_PATH - MAX_NAME_LENGTH - 1;
    throw new LockError(
      `the path ${directory} is too long for a socket`,
      `use a path of at most ${longest} bytes`,
    );
  }
  const open = await fs.open(directory, constants.O_RDONLY | constants.O_DIRECTORY);
  return use(`/proc/self/fd/${open.fd}`).finally(() => open.close());
}

const fits = (directory: string) => Buffer.byteLength(directory) + 1 + MAX_NAME_LENGTH <= MAX_SOCKET_PATH;
