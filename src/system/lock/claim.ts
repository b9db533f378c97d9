import { once } from 'node:events';
import { connect, createServer, type Socket } from 'node:net';
import { errnoOf } from '../file-system.ts';

/** A lock that reserves a directory for this process. */
export interface DirectoryLock {
  /** Publishes this process's URL to processes that fail to lock the directory. */
  announce(url: string): void;
  release(): Promise<void>;
}

/** Another process holds the lock. `pid` and `url` are that process's, if known. */
export class DirectoryInUseError extends Error {
  override name = 'DirectoryInUseError';
  readonly directory: string;
  readonly pid: number | undefined;
  readonly url: string | undefined;

  constructor(directory: string, owner: { pid?: number | undefined; url?: string | undefined }) {
    super(`${directory} is in use by another process${owner.pid ? ` (pid ${owner.pid})` : ''}`);
    this.directory = directory;
    this.pid = owner.pid;
    this.url = owner.url;
  }
}

/** The directory cannot be locked. `hint` is a next step for the user. */
export class LockError extends Error {
  override name = 'LockError';
  readonly hint: string;

  constructor(message: string, hint: string, options?: ErrorOptions) {
    super(message, options);
    this.hint = hint;
  }
}

/** Resolves after `ms` milliseconds, or earlier if the signal is aborted. */
export type Sleep = (ms: number, signal?: AbortSignal) => Promise<unknown>;

/**
 * The state of a claim. The socket of a claim sends `claiming` or `holding` to every client, as one line of JSON.
 * `dead` means that no process listens: the process has ended or has released its claim. `silent` means that a process
 * may listen, but sent no valid state.
 */
type ClaimState = { state: 'claiming' | 'holding' | 'dead' | 'silent'; pid?: number; url?: string };

/** A listening socket that represents this process's attempt to lock a directory, or the lock that it got. */
export type Claim = Awaited<ReturnType<typeof serveClaim>>;

/** How long a client waits for the state, and how long a server waits for a client that does not read the state. */
const PROBE_TIMEOUT_MS = 1_000;
const MAX_STATE_LENGTH = 4096;

/**
 * Listens on `socket` without keeping the process alive, and sends the claim's state to each client. `remove` deletes
 * the socket when the claim is released.
 *
 * @throws LockError if the socket cannot be created
 */
export async function serveClaim(options: {
  directory: string;
  name: string;
  socket: string;
  remove: () => Promise<void>;
}) {
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
    await once(server.listen({ path: options.socket, exclusive: true }), 'listening');
  } catch (error) {
    throw listenError(error, options.directory);
  }
  server.on('error', () => {}).unref();
  return {
    name: options.name,
    /** Changes the published state from `claiming` to `holding`. */
    promote(): void {
      state.state = 'holding';
    },
    announce(url: string): void {
      state.url = url;
    },
    async release(): Promise<void> {
      if (!server.listening) return;
      await options.remove().catch(() => {});
      for (const client of clients) client.destroy();
      await new Promise((done) => server.close(done));
    },
  };
}

/** Asks for the state of the claim at a socket. */
export async function probe(path: string, sleep: Sleep): Promise<ClaimState> {
  // A claim that is being released disconnects waiting clients. The next attempt then finds the claim dead.
  for (let attempt = 1; attempt <= 3; attempt++) {
    const result = await probeOnce(path, sleep);
    if (result !== 'disconnected') return result;
  }
  return { state: 'silent' };
}

async function probeOnce(path: string, sleep: Sleep): Promise<ClaimState | 'disconnected'> {
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

async function readState(socket: Socket): Promise<ClaimState | 'disconnected'> {
  let text = '';
  try {
    for await (const part of socket.setEncoding('utf8')) {
      text += part;
      if (text.includes('\n') || text.length > MAX_STATE_LENGTH) break;
    }
  } catch (error) {
    const errno = errnoOf(error);
    if (errno === 'ECONNREFUSED' || errno === 'ENOENT') return { state: 'dead' };
    // Any other error (no permission, full backlog) means that the owner is alive.
    return errno === 'ECONNRESET' || errno === 'EPIPE' ? 'disconnected' : { state: 'silent' };
  }
  if (text === '') return 'disconnected';
  return parseState(text.split('\n', 1)[0] ?? '');
}

function parseState(text: string): ClaimState {
  try {
    const { state, pid, url } = JSON.parse(text);
    if (state !== 'claiming' && state !== 'holding') return { state: 'silent' };
    return {
      state,
      ...(Number.isSafeInteger(pid) && pid > 0 && { pid }),
      ...(typeof url === 'string' && url.length <= 1000 && { url }),
    };
  } catch {
    return { state: 'silent' };
  }
}

function listenError(cause: unknown, directory: string): LockError {
  const message = cause instanceof Error ? cause.message : String(cause);
  const [problem, hint] = ['EACCES', 'EROFS', 'ENOSPC'].includes(errnoOf(cause) ?? '')
    ? [`cannot create a socket in ${directory}: ${message}`, 'make the directory writable']
    : [
        `cannot lock ${directory}: its file system does not support sockets (${message})`,
        'use a directory on a local disk',
      ];
  return new LockError(problem, hint, { cause });
}
